"""A session on disk: begun, recorded, gone on with."""
