"""What every command shows itself with on a terminal."""
