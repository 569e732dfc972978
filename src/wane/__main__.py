"""The `wane` command, and `python -m wane`. Whatever loads with it loads where Ctrl-C is caught."""

import sys


def main() -> int:
    """Run the command line of this process; return the exit code."""
    try:
        from wane.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130  # the number of the shells


if __name__ == "__main__":
    sys.exit(main())
