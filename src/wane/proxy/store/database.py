"""Sessions in a database, shared by several processes: logs of lines with compare-and-append.

The abstract methods of `DatabaseStore` are the steps that a database must provide. All databases share the rest:

- Sessions are not locked. A process that appends also sends the end that it has read. If the log has grown since then,
  the database appends nothing, and the process reads the new lines and decides again. So a stopped, killed or
  disconnected process blocks no other, and cannot append outdated decisions.
- Every step is idempotent, so that it can be repeated if its answer was lost.
- No message shows the secrets in a database's URL (`DatabaseLocation`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from wane.core.errors import ConfigError
from wane.journal import Header, Record, checksum_of, new_header, read_header, read_lines, write_line, write_lines
from wane.journal.store import deleted_of
from wane.proxy.store.stores import (
    CHECKED,
    DELETED,
    SessionChangedError,
    SessionDigests,
    SessionLog,
    SessionLostError,
    Store,
    StoreError,
    are_heavy,
    as_store_errors,
    finish_work,
    in_thread_if,
    new_id,
    root_of,
)

T = TypeVar("T")

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_HOSTS: Final = re.compile(r"(?:(?:[\w.%-]+|\[[0-9A-Fa-f:.%]+\])?(?::\d+)?(?:,|$))*")
_PREFIX: Final = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_SECRET: Final = re.compile(r"pass|secret|token|key", re.IGNORECASE)
# The name of a database, or the path of a socket; anything else could be a secret.
_PATH: Final = re.compile(r"/?\d{0,4}|/[a-z_][a-z_-]{0,30}\d{0,3}")


@dataclass(frozen=True, slots=True)
class DatabaseLocation:
    """The location of a database.

    Attributes:
        url: the URL for the client library, with secrets.
        name: the URL to show, without user, password, options and possible secrets.
        prefix: the prefix of keys in Redis.
        secrets: the secrets, both as written in the URL and decoded.
    """

    url: str = field(repr=False)
    name: str
    prefix: str
    secrets: tuple[str, ...] = field(repr=False)

    def without_secrets(self, text: object) -> str:
        """Return a text as one line with its secrets masked."""
        line = " ".join(str(text).split())
        for secret in self.secrets:
            line = line.replace(secret, "***")
        return line


def scheme_of(where: str) -> str | None:
    """Return the scheme of a URL in lower case; None if there is none, as in a path."""
    match = _SCHEME.match(where)
    return match[1].lower() if match else None


def parse_location(url: str) -> DatabaseLocation:
    """Parse a URL: `scheme://[user[:password]@]host[:port][/database][?option=value&…]`.

    The option `prefix` is Wane's; all others are for the client library.

    Raises:
        ConfigError: if it is malformed; the message contains no secrets.
    """
    scheme = scheme_of(url)
    try:
        parts = urlsplit(url)
        userinfo, at, hosts = parts.netloc.rpartition("@")
        # An unencoded character in a password could end the host early, and the rest of the password would be shown.
        if url.count("@") != len(at) or parts.fragment or "://" not in url or not _HOSTS.fullmatch(hosts):
            raise ValueError
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ConfigError(
            f"the store's URL, which begins with {scheme}:, is malformed. Write {scheme}://user:password@host:port/"
            "database, and percent-encode characters such as '@', '/', '?', '#' and '%' in a user or password"
        ) from None
    prefix = options.get("prefix", "wane")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"prefix={prefix!r:.80} in the store's URL must be 1 to 64 letters, digits, '_', '.', ':' or '-'"
        )
    address = url.partition("?")[0]
    shown_path = parts.path
    secrets = {userinfo.partition(":")[2]}
    if hosts and not _PATH.fullmatch(parts.path):
        shown_path = "/***"
        secrets.add(parts.path[1:])
    passed: list[str] = []
    for option in parts.query.split("&"):
        name, _, value = option.partition("=")
        if _SECRET.search(name):
            secrets.add(value)
        if option and name != "prefix":
            passed.append(option)
    secrets |= {unquote(secret) for secret in secrets}
    return DatabaseLocation(
        url=f"{address}?{'&'.join(passed)}" if passed else address,
        name=f"{scheme}://{hosts}{shown_path}",
        prefix=prefix,
        # The longest first, so that none is masked only in part.
        secrets=tuple(sorted(secrets - {""}, key=len, reverse=True)),
    )


@dataclass(frozen=True, slots=True)
class DatabaseTimeouts:
    """How long to wait for a database.

    Attributes:
        limit: seconds that a step may take, including connecting.
        pause: seconds for which no further step is tried after that; more than the limit.
    """

    limit: float = 3.0
    pause: float = 4.0


TIMEOUTS: Final = DatabaseTimeouts()


class Outage:
    """A circuit breaker for a database.

    After a slow failure every step fails at once, with the same reason, until a pause is over. Then one step tries
    again while the others still fail, so that an outage delays only one step at a time.
    """

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._reason = ""
        self._until = 0.0

    def begin_step(self) -> float:
        """Note that a step starts; return the time for `note_failure`. During a pause, raise a StoreError."""
        now = self._clock()
        if self._reason:
            if now < self._until:
                raise StoreError(f"{self._reason}; it is not asked again within {self._pause:g} seconds")
            self._until = now + self._pause
        return now

    def note_failure(self, error: StoreError, started: float) -> None:
        """Note that the database could not be reached by a step that started at this time."""
        now = self._clock()
        # A fast failure, such as a refused connection, may be retried at once.
        if now - started < 0.5:
            self.note_answer()
        else:
            self._reason = str(error)
            self._until = now + self._pause

    def note_answer(self) -> None:
        """Note that the database answered, even with an error."""
        self._reason = ""


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Wait for work; after some seconds raise a TimeoutError at once, even if the work is slow to be cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            # Nobody awaits the task any more, so its error is retrieved here.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.cancel()
            # A client library may wait for the server to cancel the statement, until it is cancelled again itself.
            asyncio.get_running_loop().call_later(0.2, task.cancel)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a log."""

    lines: int
    checksum: int


class DatabaseStore(Store, ABC):
    """Stores sessions of any number of processes in a database, as logs of lines.

    Lines are the journal's, without newlines: printed line by line, a log is a journal file. Each step is atomic, and
    can be repeated. All steps raise a StoreError if the database cannot be reached, or refuses.

    Attributes:
        name: its name in errors, without secrets.
        errors: what a failing step raises.
        unreachable: the errors that mean that the database could not be reached.
        late: the errors that mean that it did not answer in time.
    """

    persistent = True
    shared = True
    errors: ClassVar[tuple[type[Exception], ...]]
    unreachable: ClassVar[tuple[type[Exception], ...]]
    late: ClassVar[tuple[type[Exception], ...]] = (TimeoutError,)

    def __init__(self, location: DatabaseLocation, timeouts: DatabaseTimeouts) -> None:
        super().__init__()
        self.name = location.name
        self._location = location
        self._limit = timeouts.limit
        self._outage = Outage(timeouts.pause)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    # Steps

    @abstractmethod
    async def begin(self, session_id: str, line: bytes) -> None:
        """Create a log with the line of its header. The root in its id finds it."""

    @abstractmethod
    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        """Return the lines of a log, or the first `limit` of them; none if there is no such session."""

    @abstractmethod
    async def new_lines(self, session_id: str, known_lines: int) -> tuple[End, Sequence[bytes]] | None:
        """Return the end of a log, and the lines after the known ones; None if there is no such session."""

    @abstractmethod
    async def append(
        self, session_id: str, after: End, lines: Sequence[bytes], digests: SessionDigests | None = None
    ) -> bool:
        """Append lines to a log that has this end, and note its digests; return False if it has another end."""

    @abstractmethod
    async def drop(self, session_id: str) -> bool:
        """Delete a session; return False if there is none of that id."""

    @abstractmethod
    async def sync(self, session_id: str) -> None:
        """Wait until appended lines would survive a crash of the database's machine, if the database can tell."""

    # The store

    async def check(self) -> None:
        """Check that the database takes a document: a full one, or one that only reads, still answers."""
        await self.replace_document(CHECKED, "", await self.document(CHECKED, ""), secrets.token_hex(8))

    async def create(self, root: str, message_format: str, owner: str = "", parent: str = "") -> SessionLog:
        header = new_header(new_id(root), cwd=Path.cwd(), message_format=message_format, owner=owner, parent=parent)
        line = write_line(header)
        await self.begin(header.id, line[:-1])
        return _SharedLog(self, header, line)

    async def open(self, session_id: str) -> SessionLog:
        """Open a session; other processes may have it open too."""
        (line,) = await self._fetch(session_id, 1)
        return _SharedLog(self, self._header(session_id, line), line)

    async def header(self, session_id: str) -> Header:
        (line,) = await self._fetch(session_id, 1)
        return self._header(session_id, line)

    async def read(self, session_id: str) -> Sequence[Record]:
        first, *lines = await self._fetch(session_id)
        self._header(session_id, first)
        return await _records(lines, checksum_of(first), 2, self.label(session_id))

    async def delete(self, session_id: str) -> None:
        """Delete a session. A process that has it in memory finds it lost, and stores it again."""
        root_of(session_id)
        deleted = deleted_of(session_id, await self.fetch(session_id))
        if not await self.drop(session_id):
            raise StoreError(f"there is no {self.label(session_id)}")
        await self.replace_document(DELETED, deleted.id, None, deleted.to_json())

    def label(self, session_id: str) -> str:
        """Return a session's name in errors."""
        return f"session {session_id} in {self.name}"

    async def _step(self, work: Callable[[], Coroutine[Any, Any, T]], own_limit: float | None = None) -> T:
        """Do one step, unless the database is down.

        A step with a limit of its own, in seconds, may exceed it without being taken for an outage.
        """
        started = self._outage.begin_step()
        limit = own_limit or self._limit
        try:
            done = await within(limit, work())
        except self.errors as error:
            # The library's error is not chained, because it may show secrets of the connection.
            reason = self._location.without_secrets(error) or type(error).__name__
            if isinstance(error, self.late):
                reason = f"no answer within {limit:g} seconds"
            failure = StoreError(f"the store {self.name} does not work: {reason}")
            if not isinstance(error, self.unreachable):
                self._outage.note_answer()
            elif own_limit is None:
                self._outage.note_failure(failure, started)
            raise failure from None
        self._outage.note_answer()
        return done

    async def _fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        root_of(session_id)
        lines = await self.fetch(session_id, limit)
        if not lines:
            raise StoreError(f"there is no {self.label(session_id)}; it may have expired")
        return [line + b"\n" for line in lines]

    def _header(self, session_id: str, line: bytes) -> Header:
        with as_store_errors():
            return read_header(line, f"the {self.label(session_id)}")


class _SharedLog(SessionLog):
    """One process's view of a session in a database."""

    def __init__(self, store: DatabaseStore, header: Header, line: bytes) -> None:
        super().__init__(header)
        self._store = store
        self._first = self._end = End(1, checksum_of(line))

    def rewind(self) -> None:
        self._end = self._first

    async def sync(self) -> None:
        await self._store.sync(self.id)

    async def _news(self) -> Sequence[Record]:
        records, self._end = await finish_work(self._read())
        return records

    async def _add(self, records: Sequence[Record], digests: SessionDigests | None) -> None:
        if records:
            await finish_work(self._append(records, digests))

    async def _read(self) -> tuple[Sequence[Record], End]:
        last = self._end
        fetched = await self._store.new_lines(self.id, last.lines)
        if fetched is None:
            raise self._gone()
        end, new = fetched
        if end.lines != last.lines + len(new) or (not new and end != last):
            raise SessionLostError(
                f"the {self._store.label(self.id)} ends with line {end.lines}, but does not continue line"
                f" {last.lines} of this process: the database lost some of it, or was restored to an earlier state"
            )
        lines = [line + b"\n" for line in new]
        try:
            return await _records(lines, last.checksum, last.lines + 1, self._store.label(self.id)), end
        except StoreError as error:
            # Damaged, or appended after the database was restored to a state without our last line.
            raise SessionLostError(f"{error}; the session's new lines do not continue line {last.lines}") from None

    async def _append(self, records: Sequence[Record], digests: SessionDigests | None) -> None:
        end = self._end
        with as_store_errors():
            lines = await in_thread_if(are_heavy(records), lambda: write_lines(records, end.checksum))
        if not await self._store.append(self.id, end, [line[:-1] for line in lines], digests):
            if not await self._store.fetch(self.id, 1):
                raise self._gone()
            raise SessionChangedError(
                f"nothing was added to the {self._store.label(self.id)}: another process has added to it in the"
                " meantime"
            )
        self._end = End(end.lines + len(lines), checksum_of(lines[-1]))

    def _gone(self) -> SessionLostError:
        return SessionLostError(f"the session {self.id} is no longer in {self._store.name}: it expired, or was deleted")


async def _records(lines: Sequence[bytes], after: int, first: int, source: str) -> Sequence[Record]:
    # With so many bytes, reading takes some tenths of a millisecond.
    heavy = sum(len(line) for line in lines) >= 1 << 16
    with as_store_errors():
        return await in_thread_if(heavy, lambda: read_lines(lines, after, first=first, name=f"the {source}"))
