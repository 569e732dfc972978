"""Where a proxy's log goes."""

from __future__ import annotations

import logging
from typing import Final

from wane.cli.terminal.text import printable

_LOGGERS: Final = ("wane.proxy", "uvicorn.error")


def log_to(handler: logging.Handler, level: str, form: str = "%(asctime)s %(message)s") -> None:
    """Have a proxy's log go to a handler, and nowhere else.

    Args:
        handler: the handler.
        level: from which level up, such as `info`.
        form: a line's form, as `logging.Formatter` reads it.
    """
    handler.setFormatter(_Plain(form, "%H:%M:%S"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


class _Plain(logging.Formatter):
    """Lines that cannot make a terminal do things."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(printable(line) for line in super().format(record).split("\n"))
