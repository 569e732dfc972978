"""The commands that this distribution adds to `wane`. Each folder is a group of commands."""
