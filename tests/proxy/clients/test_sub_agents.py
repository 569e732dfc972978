"""Clients with two sub-agents at a time: they show under the session that started them.

Each is skipped, with the reason, where it cannot be installed.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.marks import wide
from tests.proxy.clients.agents import (
    Claude,
    Codex,
    CodingAgent,
    Copilot,
    GeminiCli,
    KimiCode,
    OpenCode,
    QwenCode,
)
from tests.proxy.clients.world import Place, proxy, work
from wane.testing import Call, Kind, Reply, Request, ScriptedServer, Usage

pytestmark = pytest.mark.full

TASK = "Start two sub-agents, please."
PROMPTS = ("Read a.py and say what it prints.", "Read a.py, and say how long it is.")
USAGE = Usage(1_000, 10)
STARTS: dict[str, tuple[CodingAgent, tuple[Call, ...]]] = {
    "claude": (
        Claude(),
        tuple(Call("Agent", {"description": "read", "prompt": p, "subagent_type": "general-purpose"}) for p in PROMPTS),
    ),
    # One begins with nothing, the other with a copy of all that was said before.
    "codex": (
        Codex("gpt-6.1-sol"),
        (
            Call("collaboration.spawn_agent", {"task_name": "one", "message": PROMPTS[0], "fork_turns": "none"}),
            Call("collaboration.spawn_agent", {"task_name": "two", "message": PROMPTS[1]}),
        ),
    ),
    # One hands the prompt over as it is, the other wraps it.
    "gemini": (
        GeminiCli(),
        (
            Call("invoke_agent", {"agent_name": "generalist", "prompt": PROMPTS[0]}),
            Call("invoke_agent", {"agent_name": "codebase_investigator", "prompt": PROMPTS[1]}),
        ),
    ),
    "opencode": (
        OpenCode("anthropic"),
        tuple(Call("task", {"description": "read", "prompt": p, "subagent_type": "general"}) for p in PROMPTS),
    ),
    "copilot": (
        Copilot("openai"),
        tuple(
            Call(
                "task", {"name": f"reads-{n}", "description": "read", "prompt": p, "agent_type": "task", "mode": "sync"}
            )
            for n, p in enumerate(PROMPTS)
        ),
    ),
    "qwen": (
        QwenCode("openai"),
        tuple(Call("agent", {"description": "read", "prompt": p, "run_in_background": False}) for p in PROMPTS),
    ),
    "kimi": (KimiCode("openai"), tuple(Call("Agent", {"description": "read", "prompt": p}) for p in PROMPTS)),
}


class Model:
    """Starts two sub-agents, each of which reads a file, and waits for them where the client has a tool for that."""

    def __init__(self, agent: CodingAgent, place: Place, starts: tuple[Call, ...]) -> None:
        self.hands, self.starts, self.waits = agent.hands(place.work), starts, 0

    def __call__(self, request: Request) -> Reply:
        said = request.texts(Kind.USER)
        is_sub = not any(TASK in text for text in said) or any("NEW_TASK" in text for text in said)
        last = request.parts[-1].kind if request.parts[-1].kind is not Kind.SYSTEM else request.parts[-2].kind
        if is_sub and last is Kind.RESULT:
            return Reply("It prints 41.", usage=USAGE)
        if is_sub:
            return Reply(calls=(self.hands.read("a.py"),), usage=USAGE)
        if not any(part.kind is Kind.CALL for part in request.parts):
            return Reply("I start two.", calls=self.starts, usage=USAGE)
        finished = sum("FINAL_ANSWER" in text for text in said)
        if self.starts[0].tool.startswith("collaboration") and finished < 2 and self.waits < 8:
            self.waits += 1
            return Reply(calls=(Call("collaboration.wait_agent", {"timeout_ms": 10_000}),), usage=USAGE)
        return Reply("All done.", usage=USAGE)


@pytest.mark.parametrize("name", ["claude", "codex", *wide("gemini", "opencode", "copilot", "qwen", "kimi")])
def test_sub_agents_show_under_the_session_that_started_them(name: str, tmp_path: Path) -> None:
    agent, starts = STARTS[name]
    place = Place.make(tmp_path / "agent")
    model = Model(agent, place, starts)
    options = ["--budget", "120k", "--agent-budget", "90k", "--strict"]
    with ScriptedServer(model) as server, proxy(server.url, tmp_path, *options) as url:
        done = work(agent, place, upstream=url, prompts=[TASK])
        sessions = status(url)
        assert server.refusals == ()
    assert done.answers == ["All done."]
    (main,) = (session for session in sessions if not session["parent"])
    subs = [session for session in sessions if session["parent"]]
    assert [session["parent"] for session in subs] == [main["id"]] * 2
    assert (main["budget"], [session["budget"] for session in subs]) == (120_000, [90_000] * 2)
    assert (main["agents"]["sessions"], [session["agents"] for session in subs]) == (2, [None] * 2)
    for key in ("input", "output"):
        assert main["agents"]["used"][key] == sum(session["used"][key] for session in subs) > 0
    assert main["agents"]["calls"] == sum(session["calls"] for session in subs) >= 4
    assert all(session["calls"] >= 2 for session in sessions)


def status(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/wane/status") as answer:
        sessions: list[dict[str, Any]] = json.load(answer)["sessions"]
    return sessions
