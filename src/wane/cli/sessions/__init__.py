"""`wane sessions` and `wane show`: what was saved."""
