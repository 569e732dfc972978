"""The plugins in the real clients: a person keeps an episode without leaving the agent (R23)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.marks import first_quick
from tests.proxy.clients import install
from tests.proxy.clients.agents import Claude, CodingAgent, Copilot, GeminiCli, OpenCode, Pi, QwenCode
from tests.proxy.server.support import proxy
from wane.cli.proxy.plugins import PLUGINS
from wane.conversation import ContextSettings
from wane.proxy.server.status import SessionPages
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.testing import Call, Reply, Request, ScriptedServer

pytestmark = pytest.mark.full

ESCAPES = re.compile(r"(?:\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\))+")

AGENTS = {
    "claude": (Claude(), ("/wane:episodes",), ("/wane:keep 0",)),
    "gemini": (GeminiCli(), ("/wane:episodes",), ("/wane:keep 0",)),
    "opencode": (OpenCode("openai-compatible"), ("--command", "wane/episodes", ""), ("--command", "wane/keep", "0")),
    "pi": (Pi("openai-completions"), ("/wane",), ("/wane keep 0",)),
    "qwen": (QwenCode("openai"), ("/wane:episodes",), ("/wane:keep 0",)),
}
"""The clients, and what lists episodes and keeps the first; in a terminal OpenCode's is `/wane/keep 0`.

Copilot CLI has such commands in its terminal alone, which has a test of its own.
"""


def test_each_plugin_is_tried() -> None:
    assert {*AGENTS, "copilot"} == set(PLUGINS)


@pytest.mark.parametrize("name", first_quick(*AGENTS))
async def test_a_person_lists_episodes_and_keeps_one_by_a_command_of_the_client(tmp_path: Path, name: str) -> None:
    agent, *lines = AGENTS[name]
    assert isinstance(agent, CodingAgent)
    async with at_work(agent, name, tmp_path) as (index, latest, environ):
        for turn, said in enumerate((("Read a.txt",), *lines)):
            await asyncio.to_thread(say, agent, turn, said, environ, tmp_path / "work")
        # Qwen Code asks for memories in a copy of the session; the person means the session.
        kept = {bool(it.facts.parent): [each.choice for each in it.episodes][:1] for it in index.status()}
    # In pi it is no turn.
    for words in () if name == "pi" else ("number", "stays in view until you release or drop it"):
        assert [text for text in latest if "Wane says" in text and words in text]
    assert kept[False] == ["keep"]
    assert kept.get(True) != ["keep"]


async def test_a_person_keeps_an_episode_in_the_terminal_of_copilot(tmp_path: Path) -> None:
    agent, work = Copilot("openai"), tmp_path / "work"
    async with at_work(agent, "copilot", tmp_path) as (index, _, environ):
        await asyncio.to_thread(say, agent, 0, ("Read a.txt",), environ, work)
        command = [str(install.install_client(agent.package).program), "--experimental", "--continue"]
        typed = [("you trust", "\r"), ("Servers reloaded", "/wane"), ("List the episodes", " keep 0"), ("keep 0", "\r")]
        shown = await asyncio.to_thread(type_lines, command, environ, work, typed, "stays in view until you release")
        assert "stays in view" in shown
        assert [each.choice for each in index.status()[0].episodes][:1] == ["keep"]


def type_lines(
    command: Sequence[str], environ: Mapping[str, str], work: Path, lines: Iterable[tuple[str, str]], last: str
) -> str:
    """Run a client in a terminal and type lines, each once it shows the words beside it; return what it showed.

    It is ended once it has shown the last words.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    environ = {**environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, env=environ, cwd=work, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown, patience = "", time.monotonic() + 120
    try:
        for words, keys in (*lines, (last, "")):
            while words not in shown:
                assert time.monotonic() < patience, (words, shown[-3_000:])
                if select.select([ours], [], [], 1)[0]:
                    shown += ESCAPES.sub(" ", os.read(ours, 100_000).decode(errors="replace"))
            seen, shown = shown, ""
            time.sleep(0.5)  # what is typed into a list that is being drawn is lost
            os.write(ours, keys.encode())
        return seen
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # with what it started
        process.wait()
        os.close(ours)


def say(agent: CodingAgent, turn: int, said: Sequence[str], environ: Mapping[str, str], work: Path) -> None:
    """Let a client take a turn without a terminal."""
    *before, prompt = agent.command(said[-1], turn)
    command = [str(install.install_client(agent.package).program), *before, *said[:-1], prompt]
    done = subprocess.run(
        command, env=environ, cwd=work, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@asynccontextmanager
async def at_work(
    agent: CodingAgent, name: str, tmp_path: Path
) -> AsyncIterator[tuple[SessionIndex, list[str], Mapping[str, str]]]:
    """Prepare a client with its plugin behind a proxy; yield its sessions, the latest messages, and its environment."""
    try:
        client = install.install_client(agent.package)
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
            yield index, latest, environ
