"""The `wane` command. `main` reads the command line, every other file is one subject."""
