"""The `wane` command. `main` reads the command line; each folder is a group of commands."""
