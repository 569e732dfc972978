"""The plugins in the real clients: a person keeps an episode without leaving the agent (R23)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import first_quick
from tests.proxy.clients import install
from tests.proxy.clients.agents import Claude, CodingAgent, GeminiCli, OpenCode, Pi, QwenCode
from tests.proxy.server.support import proxy
from wane.cli.proxy.plugins import PLUGINS
from wane.conversation import ContextSettings
from wane.proxy.server.status import SessionPages
from wane.proxy.sessions.index import SessionIndex
from wane.proxy.store import open_store
from wane.testing import Call, Reply, Request, ScriptedServer

pytestmark = pytest.mark.full

AGENTS = {
    "claude": (Claude(), ("/wane:episodes",), ("/wane:keep 0",)),
    "gemini": (GeminiCli(), ("/wane:episodes",), ("/wane:keep 0",)),
    "opencode": (OpenCode("openai-compatible"), ("--command", "wane/episodes", ""), ("--command", "wane/keep", "0")),
    "pi": (Pi("openai-completions"), ("/wane",), ("/wane keep 0",)),
    "qwen": (QwenCode("openai"), ("/wane:episodes",), ("/wane:keep 0",)),
}
"""The clients, and what lists episodes and keeps the first; in a terminal OpenCode's is `/wane/keep 0`."""


def test_each_plugin_is_tried() -> None:
    assert set(AGENTS) == set(PLUGINS)


@pytest.mark.parametrize("name", first_quick(*AGENTS))
async def test_a_person_lists_episodes_and_keeps_one_by_a_command_of_the_client(tmp_path: Path, name: str) -> None:
    agent, *lines = AGENTS[name]
    assert isinstance(agent, CodingAgent)
    try:
        client = install.installed(agent.package)
    except install.UnavailableError as error:
        pytest.skip(str(error))
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("hello\n")
    hands = agent.hands(work)
    latest: list[str] = []

    def script(request: Request) -> Reply:
        latest.append(" ".join(part.text for part in request.messages[-1].parts if part.text))
        if not request.results and "Read a.txt" in latest[-1]:
            call = hands.read("a.txt")
            assert isinstance(call, Call)
            return Reply(calls=(call,))
        return Reply("It is done.")

    index = SessionIndex(open_store(str(tmp_path / "store")), ContextSettings(annotate="infer"))
    pages = SessionPages("the-key", lambda header, records: "")
    with ScriptedServer(script) as server:
        async with proxy(server.url, index=index, pages=pages) as running:
            base = f"http://127.0.0.1:{running.address.port}"
            agent.prepare(home, base)
            environ = {**agent.environ(base), "HOME": str(home), "WANE_PROXY_URL": base, "WANE_PAGE_KEY": "the-key"}
            environ["PATH"] = os.pathsep.join([*map(str, client.path), os.environ["PATH"]])
            plugin = PLUGINS[name]
            folder = home / plugin.locate({}).relative_to(Path.home())
            for file, text in plugin.files(sys.executable).items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
            for turn, said in enumerate((("Read a.txt",), *lines)):
                *before, prompt = agent.command(said[-1], turn)
                command = [str(client.program), *before, *said[:-1], prompt]
                done = await asyncio.to_thread(
                    subprocess.run, command, env=environ, cwd=work, capture_output=True, stdin=subprocess.DEVNULL
                )
                assert done.returncode == 0, done.stderr
            # In pi it is no turn.
            for words in () if name == "pi" else ("number", "stays in view until you release or drop it"):
                assert [text for text in latest if "Wane says" in text and words in text]
            # Qwen Code asks for memories in a copy of the session; the person means the session.
            kept = {bool(it.facts.parent): [each.choice for each in it.episodes][:1] for it in index.status()}
            assert kept[False] == ["keep"]
            assert kept.get(True) != ["keep"]
