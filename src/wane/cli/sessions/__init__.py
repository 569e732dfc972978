"""`wane sessions` and `wane show`: saved sessions."""
