"""Two workers of the proxy on Redis against one. Run with `python benchmarks/proxy/workers.py [--quick] [URL]`.

Clients at once, each with a session that grows by each of its requests:

  full   each sends its next request as soon as it has the answer: requests a second
  paced  at a rate that one worker can serve: what the proxy adds to the time of a request
  kill   as in full, while one of two workers is killed (`kill -9`): a client repeats a request that broke off. Then
         each session in the store is compared with what its client sent and received.

Starts a Redis for this, unless a URL is given; what is written there lives for an hour. Everything is repeated, one
worker and two in turn; the tables show medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

from client import Answer, Connection, middle
from rich.console import Console
from rich.table import Table
from run import check, cpu, ms, parties

from sessions import ARGUMENTS, SHAPES, Session
from wane.formats.anthropic import AnthropicFormat
from wane.journal import REPLY_NOTE, MessageRecord, NoteRecord
from wane.proxy.sessions.client_messages import reply_of, shape_of
from wane.proxy.store import open_store
from wane.proxy.store.stores import Store

WIRE, TOKENS = "anthropic", 20_000
RATE = 20.0  # clients that begin in a second; and, if paced, requests of all clients together
_SEEDS = count()


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure."""

    clients: int = 24  # at once
    turns: int = 16  # requests of each
    runs: int = 3  # how often


@dataclass(slots=True)
class Client:
    """A client with its session, which counts what it sent again."""

    session: Session  # its session, without the last answer
    answers: list[Answer] = field(default_factory=list)  # the answers that it has
    retries: int = 0  # requests that broke off, and were sent again

    async def live(self, url: str, turns: int, pause: float = 0.0, wait: float = 0.0) -> None:
        """Send requests; after each but the last, take in the answer.

        `url`: where to.
        `pause`: seconds from one request's beginning to the next one's.
        `wait`: seconds ahead of the first.
        """
        await asyncio.sleep(wait)
        connection = Connection(url)
        for turn in range(turns):
            begun = time.monotonic()
            if turn:
                self.session.go_on(self.answers[-1].text, self.answers[-1].call)
            try:
                answer = await connection.post(self.session.path, self.session.body())
            except (OSError, asyncio.IncompleteReadError):
                self.retries += 1
                connection = Connection(url)
                answer = await connection.post(self.session.path, self.session.body())
            self.answers.append(answer)
            await asyncio.sleep(max(0.0, begun + pause - time.monotonic()))
        await connection.close()


@contextmanager
def redis() -> Iterator[str]:
    """Run a Redis server that keeps nothing on disk; gives its URL."""
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        raise SystemExit("redis-server is not installed; install it, or give the URL of a server")
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/redis.sock"
        command = [binary, "--port", "0", "--unixsocket", place, "--save", "", "--appendonly", "no", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not answers(place):
                time.sleep(0.02)
            yield f"unix://{place}"
        finally:
            process.terminate()
            process.wait()


def answers(place: str) -> bool:
    """Whether a server takes connections at a socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(place) == 0


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def clients(number: int) -> list[Client]:
    """Return clients with sessions that nobody knows."""
    return [Client(Session(WIRE, TOKENS, next(_SEEDS), stream=True)) for _ in range(number)]


async def all_live(url: str, them: Sequence[Client], turns: int, *, paced: bool = False) -> float:
    """Have clients live at once; return the seconds that it took.

    They begin one after the other: connections that come together may all go to one worker.
    """
    begun = time.monotonic()
    pause = len(them) / RATE if paced else 0.0
    await asyncio.gather(*(it.live(url, turns, pause, number / RATE) for number, it in enumerate(them)))
    return time.monotonic() - begun


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run."""

    rate: float  # requests a second at full load
    processor: float  # processor time of all workers at full load, in milliseconds a request
    busiest: float  # the busiest worker's share of that
    # Milliseconds that the proxy adds to a request of a known session, at a rate that one worker can serve: median and
    # 95th percentile
    added: tuple[float, float]


def measure(store: str, workers: int, effort: Effort) -> Figures:
    with parties("--store", store, "--keep", "1h", "--workers", str(workers)) as (direct, proxy, pid):
        processes = ready(pid, workers)
        asyncio.run(all_live(proxy, clients(4 * workers), 2))
        before = [cpu(process) for process in processes]
        them = clients(effort.clients)
        seconds = asyncio.run(all_live(proxy, them, effort.turns))
        used = [cpu(process) - was for process, was in zip(processes, before, strict=True)]
        check_answers(them)
        times = []
        for url in (direct, proxy):
            paced = clients(effort.clients)
            asyncio.run(all_live(url, paced, effort.turns // 2, paced=True))
            check_answers(paced, managed=url == proxy)
            times.append(middle([1e3 * answer.whole for it in paced for answer in it.answers[1:]]))
        bare, around = times
    requests = effort.clients * effort.turns
    added = around[0] - bare[0], around[1] - bare[0]
    return Figures(requests / seconds, 1e3 * sum(used) / requests, max(used) / sum(used), added)


def ready(pid: int, workers: int) -> list[int]:
    """Return the processes that serve, once there are as many as there should be."""
    while workers > 1 and len(children(pid)) < workers:
        time.sleep(0.02)
    return children(pid) if workers > 1 else [pid]


def check_answers(them: Sequence[Client], *, managed: bool = True) -> None:
    """Stop at an answer that is not one."""
    for it in them:
        for answer in it.answers:
            check(answer, managed=managed)


@dataclass(frozen=True, slots=True)
class Killed:
    """The figures of a load during which a worker was killed."""

    requests: int  # requests, without retries
    answered: int  # complete answers
    retried: int  # requests that broke off and were sent again
    sessions: int  # clients
    whole: int  # sessions whose history in the store is the one that their client sent and received


def kill(store: str, effort: Effort) -> Killed:
    """Kill one of two workers while clients live."""
    with parties("--store", store, "--keep", "1h", "--workers", "2") as (_, proxy, pid):
        workers = ready(pid, 2)
        asyncio.run(all_live(proxy, clients(8), 2))
        before = {worker: cpu(worker) for worker in workers}
        them = clients(effort.clients)

        async def live_and_kill() -> int:
            life = asyncio.create_task(all_live(proxy, them, effort.turns))
            while sum(len(it.answers) for it in them) < effort.clients * effort.turns // 2:
                await asyncio.sleep(0.001)
            # The busiest, as another may have no client.
            os.kill(max(workers, key=lambda it: cpu(it) - before[it]), signal.SIGKILL)
            await life
            kept = open_store(store)
            try:
                return sum([await is_whole(kept, it) for it in them])
            finally:
                await kept.close()

        whole = asyncio.run(live_and_kill())
    check_answers(them)
    answered = sum(len(it.answers) for it in them)
    return Killed(effort.clients * effort.turns, answered, sum(it.retries for it in them), len(them), whole)


async def is_whole(store: Store, it: Client) -> bool:
    """Whether a client's session is in the store: all messages that it sent, and the last answer that it got."""
    ids = {session_of(answer) for answer in it.answers}
    if len(ids) > 1:
        return False
    records = await store.read(ids.pop())
    messages = [dict(record.message) for record in records if isinstance(record, MessageRecord)]
    replies = [reply_of(note) for note in records if isinstance(note, NoteRecord) and note.topic == REPLY_NOTE]
    shape = SHAPES[WIRE]
    sent = json.loads(it.session.body())[shape.field]
    (last,) = shape.reply(it.answers[-1].text, it.answers[-1].call, ARGUMENTS)
    return messages == sent and replies[-1].shape == shape_of(AnthropicFormat().parts(last))


def session_of(answer: Answer) -> str:
    return answer.head.partition(b"x-wane-session: ")[2].partition(b"\r\n")[0].decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="a Redis to use")
    parser.add_argument("--quick", action="store_true", help="measure less of each")
    options = parser.parse_args()
    with redis() if options.url is None else nullcontext(options.url) as url:
        tell(url, Effort(8, 6, 1) if options.quick else Effort())


def tell(store: str, effort: Effort) -> None:
    figures: dict[int, list[Figures]] = {1: [], 2: []}
    kills: list[Killed] = []
    for _ in range(effort.runs):
        for workers, found in figures.items():
            found.append(measure(store, workers, effort))
        kills.append(kill(store, effort))
    table = Table("workers", "requests a second", "processor, ms", "busiest worker", "added, ms")
    for workers, found in figures.items():
        table.add_row(
            str(workers),
            f"{median(it.rate for it in found):.0f}",
            f"{median(it.processor for it in found):.1f}",
            f"{median(it.busiest for it in found):.0%}",
            ms((median(it.added[0] for it in found), median(it.added[1] for it in found))),
        )
    ratio = median(two.rate / one.rate for one, two in zip(*figures.values(), strict=True))
    table.caption = (
        f"{effort.clients} clients of {TOKENS:,} tokens and {effort.turns} requests, streamed; the median of"
        f" {effort.runs} runs. Two workers answer {ratio:.2f} times as many requests as one, in the same run. Added:"
        f" median / 95th percentile at {RATE:.0f} requests a second, less the direct median."
    )
    console = Console()
    console.print(table)
    for it in kills:
        console.print(
            f"one of two workers killed: {it.answered} of {it.requests} requests answered, {it.retried} of them sent"
            f" twice; {it.whole} of {it.sessions} sessions whole in the store"
        )


if __name__ == "__main__":
    main()
