"""The socket that the proxy listens on, and its HTTP protocol."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from wane.core.errors import WaneError
from wane.proxy.http.address import Address

BACKLOG: Final = 2048
"""Connections that may wait to be accepted."""

# Warnings of the server about the ordinary: replies cut short when the client or the provider has gone, and upgrades
# that were offered and not taken.
_ORDINARY: Final = (
    "ASGI callable returned without",
    "No supported WebSocket library",
    "Unsupported upgrade request",
)


class ListenError(WaneError):
    """The proxy cannot listen on an address."""


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        ListenError: if that is not possible, such as when another program listens there.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"cannot listen on {address}: {getattr(error, 'strerror', None) or error}") from None
    family, kind, protocol, _, where = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where reusing means sharing
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(where)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        why = str(error.strerror or error)
        if error.errno == errno.EADDRINUSE:
            why = "another program does, perhaps another wane proxy; choose with --listen"
        raise ListenError(f"cannot listen on {address}: {why}") from None
    opened.setblocking(False)
    return opened


class Protocol(H11Protocol):
    """The server's HTTP protocol, with a time limit for the head of a request.

    Attributes:
        head_timeout: the limit, in seconds.
    """

    head_timeout = 30.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for a new connection."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Stop the timer once the head is complete."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        waiting = self.conn.their_state is h11.IDLE
        if waiting and self._timer is None:
            self._timer = self.loop.call_later(self.head_timeout, self.transport.close)
        elif not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol(head_timeout: float) -> type[Protocol]:
    """Return the protocol with another time limit for the head of a request, in seconds."""
    return type("Protocol", (Protocol,), {"head_timeout": head_timeout})


class Quiet(logging.Filter):
    """Keeps warnings about the ordinary, and everything below warnings, out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        message: Any = record.msg
        return record.levelno >= logging.WARNING and not str(message).startswith(_ORDINARY)
