"""Messages of agent frameworks: one format a framework, each behind its own extra."""
