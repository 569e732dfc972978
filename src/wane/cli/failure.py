"""How the command fails: its exit codes, and the errors that are its own."""

from __future__ import annotations

from typing import Final

from wane.core.errors import ConfigError, FormatError, HistoryError, SessionNotFoundError, WaneError

OK: Final = 0
FAILED: Final = 1
"""What was asked for could not be done: no model, no extra, a session that is damaged or in use."""
USAGE: Final = 2
"""What was asked for cannot be: options that make no sense, input that is not there or no messages."""
OVER_BUDGET: Final = 3
"""With `wane plan --exit-code`: the budget cannot be met."""
NOT_FOUND: Final = 127
"""The program to run is not installed, as shells number it."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells number it."""


class UsageError(WaneError):
    """A command line that is not understood, or makes no sense."""


class InputError(WaneError):
    """A file named on the command line that cannot be used."""


_USAGE_ERRORS: Final = (UsageError, InputError, ConfigError, FormatError, HistoryError, SessionNotFoundError)


def exit_code(error: WaneError) -> int:
    """Return the exit code that stands for an error."""
    return USAGE if isinstance(error, _USAGE_ERRORS) else FAILED
