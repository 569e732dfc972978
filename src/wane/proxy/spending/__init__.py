"""The cost of requests, and its limits."""
