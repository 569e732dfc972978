"""Clients as editors run them, over the Agent Client Protocol: whole sessions under `wane run`, and loaded again.

What was run stands in the same table of the docs as the clients themselves. Each is skipped, with the reason, where its
client cannot be installed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pytest

from tests.proxy.clients import install
from tests.proxy.clients.acp import Editor
from tests.proxy.clients.agents import (
    Claude,
    Codex,
    CodingAgent,
    Copilot,
    GeminiCli,
    KimiCode,
    MistralVibe,
    OpenCode,
    QwenCode,
)
from tests.proxy.clients.install import Package
from tests.proxy.clients.script import ANSWERS, PROMPTS, marked_replies, turns
from tests.proxy.clients.test_versions import Model, in_table
from tests.proxy.clients.world import WANE, Place
from wane.testing import ScriptedServer

pytestmark = [pytest.mark.full, pytest.mark.wide]


@dataclass(frozen=True)
class InEditor:
    """A client in an editor: its program, how it is started, and the way to log in that the editor chooses."""

    agent: CodingAgent
    package: Package
    arguments: tuple[str, ...] = ()
    login: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict)


CODEX = {"CODEX_CONFIG": json.dumps({"model": "gpt-5.5"}), "INITIAL_AGENT_MODE": "agent-full-access"}
# By itself it asks a second model which one to take, with signatures that Gemini refuses.
GEMINI = ("--acp", "--yolo", "--model", "gemini-3.1-pro-preview")
CLIENTS = {
    "Claude Code, ACP": InEditor(Claude(budget=38_000), install.CLAUDE_ACP, environ={"ANTHROPIC_MODEL": Claude.model}),
    "Codex, ACP": InEditor(Codex("gpt-5.5"), install.CODEX_ACP, login="api-key", environ=CODEX),
    "Gemini CLI, ACP": InEditor(GeminiCli(budget=24_000), install.GEMINI, GEMINI, "gemini-api-key"),
    "OpenCode, ACP": InEditor(OpenCode("anthropic"), install.OPENCODE, ("acp",)),
    "Copilot CLI, ACP": InEditor(
        Copilot("openai"), install.COPILOT, ("--acp", "--allow-all-tools", "--allow-all-paths")
    ),
    "Qwen Code, ACP": InEditor(QwenCode("openai"), install.QWEN, ("--acp", "--yolo", "--auth-type", "openai")),
    "Kimi Code, ACP": InEditor(KimiCode("openai"), install.KIMI, ("acp",)),
    "Mistral Vibe, ACP": InEditor(MistralVibe(), install.VIBE_ACP),
}


@contextmanager
def editor(client: InEditor, place: Place, upstream: str, errors: Path, *options: str) -> Iterator[Editor]:
    """Run a client under `wane run`, as an editor does by its settings."""
    try:
        program = install.install_client(client.package)
    except install.UnavailableError as error:
        pytest.skip(str(error))
    path = os.pathsep.join([*map(str, program.path), os.environ["PATH"]])
    environ = {**place.environ, **client.agent.environ(upstream), **client.environ, "PATH": path}
    command = [*WANE, "run", *options, "--", str(program.program), *client.arguments]
    with Editor(command, place.work, environ, errors) as started:
        started.initialize()
        if client.login is not None:
            started.ask("authenticate", {"methodId": client.login})
        yield started


@pytest.mark.parametrize("name", CLIENTS)
def test_a_session_in_an_editor_goes_on_when_it_is_loaded_again(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    agent = client.agent
    place, log = Place.make(tmp_path / "agent"), tmp_path / "run.log"
    first, second, third = turns(agent.hands(place.work))
    # Some clients change only what they have read.
    look = first[0].reply
    seen = replace(look, calls=(*look.calls, agent.hands(place.work).read("a.py")))
    steps = ((replace(first[0], reply=seen), *first[1:]), second, third)
    model = Model(list(chain.from_iterable(marked_replies(turn) for turn in steps)))
    errors = [tmp_path / "first.txt", tmp_path / "second.txt"]
    with ScriptedServer(model) as server:
        agent.prepare(place.home, server.url)
        options = ["--budget", str(agent.budget), "--min-room", "0", "--strict", "--log", str(log)]
        options += ["--upstream", f"{server.url}/v1"] if isinstance(agent, Codex) else []
        with editor(client, place, server.url, errors[0], *options) as started:
            session = started.open()
            answers = [started.prompt(session, prompt) for prompt in PROMPTS[:2]]
        ended = time.time() // 60
        # Gemini CLI (0.61.0) overwrites a session that it loads in the minute in which it began.
        while isinstance(agent, GeminiCli) and time.time() // 60 == ended:
            time.sleep(1)
        with editor(client, place, server.url, errors[1], *options) as started:
            started.open(session)
            answers.append(started.prompt(session, PROMPTS[2]))
        assert server.refusals == ()
    assert (answers, model.replies) == (list(ANSWERS), [])
    assert place.files()["a.py"] == "print(42)\n"
    assert place.files()["notes.txt"] == "a.py prints 42\n"
    assert PROMPTS[0] in json.dumps(model.requests[-1].body)
    assert max(request.tokens for request in model.requests) <= agent.budget
    assert max(int(tokens) for tokens in re.findall(r" evicted (\d+) ", log.read_text())) > agent.budget // 10
    # It is one session, but Gemini CLI loads another history than it wrote, with all calls in one answer.
    sessions = {re.findall(r"wane: session (\S+?)[:,]", path.read_text())[0] for path in errors}
    assert len(sessions) == (2 if isinstance(agent, GeminiCli) else 1), [path.read_text() for path in errors]
    in_table(name, replace(agent, package=client.package))
