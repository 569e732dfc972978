"""Reads and decodes the bodies of model requests, within limits of size and time."""

from __future__ import annotations

import asyncio
import importlib
import zlib
from collections.abc import Callable
from typing import Any, Final

from wane.proxy import jsons
from wane.proxy.http import headers
from wane.proxy.http.client import Client
from wane.proxy.http.faults import RefusedError

LARGE: Final = 1024 * 1024
"""Bytes above which a body is processed in a thread, not in the event loop."""

_LINGER: Final = 2.0  # seconds for which a refused client may still send, so that it reads the answer
_WINDOW: Final = 8 * 1024 * 1024  # bytes, the largest zstd window over HTTP (RFC 9659)


class UnknownEncodingError(Exception):
    """A body cannot be decoded: its encoding is unknown, or it is damaged."""


async def read_body(client: Client, sent: headers.Headers, most: int, seconds: float) -> bytes:
    """Read a request's body.

    Args:
        client: the client.
        sent: the request's headers.
        most: bytes that it may have.
        seconds: how long it may take.

    Raises:
        RefusedError: if it is longer, or takes longer.
        ClientGoneError: if the client disconnects.
    """
    declared = headers.first(sent, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > most:
        if headers.first(sent, b"expect") is None:
            await _linger(client)
        raise _too_large(most)
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in client.pieces():
                size += len(piece)
                if size > most:
                    break
                pieces.append(piece)
    except TimeoutError:
        raise RefusedError(408, f"the request's body did not arrive within {seconds:g} seconds", close=True) from None
    if size > most:
        pieces.clear()
        await _linger(client)
        raise _too_large(most)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def decode_body(body: bytes, sent: headers.Headers, most: int) -> bytes:
    """Undo a body's content encoding.

    Args:
        body: the body as received.
        sent: the request's headers.
        most: bytes that it may have decoded.

    Raises:
        UnknownEncodingError: if the encoding is unknown, or the body is not in it.
        RefusedError: if it is longer.
    """
    names = [it for it in headers.tokens(headers.every(sent, b"content-encoding")) if it != b"identity"]
    if not names:
        return body
    if len(names) > 1 or names[0] not in _DECODERS:
        raise UnknownEncodingError(f"its content encoding {b', '.join(sorted(names)).decode('latin-1')!r} is unknown")
    decode, name = _DECODERS[names[0]], names[0].decode()
    try:
        plain = await asyncio.to_thread(decode, body, most) if len(body) > LARGE // 16 else decode(body, most)
    except (UnknownEncodingError, RefusedError):
        raise
    except Exception as error:
        raise UnknownEncodingError(f"it is not valid {name}") from error
    if len(plain) > most:
        raise _too_large(most)
    return plain


async def parsed(data: bytes) -> Any:
    """Parse JSON, in a thread if it is long.

    Raises:
        ValueError: if it is not valid JSON.
    """
    return await asyncio.to_thread(jsons.loads, data) if len(data) > LARGE else jsons.loads(data)


async def dumped(data: object, size: int) -> bytes:
    """Return data as JSON, written in a thread if it is likely to be long.

    Args:
        data: JSON data.
        size: bytes that it had when it was received.

    Raises:
        ValueError: if it is not JSON data.
    """
    return await asyncio.to_thread(jsons.dumps, data) if size > LARGE else jsons.dumps(data)


async def _linger(client: Client) -> None:
    """Read on for a moment: if the connection closed at once, the client would lose the answer."""
    try:
        async with asyncio.timeout(_LINGER):
            async for _ in client.pieces():
                pass
    except (TimeoutError, RefusedError):
        pass


def _too_large(most: int) -> RefusedError:
    return RefusedError(413, f"the request's body has over {most:,} bytes, more than this proxy accepts", close=True)


# Each decoder returns at most one byte more than is allowed, and takes no more memory than that.


def _gzip(body: bytes, most: int) -> bytes:
    return _inflated(body, most, 31)


def _deflate(body: bytes, most: int) -> bytes:
    # The standard says zlib's format, but some clients send raw deflate.
    try:
        return _inflated(body, most, 15)
    except zlib.error:
        return _inflated(body, most, -15)


def _inflated(body: bytes, most: int, form: int) -> bytes:
    plain = bytearray()
    # A gzip body may have several members.
    while True:
        decoder = zlib.decompressobj(form)
        plain += decoder.decompress(body, most + 1 - len(plain))
        if len(plain) > most:
            return bytes(plain)
        if not decoder.eof:
            raise UnknownEncodingError("it is cut off")
        body = decoder.unused_data
        if not body or form != 31:
            return bytes(plain)


def _zstd(body: bytes, most: int) -> bytes:
    decoder = _module("zstandard").ZstdDecompressor(max_window_size=_WINDOW)
    with decoder.stream_reader(body, read_across_frames=True) as reader:
        return bytes(reader.read(most + 1))


def _brotli(body: bytes, most: int) -> bytes:
    decoder = _module("brotli").Decompressor()
    plain = bytearray(decoder.process(body, output_buffer_limit=most + 1))
    while not decoder.is_finished() and len(plain) <= most:
        if decoder.can_accept_more_data():
            raise UnknownEncodingError("it is cut off")
        plain += decoder.process(b"", output_buffer_limit=most + 1 - len(plain))
    return bytes(plain)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UnknownEncodingError(f"the package {name}, which is needed to decode it, is not installed") from None


_DECODERS: Final[dict[bytes, Callable[[bytes, int], bytes]]] = {
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": _deflate,
    b"zstd": _zstd,
    b"br": _brotli,
}
