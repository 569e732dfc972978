"""`wane run`."""
