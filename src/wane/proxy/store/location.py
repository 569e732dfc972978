"""The URL of a database, and what of it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from wane.core.errors import ConfigError

PREFIX: Final = "wane"
"""Prefix of keys in Redis, by default."""

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
        prefix: prefix of keys, for a database that has keys.
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
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _malformed(scheme) from None
    userinfo, at, hosts = parts.netloc.rpartition("@")
    # An unencoded character in a password could end the host early, and the rest of the password would be shown.
    if url.count("@") != len(at) or parts.fragment or "://" not in url or not _HOSTS.fullmatch(hosts):
        raise _malformed(scheme)
    named = dict(options)
    plain = not hosts or _PATH.fullmatch(parts.path) is not None
    query = "&".join(part for part in parts.query.split("&") if part.partition("=")[0] != "prefix")
    return DatabaseLocation(
        url=url.partition("?")[0] + (f"?{query}" if query else ""),
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
