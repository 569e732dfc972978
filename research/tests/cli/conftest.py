"""The command line of `wane`, as for its own tests, and recorded sessions."""

from tests.cli.conftest import plain_surroundings, run, spawn
from tests.cli.test_lab import chat, pi

__all__ = ["chat", "pi", "plain_surroundings", "run", "spawn"]
