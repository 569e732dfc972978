"""Who may use the proxy: clients that send the token or, without one, programs on this machine."""

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
"""The beginning of a path with the token, for clients that only take a base URL: `/~TOKEN/v1/messages`.

Some clients encode the tilde, or add another slash between the base URL and the path.
"""


class Guard:
    """Admits requests.

    Args:
        token: the token that requests must carry; None for none.
        listen: where the server listens.
    """

    def __init__(self, token: str | None, listen: Address) -> None:
        self._token = None if token is None else token.encode()
        self._listen = listen
        # Finds the token anywhere, however its characters are percent-encoded.
        self._pattern = None if token is None else re.compile("".join(map(_any_spelling, token)))

    def admit(self, request: Request) -> Request:
        """Return an admitted request, without a token in its path.

        Raises:
            RefusedError: if it is not admitted.
        """
        if self._token is None:
            self._check_origin(request)
            return request
        shown = headers.first(request.headers, headers.TOKEN)
        admitted = shown is not None and compare_digest(shown, self._token)
        raw_path = request.raw_path
        # Some clients add the base URL's path to a path that has it already, so the token may be repeated.
        while (found := _MARKED.match(raw_path)) and compare_digest(unquote_to_bytes(found[1]), self._token):
            raw_path, admitted = raw_path[found.end() :] or b"/", True
        if admitted:
            return replace(request, raw_path=raw_path, path=unquote_to_bytes(raw_path).decode("utf-8", "replace"))
        raise RefusedError(
            401,
            "this proxy needs its token: in the header x-wane-token, or in the base URL as /~TOKEN before the path",
        )

    def shown(self, request: Request) -> str:
        """Return method and path for the log, without the token or anything in its place."""
        raw_path = _MARKED.sub(b"/~***", request.raw_path)
        line = f"{request.method} {replace(request, raw_path=raw_path).shown}"
        return line if self._pattern is None else self._pattern.sub("***", line)

    def _check_origin(self, request: Request) -> None:
        """Refuse web pages: any page can make a browser ask loopback, also by DNS rebinding."""
        for value in headers.every(request.headers, b"host"):
            host = _host_name(value)
            if host is None or not (is_loopback(host) or host == self._listen.host):
                raise RefusedError(
                    421,
                    "the header Host does not name this machine; use the proxy's own address, 127.0.0.1",
                )
        for value in headers.every(request.headers, b"origin"):
            if not _is_program(value):
                raise RefusedError(403, "this proxy accepts no requests from web pages; set a token to allow them")


def _any_spelling(character: str) -> str:
    return f"(?:{re.escape(character)}|(?i:%(?:25)*{ord(character):02x}))"


def _host_name(value: bytes) -> str | None:
    try:
        return urlsplit(f"//{value.decode('latin-1')}").hostname
    except ValueError:
        return None


def _is_program(origin: bytes) -> bool:
    """Whether an origin is an application, or a page of this machine."""
    scheme, _, rest = origin.decode("latin-1").partition("://")
    if not rest:
        return False  # `null`: a page that hides its origin
    return scheme.lower() not in ("http", "https") or is_loopback(_host_name(rest.encode("latin-1")) or "")
