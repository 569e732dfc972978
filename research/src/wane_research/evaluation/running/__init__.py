"""Runs a benchmark: chooses the trials and their order, keeps the limits, and resumes an interrupted run."""
