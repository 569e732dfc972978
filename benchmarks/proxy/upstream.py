"""A provider for measurements, in a process of its own: it gives every request the same reply.

Each piece of text is the time at which it was written, so that a client can tell how long it was on its way.

    python benchmarks/proxy/upstream.py

prints its port, and serves until it is ended. A request's header `x-bench-pace: 40/0.025` asks for 40 pieces, 0.025
seconds apart.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from functools import cache
from itertools import count
from typing import Final

from sessions import ARGUMENTS, SHAPES
from wane.testing.anthropic import Anthropic
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.script import Call, Reply, Usage
from wane.testing.sent_request import Request
from wane.testing.wire import Provider, ScriptedEvent

# Placeholders of the prepared replies: for the time, for the call's id, and for the tokens of the request.
TEXT, CALL, TOKENS = b"@text@", b"call_id_placeholder", 987_654_321

PROVIDERS: Final[dict[str, Provider]] = {
    SHAPES["anthropic"].path: Anthropic(),
    SHAPES["openai"].path: OpenAIChat(),
    SHAPES["openai_responses"].path: OpenAIResponses(),
}
_WIRES: Final = {shape.path: shape for shape in SHAPES.values()}
_REPLY: Final = Reply(text=TEXT.decode(), calls=(Call("read", ARGUMENTS, id=CALL.decode()),))
_USAGE: Final = Usage(TOKENS, 60)
_NUMBERS: Final = count(1)

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PACE: Final = re.compile(rb"\r\nx-bench-pace: *(\d+)/([\d.]+)", re.IGNORECASE)
_WHOLE: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_STREAM: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@cache
def whole(path: str) -> bytes:
    return json.dumps(PROVIDERS[path].answer(_request(path), _REPLY, _USAGE)).encode()


@cache
def stream(path: str, pieces: int) -> list[tuple[bytes, bool]]:
    """Return a prepared reply's events, each with whether it is a piece of text."""
    events: list[tuple[bytes, bool]] = []
    # A short text, as the scripted provider cuts a long one.
    for event in PROVIDERS[path].stream(_request(path), Reply(text="\0", calls=_REPLY.calls), _USAGE):
        piece = _is_piece(event)
        for _ in range(pieces if piece else 1):
            data = event.data
            if not isinstance(data, str) and "sequence_number" in data:
                data = {**data, "sequence_number": len(events)}
            events.append((ScriptedEvent(data, event.name).encode().replace(b"\\u0000", TEXT), piece))
    return events


def _request(path: str) -> Request:
    shape = _WIRES[path]
    body = {**shape.frame, shape.field: [shape.user("Go on.")], "stream": True}
    return PROVIDERS[path].parse(b"", body, {}, 0)


def _is_piece(event: ScriptedEvent) -> bool:
    data = event.data
    if isinstance(data, str):
        return False
    choice = (data.get("choices") or [{}])[0]
    delta = data.get("delta") or choice.get("delta") or {}
    return delta == "\0" or (isinstance(delta, dict) and "\0" in (delta.get("text"), delta.get("content")))


def now() -> bytes:
    """The time in nanoseconds, which is the same in all processes of a machine, as a word of text."""
    return b"t%018d " % time.monotonic_ns()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            assert length is not None, head
            body = await reader.readexactly(int(length[1]))
            path = head.split(b" ", 2)[1].decode()
            known = {CALL: b"call_%d" % next(_NUMBERS), b"%d" % TOKENS: b"%d" % (len(body) // 4)}
            if b'"stream":true' in body:
                pace = _PACE.search(head)
                pieces, seconds = (int(pace[1]), float(pace[2])) if pace else (8, 0.002)
                await _say(path, known, writer, pieces, seconds)
            else:
                data = _fill_values(whole(path), {**known, TEXT: now()})
                writer.write(_WHOLE % (len(data), data))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _say(path: str, known: dict[bytes, bytes], writer: asyncio.StreamWriter, pieces: int, seconds: float) -> None:
    writer.write(_STREAM)
    said = b""
    for event, piece in stream(path, pieces):
        text = said  # of an event that repeats the whole text
        if piece:
            text = now()
            said += text
        data = _fill_values(event, {**known, TEXT: text})
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        if piece and seconds:
            await asyncio.sleep(seconds)
    writer.write(b"0\r\n\r\n")


def _fill_values(data: bytes, known: dict[bytes, bytes]) -> bytes:
    for name, value in known.items():
        data = data.replace(name, value)
    return data


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
