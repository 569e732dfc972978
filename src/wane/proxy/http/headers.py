"""Headers on their way through: what is for the next hop only stays here, and so does what is Wane's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Headers in order, repeated ones as they are."""

OWN: Final = b"x-wane-"
"""What headers of Wane begin with."""

SESSION: Final = b"x-wane-session"
VIEW: Final = b"x-wane-view"
BUDGET: Final = b"x-wane-budget"
EVICTED: Final = b"x-wane-evicted"
USED_INPUT: Final = b"x-wane-used-input"
USED_OUTPUT: Final = b"x-wane-used-output"
WARNING: Final = b"x-wane-warning"
UNMANAGED: Final = b"x-wane-unmanaged"
TOKEN: Final = b"x-wane-token"

# RFC 9110, section 7.6.1, and what browsers and old proxies send.
_HOP: Final = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Set anew, or settled with the client here.
_REQUEST: Final = _HOP | {b"host", b"content-length", b"expect"}
# It tells of other ways to the provider, which would be taken for ways to the proxy.
_RESPONSE: Final = _HOP | {b"alt-svc"}
REWRITTEN: Final = frozenset({b"content-length", b"content-encoding", b"content-md5", b"content-digest", b"digest"})
"""What a body has no more once it was made anew."""

_SECRET: Final = frozenset(
    {b"authorization", b"proxy-authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie", TOKEN}
)
_SHORTEST_SECRET: Final = 4  # characters
_LONGEST_WARNING: Final = 300  # characters


def to_upstream(headers: Iterable[tuple[bytes, bytes]], host: bytes, drop: Collection[bytes] = ()) -> Headers:
    """Return a client's headers for the provider, without any that says where the body ends.

    Args:
        headers: names in lower case.
        host: the value of `Host`.
        drop: further names to leave out.
    """
    kept = list(headers)
    named = _named(kept)
    sent: Headers = [(b"host", host)]
    sent += [
        (name, value)
        for name, value in kept
        if not (name in _REQUEST or name in drop or name in named or name.startswith(OWN))
    ]
    return sent


def to_client(headers: Iterable[tuple[bytes, bytes]], drop: Collection[bytes] = ()) -> Headers:
    """Return a provider's headers for the client.

    Args:
        headers: names in any case.
        drop: further names to leave out, in lower case.
    """
    kept = [(name.lower(), value) for name, value in headers]
    named = _named(kept)
    chunked = any(name == b"transfer-encoding" for name, _ in kept)
    return [
        (name, value)
        for name, value in kept
        if not (
            name in _RESPONSE
            or name in drop
            or name in named
            or name.startswith(OWN)
            or (chunked and name == b"content-length")
        )
    ]


def added(sent: Headers, more: Mapping[str, str]) -> Headers:
    """Return headers with further values of such as are lists, after those of the client.

    Args:
        sent: names in lower case.
        more: a value for each name; one that is there already is not repeated.
    """
    result = list(sent)
    for name, value in more.items():
        key, entry = name.lower().encode(), value.encode()
        theirs = every(sent, key)
        if entry.lower() not in tokens(theirs):
            result = [(each, old) for each, old in result if each != key]
            result.append((key, b",".join([*theirs, entry])))
    return result


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the value of a header; None if there is none. Names are in lower case."""
    return next((value for key, value in headers if key == name), None)


def every(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return all values of a header. Names are in lower case."""
    return [value for key, value in headers if key == name]


def tokens(values: Iterable[bytes]) -> set[bytes]:
    """Return the entries of comma-separated values, in lower case."""
    return {entry.strip().lower() for value in values for entry in value.split(b",") if entry.strip()}


def text(message: str) -> bytes:
    """Return a message as a header's value: printable ASCII in one line, not too long."""
    line = " ".join(message.split()).encode("ascii", "replace")
    clean = bytes(c if 0x20 <= c < 0x7F else 0x3F for c in line)
    return clean if len(clean) <= _LONGEST_WARNING else clean[: _LONGEST_WARNING - 3] + b"..."


def secrets(headers: Iterable[tuple[bytes, bytes]], query: bytes, parts: Iterable[str] = ()) -> list[str]:
    """Return what must not be told of a request: its keys, in the forms in which a message could hold them.

    Args:
        headers: its headers, names in lower case.
        query: its query.
        parts: parts of its path that may be keys.
    """
    found: set[bytes] = set()
    for name, value in headers:
        if name in _SECRET:
            found.add(value)
            # Without the scheme: `Bearer`.
            found.update(value.split()[1:])
    found.update(part.partition(b"=")[2] for part in query.split(b"&"))
    texts = {*parts, *(each.decode("latin-1") for each in found)}
    return sorted((text for text in texts if len(text) >= _SHORTEST_SECRET), key=len, reverse=True)


def scrub(message: str, known: Iterable[str]) -> str:
    """Return a message with stars in place of secrets."""
    for secret in known:
        message = message.replace(secret, "***")
    return message


def _named(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The headers that `Connection` says are for the next hop only."""
    return tokens(every(headers, b"connection"))
