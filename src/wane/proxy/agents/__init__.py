"""Coding agents: how to find the provider of each, and how to point it at the proxy."""
