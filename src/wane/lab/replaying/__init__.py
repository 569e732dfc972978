"""One recorded session under a strategy, and many of them side by side."""
