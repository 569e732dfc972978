"""Processor time of two checkouts' proxies. Run with `python benchmarks/proxy/against.py [--calls] OTHER [ROW...]`.

OTHER is a second checkout of the repository, such as `git worktree add ../other COMMIT` makes. Both proxies run the
same interpreter and get the same requests in turn, so a busy machine slows both alike. What a request takes is the
processor time of its proxy, threads included, until the next one: also what is done after the reply. On a busy machine
the ratios differ by a tenth from run to run; with --calls, the calls of functions are counted instead, in the rows of
one request.

Rows:
  managed   a known session that stays within its budget, 595 kB
  evicting  the same with the default budget
  large     the same of 2.2 MB
  shadow    the first, with --shadow
  passed    the first without tools, which is passed on as it is
  small     a known session, 83 kB
  new       the first request of a session, 102 kB
  memory    resident memory after 200 sessions of 80,000 tokens, in MB
  rate      requests a second of processor time, of 20 clients at once, 83 kB and more
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from client import Connection
from run import WARM, Parties, check, parties, remember_sessions, resident

from sessions import Session

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 20  # at once
SESSIONS = 200  # in memory


@dataclass(frozen=True, slots=True)
class Row:
    """A known session that goes on.

    Attributes:
        tokens: approximate size of its first request, at four characters a token.
        result: tokens of each result.
        budget: the proxy's budget; empty for the default.
        option: a further option of the proxy.
        tools: whether its requests have tools.
    """

    tokens: int
    result: int = 480
    budget: str = ""
    option: str = ""
    tools: bool = True


KNOWN = {
    "managed": Row(148_000, 1_000, budget="400k"),
    "evicting": Row(148_000, 1_000),
    "large": Row(550_000, 1_000, budget="900k"),
    "shadow": Row(148_000, 1_000, budget="400k", option="--shadow"),
    "passed": Row(135_000, 1_000, tools=False),
    "small": Row(20_000),
}


@contextmanager
def both(other: Path, *options: str, counts: Sequence[Path] = ()) -> Iterator[list[Parties]]:
    """Run the proxy of the other checkout, and that of this one; with files for the counts, by `counted.py`."""
    with ExitStack() as stack:
        pairs = []
        for number, checkout in enumerate((other, ROOT)):
            sources = os.pathsep.join(str(checkout / part) for part in ("src", "research/src"))
            program = ("counted.py", str(counts[number])) if counts else ("-m", "wane.cli.main")
            pairs.append(stack.enter_context(parties(*options, program=program, sources=sources)))
        yield pairs


def processor_time(pid: int) -> float:
    """Return the processor time of a process in seconds, threads included."""
    return time.clock_gettime((~pid << 3) | 2)  # as `clock_getcpuclockid` of the C library


def begin_count(pid: int, number: int) -> None:
    """Let a proxy that counts begin to, at the first request that counts."""
    if number == WARM and b"counted.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
        os.kill(pid, signal.SIGUSR1)


def measure_known(pairs: list[Parties], row: Row, rounds: int) -> tuple[float, float]:
    """Return the median milliseconds that a request of a known session takes in either proxy."""
    return asyncio.run(_measure_known(pairs, row, rounds))


async def _measure_known(pairs: list[Parties], row: Row, rounds: int) -> tuple[float, float]:
    sessions = [Session("anthropic", row.tokens, stream=True, tools=row.tools, result=row.result) for _ in pairs]
    connections = [Connection(proxy) for _, proxy, _ in pairs]
    times: list[list[float]] = [[] for _ in pairs]
    marks = [0.0 for _ in pairs]
    for number in range(WARM + rounds + 1):
        for side, (session, connection, (_, _, pid)) in enumerate(zip(sessions, connections, pairs, strict=True)):
            begin_count(pid, number)
            now = processor_time(pid)
            if number > WARM:
                times[side].append(1e3 * (now - marks[side]))
            marks[side] = now
            answer = await connection.post(session.path, session.body())
            check(answer, managed=row.tools and not row.option)
            session.go_on(answer.text, answer.call)
    for connection in connections:
        await connection.close()
    return statistics.median(times[0]), statistics.median(times[1])


async def _new(pairs: list[Parties], rounds: int) -> tuple[float, float]:
    times: list[list[float]] = [[] for _ in pairs]
    marks = [0.0 for _ in pairs]
    for number in range(WARM + rounds + 1):
        for side, (_, proxy, pid) in enumerate(pairs):
            begin_count(pid, number)
            now = processor_time(pid)
            if number > WARM:
                times[side].append(1e3 * (now - marks[side]))
            marks[side] = now
            session, connection = Session("anthropic", 25_000, number, stream=True), Connection(proxy)
            check(await connection.post(session.path, session.body()))
            await connection.close()
    return statistics.median(times[0]), statistics.median(times[1])


def new(pairs: list[Parties], rounds: int) -> tuple[float, float]:
    """Return the median milliseconds that a session's first request takes in either proxy."""
    return asyncio.run(_new(pairs, rounds))


def memory(pairs: list[Parties], _: int) -> tuple[float, float]:
    """Return the resident megabytes of either proxy after 200 sessions."""
    sizes = []
    for _, proxy, pid in pairs:
        asyncio.run(remember_sessions(proxy, range(SESSIONS)))
        sizes.append(resident(pid))
    return sizes[0], sizes[1]


async def _crowd(proxy: str, turns: int) -> int:
    async def live(seed: int) -> int:
        session, connection = Session("anthropic", 20_000, seed, stream=True), Connection(proxy)
        for _ in range(turns):
            answer = await connection.post(session.path, session.body())
            check(answer)
            session.go_on(answer.text, answer.call)
        await connection.close()
        return turns

    return sum(await asyncio.gather(*(live(seed) for seed in range(CLIENTS))))


def rate(pairs: list[Parties], rounds: int) -> tuple[float, float]:
    """Return the requests that either proxy answers in a second of its processor time."""
    rates = []
    for _, proxy, pid in pairs:
        asyncio.run(_crowd(proxy, 1))
        before = processor_time(pid)
        count = asyncio.run(_crowd(proxy, rounds))
        time.sleep(0.2)
        rates.append(count / (processor_time(pid) - before))
    return rates[0], rates[1]


OTHERS: dict[str, Callable[[list[Parties], int], tuple[float, float]]] = {"new": new, "memory": memory, "rate": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", action="store_true", help="count the calls of functions instead")
    options = parser.parse_args()
    others = ["new"] if options.calls else [*OTHERS]
    names = options.rows or [*KNOWN, *others]
    folder = tempfile.TemporaryDirectory()  # until the end
    files = [Path(folder.name, side) for side in ("other", "this")]
    counts = files if options.calls else []
    commit = subprocess.run(
        ["git", "-C", options.other, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    )
    print(f"{'row':10} {commit.stdout.strip():>10} {'this':>10} {'ratio':>7}")
    for name in names:
        row = KNOWN.get(name)
        flags: list[str] = []
        if row is not None and row.budget:
            flags += ["--budget", row.budget]
        if row is not None and row.option:
            flags.append(row.option)
        with both(options.other.resolve(), *flags, counts=counts) as pairs:
            if row is None:
                before, after = OTHERS[name](pairs, options.rounds)
            else:
                before, after = measure_known(pairs, row, options.rounds)
        if counts:
            before, after = (int(count.read_text()) / (options.rounds + 1) for count in counts)
        print(f"{name:10} {before:10.2f} {after:10.2f} {after / before:7.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
