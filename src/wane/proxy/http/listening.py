"""The socket that the proxy listens on, and the protocol that it speaks there."""

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
"""Connections that wait to be taken."""

# What the server reports of things that are no one's concern: replies that end as the client or the provider has gone,
# and protocols that were offered and not taken.
_USUAL: Final = (
    "ASGI callable returned without",
    "No supported WebSocket library",
    "Unsupported upgrade request",
)


class ListenError(WaneError):
    """An address that cannot be listened on."""


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        ListenError: if it cannot be listened on, such as when another program does.
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
        raise ListenError(_cannot(address, error)) from None
    opened.setblocking(False)
    return opened


def _cannot(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {address}: another program does, perhaps another wane proxy; choose with --listen"
    return f"cannot listen on {address}: {error.strerror or error}"


class Protocol(H11Protocol):
    """HTTP as the server speaks it, with a limit to how long the head of a request may take.

    Attributes:
        patience: that limit, in seconds.
    """

    patience = 30.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        waiting = self.conn.their_state is h11.IDLE
        if waiting and self._late is None:
            self._late = self.loop.call_later(self.patience, self.transport.close)
        elif not waiting and self._late is not None:
            self._late.cancel()
            self._late = None


def protocol(patience: float) -> type[Protocol]:
    """Return the protocol with another limit to how long the head of a request may take, in seconds."""
    return type("Protocol", (Protocol,), {"patience": patience})


class Quiet(logging.Filter):
    """Keeps what is usual for a proxy out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be told."""
        message: Any = record.msg
        return record.levelno >= logging.WARNING and not str(message).startswith(_USUAL)
