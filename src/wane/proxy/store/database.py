"""Databases: what one must provide to store sessions, its URL, and its outages."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from wane.core.errors import ConfigError
from wane.proxy.store.base import StoredSession, StoreError

PREFIX: Final = "wane"
"""Prefix of keys in Redis, by default."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_HOSTS: Final = re.compile(r"(?:(?:[\w.%-]+|\[[0-9A-Fa-f:.%]+\])?(?::\d+)?(?:,|$))*")
_PREFIX: Final = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_SECRET: Final = re.compile(r"pass|secret|token|key", re.IGNORECASE)
# The name of a database, or the path of a socket; anything else could be a secret.
_PATH: Final = re.compile(r"/?\d{0,4}|/[a-z_][a-z_-]{0,30}\d{0,3}")

_SLOW: Final = 0.5
"""Seconds after which a failure counts as slow. A fast one, such as a refused connection, may be retried at once."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a log.

    Attributes:
        lines: number of lines, including the header's.
        checksum: checksum of the last line.
    """

    lines: int
    checksum: int


@dataclass(frozen=True, slots=True)
class NewLines:
    """The lines of a log after the known ones.

    Attributes:
        end: the end of the log.
        lines: the new lines, without newlines.
    """

    end: End
    lines: Sequence[bytes]


class Database(Protocol):
    """Stores logs of lines. Each method is one atomic step.

    Lines are the journal's, without newlines: printed line by line, a log is a journal file. All methods raise a
    StoreError if the database cannot be reached, or refuses.

    Attributes:
        name: its name in errors, without secrets.
    """

    name: str

    async def find(self, root: str) -> Sequence[str]:
        """Return the ids of a root's sessions, the last written first."""
        ...

    async def begin(self, session_id: str, line: bytes) -> None:
        """Create a log with the line of its header; it can be found by the root in its id."""
        ...

    async def fetch(self, session_id: str, limit: int | None = None) -> Sequence[bytes]:
        """Return the lines of a log, or the first `limit` of them; none if there is no such session."""
        ...

    async def new_lines(self, session_id: str, known: int) -> NewLines:
        """Return the end of a log, and the lines after the known ones.

        Raises:
            SessionLostError: if there is no such session.
        """
        ...

    async def append(self, session_id: str, after: End, lines: Sequence[bytes]) -> bool:
        """Append lines to a log that has this end; if it has another, append nothing and return False."""
        ...

    async def unwritten(self, seconds: float) -> Sequence[StoredSession]:
        """Return the sessions whose last record is older than this many seconds, the oldest first."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Delete a session; return False if there is none of that id."""
        ...

    async def sync(self, session_id: str) -> None:
        """Wait until appended lines would survive a crash of the database's machine, if the database can tell."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a database.

    Attributes:
        url: the URL for the client library, with secrets.
        name: the URL to show, without user, password, options and possible secrets.
        prefix: prefix of keys, for a database that has keys.
        secrets: the secrets, both as written in the URL and decoded.
    """

    url: str = field(repr=False)
    name: str
    prefix: str
    secrets: tuple[str, ...] = field(repr=False)

    def without_secrets(self, text: object) -> str:
        """Return a text as one line with its secrets masked."""
        shown = " ".join(str(text).split())
        for secret in self.secrets:
            shown = shown.replace(secret, "***")
        return shown


def scheme_of(where: str) -> str | None:
    """Return the scheme of a URL in lower case; None if there is none, as in a path."""
    match = _SCHEME.match(where)
    return match[1].lower() if match else None


def parse_location(url: str) -> Location:
    """Parse a URL: `scheme://[user[:password]@]host[:port][/database][?option=value&…]`.

    The option `prefix` is Wane's; all others are for the client library.

    Raises:
        ConfigError: if it is malformed; the message contains no secrets.
    """
    scheme = scheme_of(url)
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _malformed(scheme) from None
    userinfo, at, hosts = parts.netloc.rpartition("@")
    # An unencoded character in a password could end the host early, and the rest of the password would be shown.
    if url.count("@") != len(at) or parts.fragment or "://" not in url or not _HOSTS.fullmatch(hosts):
        raise _malformed(scheme)
    named = dict(options)
    plain = not hosts or _PATH.fullmatch(parts.path) is not None
    kept = "&".join(part for part in parts.query.split("&") if part.partition("=")[0] != "prefix")
    return Location(
        url=url.partition("?")[0] + (f"?{kept}" if kept else ""),
        name=f"{scheme}://{hosts}{parts.path if plain else '/***'}",
        prefix=_prefix(named.get("prefix", PREFIX)),
        secrets=_secrets(userinfo.partition(":")[2], parts.query, "" if plain else parts.path[1:]),
    )


def _prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise ConfigError(
            f"prefix={value!r:.80} in the store's URL must be 1 to 64 letters, digits, '_', '.', ':' or '-'"
        )
    return value


def _secrets(password: str, query: str, path: str) -> tuple[str, ...]:
    pairs = (part.partition("=") for part in query.split("&"))
    raw = [password, path, *(value for name, _, value in pairs if _SECRET.search(name))]
    # The longest first, so that none is masked only in part.
    return tuple(sorted({form for text in raw for form in (text, unquote(text)) if form}, key=len, reverse=True))


def _malformed(scheme: str | None) -> ConfigError:
    return ConfigError(
        f"the store's URL, which begins with {scheme}:, is malformed. Write {scheme}://user:password@host:port/database,"
        " and percent-encode characters such as '@', '/', '?', '#' and '%' in a user or password"
    )


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a database.

    Attributes:
        limit: seconds that a step may take, including connecting.
        pause: seconds without any further step after that; more than the limit.
    """

    limit: float = 3.0
    pause: float = 4.0


TIMEOUTS: Final = Timeouts()


class Outage:
    """A circuit breaker for a database.

    After a slow failure every step fails at once, with the same reason, until the pause is over. Then one step tries
    again while the others keep failing, so that an outage delays only one step at a time.

    Args:
        pause: seconds of the pause.
        clock: returns monotonic seconds.
    """

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._reason = ""
        self._until = 0.0

    def started(self) -> float:
        """Note that a step starts; return the time, for `failed`.

        Raises:
            StoreError: during a pause.
        """
        now = self._clock()
        if self._reason:
            if now < self._until:
                raise StoreError(f"{self._reason}; it is not asked again within {self._pause:g} seconds")
            self._until = now + self._pause
        return now

    def failed(self, error: StoreError, started: float) -> None:
        """Note that the database could not be reached by a step that started at this time."""
        now = self._clock()
        if now - started < _SLOW:
            self.answered()
        else:
            self._reason, self._until = str(error), now + self._pause

    def answered(self) -> None:
        """Note that the database answered, even with an error."""
        self._reason = ""
