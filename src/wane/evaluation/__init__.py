"""Benchmarks: what became of each trial, what that shows, and how much it cannot show."""
