"""The plugin in the real Claude Code: a person keeps an episode without leaving the agent (R23)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proxy.clients import install
from tests.proxy.clients.agents import Claude
from tests.proxy.server.support import proxy
from wane.cli.proxy.choosing import plugin_files
from wane.conversation import ContextSettings
from wane.proxy.server.status import SessionPages
from wane.proxy.sessions.index import SessionIndex
from wane.proxy.store import open_store
from wane.testing import Call, Reply, Request, ScriptedServer

pytestmark = pytest.mark.full


async def test_a_person_lists_episodes_and_keeps_one_by_a_command_of_the_client(tmp_path: Path) -> None:
    agent = Claude()
    try:
        client = install.installed(agent.package)
    except install.UnavailableError as error:
        pytest.skip(str(error))
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello\n")
    for name, text in plugin_files(sys.executable).items():
        path = home / ".claude" / "skills" / "wane" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    latest: list[str] = []

    def script(request: Request) -> Reply:
        latest.append(" ".join(part.text for part in request.messages[-1].parts if part.text))
        if not request.results and "Read a.txt" in latest[-1]:
            return Reply(calls=(Call("Read", {"file_path": str(work / "a.txt")}),))
        return Reply("It is done.")

    index = SessionIndex(open_store(str(tmp_path / "store")), ContextSettings(annotate="infer"))
    pages = SessionPages("the-key", lambda header, records: "")
    with ScriptedServer(script) as server:
        async with proxy(server.url, index=index, pages=pages) as running:
            base = f"http://127.0.0.1:{running.address.port}"
            environ = {**agent.environ(base), "HOME": str(home), "WANE_PROXY_URL": base, "WANE_PAGE_KEY": "the-key"}
            environ["PATH"] = os.pathsep.join([*map(str, client.path), os.environ["PATH"]])
            for turn, prompt in enumerate(("Read a.txt", "/wane:episodes", "/wane:keep 0")):
                command = [str(client.program), *agent.command(prompt, turn)]
                done = await asyncio.to_thread(
                    subprocess.run, command, env=environ, cwd=work, capture_output=True, stdin=subprocess.DEVNULL
                )
                assert done.returncode == 0, done.stderr
                if turn == 1:
                    assert "number" in latest[-1]
            assert "stays in view until you release or drop it" in latest[-1]
            (session,) = index.status()
            assert [it.choice for it in session.episodes if it.number == 0] == ["keep"]
