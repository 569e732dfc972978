"""What the agent can do, and what it may do unasked."""
