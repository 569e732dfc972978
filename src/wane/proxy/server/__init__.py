"""The proxy as a server: its app, managed requests, counters and status pages."""
