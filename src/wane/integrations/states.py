"""States of conversations in a file, for frameworks that cannot store them."""

from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

KEPT: Final = 10_000
"""States in one file; the oldest go first."""

_AT_ONCE: Final = 500  # digests in one query


class StateFile:
    """Stores states in an SQLite file, which several processes may use at once.

    A state lists the items in view by number, with names and descriptions of episodes; it has no messages. If the file
    cannot be read or written, a warning is given and the run continues with estimated counts.

    Args:
        path: the file; it and its folder are created if they are missing.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._base: sqlite3.Connection | None = None

    def __del__(self) -> None:
        if (base := getattr(self, "_base", None)) is not None:
            base.close()

    def find(self, digests: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the state of the first of these digests that is known."""
        for first in range(0, len(digests), _AT_ONCE):
            batch = digests[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(batch))
            rows = dict(self._run(f"SELECT digest, state FROM states WHERE digest IN ({marks})", *batch))  # noqa: S608
            if text := next((rows[digest] for digest in batch if digest in rows), None):
                return self._read(text)
        return None

    def put(self, state: Mapping[str, Any]) -> None:
        """Store a state by its `digest`."""
        self._run("INSERT OR REPLACE INTO states (digest, state) VALUES (?, ?)", state["digest"], json.dumps(state))
        self._run("DELETE FROM states WHERE rowid <= (SELECT max(rowid) FROM states) - ?", KEPT)

    def drop(self, digest: str) -> None:
        """Delete a state."""
        self._run("DELETE FROM states WHERE digest = ?", digest)

    def _read(self, text: str) -> dict[str, Any] | None:
        try:
            state = json.loads(text)
        except ValueError:
            state = None
        if isinstance(state, dict) and isinstance(state.get("digest"), str):
            return state
        warnings.warn(f"Wane: a state in {self._path} is damaged, so it cannot be used", stacklevel=2)
        return None

    def _run(self, statement: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                if self._base is None:
                    self._base = self._open()
                with self._base:
                    return self._base.execute(statement, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                warnings.warn(f"Wane: {self._path} cannot be used, so nothing is stored in it: {error}", stacklevel=2)
                return []

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        base = sqlite3.connect(self._path, check_same_thread=False)
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        base.execute("CREATE TABLE IF NOT EXISTS states (digest TEXT PRIMARY KEY, state TEXT NOT NULL)")
        return base
