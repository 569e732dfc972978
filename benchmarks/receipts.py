"""What receipts cost in bytes and in time. Run with `python benchmarks/receipts.py FILE...`, recordings of Claude Code.

Each recording is sent anew, request by request, through the proxy's index of sessions with files, with a client's tools
and cache breakpoints: with no records of requests, with digests only, and whole. Milliseconds are of the processor, for
each request: from the client's body to the record of the reply, and of these the part that records the request.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "proxy"))

from rich.console import Console
from rich.table import Table

from sessions import SHAPES
from wane.conversation import ContextSettings
from wane.journal import SessionStore, read, sent_requests
from wane.prices import TokenUsage
from wane.proxy import jsons
from wane.proxy.server.exchange import Exchange
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.wire import Round

MODES = ("none", "digests", "whole")


def messages_of(path: Path) -> list[dict[str, Any]]:
    """Return the messages of a recording, with alternating roles."""
    messages: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        data = json.loads(line)
        if data.get("type") not in ("user", "assistant") or data.get("isSidechain"):
            continue
        role, content = data["message"]["role"], data["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] = [*messages[-1]["content"], *blocks]
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def requests_of(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the body of each request and its answer."""
    for number, message in enumerate(messages):
        if message["role"] != "assistant" or not number:
            continue
        last = dict(messages[number - 1])
        last["content"] = [*last["content"][:-1], {**last["content"][-1], "cache_control": {"type": "ephemeral"}}]
        yield {**SHAPES["anthropic"].frame, "messages": [*messages[: number - 1], last]}, message


async def live(path: Path, mode: str, root: Path) -> tuple[Path, list[float], list[float], int]:
    """Send a recording; return its journal, the times of whole requests and of recording them, and the bytes sent."""
    wire = AnthropicWire()
    index = SessionIndex(DiskStore(SessionStore(root)), ContextSettings(), keep_requests=mode == "whole")
    whole, recording, sent = list[float](), list[float](), 0
    for body, answer in requests_of(messages_of(path)):
        begun = time.process_time()
        exchange = Exchange(index, wire, body)
        await exchange.locate()
        content = jsons.dumps(exchange.body)
        if mode == "none":
            exchange.cached.receipts = None
        ready = time.process_time()
        await exchange.send_body(content, "https://api.anthropic.com/v1/messages")
        recorded = time.process_time()
        await exchange.record(Round(answer, usage=TokenUsage(input=len(content) // 4, output=9)))
        whole.append(time.process_time() - begun)
        recording.append(recorded - ready)
        sent += len(content)
    await index.close()
    (journal,) = root.rglob("*Z-*.jsonl")
    return journal, whole, recording, sent


def main() -> None:
    table = Table(
        "recording", "requests", "sent MB", *(f"{mode} MB" for mode in MODES), "ms none", "ms whole", "of it", "p95"
    )
    for name in sys.argv[1:]:
        row, size = [Path(name).stem[:24]], dict[str, int]()
        times, shares = dict[str, list[float]](), dict[str, list[float]]()
        for mode in MODES:
            with tempfile.TemporaryDirectory() as root:
                journal, times[mode], shares[mode], sent = asyncio.run(live(Path(name), mode, Path(root)))
                size[mode] = journal.stat().st_size
                states = {request.state for request in sent_requests(read(journal).records)}
            assert states == {"none": set(), "digests": {"not kept"}, "whole": {"identical"}}[mode], states
        row += [f"{len(times['whole'])}", f"{sent / 1e6:.1f}", *(f"{size[mode] / 1e6:.2f}" for mode in MODES)]
        p95 = sorted(shares["whole"])[len(shares["whole"]) * 95 // 100]
        ms = (median(times["none"]), median(times["whole"]), median(shares["whole"]), p95)
        table.add_row(*row, *(f"{1_000 * seconds:.1f}" for seconds in ms))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
