"""What is allowed, what is denied, and what the user must be asked: rules, answers, and how long an answer holds."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from glob import escape
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from wane.agent.approval.commands import Part
    from wane.agent.approval.remembered import Remembered
    from wane.agent.approval.rules import Rule


class Effect(StrEnum):
    """What a tool is about to do to the environment."""

    COMMAND = "command"
    WRITE = "write"
    TOOL = "tool"


class Scope(StrEnum):
    """How far an answer reaches."""

    ONCE = "once"
    SESSION = "session"
    """What the request's rule covers, until the session ends."""
    PROJECT = "project"
    """What the rule covers, in this project, in later sessions too."""
    EVERYTHING = "everything"
    """Everything of the same effect, until the session ends."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What the user is asked to allow.

    Attributes:
        effect: a command, a change of a file, or a call of an MCP server's tool.
        subject: the whole command, the file's path, or the tool's name.
        detail: for a change, its diff; for a tool, its arguments; for a command "".
        part: the part of the command that this request is about; the same as `subject` if it has only one.
        number: which of the parts that need approval this is, from 1, and how many there are.
        covers: the rule that an answer beyond this once is remembered as; None if nothing can be remembered.
    """

    effect: Effect
    subject: str
    detail: str = ""
    part: str = ""
    number: tuple[int, int] = (1, 1)
    covers: str | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer.

    Attributes:
        allowed: whether to go on.
        scope: how far the answer reaches. A refusal that reaches further than once is not asked about again.
        reason: for a refusal, what to tell the model.
    """

    allowed: bool
    scope: Scope = Scope.ONCE
    reason: str | None = None


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user. Called for one thing at a time."""

CANNOT_ASK: Final = (
    "this needs the user's approval, and print mode cannot ask. Do what is possible without it and say what is left;"
    " the user can allow commands with --allow, and everything with -y/--yolo"
)
"""Why print mode refuses."""

_REFUSED: Final = "the user refused it"
_NOTHING_DONE: Final = frozenset({"true", "false", ":"})


async def refuse(_request: ApprovalRequest) -> Approval:
    """Refuse all, because nobody can be asked."""
    return Approval(allowed=False, reason=CANNOT_ASK)


@dataclass(slots=True)
class Permissions:
    """Decides about commands, changes of files and calls of MCP tools. A rule that denies is stronger than any other.

    Attributes:
        ask: asks the user.
        yolo: whether what no rule denies is allowed.
        allow: rules of what is allowed, those of this session included.
        deny: rules of what is denied, likewise.
        remembered: what the user allowed or denied in this project for good; None if nothing is kept.
        warn: told when an answer could not be kept.
    """

    ask: Approver = refuse
    yolo: bool = False
    allow: list[Rule] = field(default_factory=list)
    deny: list[Rule] = field(default_factory=list)
    remembered: Remembered | None = None
    warn: Callable[[str], object] = str
    _everything: set[Effect] = field(default_factory=set, init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def command(self, line: str) -> str | None:
        """Return why a command must not run; None if it may. Each part of it is asked for by itself."""
        if self.yolo and not self._denying:
            return None
        from wane.agent.approval.commands import parts_of

        async with self._one_at_a_time:
            parts = parts_of(line)
            if parts is None:
                return await self._unreadable(line)
            for part in parts:
                if rule := next((rule for rule in self._denying if rule.matches(part, widely=True)), None):
                    return f"a rule of the user denies it: {rule.text}"
            asked = [part for part in parts if not self._allows(part)]
            for number, part in enumerate(asked, start=1):
                # An answer may have covered later parts, too.
                if not self._allows(part) and (reason := await self._asked_part(line, part, (number, len(asked)))):
                    return reason
            return None

    async def change(self, path: str, diff: str) -> str | None:
        """Return why a file must not be changed; None if it may."""
        from wane.agent.approval.rules import EDIT

        return await self._named(EDIT, ApprovalRequest(Effect.WRITE, path, diff, path, covers=f"{EDIT}{escape(path)}"))

    async def tool(self, name: str, arguments: str) -> str | None:
        """Return why a tool of an MCP server must not be called; None if it may."""
        from wane.agent.approval.rules import MCP

        return await self._named(
            MCP, ApprovalRequest(Effect.TOOL, name, arguments, name, covers=f"{MCP}{escape(name)}")
        )

    @property
    def _allowing(self) -> Sequence[Rule]:
        return [*self.allow, *(self.remembered.allow if self.remembered else ())]

    @property
    def _denying(self) -> Sequence[Rule]:
        return [*self.deny, *(self.remembered.deny if self.remembered else ())]

    def _allows(self, part: Part) -> bool:
        if self.yolo or Effect.COMMAND in self._everything or part.words[0] in _NOTHING_DONE:
            return True
        return _stays(part) or any(rule.matches(part) for rule in self._allowing)

    async def _unreadable(self, line: str) -> str | None:
        """A line whose parts are not known: no rule can be about it, but `*`."""
        free = Effect.COMMAND in self._everything or any(rule.text == "*" for rule in self._allowing)
        if free and not self._denying:
            return None
        return await self._answer(ApprovalRequest(Effect.COMMAND, line, part=line), None)

    async def _asked_part(self, line: str, part: Part, number: tuple[int, int]) -> str | None:
        from wane.agent.approval.rules import covering

        rule = covering(part)
        covers = rule.text if rule else None
        return await self._answer(
            ApprovalRequest(Effect.COMMAND, line, part=part.text, number=number, covers=covers), rule
        )

    async def _named(self, prefix: str, request: ApprovalRequest) -> str | None:
        from wane.agent.approval.rules import Rule

        name = request.subject
        async with self._one_at_a_time:
            if rule := next((rule for rule in self._denying if rule.names(prefix, name)), None):
                return f"a rule of the user denies it: {rule.text}"
            if self.yolo or request.effect in self._everything:
                return None
            if any(rule.names(prefix, name) for rule in self._allowing):
                return None
            return await self._answer(request, Rule(request.covers or ""))

    async def _answer(self, request: ApprovalRequest, rule: Rule | None) -> str | None:
        """Ask, remember the answer as far as it reaches, and return the reason of a refusal."""
        answer = await self.ask(request)
        if answer.scope is Scope.EVERYTHING and answer.allowed:
            self._everything.add(request.effect)
        elif answer.scope is not Scope.ONCE and rule is not None and not self._kept(rule, answer):
            (self.allow if answer.allowed else self.deny).append(rule)
        return None if answer.allowed else answer.reason or _REFUSED

    def _kept(self, rule: Rule, answer: Approval) -> bool:
        if answer.scope is not Scope.PROJECT or self.remembered is None:
            return False
        try:
            self.remembered.add(rule, allowed=answer.allowed)
        except OSError as error:
            self.warn(f"the answer holds for this session only: {error.filename}: {error.strerror or error}")
            return False
        return True


def _stays(part: Part) -> bool:
    """Whether a part only changes to a directory below the current one."""
    if part.words[0] != "cd" or len(part.words) != 2 or (target := part.words[1]) is None:
        return False
    path = posixpath.normpath(target)
    return not path.startswith(("/", "..", "~", "-"))
