"""The proxy: structured eviction for any agent that has a base URL, without changing it."""
