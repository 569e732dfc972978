"""The proxy as a server: HTTP on both sides, limits, faults, what it shows of itself."""
