"""The agent at the terminal: the chat, and one task with `-p`."""
