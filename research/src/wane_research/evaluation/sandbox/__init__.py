"""An environment for tasks without containers: a root file system, an overlay on it, and namespaces of its own."""
