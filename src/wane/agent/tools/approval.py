"""Asking before commands are run and files are changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic_ai.capabilities import AbstractCapability, on_event
from pydantic_ai.exceptions import SkipToolExecution
from pydantic_ai_harness.filesystem import FileChangeRequestEvent
from typing_extensions import override

from wane.agent.tools.toolset import SHELL_TOOL

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition


class Effect(StrEnum):
    """What a tool is about to do to the environment."""

    COMMAND = "command"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What the user is asked to allow.

    Attributes:
        effect: a command, or a change of a file.
        subject: the command, or the file's path.
        detail: for a change, its diff; "" for a command.
    """

    effect: Effect
    subject: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer.

    Attributes:
        allowed: whether to go on.
        always: allow the same effect from now on, without asking, until the session ends.
        reason: for a refusal, what to tell the model.
    """

    allowed: bool
    always: bool = False
    reason: str | None = None


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user. Called for one thing at a time."""

CANNOT_ASK: Final = (
    "this needs the user's approval, and print mode cannot ask. Do what is possible without it and say what is left;"
    " the user can allow commands and file changes with -y/--yolo"
)
"""Why print mode refuses."""


async def refuse(_request: ApprovalRequest) -> Approval:
    """Refuse all, because nobody can be asked."""
    return Approval(allowed=False, reason=CANNOT_ASK)


@dataclass
class Approvals(AbstractCapability[Any]):
    """Has the user approve commands and file changes before they happen.

    A refusal is an ordinary tool result with the reason; it uses up no retries.

    Attributes:
        ask: asks the user; None allows everything (`--yolo`).
    """

    ask: Approver | None
    _always: set[Effect] = field(default_factory=set, init=False, repr=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask for a command."""
        if call.tool_name == SHELL_TOOL:
            refusal = await self._refusal(ApprovalRequest(Effect.COMMAND, str(_command(args))))
            if refusal is not None:
                raise SkipToolExecution(f"The command was not run: {refusal}")
        return args

    @on_event(FileChangeRequestEvent)
    async def _on_change(self, _ctx: RunContext[Any], event: FileChangeRequestEvent) -> None:
        # The file system announces a change once it has found it possible, with its diff.
        diff = f"{event.diff}\n[the rest of the diff is not shown]" if event.truncated else event.diff
        refusal = await self._refusal(ApprovalRequest(Effect.WRITE, event.path, diff))
        if refusal is not None:
            event.cancel(refusal)

    async def _refusal(self, request: ApprovalRequest) -> str | None:
        if self.ask is None:
            return None
        async with self._one_at_a_time:
            if request.effect in self._always:
                return None
            answer = await self.ask(request)
        if answer.allowed:
            if answer.always:
                self._always.add(request.effect)
            return None
        return answer.reason or "the user refused it"


def _command(args: Mapping[str, Any]) -> object:
    return args.get("command", "")
