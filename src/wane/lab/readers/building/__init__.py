"""Shared by the readers: parts, lines and values, and the builder of sessions."""
