"""Wane's proxy beside mitmproxy, LiteLLM, headroom and a bare relay (`relay.py`), in processor time.

Each of the others is in an environment of its own, since their requirements conflict:

    python -m venv /tmp/mitmproxy && /tmp/mitmproxy/bin/pip install mitmproxy
    python -m venv /tmp/litellm && /tmp/litellm/bin/pip install "litellm[proxy]"
    python -m venv /tmp/headroom && /tmp/headroom/bin/pip install "headroom-ai[proxy]"
    python benchmarks/proxy/others.py --mitmproxy /tmp/mitmproxy --litellm /tmp/litellm --headroom /tmp/headroom

All run at once before the same provider, and get the same requests in turn, so a busy machine slows all alike. What a
request takes is the processor time of its proxy, threads and child processes included, until the next one.

They do different things: mitmproxy passes on (streaming, without a script), LiteLLM routes and prices, headroom
compresses what it can without a model (offline), Wane manages, records and receipts each request, or with `--shadow`
only watches, and the relay passes on, with the server and the HTTP client that Wane uses.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from against import CLIENTS, KNOWN, Row, processor_time
from client import Answer, Connection
from rich.console import Console
from run import WARM, resident, start_process, table_of

from sessions import Session

READY = 120.0  # seconds until a proxy must listen


@dataclass(frozen=True, slots=True)
class Contender:
    """A proxy that runs.

    Attributes:
        name: its name and version.
        url: its URL.
        pid: its process id.
    """

    name: str
    url: str
    pid: int

    def family(self) -> list[int]:
        """Return the ids of its process and of all processes below it."""
        pids = [self.pid]
        for pid in pids:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
        return pids

    def processor_time(self) -> float:
        """Return its processor time in seconds."""
        return sum(map(processor_time, self.family()))

    def resident(self) -> float:
        """Return its resident megabytes."""
        return sum(map(resident, self.family()))


LITELLM = """model_list:
  - model_name: "*"
    litellm_params: {{model: "anthropic/*", api_base: "{upstream}", api_key: none}}
"""


@contextmanager
def running(name: str, command: Sequence[str], port: int, folder: str, **settings: str) -> Iterator[Contender]:
    """Run a proxy, from the moment it listens at a port until the block ends. Its home is a folder of its own."""
    environ = {**os.environ, "HOME": folder, "HF_HUB_OFFLINE": "1", **settings}
    environ.pop("PYTHONPATH", None)
    with (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environ, cwd=folder)
    try:
        until = time.monotonic() + READY
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} does not listen: {(Path(folder) / 'log').read_text()[-2_000:]}")
            time.sleep(0.2)
        yield Contender(name, f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).close()
    except HTTPError:
        return True
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _version(environment: Path, package: str) -> str:
    listed = subprocess.run(
        [environment / "bin/python", "-c", f"from importlib.metadata import version; print(version({package!r}))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.strip()


@contextmanager
def contenders(options: argparse.Namespace) -> Iterator[list[Contender]]:
    """Run a provider, and before it Wane, Wane that watches, the relay, and the others that have an environment."""
    with ExitStack() as stack:
        _, port = stack.enter_context(start_process("upstream.py"))
        upstream = f"http://127.0.0.1:{int(port)}"
        everyone: list[Contender] = []
        for name, more in (("Wane", ()), ("Wane --shadow", ("--shadow",))):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            command = ("-m", "wane.cli.main", "proxy", "--upstream", upstream, "--listen", "127.0.0.1:0")
            pid, line = stack.enter_context(start_process(*command, "--store", folder, "--budget", "400k", *more))
            found = re.search(r"http://[\d.:]+", line)
            assert found is not None, line
            everyone.append(Contender(name, found[0], pid))
        pid, line = stack.enter_context(start_process("relay.py", upstream))
        everyone.append(Contender("bare relay", line.strip(), pid))

        def run(name: str, environment: Path, package: str, *command: str, **settings: str) -> None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            (Path(folder) / "litellm.yaml").write_text(LITELLM.format(upstream=upstream))
            own_port = _free_port()
            words = [word.format(port=own_port, upstream=upstream) for word in command]
            program = [str(environment / "bin" / words[0]), *words[1:]]
            label = f"{name} {_version(environment, package)}"
            everyone.append(stack.enter_context(running(label, program, own_port, folder, **settings)))

        if options.mitmproxy:
            reverse = ("mitmdump", "-q", "--mode", "reverse:{upstream}", "--set", "stream_large_bodies=1")
            run("mitmproxy", options.mitmproxy, "mitmproxy", *reverse, "--listen-port", "{port}")
        if options.litellm:
            serve = ("litellm", "--config", "litellm.yaml", "--host", "127.0.0.1", "--port", "{port}")
            local = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
            open_ = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
            run("LiteLLM", options.litellm, "litellm", *serve, **local, **open_)
        if options.headroom:
            serve = ("headroom", "proxy", "--port", "{port}", "--no-rate-limit", "--no-subscription-tracking")
            quiet = {"HEADROOM_TELEMETRY": "off", "HEADROOM_UPDATE_CHECK": "off", "ANTHROPIC_TARGET_API_URL": upstream}
            run("headroom", options.headroom, "headroom-ai", *serve, **quiet)
        yield everyone


def check(contender: Contender, answer: Answer) -> None:
    """Stop at an error."""
    if answer.status != 200 or not answer.text:
        raise SystemExit(
            f"{contender.name}: HTTP {answer.status}: {answer.head.decode()}{answer.data[:1_000].decode()}"
        )


async def ask_known(everyone: Sequence[Contender], row: Row, rounds: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of the processor for a request of a known session, and those to its first text."""
    sessions = [Session("anthropic", row.tokens, stream=True, result=row.result) for _ in everyone]
    connections = [Connection(contender.url) for contender in everyone]
    times: list[list[float]] = [[] for _ in everyone]
    firsts: list[list[float]] = [[] for _ in everyone]
    marks = [0.0 for _ in everyone]
    for number in range(WARM + rounds + 1):
        for side, contender in enumerate(everyone):
            now = contender.processor_time()
            session = sessions[side]
            answer = await connections[side].post(session.path, session.body())
            check(contender, answer)
            if number > WARM:
                times[side].append(1e3 * (now - marks[side]))
                firsts[side].append(1e3 * answer.first)
            marks[side] = now
            session.go_on(answer.text, answer.call)
    for connection in connections:
        await connection.close()
    return [*map(statistics.median, times)], [*map(statistics.median, firsts)]


async def ask_new(everyone: Sequence[Contender], rounds: int) -> list[float]:
    """Return the milliseconds of the processor for the first request of a session."""
    times: list[list[float]] = [[] for _ in everyone]
    marks = [0.0 for _ in everyone]
    for number in range(WARM + rounds + 1):
        for side, contender in enumerate(everyone):
            now = contender.processor_time()
            if number > WARM:
                times[side].append(1e3 * (now - marks[side]))
            marks[side] = now
            session, connection = Session("anthropic", 25_000, number, stream=True), Connection(contender.url)
            check(contender, await connection.post(session.path, session.body()))
            await connection.close()
    return [*map(statistics.median, times)]


async def ask_at_once(contender: Contender, turns: int) -> float:
    """Return the requests that a proxy answers in a second of its processor time, of 20 clients at once."""

    async def live(seed: int) -> None:
        session, connection = Session("anthropic", 20_000, seed, stream=True), Connection(contender.url)
        for _ in range(turns):
            answer = await connection.post(session.path, session.body())
            check(contender, answer)
            session.go_on(answer.text, answer.call)
        await connection.close()

    before = contender.processor_time()
    await asyncio.gather(*map(live, range(CLIENTS)))
    await asyncio.sleep(0.5)
    return CLIENTS * turns / (contender.processor_time() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("mitmproxy", "litellm", "headroom"):
        parser.add_argument(f"--{name}", type=Path, metavar="ENVIRONMENT")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "src")
    with contenders(options) as everyone:
        rows: dict[str, Sequence[float]] = {}
        for name, row in (("known, 595 kB", KNOWN["managed"]), ("known, 83 kB", KNOWN["small"])):
            rows[f"{name}: processor ms"], rows[f"{name}: ms to the first text"] = asyncio.run(
                ask_known(everyone, row, options.rounds)
            )
        rows["new, 102 kB: processor ms"] = asyncio.run(ask_new(everyone, options.rounds))
        rates = []
        for contender in everyone:
            asyncio.run(ask_at_once(contender, 1))
            rates.append(asyncio.run(ask_at_once(contender, options.rounds)))
        rows["requests a second of processor time"] = rates
        rows["resident MB at the end"] = [contender.resident() for contender in everyone]
    table = table_of(
        f"{time.strftime('%Y-%m-%d')}, Python {sys.version.split()[0]}", ["row"], [c.name for c in everyone]
    )
    for name, figures in rows.items():
        table.add_row(name, *(f"{figure:.1f}" for figure in figures))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
