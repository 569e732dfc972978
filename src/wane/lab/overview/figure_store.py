"""Takes the figures of many session files, in several processes, and keeps those of files that did not change."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from wane.core import Policy
from wane.core.errors import FormatError, JournalError, MissingExtraError
from wane.lab.file_store import FileStore, Source
from wane.lab.overview.recording_figures import SessionFigures, figures_of
from wane.lab.processes import cores, run_in_processes
from wane.lab.readers import figures_alone, read_session
from wane.lab.readers.gathering import Unread
from wane.prices import list_version, listed_prices

FORM: Final = 11
"""Raise it when the figures of a file change their meaning or form, so that older ones are not taken for them."""

Progress = Callable[[int, int], None]
"""Called with the number of files done, and the number of all files."""


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


class FigureStore(FileStore):
    """Keeps the figures of files, with titles and the beginnings of messages; see `FileStore`."""

    def find_known(self, sources: Iterable[Source], terms: Terms) -> Iterator[tuple[Source, list[SessionFigures]]]:
        """Yield the files that have not changed since their figures were kept, with these figures."""
        for source, data in self.known_data(sources, terms.key):
            with suppress(LookupError, TypeError):  # damaged
                yield source, [SessionFigures.read(figures) for figures in data]

    def keep(self, entries: Sequence[tuple[Source, list[SessionFigures]]], terms: Terms) -> None:
        """Keep the figures of some files."""
        rows: list[tuple[Source, Any]] = []
        for source, sessions in entries:
            rows.append((source, [figures.to_dict() for figures in sessions]))
        self.keep_data(rows, terms.key)


_BATCH: Final = 64
"""The most files that a process reads at once. Figures are kept whenever those of as many files are there, so that what
an interrupted report has read stays."""

_CHUNK: Final = 8_000_000
"""The most bytes of small files that a process reads at once: a message between processes takes as long as reading a
small file."""

_Outcome = list[SessionFigures] | Unread
"""The figures of the sessions in a file, or why it cannot be read."""


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
        for source, sessions in self._store.find_known(sources, self._terms):
            self.figures[source.path] = sessions
        waiting = [source for source in sources if source.path not in self.figures]
        self._take(waiting, progress, replayed=False)
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
            with closing(_read_all(sources, self._terms, self._workers, replayed=replayed)) as outcomes:
                for done, (source, outcome) in enumerate(outcomes, start=1):
                    if isinstance(outcome, Unread):
                        self.unread.append(outcome)
                    else:
                        self.figures[source.path] = outcome
                        batch.append((source, outcome))
                    if len(batch) >= _BATCH:
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
    sources: Sequence[Source], terms: Terms, workers: int | None, *, replayed: bool
) -> Generator[tuple[Source, _Outcome], None, None]:
    """Yield each file with its figures, or with why it cannot be read, as they come."""
    take_figures = partial(_figures_in, terms=terms, replayed=replayed)
    count = min(workers or cores(), len(sources))
    chunks: list[tuple[Source, ...]]
    if replayed:
        # A replay takes long, so each goes to a process by itself.
        chunks = [(source,) for source in sources]
    else:
        chunks = _chunks_of(sources, count)
    outcomes: Iterable[tuple[tuple[Source, ...], list[_Outcome]]]
    if count > 1:
        listed_prices(terms.price)  # here, as each process would load the list of prices by itself
        outcomes = run_in_processes(take_figures, chunks, count)
    else:
        outcomes = ((chunk, take_figures(chunk)) for chunk in chunks)
    for chunk, figures in outcomes:
        yield from zip(chunk, figures, strict=True)


def _chunks_of(sources: Sequence[Source], workers: int) -> list[tuple[Source, ...]]:
    """Return files in chunks; the largest first, so that none of them starts when the others are nearly done."""
    most = min(_CHUNK, sum(source.size for source in sources) // (4 * max(workers, 1)))
    chunks: list[tuple[Source, ...]] = []
    chunk: list[Source] = []
    room = most
    for source in sorted(sources, key=lambda source: -source.size):
        if chunk and (source.size > room or len(chunk) == _BATCH):
            chunks.append(tuple(chunk))
            chunk, room = [], most
        chunk.append(source)
        room -= source.size
    return [*chunks, tuple(chunk)] if chunk else chunks


def _figures_in(sources: Sequence[Source], *, terms: Terms, replayed: bool) -> list[_Outcome]:
    """Return what became of some files."""
    outcomes: list[_Outcome] = []
    # Only a replay needs the text of results.
    with nullcontext() if replayed else figures_alone():
        for source in sources:
            settings = source.modified, terms.budget, terms.price
            try:
                # The sessions have no name, so that they are gone when the next file is read.
                figures = [figures_of(session, *settings, replayed=replayed) for session in read_session(source.path)]
                outcomes.append(figures)
            except (FormatError, JournalError, MissingExtraError) as error:
                outcomes.append(Unread.of(source.path, error))
    return outcomes
