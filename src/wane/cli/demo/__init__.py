"""`wane demo`."""
