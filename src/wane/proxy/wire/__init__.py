"""The providers' protocols, as the proxy sees them: requests and replies taken apart and put together. Sans I/O."""
