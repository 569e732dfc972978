"""The HTTP side of the scripted server."""

from __future__ import annotations

import socket
import socketserver
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias

from wane.testing.wire import json_bytes

if TYPE_CHECKING:
    from wane.testing.wire import ScriptedEvent


Respond: TypeAlias = Callable[["Handler", str, bytes | None, Mapping[str, str]], None]
"""Answers a request through its handler, given path, body (None if no model is asked) and headers."""


class HttpServer(ThreadingHTTPServer):
    """A threading HTTP server that passes requests on, and ignores clients that hang up."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[Handler], respond: Respond) -> None:
        super().__init__(address, handler)
        self.respond = respond

    def server_bind(self) -> None:
        """Bind without asking the resolver for the host's name, which can take seconds without a network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the client hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Reads a request, lets it be answered, and closes the connection.

    A connection is used once, so that clients hold no open sockets and can be used from several event loops.
    """

    server: HttpServer
    disable_nagle_algorithm = True
    # A client that asks for a websocket accepts no refusal by an older version.
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request."""
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        if len(raw) < length:
            # The client died in the middle of its request: nobody waits for an answer.
            return
        path = self.path.partition("?")[0]
        self.server.respond(self, path, raw, dict(self.headers.items()))

    def do_GET(self) -> None:
        """Answer a request that asks for no model."""
        self.server.respond(self, self.path.partition("?")[0], None, dict(self.headers.items()))

    def do_HEAD(self) -> None:
        """Answer a request for the head only."""
        self.do_GET()

    def send_json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        data = json_bytes(body)
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_events(self, events: Iterable[ScriptedEvent], *, array: bool = False) -> None:
        """Send a stream of server-sent events, or of the elements of a JSON array."""
        self.send_response(200)
        self.send_header("content-type", "application/json" if array else "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("connection", "close")
        self.end_headers()
        for number, event in enumerate(events):
            if array:
                self.wfile.write((b",\r\n" if number else b"[") + event.element())
            else:
                self.wfile.write(event.encode())
        if array:
            self.wfile.write(b"\n]\n")

    def reset(self) -> None:
        """Tear the connection down, so that the client's next read fails."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""
