"""`kill -9` at random points of a running agent, a hundred times in `make test-all`, then resume.

Nothing acknowledged is lost: what a request to the model held, and what a finished task answered, is in the
journal. The view is the one that it would have been: the recorded passes are those that the policy runs there,
and what was on its way when the process died is what the resumed session would send.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest

from tests.agent.crash_agent import config
from tests.marks import first_quick
from wane.agent.session import AgentSession
from wane.core import ContextWindow
from wane.core.errors import SessionNotFoundError
from wane.formats.message_format import Transcript
from wane.formats.notices import INDEX_OPENING
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.journal import (
    ConfigRecord,
    MessageRecord,
    PassRecord,
    Record,
    SessionStore,
    UsageRecord,
    read,
)
from wane.testing import Call, Kind, Reply, Request, ScriptedServer

SESSIONS = 5
LONGEST = 120.0
"""Seconds that a wait may take."""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")


class Worker:
    """The process that forks the agent, and what it has said."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("crash_agent.py")
        root = script.parents[2]
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (root, root / "src")))},
        )  # fmt: skip
        assert self._line() == "ready"

    def kill_when(self, due: Callable[[], bool], url: str, project: Path, sessions: Path) -> list[str]:
        """Have an agent work and kill it when it is due; return the answers of the tasks that it had done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{url}\t{project}\t{sessions}\n")
        self.process.stdin.flush()
        child = int(self._until("pid")[-1].split()[1])
        before = self._until("at work")
        deadline = time.monotonic() + LONGEST
        while not due():
            assert time.monotonic() < deadline, "the agent hangs"
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        said = before + self._until("ended")
        assert said[-1] == f"ended {-signal.SIGKILL}", said
        return [line.removeprefix("done ") for line in said if line.startswith("done ")]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _until(self, word: str) -> list[str]:
        lines = [self._line()]
        while not lines[-1].startswith(word):
            assert not lines[-1].startswith("ended"), f"the agent ended by itself: {lines}"
            lines.append(self._line())
        return lines

    def _line(self) -> str:
        assert self.process.stdout is not None
        # A process that hangs fails one test; without a limit it would end the process that runs the tests.
        timer = threading.Timer(LONGEST, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        assert line, "the agent's process has ended"
        return line.rstrip("\n")


def replies(random_: random.Random) -> Iterator[Reply]:
    """A model that does all kinds of things in no sensible order; many of its delimiter calls are refused."""
    names = [f"e{number}" for number in range(10_000)]
    used = iter(names)
    latest = next(used)
    while True:
        latest = next(used) if random_.random() < 0.3 else latest
        calls = [
            Call("delimiter", {"action": "start", "name": latest, "type": "expl"}),
            Call("delimiter", {"action": "start", "name": f"{latest}-act", "type": "act", "dependencies": [latest]}),
            Call("delimiter", {"action": "end"}),
            Call("delimiter", {"action": "end", "description": f"learned {latest}"}),
            Call("read_file", {"path": "long.py", "offset": random_.randrange(200)}),
            Call("grep", {"pattern": f"value_{random_.randrange(30)}"}),
            Call("write_file", {"path": "out.txt", "content": latest}),
            Call("shell", {"command": "echo out"}),
        ]
        weights = [5, 4, 4, 6, 6, 4, 3, 1]
        chosen = tuple(random_.choices(calls, weights, k=random_.randrange(1, 4)))
        if random_.random() < 0.15:
            yield Reply(f"answer {random_.getrandbits(64)}")
        else:
            yield Reply(random_.choice([None, "I go on."]), random_.choice([None, "Think."]), chosen)


class Journalled:
    """A session's records, folded anew by the rules: where a pass stands the policy runs again."""

    def __init__(self, records: tuple[Record, ...]) -> None:
        self.transcript: Transcript[ModelMessage] = Transcript(PydanticAIFormat())
        self.window = ContextWindow()
        self.passes = 0
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        window = self.window
        if isinstance(record, ConfigRecord):
            window.budget, window.policy, window.overhead = record.budget, record.policy, record.overhead
        elif isinstance(record, MessageRecord):
            window.extend(self.transcript.append(PydanticAIFormat().load([dict(record.message)])[0]))
        elif isinstance(record, PassRecord):
            report = window.fit(write_index=lambda *_: record.index)
            assert report.steps == record.steps
            self.passes += 1
        elif isinstance(record, UsageRecord):
            assert not window.fit().steps
            window.observe(record.input_tokens)

    @property
    def view(self) -> list[ModelMessage]:
        return self.transcript.view(self.window.visible)

    def history_contents(self) -> set[Said]:
        return set(contents(self.transcript.messages))


Said = tuple[Kind, str, str]
"""One thing said: what it is, the id of its call, and its text; a call's text is its arguments."""


def contents(messages: list[ModelMessage]) -> list[Said]:
    """What messages say."""
    return [
        (part.kind, part.call_id or "", (part.arguments if part.kind is Kind.CALL else part.text) or "")
        for message in messages
        for part in PydanticAIFormat().parts(message)
        if part.kind is not Kind.SYSTEM and not part.text.startswith(INDEX_OPENING)
    ]


def request_contents(request: Request) -> list[Said]:
    """What a request said, without the notes at its end that are no part of the history."""
    parts = [part for part in request.parts if part.kind is not Kind.SYSTEM]
    notes = ("<git-status>", "[Automatic note", INDEX_OPENING)
    return [(p.kind, p.call_id or "", p.text) for p in parts if not any(note in p.text for note in notes)]


def without_thoughts(said: list[Said]) -> Counter[Said]:
    return Counter(one for one in said if one[0] is not Kind.REASONING)


def check(path: Path, requests: tuple[Request, ...], done: list[str]) -> Journalled:
    found = read(path)
    journalled = Journalled(found.records)
    said = journalled.history_contents()
    assert not requests or set(request_contents(requests[-1])) <= said
    assert {(Kind.TEXT, "", answer) for answer in done} <= said
    if requests and isinstance(journalled.transcript.messages[-1], ModelRequest):
        last = journalled.transcript.messages[-1]
        if set(contents([last])) <= set(request_contents(requests[-1])):
            # It died while the model was at work: the view is what had been sent. But for thoughts with nothing left
            # around them: Chat Completions has no message for these alone.
            assert without_thoughts(contents(journalled.view)) == without_thoughts(request_contents(requests[-1]))
    return journalled


def somewhere(random_: random.Random, server: ScriptedServer) -> Callable[[], bool]:
    """A random point: some requests from now, and a moment more, in which the agent is anywhere between two."""
    requests = len(server.requests) + random_.randrange(5)
    rest = random_.uniform(0, 0.06)
    since: list[float] = []

    def due() -> bool:
        if len(server.requests) >= requests and not since:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= rest

    return due


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.mark.full
@pytest.mark.parametrize(("seed", "kills"), first_quick((0, 6), *((seed, 20) for seed in range(SESSIONS))))
def test_kill_9(repository: Path, worker: Worker, seed: int, kills: int) -> None:
    (repository / "long.py").write_text("".join(f"value_{number} = {number}\n" for number in range(300)))
    sessions = repository.parent / "sessions"
    random_ = random.Random(seed)
    script = replies(random.Random(seed))
    done: list[str] = []
    with ScriptedServer(lambda _: next(script)) as server:
        for _ in range(kills):
            before = len(server.requests)
            done += worker.kill_when(somewhere(random_, server), server.url, repository, sessions)
            with suppress(SessionNotFoundError):  # it died before there was a message
                path = SessionStore(sessions).latest(repository).path
                journalled = check(path, server.requests[before:], done)
        resumed = AgentSession.resume(path, config(server.url, repository, sessions))
        assert contents(resumed.conversation.view)[: len(contents(journalled.view))] == contents(journalled.view)
        resumed.close()
        assert server.refusals == ()
    assert journalled.passes
