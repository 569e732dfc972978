"""The head of a client's request, and the checks before it may be passed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from wane.proxy.http import headers
from wane.proxy.http.address import secrets_of, shown_path
from wane.proxy.http.faults import RefusedError

Scope = dict[str, Any]
"""An ASGI scope."""

_DOTS: Final = (b".", b"..")


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request.

    Attributes:
        method: the method, in capitals.
        path: the path, decoded, without a token in it.
        raw_path: the same, not decoded.
        query: the query as received; empty for none.
        headers: the headers in order, names in lower case.
    """

    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: headers.Headers

    @property
    def target(self) -> bytes:
        """Path and query, as received."""
        return self.raw_path + b"?" + self.query if self.query else self.raw_path

    @property
    def shown(self) -> str:
        """The path for the log, without the query, and with segments masked that could be keys."""
        return shown_path(self.raw_path.decode("ascii", "replace"))

    @property
    def secrets(self) -> list[str]:
        """Its keys, in each form that a message could contain."""
        return headers.secrets(self.headers, self.query, secrets_of(self.raw_path.decode("latin-1")))


def head_of(scope: Scope) -> Request:
    """Return the head of a request, as received."""
    return Request(scope["method"], scope["path"], scope["raw_path"], scope["query_string"], list(scope["headers"]))


def check(request: Request, version: str) -> None:
    """Check that a request is unambiguous and for this server.

    Args:
        request: its head.
        version: version of HTTP: `1.0` or `1.1`.

    Raises:
        RefusedError: if it is for another server, can be read in two ways, or asks for another protocol.
    """
    _check_framing(request.headers, version)
    # An absolute URL, the target of CONNECT, or the asterisk of OPTIONS.
    if not request.raw_path.startswith(b"/"):
        raise RefusedError(400, "the request's target is not a path; this proxy serves one provider only", close=True)
    if any(part in _DOTS for part in unquote_to_bytes(request.raw_path).replace(b"\\", b"/").split(b"/")):
        raise RefusedError(400, "the path has a segment . or .., which could lead out of the provider's address")
    if b"websocket" in headers.tokens(headers.every(request.headers, b"upgrade")):
        raise RefusedError(426, "WebSocket is not supported; use HTTP with server-sent events", close=True)


def _check_framing(sent: headers.Headers, version: str) -> None:
    """Refuse a body that two servers could end at different places (RFC 9112, section 6.3)."""
    lengths = headers.every(sent, b"content-length")
    coded = headers.every(sent, b"transfer-encoding")
    if coded and lengths:
        raise RefusedError(400, "the request has both Content-Length and Transfer-Encoding; send one", close=True)
    if len(coded) > 1 or (coded and (coded[0].strip().lower() != b"chunked" or version == "1.0")):
        raise RefusedError(400, "the request's Transfer-Encoding is not understood; send chunked, or none", close=True)
    if len({value.strip() for value in lengths}) > 1:
        raise RefusedError(400, "the request has several values of Content-Length; send one of them", close=True)
