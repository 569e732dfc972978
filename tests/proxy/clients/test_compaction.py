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

from tests.proxy.clients.agents import Cline, CodingAgent, Copilot, KimiCode, MistralVibe, OpenCode, Pi, QwenCode
from tests.proxy.clients.script import ANSWERS, PROMPTS
from tests.proxy.clients.test_acp import CLIENTS as IN_EDITORS
from tests.proxy.clients.test_acp import editor
from tests.proxy.clients.world import WANE, Place, proxy, work
from wane.testing import Reply, Request, ScriptedServer, Usage

pytestmark = [pytest.mark.full, pytest.mark.wide]

NEAR = 195_000  # tokens, near the window of 200,000 that the clients are told
GEMINI = IN_EDITORS["Gemini CLI, ACP"]
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
class SmallPi(Pi):
    """pi that keeps little of what it compacts."""

    def prepare(self, home: Path, upstream: str) -> None:
        super().prepare(home, upstream)
        settings = {"compaction": {"keepRecentTokens": 4_000}}
        (home / ".pi" / "agent" / "settings.json").write_text(json.dumps(settings))


@dataclass(frozen=True)
class Compacting:
    """A client that compacts.

    Attributes:
        agent: the client.
        prompt: how its prompt to summarise begins.
        used: what one reply is said to have used; None for what it has used.
        at: number of that reply.
        turns: how many prompts it gets.
    """

    agent: CodingAgent
    prompt: str | tuple[str, ...]
    used: int | None = NEAR
    at: int = 2
    turns: int = len(PROMPTS)


CLIENTS = {
    "opencode": Compacting(OpenCode("anthropic"), "Here is the conversation so far:"),
    "copilot": Compacting(Copilot("openai"), "Please create a detailed summary of the conversation so far."),
    "kimi": Compacting(KimiCode("openai"), "You are about to run out of context."),
    "qwen": Compacting(
        SmallQwen("openai", budget=60_000), "You are the component that summarizes a conversation", None
    ),
    "vibe": Compacting(MistralVibe(), "CRITICAL: Respond with text only. Do NOT call any tools."),
    # They ask by a request without tools, which passes as it is. Cline resumes in its terminal interface only.
    "cline": Compacting(Cline(window=16_000), "Summarize this session for continuation.", None, turns=1),
    "pi, Messages": Compacting(SmallPi("anthropic-messages"), "# Conversation\n[User]: PROMPT one", at=6),
    "pi, Chat Completions": Compacting(SmallPi("openai-completions"), "# Conversation\n[User]: PROMPT one", at=6),
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


def script_of(client: Compacting, place: Place) -> list[Reply]:
    """What the model says in three turns: it reads, over and over."""
    read = client.agent.hands(place.work).read
    script = [Reply(calls=(read(f"big{1 + number % 4}.txt"),)) for number in range(6)]
    script += [Reply(ANSWERS[0]), Reply(calls=(read("a.py"),)), Reply(ANSWERS[1]), Reply(ANSWERS[2])]
    if client.turns == 1:
        del script[7:]
    if client.used is not None:
        script[client.at] = replace(script[client.at], usage=Usage(client.used, 20))
    return script


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_compacts_its_history_through_the_proxy(name: str, tmp_path: Path) -> None:
    client, place = CLIENTS[name], Place.make(tmp_path / "agent")
    agent = client.agent
    model = Model(client, script_of(client, place))
    options = ["--budget", str(agent.budget), "--min-room", "0", "--strict"]
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, *options) as url:
        done = work(agent, place, upstream=url, prompts=PROMPTS[: client.turns])
        assert server.refusals == ()
    assert (done.answers, model.script) == (list(ANSWERS[: client.turns]), [])
    # Nothing stands behind the client's prompt, which asks for text alone.
    assert model.summaries
    assert all(request.messages[-1].parts[-1].text.startswith(client.prompt) for request in model.summaries)
    last = json.dumps(model.requests[-1].body)
    assert SUMMARY in last
    if client.turns > 1:
        assert PROMPTS[2] in last
    assert max(request.tokens for request in model.requests) <= agent.budget


def test_gemini_cli_compresses_its_history_through_the_proxy(tmp_path: Path) -> None:
    """In an editor: a resumed session has each result twice, and asks for a summary of that, which Gemini refuses."""
    prompt = ("Generate a new <state_snapshot>", "Critically evaluate the <state_snapshot>")
    client, place = Compacting(GEMINI.agent, prompt, 900_000, at=7), Place.make(tmp_path / "agent")
    model = Model(client, script_of(client, place))
    options = ["--budget", str(client.agent.budget), "--min-room", "0", "--strict"]
    with ScriptedServer(model) as server:
        client.agent.prepare(place.home, server.url)
        with editor(GEMINI, place, server.url, tmp_path / "errors.txt", *options) as started:
            session = started.open()
            answers = [started.prompt(session, each) for each in PROMPTS[:2]]
        before = [*WANE, "run", *options, "--"]
        done = work(client.agent, place, upstream=server.url, before=before, prompts=PROMPTS[2:], resumed=True)
        answers += done.answers
        assert server.refusals == ()
    assert (answers, model.script) == (list(ANSWERS), [])
    assert [request.messages[-1].parts[-1].text.startswith(prompt) for request in model.summaries] == [True, True]
    last = json.dumps(model.requests[-1].body)
    assert SUMMARY in last
    assert PROMPTS[1] in last
    assert PROMPTS[2] in last
