"""Wane inside other people's agents: one module a framework, each behind its own extra."""
