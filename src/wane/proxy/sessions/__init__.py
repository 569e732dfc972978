"""What the proxy knows of each session: its history by content, its window, and what it wove into it."""
