"""Headers on their way through the proxy: hop-by-hop headers and Wane's own are not passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Headers in order, with repeated ones."""

OWN: Final = b"x-wane-"
"""Prefix of Wane's headers."""

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
# Set anew, or dealt with here.
_REQUEST: Final = _HOP | {b"host", b"content-length", b"expect"}
# `alt-svc` names other addresses of the provider, which clients would take for the proxy's.
_RESPONSE: Final = _HOP | {b"alt-svc"}
REWRITTEN: Final = frozenset({b"content-length", b"content-encoding", b"content-md5", b"content-digest", b"digest"})
"""Headers that no longer hold for a rewritten body."""

_SECRET: Final = frozenset(
    {b"authorization", b"proxy-authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie", TOKEN}
)
_SHORTEST_SECRET: Final = 4  # characters
_LONGEST_WARNING: Final = 300  # characters


def to_upstream(headers: Iterable[tuple[bytes, bytes]], host: bytes, drop: Collection[bytes] = ()) -> Headers:
    """Return a client's headers for the provider, without those that frame the body.

    Args:
        headers: names in lower case.
        host: the value of `Host`.
        drop: further names to leave out.
    """
    kept = list(headers)
    named = tokens(every(kept, b"connection"))
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
    named = tokens(every(kept, b"connection"))
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
    """Return headers with values appended to comma-separated ones.

    Args:
        sent: names in lower case.
        more: a value for each name; one that is present already is not repeated.
    """
    result = list(sent)
    for name, value in more.items():
        key, entry = name.lower().encode(), value.encode()
        present = every(sent, key)
        if entry.lower() not in tokens(present):
            result = [(each, old) for each, old in result if each != key]
            result.append((key, b",".join([*present, entry])))
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
    """Return a message as a header's value: one line of printable ASCII, cut if it is long."""
    line = " ".join(message.split()).encode("ascii", "replace")
    clean = bytes(c if 0x20 <= c < 0x7F else 0x3F for c in line)
    return clean if len(clean) <= _LONGEST_WARNING else clean[: _LONGEST_WARNING - 3] + b"..."


def secrets(headers: Iterable[tuple[bytes, bytes]], query: bytes, parts: Iterable[str] = ()) -> list[str]:
    """Return the keys of a request, in each form that a message could contain; the longest first.

    Args:
        headers: its headers, names in lower case.
        query: its query.
        parts: segments of its path that may be keys.
    """
    found: set[bytes] = set()
    for name, value in headers:
        if name in _SECRET:
            found.add(value)
            # Without a scheme such as `Bearer`.
            found.update(value.split()[1:])
    found.update(part.partition(b"=")[2] for part in query.split(b"&"))
    texts = {*parts, *(each.decode("latin-1") for each in found)}
    return sorted((text for text in texts if len(text) >= _SHORTEST_SECRET), key=len, reverse=True)


def scrub(message: str, known: Iterable[str]) -> str:
    """Return a message with stars in place of secrets."""
    for secret in known:
        message = message.replace(secret, "***")
    return message
