"""Takes the figures of many session files, in several processes, and keeps those of files that did not change."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from wane.core import Policy
from wane.core.errors import FormatError, JournalError, MissingExtraError
from wane.lab.names import JOURNAL
from wane.lab.overview.figures import SessionFigures, figures_of
from wane.lab.readers import figures_alone, read_session
from wane.lab.readers.choice import split_choice
from wane.lab.readers.gathering import Unread
from wane.lab.readers.reading import briefly
from wane.prices import list_version

FORM: Final = 8
"""Raise it when the figures of a file change their meaning or form, so that older ones are not taken for them."""

Progress = Callable[[int, int], None]
"""Called with the number of files done, and the number of all files."""


@dataclass(frozen=True, slots=True)
class Source:
    """A session file, or a session in a database.

    Attributes:
        path: its path, as `read_session` takes it.
        modified: when it, or a sub-agent's file beside it, was last written, in seconds since 1970 UTC.
        size: their bytes.
        stamp: a text that differs once any of them has been written to, or another file is in its place.
    """

    path: str
    modified: float
    size: int
    stamp: str

    @classmethod
    def of(cls, path: Path, modified: float, size: int) -> Source:
        """Return a file with those of its sub-agents, which are read with it."""
        sides = path.with_suffix("").glob("subagents/**/*.jsonl") if path.suffix == ".jsonl" else ()
        stamps = [f"{modified} {size}"]
        for file in (path, *sorted(sides)):
            try:
                status = file.stat()
            except OSError:
                continue  # a session in a database; or deleted in the meantime
            stamps.append(f"{status.st_ino} {status.st_mtime_ns} {status.st_size}")
            if file is not path:
                modified, size = max(modified, status.st_mtime), size + status.st_size
        return cls(str(path), modified, size, blake2b("\n".join(stamps).encode(), digest_size=16).hexdigest())


@dataclass(frozen=True, slots=True)
class Terms:
    """What figures depend on besides their file.

    Attributes:
        budget: tokens that a view may hold with Wane.
        price: the model whose prices a simulation takes where none are known.
        since: the first moment that counts, in seconds since 1970 UTC.
        replays: how many files to replay that were not replayed before, at most: those with the dearest sessions.
    """

    budget: int
    price: str
    since: float = 0.0
    replays: int = 0

    @property
    def key(self) -> str:
        """A text that differs where the figures of a file may differ."""
        zone = " ".join(time.tzname)
        return f"{FORM} {list_version()} {self.budget} {self.price} {Policy()} {zone}"


class FigureStore:
    """Keeps the figures of files in a database; one that cannot be used is as if it were empty.

    It holds titles and the beginnings of messages. What it has of a file goes once the file is gone.

    Args:
        path: its file, which is created, and made again if it is damaged; None keeps nothing.
        patience: seconds to wait for another process that writes to it.
    """

    def __init__(self, path: Path | None, patience: float = 5.0) -> None:
        self._path, self._patience = path, patience

    def known(self, sources: Iterable[Source], terms: Terms) -> Iterator[tuple[Source, list[SessionFigures]]]:
        """Yield the files that have not changed since their figures were kept, with these figures."""
        rows = self._select("SELECT path, stamp, figures FROM kept WHERE terms = ?", terms.key)
        kept = {path: (stamp, figures) for path, stamp, figures in rows}
        for source in sources:
            stamp, figures = kept.get(source.path, ("", b""))
            if stamp == source.stamp:
                with suppress(ValueError, LookupError, TypeError, zlib.error):  # damaged
                    yield source, [SessionFigures.read(data) for data in json.loads(zlib.decompress(figures))]

    def keep(self, entries: Sequence[tuple[Source, list[SessionFigures]]], terms: Terms) -> None:
        """Keep the figures of some files."""
        rows, key = [], terms.key
        for source, sessions in entries:
            data = json.dumps([figures.to_dict() for figures in sessions]).encode()
            rows.append((source.path, source.stamp, key, zlib.compress(data, 1)))
        self._change("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", rows)

    def forget_gone(self) -> None:
        """Forget the files that are gone."""
        gone = []
        for (path,) in self._select("SELECT path FROM kept"):
            file, _ = split_choice(path)
            # The path of a session in a database is below the database's.
            if not file.exists() and not file.parent.is_file():
                gone.append((path,))
        if gone:
            self._change("DELETE FROM kept WHERE path = ?", gone)

    def _select(self, statement: str, *values: str) -> list[Any]:
        rows: list[Any] = []
        with self._opened() as database:
            if database is not None:
                rows = database.execute(statement, values).fetchall()
        return rows

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._opened() as database:
            if database is not None:
                database.executemany(statement, rows)
                database.commit()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection | None]:
        """Open the database; None if it cannot be used. What fails in it is given up."""
        database = None
        try:
            if self._path is not None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._path.touch(mode=0o600)  # nobody else may read it
                database = sqlite3.connect(self._path, timeout=self._patience)
                database.execute("PRAGMA secure_delete = ON")  # what is forgotten is in no free page
                database.execute(
                    "CREATE TABLE IF NOT EXISTS kept (path TEXT PRIMARY KEY, stamp TEXT, terms TEXT, figures BLOB)"
                )
        except (OSError, sqlite3.Error) as error:
            if database is not None:
                database.close()
            self._give_up(error)
            database = None
        try:
            yield database
        except sqlite3.Error as error:
            self._give_up(error)
        finally:
            if database is not None:
                database.close()

    def _give_up(self, error: Exception) -> None:
        """Remove the database if it is damaged; another process may hold it, or the disk may be full."""
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        if damaged and self._path is not None:
            with suppress(OSError):
                self._path.unlink()


_BATCH: Final = 32
"""Files whose figures are kept at once, so that what an interrupted report has read stays."""


class FigureReader:
    """Takes the figures of files, and keeps them.

    Args:
        terms: what figures depend on besides their file.
        store: has the figures of files that did not change, and gets those of the others.
        workers: number of processes; None for one per core.
    """

    def __init__(self, terms: Terms, store: FigureStore, workers: int | None = None) -> None:
        self.figures: dict[str, list[SessionFigures]] = {}
        self.unread: list[Unread] = []
        self._terms, self._store, self._workers = terms, store, workers

    def read(self, sources: Sequence[Source], progress: Progress | None = None) -> None:
        """Take the figures of some files, without replays; those that did not change are only looked up."""
        for source, sessions in self._store.known(sources, self._terms):
            self.figures[source.path] = sessions
        # The largest first, so that none of them starts when the others are nearly done.
        waiting = [source for source in sources if source.path not in self.figures]
        self._take(sorted(waiting, key=lambda source: -source.size), progress, replayed=False)
        self._store.forget_gone()

    def replay(self, sources: Sequence[Source], progress: Progress | None = None) -> None:
        """Replay the dearest files that were read and never replayed, as many as the terms allow."""
        waiting: list[tuple[float, str, Source]] = []
        for source in sources:
            sessions = self.figures.get(source.path, [])
            if any(figures.pending for figures in sessions):
                waiting.append((-_dollars_since(sessions, self._terms.since), source.path, source))
        dearest = [source for _, _, source in sorted(waiting, key=lambda entry: entry[:2])]
        self._take(dearest[: self._terms.replays], progress, replayed=True)

    def _take(self, sources: Sequence[Source], progress: Progress | None, *, replayed: bool) -> None:
        batch: list[tuple[Source, list[SessionFigures]]] = []
        try:
            for done, (source, outcome) in enumerate(_read_all(sources, self._terms, self._workers, replayed), start=1):
                if isinstance(outcome, str):
                    self.unread.append(Unread(source.path, outcome))
                else:
                    self.figures[source.path] = outcome
                    batch.append((source, outcome))
                if len(batch) == _BATCH:
                    self._store.keep(batch, self._terms)
                    batch = []
                if progress:
                    progress(done, len(sources))
        finally:
            self._store.keep(batch, self._terms)


def _dollars_since(sessions: Iterable[SessionFigures], since: float) -> float:
    total = 0.0
    for figures in sessions:
        for row in figures.calls.groups:
            at = figures.modified if row.at is None else row.at
            total += row.dollars if at >= since else 0.0
    return total


def _read_all(
    sources: Sequence[Source], terms: Terms, workers: int | None, replayed: bool
) -> Iterator[tuple[Source, list[SessionFigures] | str]]:
    """Yield each file with its figures, or with why it cannot be read, as they come."""
    count = min(workers or os.cpu_count() or 1, len(sources))
    if count <= 1:
        for source in sources:
            yield source, _figures_in(source, terms, replayed)
        return
    pool = ProcessPoolExecutor(count)
    try:
        futures = {pool.submit(_figures_in, source, terms, replayed): source for source in sources}
        for future in as_completed(list(futures)):
            yield futures.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _figures_in(source: Source, terms: Terms, replayed: bool) -> list[SessionFigures] | str:
    """Return the figures of the sessions in a file, or why it cannot be read."""
    settings = source.modified, terms.budget, terms.price
    try:
        # Only a replay needs the text of results.
        with nullcontext() if replayed else figures_alone():
            sessions = read_session(source.path)
        if not replayed and any(session.source == JOURNAL for session in sessions):
            # So does what Wane's own tools held in a session that it managed.
            sessions = read_session(source.path)
        return [figures_of(session, *settings, replayed=replayed) for session in sessions]
    except (FormatError, JournalError, MissingExtraError) as error:
        return briefly(error)
