"""Who may use the proxy: those who show the token or, without one, programs of this machine."""

from __future__ import annotations

import re
from dataclasses import replace
from hmac import compare_digest
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from wane.proxy.http import headers
from wane.proxy.http.address import Address, is_loopback
from wane.proxy.http.faults import RefusedError
from wane.proxy.http.request import Request

_MARKED: Final = re.compile(rb"/+(?:~|%7[Ee])([^/]*)")
"""The beginning of a path with the token, for clients that can be given a URL only: `/~TOKEN/v1/messages`.

Some clients encode the tilde, or write another slash between a base URL and its path.
"""


class Guard:
    """Lets requests in.

    Args:
        token: what they must show; None for none.
        listen: where the server listens.
    """

    def __init__(self, token: str | None, listen: Address) -> None:
        self._token = None if token is None else token.encode()
        self._listen = listen
        self._text = None if token is None else _written(token)

    def admit(self, request: Request) -> Request:
        """Return a request that may go on, without a token in its path.

        Raises:
            RefusedError: if it may not.
        """
        if self._token is None:
            self._check_origin(request)
            return request
        shown = headers.first(request.headers, headers.TOKEN)
        admitted = shown is not None and compare_digest(shown, self._token)
        raw_path = request.raw_path
        # Repeated by clients that put the base URL's path before a path that has it: none of it is for the provider.
        while (found := _MARKED.match(raw_path)) and compare_digest(unquote_to_bytes(found[1]), self._token):
            raw_path, admitted = raw_path[found.end() :] or b"/", True
        if admitted:
            return replace(request, raw_path=raw_path, path=unquote_to_bytes(raw_path).decode("utf-8", "replace"))
        raise RefusedError(
            401,
            "this proxy asks for its token: in the header x-wane-token, or in the base URL as /~TOKEN before the path",
        )

    def shown(self, request: Request) -> str:
        """Return method and path for the log, without the token, or what may be meant to be it."""
        raw_path = _MARKED.sub(b"/~***", request.raw_path)
        line = f"{request.method} {replace(request, raw_path=raw_path).shown}"
        return line if self._text is None else self._text.sub("***", line)

    def _check_origin(self, request: Request) -> None:
        """Refuse web pages: any page can have a browser ask loopback, and give its own name that address."""
        for value in headers.every(request.headers, b"host"):
            host = _host(value)
            if host is None or not (is_loopback(host) or host == self._listen.host):
                raise RefusedError(
                    421,
                    "the header Host does not name this machine; use the proxy's own address, 127.0.0.1",
                )
        for value in headers.every(request.headers, b"origin"):
            if not _is_program(value):
                raise RefusedError(403, "this proxy takes no requests from web pages; set a token to allow them")


def _written(token: str) -> re.Pattern[str]:
    """Return what finds a token wherever it stands, however its characters are percent-encoded."""
    return re.compile("".join(f"(?:{re.escape(each)}|(?i:%(?:25)*{ord(each):02x}))" for each in token))


def _host(value: bytes) -> str | None:
    try:
        return urlsplit(f"//{value.decode('latin-1')}").hostname
    except ValueError:
        return None


def _is_program(origin: bytes) -> bool:
    """Whether an origin is that of an application, or of a page from this machine."""
    scheme, _, rest = origin.decode("latin-1").partition("://")
    if not rest:
        return False  # null: a page that hides where it is from
    return scheme.lower() not in ("http", "https") or is_loopback(_host(rest.encode("latin-1")) or "")
