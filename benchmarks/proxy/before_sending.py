"""Processor time of the proxy before it sends a request. Run with `python benchmarks/proxy/before_sending.py`.

It counts from the last byte of a request of 80,000 tokens until it is sent upstream, managed and with --shadow. Other
load of the machine hardly changes it, as it does the latency that `run.py shadow` measures.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from typing import Any
from urllib.request import Request, urlopen

from sessions import Session
from wane.cli.proxy.proxy_commands import ContextOptions, ProxyCommandOptions, TreatmentOptions
from wane.cli.proxy.proxy_options import proxy_options
from wane.proxy.http.upstream import Upstream
from wane.proxy.server import app
from wane.proxy.server.running import in_thread
from wane.testing import Reply, ScriptedServer

REQUESTS = 12
CLOCK: list[float] = []  # the thread's processor time when the body of a request was read, and when it was sent


async def _read_body(*arguments: Any, reading: Any = app.read_body) -> bytes:
    body: bytes = await reading(*arguments)
    CLOCK[:] = [time.thread_time()]
    return body


async def _send(*arguments: Any, sending: Any = Upstream.send, **more: Any) -> Any:
    CLOCK.append(time.thread_time())
    return await sending(*arguments, **more)


def milliseconds(*, shadow: bool) -> list[float]:
    """Return what each request of a session took but the first, of which all is new."""
    body: dict[str, Any] = {**json.loads(Session("anthropic", 80_000).body()), "stream": False}
    times = []
    with ScriptedServer([Reply("Done.")] * REQUESTS) as server, tempfile.TemporaryDirectory() as store:
        context, treatment = ContextOptions(store=store, budget="200k"), TreatmentOptions(shadow=shadow)
        command = ProxyCommandOptions(upstream=server.url, listen="127.0.0.1:0", context=context, treatment=treatment)
        with in_thread(proxy_options(command, {})) as proxy:
            for number in range(REQUESTS):
                headers = {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
                with urlopen(Request(f"{proxy.url}/v1/messages", json.dumps(body).encode(), headers)) as answer:
                    reply = json.load(answer)
                proxy.finish()
                times.append(1e3 * (CLOCK[1] - CLOCK[0]))
                body["messages"] += [
                    {"role": "assistant", "content": reply["content"]},
                    {"role": "user", "content": f"Turn {number}."},
                ]
    return times[1:]


def main() -> None:
    app.read_body = _read_body
    Upstream.send = _send
    for name, shadow in (("managed", False), ("--shadow", True)):
        print(f"{name}: {statistics.median(milliseconds(shadow=shadow)):.2f} ms")


if __name__ == "__main__":
    main()
