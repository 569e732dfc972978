"""Benchmarks: runs their tasks, keeps the results, and reports what these show and what they cannot."""
