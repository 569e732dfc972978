"""The providers' protocols: reading and building requests and replies. Sans I/O."""
