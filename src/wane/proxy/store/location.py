"""URLs of databases: what is for the client library, what is ours, and what may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from wane.core.errors import ConfigError

PREFIX: Final = "wane"
"""How keys begin in Redis, unless the URL says otherwise."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_HOSTS: Final = re.compile(r"(?:(?:[\w.%-]+|\[[0-9A-Fa-f:.%]+\])?(?::\d+)?(?:,|$))*")
_PREFIX: Final = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_SECRET: Final = re.compile(r"pass|secret|token|key", re.IGNORECASE)
# A database, or a file of the system's: anything else could be a key.
_PATH: Final = re.compile(r"/?\d{0,4}|/[a-z_][a-z_-]{0,30}\d{0,3}")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a database is.

    Attributes:
        url: for the client library, with whatever is secret in it.
        name: the same without user, password, options and what could be a key, for people.
        prefix: how keys begin, where there are keys.
        secrets: passwords and keys, as they stand in the URL and as they are meant.
    """

    url: str = field(repr=False)
    name: str
    prefix: str
    secrets: tuple[str, ...] = field(repr=False)

    def without_secrets(self, text: object) -> str:
        """Return a text on one line, with no password in it."""
        shown = " ".join(str(text).split())
        for secret in self.secrets:
            shown = shown.replace(secret, "***")
        return shown


def scheme_of(where: str) -> str | None:
    """Return the scheme of a URL in lower case; None of what is none, as a path is."""
    match = _SCHEME.match(where)
    return match[1].lower() if match else None


def parse_location(url: str) -> Location:
    """Take a URL apart: `scheme://[user[:password]@]host[:port][/database][?option=value&…]`.

    The option `prefix` is Wane's, all others are the client library's.

    Raises:
        ConfigError: if it is malformed; the message shows nothing that may be secret.
    """
    scheme = scheme_of(url)
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _malformed(scheme) from None
    userinfo, at, hosts = parts.netloc.rpartition("@")
    # A character of a password that ends the host's part early would make the rest of it be shown.
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
            f"prefix={value!r:.80} in the store's URL is not 1 to 64 letters, digits, '_', '.', ':' or '-'"
        )
    return value


def _secrets(password: str, query: str, path: str) -> tuple[str, ...]:
    pairs = (part.partition("=") for part in query.split("&"))
    raw = [password, path, *(value for name, _, value in pairs if _SECRET.search(name))]
    # The longest first, so that none is hidden in part.
    return tuple(sorted({form for text in raw for form in (text, unquote(text)) if form}, key=len, reverse=True))


def _malformed(scheme: str | None) -> ConfigError:
    return ConfigError(
        f"the store's URL, which begins with {scheme}:, is malformed. It is {scheme}://user:password@host:port/database,"
        " and characters such as '@', '/', '?', '#' and '%' in a user or password are percent-encoded"
    )
