"""What readers make a session from."""
