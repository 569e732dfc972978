"""`wane proxy`."""
