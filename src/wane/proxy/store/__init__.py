"""Where sessions are kept: in memory alone, on disk in the journal's format, in Redis or in PostgreSQL."""
