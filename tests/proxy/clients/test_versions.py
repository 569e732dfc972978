"""The newest releases of all clients under `wane run`: whole sessions, resumed twice, with 66 kB of output in them.

What was run stands in a table of the docs, which these tests compare, and write with `UPDATE_SNAPSHOTS=1`. Each is
skipped, with the reason, where its client cannot be installed.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import pytest

from tests.proxy.clients.agents import (
    Claude,
    Codex,
    CodingAgent,
    Copilot,
    GeminiCli,
    KimiCode,
    MistralVibe,
    OpenCode,
    Pi,
    QwenCode,
)
from tests.proxy.clients.script import ANSWERS, Step, marked_replies, turns
from tests.proxy.clients.test_agents import run_options
from tests.proxy.clients.world import WANE, Place, work
from wane.proxy.sessions.sender import sender_of
from wane.testing import Kind, Reply, Request, ScriptedServer

pytestmark = [pytest.mark.full, pytest.mark.wide]

AGENTS: dict[str, CodingAgent] = {
    "Claude Code": Claude(budget=38_000),
    "Codex": Codex("gpt-5.5"),
    "Codex, code mode": Codex("gpt-6.1-sol", budget=28_000),
    "Gemini CLI": GeminiCli(budget=24_000),
    "pi, Messages": Pi("anthropic-messages"),
    "pi, Chat Completions": Pi("openai-completions"),
    "pi, Responses": Pi("openai-responses"),
    "OpenCode, Messages": OpenCode("anthropic"),
    "OpenCode, Chat Completions": OpenCode("openai-compatible"),
    "OpenCode, Responses": OpenCode("openai"),
    "Copilot CLI, Chat Completions": Copilot("openai"),
    "Copilot CLI, Messages": Copilot("anthropic", model="claude-sonnet-4.5"),
    "Qwen Code, Chat Completions": QwenCode("openai"),
    "Qwen Code, Responses": QwenCode("openai-responses"),
    "Qwen Code, Messages": QwenCode("anthropic"),
    "Kimi Code, Chat Completions": KimiCode("openai"),
    "Kimi Code, Messages": KimiCode("anthropic"),
    # Its client for Mistral's own API takes only calls that are streamed whole.
    "Mistral Vibe": MistralVibe(),
}
TABLE = Path(__file__).parents[3] / "docs" / "proxy" / "versions.md"
LOUD = "seq 1 12900"  # 66 kB, of which clients show the model a part


# Qwen Code keeps memories by a fork of the session with few of its tools; in an editor it guesses the next prompt.
ASIDES = ("Managed memory", "[SUGGESTION MODE: ")


class Model:
    """Follows a script; what a client asks besides, without tools, such as a title, takes no reply from it."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        if not request.tools or request.messages[-1].parts[-1].text.startswith(ASIDES):
            return Reply("A title")
        self.requests.append(request)
        reply = self.replies.pop(0)
        if request.api == "anthropic" and request.body.get("thinking", {}).get("type", "disabled") == "disabled":
            return replace(reply, reasoning=None)  # as no model thinks that is not asked to
        return reply


@pytest.mark.parametrize("name", AGENTS)
def test_a_session_goes_on_over_a_small_budget(name: str, tmp_path: Path) -> None:
    agent = AGENTS[name]
    place, log = Place.make(tmp_path / "agent"), tmp_path / "run.log"
    first, second, third = turns(agent.hands(place.work))
    # Some clients change only what they have read.
    look = first[0].reply
    first = (
        replace(first[0], reply=replace(look, calls=(*look.calls, agent.hands(place.work).read("a.py")))),
        *first[1:],
    )
    loud = Step(Reply(calls=(agent.hands(place.work).run(LOUD),)))
    steps = (first, (second[0], loud, *second[1:]), third)
    model = Model(list(chain.from_iterable(marked_replies(turn) for turn in steps)))
    with ScriptedServer(model) as server:
        options = ["--budget", str(agent.budget), "--min-room", "0", "--strict", "--log", str(log)]
        options += run_options(agent, server.url)
        done = work(agent, place, upstream=server.url, before=[*WANE, "run", *options, "--"])
        assert server.refusals == ()
    assert (done.answers, model.replies) == (list(ANSWERS), [])
    assert place.files()["a.py"] == "print(42)\n"
    assert place.files()["notes.txt"] == "a.py prints 42\n"
    loud_calls = [part for request in model.requests for part in request.parts if LOUD in part.text]
    assert any(part.kind is Kind.CALL for part in loud_calls)
    # Its budget holds, although what it read does not fit.
    views = [int(view) for view in re.findall(r" view (\d+)/\d+ evicted ", log.read_text())]
    evicted = [int(tokens) for tokens in re.findall(r" evicted (\d+) ", log.read_text())]
    assert max(views) <= agent.budget
    assert max(request.tokens for request in model.requests) <= agent.budget
    assert max(evicted) > agent.budget // 10
    # It is told the size of its context, by which it decides when to compact.
    assert not any(sender_of(headers_of(request), {}).sums_usage("auto") for request in model.requests)
    # All three runs are one session.
    sessions = {found for error in done.errors for found in re.findall(r"wane: session (\S+?)[:,]", error)}
    assert len(sessions) == 1, done.errors
    in_table(name, agent)


def headers_of(request: Request) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in request.headers.items()]


def in_table(name: str, agent: CodingAgent) -> None:
    """Compare the line of a client in the docs, but for its date, or write it."""
    package, _, version = agent.package.spec.rpartition("==" if agent.package.python else "@")
    row = f"| {name} | `{package}` | {version} | {agent.budget:,} |"
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    numbers = [number for number, line in enumerate(lines) if line.startswith(f"| {name} |")]
    if os.environ.get("UPDATE_SNAPSHOTS"):
        today = f"{row} {datetime.now(UTC).date()} |"
        if numbers:
            lines[numbers[0]] = today
        else:
            lines.append(today)
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    assert [lines[number][: len(row)] for number in numbers] == [row], (
        f"{row} is not in {TABLE}: run with UPDATE_SNAPSHOTS=1"
    )
