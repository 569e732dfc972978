"""The head of a request: which headers pass through, who may use the proxy, and what in it could be a key."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hmac import compare_digest
from typing import Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

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

LONGEST_HEAD: Final = 64 * 1024
"""Bytes that the head of a request or an answer may have: its line, names, values and what separates them."""

NO_PAGES: Final = "this proxy accepts no requests from web pages; set a token to allow them"
"""The refusal of a request that another site made a browser send."""

HIDDEN: Final = "***"
"""Stands for what could be a key."""

# One table for all protocols: a key in the header of another one must not get into a log, or to a second provider.
KEY_HEADERS: Final = {
    b"authorization": b"Bearer %b",
    b"x-api-key": b"%b",
    b"api-key": b"%b",
    b"x-goog-api-key": b"%b",
}
"""Headers with a client's key for its provider, and how each holds one."""

_SECRET: Final = frozenset({*KEY_HEADERS, b"proxy-authorization", b"cookie", TOKEN})
_SHORTEST_SECRET: Final = 4  # characters
_VERSION: Final = re.compile(r"v\d{1,2}(?:(?:alpha|beta)\d{0,2})?")
# The path segments of the APIs of providers and gateways.
_WORDS: Final = """anthropic api audio backend-api batches beta chat codex coding compat compatible-mode completions
    content conversations count_tokens deployments embeddings engines event_logging files gateway images inference
    input_items input_tokens internal litellm llm messages metrics models moderations oauth ollama openai organizations
    paas proxy responses router search serverless status stream usage wane ~***"""
_PLAIN: Final = frozenset(_WORDS.split())
_VERB: Final = re.compile(r"[\w.-]{1,80}:(?:\w*[gG]enerateContent|countTokens|\w*[eE]mbedContents?)", re.ASCII)
"""A model and what is asked of it, the last segment of a path of Gemini's API."""
_LONGEST_WARNING: Final = 300  # characters
_MARKED: Final = re.compile(rb"/+(?:~|%7[Ee])([^/]*)")
"""The beginning of a path with the token, for clients that only take a base URL: `/~TOKEN/v1/messages`.

Some clients encode the tilde, or add another slash between the base URL and the path.
"""

Scope = dict[str, Any]
"""An ASGI scope."""


class RefusedError(Exception):
    """The proxy answers the request with an error of its own.

    Args:
        status: the HTTP status.
        message: the error for the client.
        close: whether to close the connection, because what follows on it is unknown.
        unsent: whether the provider has certainly not got the request.
        retry_after: seconds after which the request may be sent again; 0 for no advice.
    """

    def __init__(
        self, status: int, message: str, *, close: bool = False, unsent: bool = False, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.close, self.unsent, self.retry_after = close, unsent, retry_after


def to_upstream(headers: Iterable[tuple[bytes, bytes]], host: bytes, drop: Collection[bytes] = ()) -> Headers:
    """Return a client's headers for the provider at `host`, without Wane's own and those about framing and the hop."""
    received = list(headers)
    dropped = {*_REQUEST, *drop, *tokens(every(received, b"connection"))}
    kept = [(name, value) for name, value in received if not (name in dropped or name.startswith(OWN))]
    return [(b"host", host), *kept]


def to_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a provider's headers, in any case, for the client."""
    received = [(name.lower(), value) for name, value in headers]
    dropped = {*_RESPONSE, *tokens(every(received, b"connection"))}
    if first(received, b"transfer-encoding") is not None:
        dropped.add(b"content-length")
    return [(name, value) for name, value in received if not (name in dropped or name.startswith(OWN))]


def add_values(sent: Headers, values: Mapping[str, str]) -> Headers:
    """Return headers with values appended to comma-separated ones; a value that is there is not repeated."""
    result = list(sent)
    for name, value in values.items():
        key, entry = name.lower().encode(), value.encode()
        present = every(sent, key)
        if entry.lower() not in tokens(present):
            result = [(header, old) for header, old in result if header != key]
            result.append((key, b",".join([*present, entry])))
    return result


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the value of a header; None if there is none. Names are in lower case."""
    return next((value for key, value in headers if key == name), None)


def every(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return all values of a header. Names are in lower case."""
    return [value for key, value in headers if key == name]


def size(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the bytes of headers, each with its colon, space and line end."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def tokens(values: Iterable[bytes]) -> set[bytes]:
    """Return the entries of comma-separated values, in lower case."""
    return {entry.strip().lower() for value in values for entry in value.split(b",") if entry.strip()}


def text(message: str) -> bytes:
    """Return a message as a header's value: one line of printable ASCII, cut if it is long."""
    line = " ".join(message.split()).encode("ascii", "replace")
    clean = bytes(c if 0x20 <= c < 0x7F else 0x3F for c in line)
    return clean if len(clean) <= _LONGEST_WARNING else clean[: _LONGEST_WARNING - 3] + b"..."


def scrub(message: str, secrets: Iterable[str]) -> str:
    """Return a message with stars in place of secrets."""
    for secret in secrets:
        message = message.replace(secret, HIDDEN)
    return message


def shown_path(path: str) -> str:
    """Return a path with stars in place of each segment that could be a key."""
    secret = secrets_of(path)
    return "/".join(HIDDEN if part in secret else part for part in path.split("/"))


def secrets_of(path: str) -> set[str]:
    """Return the segments of a path that could be keys: those of no known API."""
    parts = {part for part in path.split("/") if part} - _PLAIN
    return {part for part in parts if not (_VERSION.fullmatch(part) or _VERB.fullmatch(part))}


@dataclass(frozen=True, slots=True)
class RequestHead:
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
    headers: Headers

    @property
    def target(self) -> bytes:
        """Path and query, as received."""
        return self.raw_path + b"?" + self.query if self.query else self.raw_path

    @property
    def secrets(self) -> list[str]:
        """Its keys, in each form that a message could contain; the longest first."""
        keys: set[bytes] = set()
        for name, value in self.headers:
            if name in _SECRET:
                keys.add(value)
                # Without a scheme such as `Bearer`.
                keys.update(value.split()[1:])
        keys.update(part.partition(b"=")[2] for part in self.query.split(b"&"))
        texts = {*secrets_of(self.raw_path.decode("latin-1")), *(key.decode("latin-1") for key in keys)}
        return sorted((text for text in texts if len(text) >= _SHORTEST_SECRET), key=len, reverse=True)


def head_of(scope: Scope) -> RequestHead:
    """Return the head of a request, as received."""
    return RequestHead(scope["method"], scope["path"], scope["raw_path"], scope["query_string"], list(scope["headers"]))


def check(request: RequestHead, version: str) -> None:
    """Check that a request is unambiguous and for this server.

    Raises:
        RefusedError: if it is too long, for another server, can be read in two ways, or asks for another protocol.
    """
    # The parser has a limit only for a head that has not arrived whole.
    length = len(request.method) + len(request.target) + size(request.headers)
    if length > LONGEST_HEAD:
        why = f"the request's line and headers have {length:,} bytes, and this proxy accepts {LONGEST_HEAD:,}"
        raise RefusedError(431, why, close=True)
    # A body that two servers could end at different places (RFC 9112, section 6.3).
    lengths = every(request.headers, b"content-length")
    coded = every(request.headers, b"transfer-encoding")
    if coded and lengths:
        raise RefusedError(400, "the request has both Content-Length and Transfer-Encoding; send one", close=True)
    if len(coded) > 1 or (coded and (coded[0].strip().lower() != b"chunked" or version == "1.0")):
        raise RefusedError(400, "the request's Transfer-Encoding is not understood; send chunked, or none", close=True)
    if len({value.strip() for value in lengths}) > 1:
        raise RefusedError(400, "the request has several values of Content-Length; send one of them", close=True)
    # An absolute URL, the target of CONNECT, or the asterisk of OPTIONS.
    if not request.raw_path.startswith(b"/"):
        raise RefusedError(400, "the request's target is not a path; this proxy serves one provider only", close=True)
    if any(part in (b".", b"..") for part in unquote_to_bytes(request.raw_path).replace(b"\\", b"/").split(b"/")):
        raise RefusedError(400, "the path has a segment . or .., which could lead out of the provider's address")
    if b"websocket" in tokens(every(request.headers, b"upgrade")):
        raise RefusedError(426, "WebSocket is not supported; use HTTP with server-sent events", close=True)


Holder = TypeVar("Holder")
"""Who has a token of their own."""


class Guard(Generic[Holder]):
    """Admits requests.

    Args:
        token: the token that requests must carry; None for none.
        host: the name or IP address at which the server listens.
        holder: returns who else has a token; None if nobody else can have one.
    """

    def __init__(
        self, token: str | None, host: str, holder: Callable[[bytes], Awaitable[Holder | None]] | None = None
    ) -> None:
        self._token = None if token is None else token.encode()
        self._host = host
        self._holder = holder
        # Finds the token anywhere, however its characters are percent-encoded.
        spellings = (f"(?:{re.escape(character)}|(?i:%(?:25)*{ord(character):02x}))" for character in token or "")
        self._pattern = None if token is None else re.compile("".join(spellings))

    async def admit(self, request: RequestHead) -> tuple[RequestHead, Holder | None]:
        """Return an admitted request, without a token in its path, and who has the token if it is not the proxy's own.

        Raises:
            RefusedError: if it is not admitted.
        """
        if self._token is None and self._holder is None:
            self._check_origin(request)
            return request, None
        marked = _MARKED.match(request.raw_path)
        sent = [first(request.headers, TOKEN), unquote_to_bytes(marked[1]) if marked else None]
        accepted: dict[bytes, Holder | None] = {}
        for token in sent:
            if token is not None and self._token is not None and compare_digest(token, self._token):
                accepted[token] = None
            elif token and self._holder is not None and (holder := await self._holder(token)) is not None:
                accepted[token] = holder
        if not accepted:
            team = "a token that is not revoked (wane proxy tokens add NAME)"
            needed = "its token" if self._holder is None else team
            where = "in the header x-wane-token, or in the base URL as /~TOKEN before the path"
            raise RefusedError(401, f"this proxy needs {needed}: {where}")
        if len(accepted) > 1:
            raise RefusedError(400, "the header x-wane-token and the path have different tokens; send one")
        ((token, holder),) = accepted.items()
        raw_path = request.raw_path
        # Some clients add the base URL's path to a path that has it already, so the token may be repeated.
        while (match := _MARKED.match(raw_path)) and compare_digest(unquote_to_bytes(match[1]), token):
            raw_path = raw_path[match.end() :] or b"/"
        path = unquote_to_bytes(raw_path).decode("utf-8", "replace")
        return replace(request, raw_path=raw_path, path=path), holder

    def for_log(self, request: RequestHead) -> str:
        """Return method and path for the log, without the query, the token, or segments that could be keys."""
        path = _MARKED.sub(b"/~***", request.raw_path).decode("ascii", "replace")
        line = f"{request.method} {shown_path(path)}"
        return line if self._pattern is None else self._pattern.sub("***", line)

    def _check_origin(self, request: RequestHead) -> None:
        """Refuse web pages: any page can make a browser ask loopback, also by DNS rebinding."""
        for value in every(request.headers, b"host"):
            host = _host_name(value)
            if host is None or not (is_loopback(host) or host == self._host):
                why = "the header Host does not name this machine; use the proxy's own address, 127.0.0.1"
                raise RefusedError(421, why)
        origins = every(request.headers, b"origin")
        # Some browsers and settings send no Origin. They say that another site asks; following a link only reads.
        follows_link = request.method in ("GET", "HEAD") and b"navigate" in every(request.headers, b"sec-fetch-mode")
        if not origins and not follows_link and b"cross-site" in tokens(every(request.headers, b"sec-fetch-site")):
            raise RefusedError(403, NO_PAGES)
        for value in origins:
            # An application or a page of this machine may ask, but not `null`: a page that hides its origin.
            scheme, _, site = value.partition(b"://")
            is_page = not site or scheme.lower() in (b"http", b"https")
            if is_page and not is_loopback(_host_name(site) or ""):
                raise RefusedError(403, NO_PAGES)


def is_loopback(host: str) -> bool:
    """Whether a host name or IP address is loopback; nothing is resolved. Without brackets or port."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _host_name(value: bytes) -> str | None:
    try:
        return urlsplit(f"//{value.decode('latin-1')}").hostname
    except ValueError:
        return None
