"""A session at work with a scripted model, and the tasks that tests give it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability

from tests.agent.conftest import config
from tests.agent.provider import Direct, Provider, Serve
from wane.agent.approval.capability import Approvals
from wane.agent.sandbox.wall import Sandbox
from wane.agent.session import AgentSession, SessionConfig, TurnResult
from wane.agent.tools.toolset import coding_tools
from wane.agent.turn_events import SessionEvent
from wane.journal import Record, read
from wane.testing import Call, Reply, Request, Script

T = TypeVar("T")


class Work:
    """A session, what its model was asked, and its events."""

    def __init__(self, server: Provider, given: SessionConfig) -> None:
        self.server = server
        self.given = given
        self.session = AgentSession.create(given)
        self.events: list[SessionEvent] = []

    @property
    def requests(self) -> Sequence[Request]:
        return self.server.requests

    @property
    def path(self) -> Path:
        assert self.session.journal is not None
        return self.session.journal.path

    @property
    def records(self) -> Sequence[Record]:
        return read(self.path).records

    def run(
        self,
        *prompts: str,
        until: Callable[[SessionEvent], bool] = lambda _: False,
        runs: Callable[[Coroutine[Any, Any, TurnResult]], TurnResult] = asyncio.run,
    ) -> TurnResult:
        """Do tasks one after the other, stopped by an event; return the result of the last."""

        def watch(event: SessionEvent) -> None:
            self.events.append(event)
            if until(event):
                asyncio.get_running_loop().call_soon(self.session.cancel)

        async def turns() -> TurnResult:
            for prompt in prompts or ("go",):
                result = await self.session.run(prompt, watch)
            return result

        return runs(turns())

    def resume(self, **chosen: object) -> AgentSession:
        """Close the session and resume it, with some settings that the user chooses anew."""
        self.session.close()
        settings = self.given.settings.replace(**chosen)
        given = replace(self.given, settings=settings, chosen=frozenset(chosen))
        self.session = AgentSession.resume(self.path, given)
        return self.session

    def of(self, kind: type[T]) -> list[T]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def working(
    serve: Serve,
    directory: Path,
    script: Script,
    *,
    model: Sequence[str] = (),
    max_retries: int = 0,
    refused: bool = False,
    **settings: Any,
) -> Iterator[Work]:
    """Begin a session in a directory, and close it at the end. Whether the provider refused a request is checked."""
    with serve(script) as server:
        options = {"max_retries": max_retries} if max_retries else {}
        at = Work(server, config(directory, server.model(*model, **options), **settings))
        try:
            yield at
        finally:
            at.session.close()
        assert bool(server.refusals) == refused


def call(tool: str, /, **arguments: Any) -> Call:
    return Call(tool, arguments)


def use(
    directory: Path,
    *steps: Sequence[Call],
    before: Sequence[AbstractCapability[Any]] = (),
    budget: int = 80_000,
    with_ripgrep: bool = True,
    sandbox: Sandbox | None = None,
    is_inert: Callable[[], bool] = bool,
) -> list[str]:
    """Have a scripted model use the tools of a directory, without a session; return their results."""
    tools = coding_tools(directory, budget, with_ripgrep=with_ripgrep, sandbox=sandbox, is_inert=is_inert)
    for capability in before:
        if isinstance(capability, Approvals):
            capability.cleared = tools.cleared
    with Direct([*(Reply(calls=tuple(step)) for step in steps), Reply("done")]) as model:
        agent = Agent(model.model(), capabilities=[*before, *tools.capabilities], retries={"tools": 99})
        assert asyncio.run(agent.run("go")).output == "done"
    return list(model.requests[-1].results.values())


def start(name: str, type_: str, *dependencies: str) -> Call:
    behind = {"dependencies": list(dependencies)} if type_ == "act" else {}
    return Call("delimiter", {"action": "start", "name": name, "type": type_, **behind})


def end(description: str | None = None) -> Call:
    return Call("delimiter", {"action": "end"} | ({"description": description} if description else {}))


def shell(*commands: str) -> Reply:
    return Reply(calls=tuple(Call("shell", {"command": command}) for command in commands))


def read_long(*places: dict[str, int]) -> Reply:
    return Reply(calls=tuple(Call("read_file", {"path": "long.py", **place}) for place in places or ({},)))


def task(number: int) -> list[Reply]:
    """One task: explore, then change something and run it."""
    change = (
        start(f"do-{number}", "act", f"look-{number}"),
        Call("write_file", {"path": f"out{number}.txt", "content": f"{number}\n"}),
        Call("shell", {"command": f"cat out{number}.txt"}),
    )
    return [
        Reply(reasoning="Look.", calls=(start(f"look-{number}", "expl"), Call("read_file", {"path": "long.py"}))),
        Reply(calls=(end(f"learned {number}"),)),
        Reply(calls=change),
        Reply(calls=(end(),)),
        Reply(f"Done {number}."),
    ]
