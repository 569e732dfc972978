"""Coding agents that a proxy can be put before: what each must be told, and which provider it would talk to."""
