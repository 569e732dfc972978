"""An environment for tasks without containers: a root file system with an overlay, in namespaces of its own."""
