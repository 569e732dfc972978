"""Runs a benchmark: what is tried, in which order, within which limits, and on from where it stopped."""
