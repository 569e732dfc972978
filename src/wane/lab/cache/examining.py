"""Examines the sessions of many files, in several processes, and keeps the result until a file changes.

Of a session stays what `Examination` says of it: its name and title, its problems, what it paid again, and the id, time
and usage of each call. All else of it is gone by then, so that memory hardly grows with the files.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from wane.core.errors import WaneError
from wane.lab.cache.paid_again import Examination, Rewrite, examine, summed_up
from wane.lab.file_store import FileStore, Source
from wane.lab.names import JOURNAL, MAX_UNPACKED
from wane.lab.processes import cores, run_in_processes
from wane.lab.readers import figures_alone, read_file
from wane.lab.recorded_session import CallUsage, ModelCall, Problem, RecordedSession
from wane.prices import list_version
from wane.rewrites import Cause, Certainty, Explanation

_Outcome = list[dict[str, Any]] | WaneError
"""The sessions of a file as data, or why it cannot be read."""

_FORM: Final = 1
"""Raise it when what is kept of a file changes its meaning or form, or what a reader makes of a file does."""

_KEPT: Final = (".json", ".jsonl", ".ndjson")
"""Suffixes of files whose size and time tell whether they changed."""

_ALONE: Final = 20_000_000
"""Bytes that one process reads sooner than several begin."""


@dataclass(slots=True)
class ExaminedSession(RecordedSession):
    """A session without its content, of which its calls alone are known; see `ModelCall`.

    Attributes:
        rewrites: the requests that paid again.
    """

    rewrites: tuple[Rewrite, ...] = ()

    @property
    def examination(self) -> Examination:
        """What its requests paid again, without those that count for another session."""
        return summed_up(self, (rewrite for rewrite in self.rewrites if not self.calls[rewrite.call].inherited))


class Examiner:
    """Reads the files of `wane.lab.readers.gather` as examined sessions. Use it as a context manager.

    Args:
        store: has what was kept of files that did not change, and gets that of the others.
        format: their format, see `read_file`; only what is recognised is kept.
        max_unpacked: bytes that a compressed file may hold.
        workers: number of processes; None for one per core.
    """

    def __init__(
        self,
        store: FileStore,
        format: str = "auto",  # noqa: A002 - the field's word
        max_unpacked: int = MAX_UNPACKED,
        workers: int | None = None,
    ) -> None:
        self._store, self._format = store, format
        self._work = partial(_read, format_=format, max_unpacked=max_unpacked)
        self._workers = workers or cores()
        self._terms = f"{_FORM} {list_version()}"
        self._sources: dict[Path, Source] = {}
        self._kept: dict[Path, list[ExaminedSession]] = {}
        self._waiting = set[Path]()  # files that other processes read
        self._outcomes: Generator[tuple[Path, _Outcome], None, None] | None = None
        self._early: dict[Path, _Outcome] = {}  # of files that were read before they were asked for
        self._new: list[tuple[Source, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._outcomes is not None:
            self._outcomes.close()
        if self._new:
            self._store.keep_data(self._new, self._terms)
        self._store.forget_gone()

    def begin(self, files: Sequence[Path]) -> None:
        """Look up what was kept of some files; several processes are to read the others if these are large."""
        for file in files if self._format == "auto" else ():
            if file.suffix in _KEPT and file.is_file():
                status = file.stat()
                self._sources[file] = Source.of(file, status.st_mtime, status.st_size)
        paths = {source: file for file, source in self._sources.items()}
        for source, entries in self._store.known_data(paths, self._terms):
            with suppress(LookupError, TypeError, ValueError):  # damaged
                self._kept[paths[source]] = [_session_of(entry) for entry in entries]
        waiting: list[tuple[int, Path]] = []
        for file, source in self._sources.items():
            if file not in self._kept:
                waiting.append((source.size, file))
        if len(waiting) < 2 or self._workers < 2 or sum(size for size, _ in waiting) < _ALONE:
            return
        # The largest first, so that none of them starts when the others are nearly done.
        files_waiting = [file for _, file in sorted(waiting, reverse=True)]
        self._waiting.update(files_waiting)
        self._outcomes = run_in_processes(self._work, files_waiting, self._workers)

    def read(self, file: Path) -> list[RecordedSession]:
        """Return the sessions of a file as examined ones; see `read_file` for its errors."""
        if file in self._kept:
            return [*self._kept.pop(file)]
        data = self._wait_for(file) if file in self._waiting else self._work(file)
        if isinstance(data, WaneError):
            raise data
        source = self._sources.get(file)
        if source is not None and all(map(_may_be_kept, data)):
            self._new.append((source, data))
        return [_session_of(entry) for entry in data]

    def _wait_for(self, file: Path) -> _Outcome:
        """Return what another process made of a file, and set aside what comes before it."""
        self._waiting.remove(file)
        assert self._outcomes is not None
        while file not in self._early:
            other, outcome = next(self._outcomes)
            self._early[other] = outcome
        return self._early.pop(file)


def _read(file: Path, *, format_: str, max_unpacked: int) -> _Outcome:
    try:
        with figures_alone():
            return [_data_of(session) for session in read_file(file, format_, max_unpacked)]
    except WaneError as error:
        return error


def _may_be_kept(data: Mapping[str, Any]) -> bool:
    """Whether nothing in it quotes a session: not so lines that cannot be read, and what Wane's proxy compared."""
    return data["source"] != JOURNAL and not data["unread"] and all(map(_may_be_kept, data["sidechains"]))


def _data_of(session: RecordedSession) -> dict[str, Any]:
    """Return an examined session as JSON-able data."""
    calls: list[list[Any]] = []
    for call in session.calls:
        # Copies in other files have the same id, and so the same digest.
        name = blake2b(call.id.encode(errors="replace"), digest_size=8).hexdigest() if call.id else ""
        usage = call.usage
        tokens = [usage.input, usage.cache_read, usage.cache_write, usage.output] if usage else []
        calls.append([name, call.at, int(call.inherited), *tokens])
    return {
        **{name: getattr(session, name) for name in _NAMES},
        "problems": [[problem.line, problem.what] for problem in session.problems],
        "calls": calls,
        "rewrites": [asdict(rewrite) for rewrite in examine(session).rewrites],
        "sidechains": [_data_of(side) for side in session.sidechains],
    }


_NAMES: Final = ("name", "source", "title", "id", "parent", "path", "agent", "unread")
"""Attributes of a session that stay as they are."""


def _session_of(data: Mapping[str, Any]) -> ExaminedSession:
    """Return the session that `_data_of` wrote."""
    session = ExaminedSession(**{name: data[name] for name in _NAMES})
    session.problems = [Problem(line, what) for line, what in data["problems"]]
    for name, at, inherited, *tokens in data["calls"]:
        usage = CallUsage(*tokens) if tokens else None
        session.calls.append(ModelCall(0, 0, usage, at, inherited=bool(inherited), id=name))
    rewrites = []
    for row in data["rewrites"]:
        why = row["explanation"]
        cause, certainty = Cause(why["cause"]), Certainty(why["certainty"])
        explanation = Explanation(cause, certainty, why["evidence"], why["diff"])
        rewrites.append(Rewrite(**{**row, "explanation": explanation}))
    session.rewrites = tuple(rewrites)
    session.sidechains = [_session_of(side) for side in data["sidechains"]]
    return session
