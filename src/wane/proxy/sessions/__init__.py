"""The proxy's sessions: finding them by content, their histories, views and records."""
