"""What the agent may do unasked, and how the user is asked for the rest."""
