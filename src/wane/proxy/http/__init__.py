"""HTTP on both sides of the proxy."""
