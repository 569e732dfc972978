"""Lets `python -m wane` do what `wane` does."""

import sys

from wane.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
