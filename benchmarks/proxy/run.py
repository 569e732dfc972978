"""Speed and memory of the proxy. Run with `python benchmarks/proxy/run.py [--quick] [SECTION...]`.

The proxy, the provider and the clients are processes of their own on loopback. Each request goes to the provider
directly and through the proxy, in turn, so that a busy machine slows both alike.

Sections:
  new     what a new session of 20,000 tokens takes of the processor, by part
  added   what the proxy adds to a request of 80,000 tokens, by protocol
  shadow  the same streamed: managed, with --shadow, and passed on as a request without tools is
  growth  the same by length of the client's history
  load    200 sessions that stream at once
  burst   200 sessions that begin at the same moment
  memory  what sessions take in memory, and what is left of them when they are idle
  large   a body of 100 MB
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from client import PIECES, Answer, Connection, middle
from rich.console import Console
from rich.table import Table
from sampled import PARTS, REST

from sessions import SHAPES, Session

HERE = Path(__file__).parent
NAMES = {"anthropic": "Messages", "openai": "Chat", "openai_responses": "Responses"}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure."""

    requests: int = 40  # measured requests of one kind
    begun: int = 200  # sessions that begin one after the other
    sessions: int = 200  # sessions that stream or begin at once
    remembered: tuple[int, ...] = (1, 100, 300)  # sessions in memory, by table row
    megabytes: int = 100  # size of the large body


QUICK = Effort(10, 50, 50, (1, 50), 20)
WARM = 3  # requests that are not counted
MANY = 400  # further pieces of a long reply


@contextmanager
def start_process(*command: str, sources: str = "") -> Iterator[tuple[int, str]]:
    """Run Python in a process; `sources` are the folders to import from first. Yield its id and its first line."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE,
        env={**os.environ, **({"PYTHONPATH": sources} if sources else {})},
    )
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


Parties = tuple[str, str, int]  # URLs of the provider and of the proxy, and the proxy's process id


@contextmanager
def parties(*more: str, program: Sequence[str] = ("-m", "wane.cli.main"), sources: str = "") -> Iterator[Parties]:
    """Run a provider and `wane proxy` before it.

    `more`: further options of the proxy; without `--store`, sessions are in a directory.
    `program`: what runs in place of `wane`.
    `sources`: the folders that the proxy is imported from; empty for those of this checkout.
    """
    with tempfile.TemporaryDirectory() as folder, start_process("upstream.py") as (_, port):
        upstream = f"http://127.0.0.1:{int(port)}"
        command = (*program, "proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", "--store", folder)
        with start_process(*command, *more, sources=sources) as (pid, line):
            found = re.search(r"http://[\d.:]+", line)
            assert found is not None, line
            yield upstream, found[0], pid


@dataclass(slots=True)
class Compared:
    """Requests of one session that were sent both directly and through the proxy, with the same bodies; in seconds."""

    direct: list[Answer] = field(default_factory=list)  # answers of the provider itself
    through: list[Answer] = field(default_factory=list)  # answers through the proxy
    begin: Answer | None = None  # the first answer through the proxy, which knew nothing of the history
    size: int = 0  # bytes of the last body
    used: float = 0.0  # processor time of the proxy for one request

    def added_time(self, of: Callable[[Answer], float]) -> tuple[float, float]:
        """Return the milliseconds that the proxy added to a time: the median and the 95th percentile.

        Both are compared with the direct median, as the noise of direct answers is not the proxy's.
        """
        direct, _ = middle([of(answer) for answer in self.direct])
        median, p95 = middle([of(answer) for answer in self.through])
        return 1e3 * (median - direct), 1e3 * (p95 - direct)


async def compare_session(parties: Parties, session: Session, requests: int, more: str = "") -> Compared:
    """Continue a session through the proxy, and send each of its requests directly too."""
    direct, proxy, pid = parties
    both = Compared()
    straight, around = Connection(direct), Connection(proxy)
    before = 0.0
    try:
        for number in range(WARM + requests):
            if number == WARM:
                before = cpu(pid)
            body = session.body()
            bare = await straight.post(session.path, body, more)
            answer = await around.post(session.path, body, more)
            check(answer, managed=session.managed)
            both.size = len(body)
            if number == 0:
                both.begin = answer
            if number >= WARM:
                both.direct.append(bare)
                both.through.append(answer)
            session.go_on(answer.text, answer.call)
        both.used = (cpu(pid) - before) / requests
    finally:
        await straight.close()
        await around.close()
    return both


def check(answer: Answer, *, managed: bool = True) -> None:
    """Stop at an error, or at a reply that the proxy did not manage as it should have."""
    if answer.status != 200 or b"x-wane-warning" in answer.head or managed != (b"x-wane-view" in answer.head):
        raise SystemExit(f"HTTP {answer.status}: {answer.head.decode()}{answer.data[:1_000].decode()}")


def ms(pair: tuple[float, float]) -> str:
    """Format a median and a 95th percentile of milliseconds."""
    return f"{pair[0]:.1f} / {pair[1]:.1f}"


def table_of(title: str, words: Sequence[str], figures: Sequence[str]) -> Table:
    """Return a table with columns of words, and right-aligned columns of figures."""
    table = Table(title=title)
    for column in words:
        table.add_column(column)
    for column in figures:
        table.add_column(column, justify="right")
    return table


def new(effort: Effort) -> Table:
    title = "Processor time of a new session of 20,000 tokens, in ms"
    table = table_of(title, ["part"], [NAMES[wire] for wire in SHAPES])
    columns: dict[str, dict[str, float]] = {}
    pieces: list[float] = []
    for wire in SHAPES:
        with parties() as (_, proxy, pid):
            asyncio.run(begin(wire, proxy, range(-WARM, 0)))
            before = cpu(pid)
            asyncio.run(begin(wire, proxy, range(effort.begun)))
            whole = 1e3 * (cpu(pid) - before) / effort.begun
            before, some = cpu(pid), range(effort.begun, effort.begun + effort.begun // 5)
            asyncio.run(begin(wire, proxy, some, f"x-bench-pace: {8 + MANY}/0.001\r\n"))
            pieces.append((1e3 * (cpu(pid) - before) / len(some) - whole) / MANY)
        with tempfile.TemporaryDirectory() as folder:
            samples = Path(folder) / "samples"
            with parties(program=("sampled.py", str(samples))) as (_, proxy, pid):
                asyncio.run(begin(wire, proxy, range(-WARM, 0)))
                os.kill(pid, signal.SIGUSR1)
                asyncio.run(begin(wire, proxy, range(effort.begun)))
            counts: dict[str, int] = json.loads(samples.read_text())
        columns[wire] = {part: whole * count / sum(counts.values()) for part, count in counts.items()}
    for part in (*dict.fromkeys(PARTS.values()), REST):
        table.add_row(part, *(f"{columns[wire].get(part, 0.0):.1f}" for wire in SHAPES))
    table.add_section()
    table.add_row("in all", *(f"{sum(columns[wire].values()):.1f}" for wire in SHAPES))
    table.add_row("each further piece of text", *(f"{piece:.2f}" for piece in pieces))
    table.caption = f"{effort.begun} sessions, one after the other, each with 75 to 111 messages and a streamed reply."
    return table


async def begin(wire: str, proxy: str, seeds: range, more: str = "") -> None:
    """Begin sessions of 20,000 tokens one after the other, each on a connection of its own."""
    for seed in seeds:
        session, connection = Session(wire, 20_000, seed, stream=True), Connection(proxy)
        check(await connection.post(session.path, session.body(), more))
        await connection.close()


def added(effort: Effort) -> Table:
    figures = ("direct", "processor", "whole reply", "first text", "first token", "a token")
    table = table_of("Added by the proxy to a request of 80,000 tokens, in ms", ("API", "reply"), figures)
    with parties() as both_ways:
        for number, wire in enumerate(SHAPES):
            for stream in (False, True):
                session = Session(wire, 80_000, 10 * number + stream, stream=stream)
                both = asyncio.run(compare_session(both_ways, session, effort.requests))
                row = [f"{1e3 * middle([it.whole for it in both.direct])[0]:.1f}", f"{1e3 * both.used:.1f}"]
                row.append(ms(both.added_time(lambda it: it.whole)))
                if stream:
                    row.append(ms(both.added_time(lambda it: it.first)))
                    row.append(ms(both.added_time(lambda it: it.ways[0])))
                    row.append(ms(both.added_time(lambda it: middle(list(it.ways))[0])))
                table.add_row(NAMES[wire], "streamed" if stream else "whole", *row)
    table.caption = (
        "Processor: of the proxy, for a request. The others: median / 95th percentile, less the direct median."
        " First text: from the sending of the request. First token, a token: from the provider's write to the client's"
        " read."
    )
    return table


def growth(effort: Effort) -> Table:
    figures = ("tokens", "messages", "MB", "processor", "added", "per MB", "unmanaged", "unknown", "view")
    table = table_of("Added to the first text by length of the history, in ms (Anthropic)", (), figures)
    with parties() as both_ways:
        for number, tokens in enumerate((20_000, 80_000, 200_000, 800_000)):
            session = Session("anthropic", tokens, number, stream=True)
            messages = session.messages
            both = asyncio.run(compare_session(both_ways, session, effort.requests // 2))
            bare = Session("anthropic", tokens, number, stream=True, tools=False)
            passed = asyncio.run(compare_session(both_ways, bare, effort.requests // 2))
            size = both.size / 1e6
            pair = both.added_time(lambda it: it.first)
            assert both.begin is not None
            table.add_row(
                f"{tokens:,}",
                f"{messages:,}",
                f"{size:.2f}",
                f"{1e3 * both.used:.1f}",
                ms(pair),
                f"{pair[0] / size:.1f}",
                f"{passed.added_time(lambda it: it.first)[0]:.1f}",
                f"{1e3 * both.begin.first:.0f}",
                f"{both.through[-1].number(b'x-wane-view'):,}",
            )
    table.caption = (
        "Unmanaged: a request of the same size without tools, which is passed on as it is. Unknown: the whole time of"
        " the first request of a history that the proxy does not know. View: tokens sent upstream."
    )
    return table


def load(effort: Effort) -> Table:
    title = f"{effort.sessions} sessions at once, 2 replies each of {PIECES} pieces of text in 2 s; times in ms"
    return crowd(effort, title, turns=2, spread=4)


def burst(effort: Effort) -> Table:
    title = f"{effort.sessions} sessions that begin at the same moment, with a reply of {PIECES} pieces in 2 s; in ms"
    return crowd(effort, title, turns=1, spread=0)


def crowd(effort: Effort, title: str, *, turns: int, spread: int) -> Table:
    figures = ("replies", "errors", "at once", "first text", "on the way", "CPU", "CPU a reply")
    table = table_of(title, ("API", "way"), figures)
    problems: list[str] = []
    for wire in SHAPES:
        with parties() as (direct, proxy, pid):
            asyncio.run(begin(wire, proxy, range(-WARM, 0)))
            for way, url in (("direct", direct), ("proxy", proxy)):
                before = cpu(pid)
                command = [str(HERE / "client.py"), url, wire, *map(str, (effort.sessions, turns, 20_000, spread))]
                done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True, cwd=HERE)
                came: dict[str, Any] = json.loads(done.stdout)
                problems += came["errors"]
                times = [ms((1e3 * median, 1e3 * p95)) for median, p95 in (came["first"], came["way"])]
                used = cpu(pid) - before
                row = [NAMES[wire], way, str(came["requests"]), str(len(came["errors"])), str(came["most"]), *times]
                if way == "proxy":
                    row += [f"{used / came['seconds']:.0%}", f"{1e3 * used / max(1, came['requests']):.1f}"]
                table.add_row(*row)
    table.caption = "\n".join(problems[:3]) or (
        "Bodies of 20,000 tokens. CPU: of the proxy, in shares of a core and in ms. Clients and provider are on the"
        " same machine."
    )
    return table


def memory(effort: Effort) -> Table:
    figures = ("in memory", "resident MB", "kB a session more")
    table = table_of("Memory of the proxy, with sessions of 80,000 tokens", ["requests of"], figures)
    done, last = 0, 0.0
    with parties() as (_, proxy, pid):
        for count in (0, *effort.remembered):
            asyncio.run(remember_sessions(proxy, range(done, count)))
            now = resident(pid)
            each = f"{1e3 * (now - last) / (count - done):.0f}" if done else ""
            table.add_row(f"{count} session{'s' * (count != 1)}", str(in_memory(proxy)), f"{now:.0f}", each)
            done, last = count, now
    some = effort.remembered[1]
    with parties("--idle", "2") as (_, proxy, pid):
        for begin in (0, some, 2 * some):
            asyncio.run(remember_sessions(proxy, range(begin, begin + some)))
            until = time.monotonic() + 20
            while in_memory(proxy) and time.monotonic() < until:
                time.sleep(0.1)
            name = f"{some} {'others' if begin else 'sessions'}, 2 s ago"
            table.add_row(name, str(in_memory(proxy)), f"{resident(pid):.0f}")
    return table


async def remember_sessions(proxy: str, seeds: range) -> None:
    """Have sessions of 80,000 tokens known to a proxy."""
    connection = Connection(proxy)
    for seed in seeds:
        session = Session("anthropic", 80_000, seed)
        check(await connection.post(session.path, session.body()))
    await connection.close()


def large(effort: Effort) -> Table:
    table = table_of(f"A body of {effort.megabytes} MB", ["way"], ("seconds", "peak MB", "other requests, ms"))
    session = Session("anthropic", effort.megabytes * 250_000, stream=True)
    body = session.body()
    with parties() as (direct, proxy, pid):
        for way, url in (("direct", direct), ("proxy, first", proxy), ("proxy, again", proxy)):
            seconds, others = asyncio.run(beside(url, session, body))
            peak = f"{status_of(pid, 'VmHWM'):,.0f}" if url == proxy else ""
            table.add_row(way, f"{seconds:.2f}", peak, f"up to {1e3 * max(others):.0f}" if others else "")
    return table


async def beside(url: str, session: Session, body: bytes) -> tuple[float, list[float]]:
    """Send a large request while a small session continues; return its seconds, and those of the small requests."""
    big, small = Connection(url), Connection(url)
    other = Session("anthropic", 5_000, 7)
    others: list[float] = []
    task = asyncio.create_task(big.post(session.path, body))
    while not task.done():
        answer = await small.post(other.path, other.body())
        others.append(answer.whole)
        other.go_on(answer.text, answer.call)
        await asyncio.sleep(0.02)
    answer = await task
    assert answer.status == 200, answer.data[:500]
    await big.close()
    await small.close()
    return answer.whole, others


def status_of(pid: int, field_: str) -> float:
    """Return a size of a process in MB; 0 if the system does not report it."""
    path = Path(f"/proc/{pid}/status")
    found = re.search(rf"{field_}:\s*(\d+) kB", path.read_text()) if path.exists() else None
    return int(found[1]) / 1_000 if found else 0.0


def resident(pid: int) -> float:
    return status_of(pid, "VmRSS")


def cpu(pid: int) -> float:
    """Return the processor time of a process in seconds; 0 if the system does not report it."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        return 0.0
    user, system = path.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / 100


def shadow(effort: Effort) -> Table:
    figures = ("processor", "whole reply", "first text", "a token")
    table = table_of("Added to a streamed request of 80,000 tokens, in ms", ("API", "proxy"), figures)
    with parties() as managing, parties("--shadow") as watching:
        for number, wire in enumerate(SHAPES):
            for name, both_ways in (("manages", managing), ("watches", watching), ("passes on", managing)):
                session = Session(wire, 80_000, number, stream=True, tools=name != "passes on")
                session.managed = name == "manages"
                both = asyncio.run(compare_session(both_ways, session, effort.requests))
                row = [
                    f"{1e3 * both.used:.1f}",
                    ms(both.added_time(lambda it: it.whole)),
                    ms(both.added_time(lambda it: it.first)),
                ]
                table.add_row(NAMES[wire], name, *row, ms(both.added_time(lambda it: middle(list(it.ways))[0])))
    table.caption = "Median / 95th percentile, less the direct median."
    return table


def in_memory(proxy: str) -> int:
    with urlopen(f"{proxy}/wane/status", timeout=10) as answer:
        return int(json.load(answer)["sessions_in_memory"])


SECTIONS: dict[str, Callable[[Effort], Table]] = {
    section.__name__: section for section in (new, added, shadow, growth, load, burst, memory, large)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="measure less of each")
    options = parser.parse_args()
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"there is no section {unknown[0]!r}; known: {', '.join(SECTIONS)}")
    console = Console()
    start = time.monotonic()
    for name in options.sections or SECTIONS:
        console.print(SECTIONS[name](QUICK if options.quick else Effort()))
    console.print(f"{time.monotonic() - start:.0f} s in all")


if __name__ == "__main__":
    main()
