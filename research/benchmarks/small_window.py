"""The smallest real demonstration: a language model with a small window, without Wane and behind its proxy.

    python research/benchmarks/small_window.py

It needs no key, and no network once the extra `judge` of wane-research is installed: research/docs/small-window.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from openai import BadRequestError, OpenAI

from frame import parser
from wane.core.errors import WaneError
from wane.testing import ScriptedServer
from wane_research.judge.model import Model, weights
from wane_research.judge.serving import SmallModel

PAGES = [f"page-{number}.txt" for number in range(1, 9)]
TOOL = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read a page.",
        "parameters": {"type": "object", "properties": {"page": {"type": "string", "enum": PAGES}}},
    },
}


def page(name: str) -> str:
    """Return the text of a page: some 230 tokens."""
    return "\n".join(f"{name}, line {line}: the measured value is {line * 7 % 11}." for line in range(1, 14))


def converse(client: OpenAI, turns: int) -> Iterator[str]:
    """Run an agent in a hand-written loop, and yield a line for each request."""
    messages: list = []
    requests = count(1)
    for turn in range(1, turns + 1):
        messages.append({"role": "user", "content": f"Task {turn}: read the pages and add up the values."})
        while True:
            try:
                reply = client.chat.completions.create(model="small", messages=messages, tools=[TOOL])
            except BadRequestError as error:
                yield f"request {next(requests)}: refused: {error.body['message']}"
                return
            usage = reply.usage
            cached = usage.prompt_tokens_details.cached_tokens
            yield f"request {next(requests)}: {usage.prompt_tokens:,} tokens, {cached:,} of them cached"
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                name = re.search(r"page-\d", call.function.arguments)[0] + ".txt"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": page(name)})


@contextmanager
def proxy(upstream: str, budget: int) -> Iterator[str]:
    """Run `wane proxy` in front of a server, and yield its URL."""
    options = ["--listen", "127.0.0.1:0", "--no-store", "--annotate", "infer", "--budget", str(budget)]
    command = [sys.executable, "-m", "wane.cli.main", "proxy", "--upstream", upstream, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in process.stdout:
            if match := re.search(r"Listening on (http://[\d.:]+)", line):
                yield match[1]
                return
        raise SystemExit("wane proxy did not start")
    finally:
        process.terminate()
        process.wait()


def print_conversation(url: str, turns: int) -> None:
    for line in converse(OpenAI(base_url=f"{url}/v1", api_key="none"), turns):
        print(f"  {line}", flush=True)


def main() -> None:
    """Hold the same conversation twice."""
    command = parser(__doc__)
    command.add_argument("--window", type=int, default=2_048, help="tokens that the server takes")
    command.add_argument("--budget", type=int, default=1_500, help="tokens that Wane keeps requests to")
    command.add_argument("--turns", type=int, default=4, help="turns of the user")
    arguments = command.parse_args()
    try:
        small = SmallModel(Model(weights(), arguments.window + 256), arguments.window)
    except WaneError as error:
        command.error(str(error))
    with ScriptedServer(small) as server:
        print(f"Without Wane, at a window of {arguments.window:,} tokens:", flush=True)
        print_conversation(server.url, arguments.turns)
        with proxy(server.url, arguments.budget) as url:
            print(f"Behind wane proxy, at a budget of {arguments.budget:,} tokens:", flush=True)
            print_conversation(url, arguments.turns)


if __name__ == "__main__":
    main()
