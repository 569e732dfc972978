"""A session on disk: beginning, recording and resuming it."""
