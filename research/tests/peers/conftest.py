"""The command line, and a recorded session."""

from tests.cli.conftest import plain_surroundings, run, spawn
from tests.cli.test_lab import chat

__all__ = ["chat", "plain_surroundings", "run", "spawn"]
