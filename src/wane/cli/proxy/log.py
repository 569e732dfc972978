"""The log of a proxy: on a stream, or in a file with the number of its warnings while an agent has the terminal."""

from __future__ import annotations

import logging
import os
import tempfile
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import platformdirs

from wane.cli.terminal.text import printable

_LOGGERS: Final = ("wane.proxy", "uvicorn.error")
_KEPT: Final = 20
"""Number of logs of past runs to keep, this one included."""


def log_to(handler: logging.Handler, level: str, form: str = "%(asctime)s %(message)s") -> None:
    """Send a proxy's log to a handler, and nowhere else."""
    handler.setFormatter(_Plain(form, "%H:%M:%S"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


class _Plain(logging.Formatter):
    """Formats lines without control characters, which a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(printable(line) for line in super().format(record).split("\n"))


class RunLog(logging.FileHandler):
    """A log in a file, open while its `with` block runs.

    Args:
        path: the file; None for a new one in the platform's log directory.
    """

    def __init__(self, path: Path | None, level: str) -> None:
        path = path or _own_path()
        self.warnings = 0
        # The log names the agent's requests, so only the user may read it.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        log_to(self, level, "%(asctime)s %(levelname)s %(message)s")

    def note(self, text: str) -> None:
        """Write a line of `wane run` itself."""
        logging.getLogger("wane.proxy").info("%s", text)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.warnings += 1
        super().emit(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        log_to(logging.NullHandler(), "critical", "")
        self.close()


def _own_path() -> Path:
    """Return a new file in the platform's log directory, or elsewhere if that fails; delete the oldest logs."""
    name = f"run-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.getpid()}.log"
    try:
        folder = platformdirs.user_log_path("wane", appauthor=False)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in sorted(folder.glob("run-*.log"))[: 1 - _KEPT]:
            old.unlink(missing_ok=True)
        (folder / name).touch(mode=0o600)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="wane-log-")) / name
    return folder / name
