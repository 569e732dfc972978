"""Benchmarks: runs their tasks, keeps the results, and reports them with their limits."""
