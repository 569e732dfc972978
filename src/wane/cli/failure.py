"""The command's exit codes, its own errors, and the check for extras.

A command raises a `WaneError` for what cannot be used or done; `main` prints it and exits with its code.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from wane.core.errors import ConfigError, FormatError, HistoryError, MissingExtraError, SessionNotFoundError, WaneError

OK: Final = 0
FAILED: Final = 1
"""It could not be done: no model, no extra, a session that is damaged or in use."""
USAGE: Final = 2
"""It was wrong: options that make no sense, missing input, or input without messages."""
OVER_BUDGET: Final = 3
"""`wane plan --exit-code`: the budget cannot be met. `wane eval`: a limit of cost ended the evaluation."""
UNAVAILABLE: Final = 75
"""The model's provider is down, or the account has no money left: try again later. The number of `EX_TEMPFAIL`."""
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
    return USAGE if isinstance(error, _USAGE_ERRORS) else FAILED


def need(part: str, extra: str, *modules: str) -> None:
    """Check that the modules of an extra, or of several separated by commas, are installed.

    Raises:
        MissingExtraError: if one is not; it names the part that needs them.
    """
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(part, extra)


def need_agent(part: str) -> None:
    need(part, "agent", "pydantic_ai", "pydantic_ai_harness", "genai_prices", "prompt_toolkit")


def need_proxy(part: str = "the proxy") -> None:
    need(part, "proxy", "starlette", "uvicorn", "httpcore2", "orjson", "prometheus_client")
