"""Whether the proxy's memory grows with the requests that it has answered. Run with `python benchmarks/proxy/soak.py`.

25 clients send 10,000 requests. Each has one session after the other, of 40 requests from 20,000 tokens on. With
`--idle 5` sessions leave memory soon, so what remains are those of the moment: resident memory after 5,000 and after
10,000 requests should be the same. Without it (`--keep`), each conversation stays, and the memory for each is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from itertools import count

from client import Connection
from rich.console import Console
from run import Parties, check, in_memory, parties, resident, table_of

from sessions import Session

CLIENTS = 25
TURNS = 40  # requests of a session
ROWS = 10  # of the table
SETTLED = 12.0  # seconds after which sessions that are idle for five have left memory


async def answer_some(proxy: str, requests: int, seeds: count[int]) -> None:
    """Have a number of requests answered."""
    left = count()

    async def live() -> None:
        connection = Connection(proxy)
        turns, session = 0, Session("anthropic", 20_000, next(seeds), stream=True)
        while next(left) < requests:
            if turns == TURNS:
                turns, session = 0, Session("anthropic", 20_000, next(seeds), stream=True)
            answer = await connection.post(session.path, session.body(), "x-bench-pace: 8/0\r\n")
            if answer.status == 504:
                continue  # the provider had no time, on a busy machine: it is asked again
            check(answer)
            session.go_on(answer.text, answer.call)
            turns += 1
        await connection.close()

    await asyncio.gather(*(live() for _ in range(CLIENTS)))


def measure(running: Parties, requests: int, *, keep: bool) -> list[tuple[int, float, int]]:
    """Return the resident megabytes and the sessions in memory after each tenth of the requests."""
    _, proxy, pid = running
    figures: list[tuple[int, float, int]] = [(0, resident(pid), 0)]
    seeds = count()
    for row in range(1, ROWS + 1):
        asyncio.run(answer_some(proxy, requests // ROWS, seeds))
        until = time.monotonic() + (0 if keep else SETTLED)
        while in_memory(proxy) and time.monotonic() < until:
            time.sleep(0.2)
        figures.append((row * requests // ROWS, resident(pid), in_memory(proxy)))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--keep", action="store_true", help="keep all conversations in memory")
    options = parser.parse_args()
    table = table_of("Memory by requests answered", (), ("requests", "resident MB", "sessions in memory"))
    with parties(*(() if options.keep else ("--idle", "5"))) as running:
        figures = measure(running, options.requests, keep=options.keep)
    for requests, megabytes, sessions in figures:
        table.add_row(f"{requests:,}", f"{megabytes:.0f}", str(sessions))
    half, last = figures[ROWS // 2], figures[-1]
    growth = last[1] - half[1]
    table.caption = f"From half of the requests to all: {growth:+.1f} MB, {growth / half[1]:+.1%}."
    if last[2] > half[2]:
        table.caption += f" {1e3 * growth / (last[2] - half[2]):.0f} kB for each further conversation in memory."
    Console().print(table)


if __name__ == "__main__":
    main()
