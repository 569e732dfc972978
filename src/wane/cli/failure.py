"""The command's exit codes, and its own errors."""

from __future__ import annotations

from typing import Final

from wane.core.errors import ConfigError, FormatError, HistoryError, SessionNotFoundError, WaneError

OK: Final = 0
FAILED: Final = 1
"""It could not be done: no model, no extra, a session that is damaged or in use."""
USAGE: Final = 2
"""It was wrong: options that make no sense, missing input, or input without messages."""
OVER_BUDGET: Final = 3
"""With `wane plan --exit-code`: the budget cannot be met."""
NOT_FOUND: Final = 127
"""The program to run is not installed; the shells' number."""
INTERRUPTED: Final = 130
"""Ctrl-C; the shells' number."""


class UsageError(WaneError):
    """A command line that is not understood or makes no sense."""


class InputError(WaneError):
    """A file on the command line that cannot be used."""


_USAGE_ERRORS: Final = (UsageError, InputError, ConfigError, FormatError, HistoryError, SessionNotFoundError)


def exit_code(error: WaneError) -> int:
    """Return the exit code for an error."""
    return USAGE if isinstance(error, _USAGE_ERRORS) else FAILED
