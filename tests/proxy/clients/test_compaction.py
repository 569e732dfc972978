"""Clients that compact their history behind the proxy: their own prompt is last, and the session goes on after it.

Each is skipped, with the reason, where it cannot be installed. Codex and Claude Code have tests of their own, because
they say by other ways that they compact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.proxy.clients.agents import CodingAgent, Copilot, KimiCode, OpenCode, QwenCode
from tests.proxy.clients.script import ANSWERS, PROMPTS
from tests.proxy.clients.world import Place, proxy, work
from wane.testing import Reply, Request, ScriptedServer, Usage

pytestmark = [pytest.mark.full, pytest.mark.wide]

NEAR = 195_000  # tokens, near the window of 200,000 that the clients are told
SUMMARY = "SUMMARY: the texts are of no use."


@dataclass(frozen=True)
class SmallQwen(QwenCode):
    """Qwen Code with a small window: it takes no report for its size that its own estimate contradicts."""

    def prepare(self, home: Path, upstream: str) -> None:
        super().prepare(home, upstream)
        file = home / ".qwen" / "settings.json"
        model = {"generationConfig": {"contextWindowSize": 64_000}}
        file.write_text(json.dumps({**json.loads(file.read_text()), "model": model}))


@dataclass(frozen=True)
class Compacting:
    """A client, how its prompt to summarise begins, and what its largest reply is said to have used; None for all."""

    agent: CodingAgent
    prompt: str
    used: int | None = NEAR


CLIENTS = {
    "opencode": Compacting(OpenCode("anthropic"), "Here is the conversation so far:"),
    "copilot": Compacting(Copilot("openai"), "Please create a detailed summary of the conversation so far."),
    "kimi": Compacting(KimiCode("openai"), "You are about to run out of context."),
    "qwen": Compacting(
        SmallQwen("openai", budget=60_000), "You are the component that summarizes a conversation", None
    ),
}


class Model:
    """Follows a script, and writes a summary where a client asks for one; `summaries` has these requests."""

    def __init__(self, client: Compacting, script: Iterable[Reply]) -> None:
        self.client = client
        self.script = list(script)
        self.summaries: list[Request] = []
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        if any(part.text.startswith(self.client.prompt) for part in request.messages[-1].parts):
            self.summaries.append(request)
            told = f"<analysis>I thought.</analysis><state_snapshot><goal>{SUMMARY * 20}</goal></state_snapshot>"
            return Reply(told, usage=Usage(request.tokens, 300))
        # Qwen Code's memory is a fork of the session with few of its tools.
        if not request.tools or request.messages[-1].parts[-1].text.startswith("Managed memory"):
            return Reply("A title", usage=Usage(request.tokens, 5))
        self.requests.append(request)
        reply = self.script.pop(0)
        return reply if reply.usage is not None else replace(reply, usage=Usage(request.tokens, 20))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_compacts_its_history_through_the_proxy(name: str, tmp_path: Path) -> None:
    client, place = CLIENTS[name], Place.make(tmp_path / "agent")
    agent = client.agent
    read = agent.hands(place.work).read
    reads = [Reply(calls=(read(f"big{1 + number % 4}.txt"),)) for number in range(6)]
    if client.used is not None:
        reads[2] = replace(reads[2], usage=Usage(client.used, 20))
    second = Reply(calls=(read("a.py"),))
    model = Model(client, [*reads, Reply(ANSWERS[0]), second, Reply(ANSWERS[1]), Reply(ANSWERS[2])])
    options = ["--budget", str(agent.budget), "--min-room", "0", "--strict"]
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, *options) as url:
        done = work(agent, place, upstream=url)
        assert server.refusals == ()
    assert (done.answers, model.script) == (list(ANSWERS), [])
    # Nothing stands behind the client's prompt, which asks for text alone.
    assert model.summaries
    assert all(request.messages[-1].parts[-1].text.startswith(client.prompt) for request in model.summaries)
    last = json.dumps(model.requests[-1].body)
    assert SUMMARY in last
    assert PROMPTS[2] in last
    assert max(request.tokens for request in model.requests) <= agent.budget
