"""Decides what the agent may do, and asks the user where no rule decides."""
