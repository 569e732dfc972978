"""The log of a proxy."""

from __future__ import annotations

import logging
from typing import Final

from wane.cli.terminal.text import printable

_LOGGERS: Final = ("wane.proxy", "uvicorn.error")


def log_to(handler: logging.Handler, level: str, form: str = "%(asctime)s %(message)s") -> None:
    """Send a proxy's log to a handler, and nowhere else.

    Args:
        handler: the handler.
        level: lowest level to log, such as `info`.
        form: format of a line, for `logging.Formatter`.
    """
    handler.setFormatter(_Plain(form, "%H:%M:%S"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


class _Plain(logging.Formatter):
    """Formats lines without control characters, which would control the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(printable(line) for line in super().format(record).split("\n"))
