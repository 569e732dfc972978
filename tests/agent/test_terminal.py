"""What comes to the chat from outside of its keys: signals, bytes that are no text, and an end of the input."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, run_in_terminal
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.agent.provider import serve
from tests.agent.test_chat import CTRL_C, CTRL_D, Terminal, play, terminal, words
from tests.agent.work import shell, working
from wane.agent.options import AgentOptions
from wane.cli.chat.interactive import run_chat
from wane.cli.chat.typed import keyboard
from wane.testing import Call, Reply, ScriptedServer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such signals and terminals here")


class Pty:
    """The command in a pseudo-terminal, in a process of its own."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd
        self._written = ""
        self._screen = pyte.Screen(80, 24)
        # Where the cursor is, which the prompt asks the terminal.
        self._screen.write_process_input = lambda answer: self.type(answer.encode())
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """The lines that a person sees, without empty ones."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def type(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def until(self, words: str, *, again: bytes = b"") -> None:
        """Read until words are there; type something each second until they are."""
        deadline, typed = time.monotonic() + 60, 0.0
        while words not in self._written:
            assert time.monotonic() < deadline, self._written
            if again and time.monotonic() > typed + 1:
                self.type(again)
                typed = time.monotonic()
            if select.select([self._fd], [], [], 0.2)[0]:
                try:
                    data = os.read(self._fd, 65_536)
                except OSError as error:
                    raise AssertionError(f"it ended; there was:\n{self._written}") from error
                self._written += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode("utf-8", "replace"))
                self._stream.feed(data)


@contextmanager
def pty(server: ScriptedServer, directory: Path) -> Iterator[Pty]:
    from pty import fork

    environ = {**os.environ, "OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{server.url}/v1", "TERM": "xterm"}
    pid, fd = fork()
    if pid == 0:
        arguments = ["-m", "openai-chat:gpt-4.1", "-y", "-C", str(directory)]
        os.execve(sys.executable, [sys.executable, "-m", "wane.cli.main", *arguments], environ)
    at = Pty(pid, fd)
    at.until("/help")
    try:
        yield at
        at.until("wane --resume", again=b"\x04")
        deadline = time.monotonic() + 60
        ended, status = os.waitpid(pid, os.WNOHANG)
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
            ended, status = os.waitpid(pid, os.WNOHANG)
        assert ended
        pid = 0
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)


def test_a_signal_from_outside_stops_the_turn_and_not_the_chat(repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        at.say("wait")
        await at.when((repository / "begun").exists)
        os.kill(os.getpid(), signal.SIGINT)
        await at.until("Stopped. What was done")
        os.kill(os.getpid(), signal.SIGINT)
        await at.until("Press Ctrl-C again to quit")
        await at.answers("go on", "Again.")

    replies = [shell("touch begun; sleep 60"), Reply("Again.")]
    with ScriptedServer(replies) as server, terminal(server.openai_model(), repository, yolo=True) as at:
        assert play(at, scene) == 0


@pytest.mark.full
def test_in_a_real_terminal(repository: Path) -> None:
    wait = Call("shell", {"command": "touch begun; sleep 60"})
    replies = [Reply("One."), Reply("Working.", calls=(wait,)), Reply("All is well.")]
    with ScriptedServer(replies) as server:
        with pty(server, repository) as at:
            at.type(b"h\xff\xfe i\r")  # bytes that are no text
            at.until("One.")
            at.type(b"go\r")
            at.until("● shell touch")
            while not (repository / "begun").exists():
                time.sleep(0.01)
            at.type(CTRL_C.encode())
            at.until("Stopped. What was done")
            at.type(b"and now\r")
            at.until("All is well.")
        assert words(server.requests[-1]) == ["h\ufffd\ufffd i", "go", "and now"]
        assert server.refusals == ()
    # Each line in its place: none is written over another, or stands where the prompt was.
    after = at.lines[at.lines.index("> go") :]
    assert after[:3] == ["> go", "Working.", "● shell touch begun; sleep 60"]
    again = after[after.index("> and now") :]
    assert again[1] == "All is well."
    assert after[-1].startswith("Resume with: wane --resume")


def test_a_terminal_stays_raw_while_lines_are_written_above_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    import termios
    import tty

    keys, terminal_fd = os.openpty()

    async def scene() -> str:
        prompt = PromptSession[str](input=keyboard())
        asking = asyncio.create_task(prompt.prompt_async())
        while not prompt.app.is_running:
            await asyncio.sleep(0)
        translates = await run_in_terminal(lambda: termios.tcgetattr(terminal_fd)[tty.IFLAG] & termios.ICRNL)
        assert not translates, "an Enter would arrive as Ctrl-J, which begins a line of the same input"
        os.write(keys, b"typed\r")
        return await asking

    with open(terminal_fd, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with create_app_session(output=DummyOutput()):
            assert asyncio.run(scene()) == "typed"
    os.close(keys)


def test_ctrl_d_chooses_none_of_the_sessions(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    with working(serve("openai_model"), repository, [Reply("One.")]) as at:
        at.run()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(CTRL_D)
        assert run_chat(AgentOptions(cwd=repository, resume="")) == 0
