"""Decides what the agent may do: by rules, by earlier answers, or by asking the user."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from glob import escape
from typing import TYPE_CHECKING, Final, TypeAlias

from wane.agent.approval.rules import EDIT, MCP, RememberedRules, Rule, rule_for

if TYPE_CHECKING:
    from wane.agent.approval.commands import ShellPart


class Effect(StrEnum):
    """What a tool is about to do."""

    COMMAND = "command"
    WRITE = "write"
    TOOL = "tool"


class Scope(StrEnum):
    """What an answer covers, and for how long."""

    ONCE = "once"
    SESSION = "session"
    """All that the request's rule matches, until the session ends."""
    PROJECT = "project"
    """All that the rule matches in this project, in later sessions too."""
    EVERYTHING = "everything"
    """All requests with the same effect, until the session ends."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What the user is asked to allow.

    Attributes:
        effect: a command, a change of a file, or a call of an MCP tool.
        subject: the whole command line, the file's path, or the tool's name.
        detail: the diff of a change, or the arguments of a tool; "" for a command.
        part: the part of the command line in question; equal to `subject` if it is the only one.
        number: its number among the parts that need approval, from 1, and how many these are.
        covers: the rule that an answer for longer than this once creates; None if no rule can be made.
    """

    effect: Effect
    subject: str
    detail: str = ""
    part: str = ""
    number: tuple[int, int] = (1, 1)
    covers: str | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """The user's answer.

    Attributes:
        allowed: whether the request is allowed.
        scope: what the answer covers. Within it, the user is not asked again.
        reason: for a refusal, the reason that the model reads.
    """

    allowed: bool
    scope: Scope = Scope.ONCE
    reason: str | None = None


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user. It is called for one request at a time."""

CANNOT_ASK: Final = (
    "this needs the user's approval, and print mode cannot ask. Do what is possible without it and say what is left;"
    " the user can allow commands with --allow, and everything with -y/--yolo"
)
"""The reason that the model reads in print mode."""

_REFUSED: Final = "the user refused it"
_DENIED: Final = "a rule of the user denies it: {}"
_NO_EFFECT: Final = frozenset({"true", "false", ":"})


async def refuse(_request: ApprovalRequest) -> Approval:
    """Refuse every request, because nobody can be asked."""
    return Approval(allowed=False, reason=CANNOT_ASK)


@dataclass(slots=True)
class Permissions:
    """Decides about commands, changes of files and calls of MCP tools. Rules that deny come first.

    Attributes:
        ask: asks the user.
        yolo: whether everything is allowed that no rule denies.
        allow: rules for what is allowed; answers for the session are added to them.
        deny: rules for what is denied, likewise.
        remembered: the rules remembered for this project; None if nothing is remembered.
        warn: called with a sentence if an answer could not be remembered.
    """

    ask: Approver = refuse
    yolo: bool = False
    allow: list[Rule] = field(default_factory=list)
    deny: list[Rule] = field(default_factory=list)
    remembered: RememberedRules | None = None
    warn: Callable[[str], object] = str
    _everything: set[Effect] = field(default_factory=set, init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def command(self, line: str) -> str | None:
        """Return why a command line must not run; None if it may. The user is asked about each part separately."""
        if self.yolo and not self._denying:
            return None
        from wane.agent.approval.commands import parts_of

        async with self._one_at_a_time:
            parts = parts_of(line)
            if parts is None:
                # Its parts are unknown, so only `*` can allow it, and no rule can be sure to deny it.
                free = Effect.COMMAND in self._everything or any(rule.text == "*" for rule in self._allowing)
                if free and not self._denying:
                    return None
                return await self._answer(ApprovalRequest(Effect.COMMAND, line, part=line), None)
            for part in parts:
                if rule := next((rule for rule in self._denying if rule.matches(part, through_wrappers=True)), None):
                    return _DENIED.format(rule.text)
            unsettled = [part for part in parts if not self._allows(part)]
            for number, part in enumerate(unsettled, start=1):
                if self._allows(part):  # an answer about an earlier part covers it
                    continue
                rule = rule_for(part)
                request = ApprovalRequest(
                    Effect.COMMAND,
                    line,
                    part=part.text,
                    number=(number, len(unsettled)),
                    covers=rule.text if rule else None,
                )
                if reason := await self._answer(request, rule):
                    return reason
            return None

    async def change(self, path: str, diff: str) -> str | None:
        """Return why a file must not be changed; None if it may."""
        return await self._decide(EDIT, ApprovalRequest(Effect.WRITE, path, diff, path, covers=f"{EDIT}{escape(path)}"))

    async def tool(self, name: str, arguments: str) -> str | None:
        """Return why a tool of an MCP server must not be called; None if it may."""
        return await self._decide(
            MCP, ApprovalRequest(Effect.TOOL, name, arguments, name, covers=f"{MCP}{escape(name)}")
        )

    @property
    def _allowing(self) -> Sequence[Rule]:
        return [*self.allow, *(self.remembered.allow if self.remembered else ())]

    @property
    def _denying(self) -> Sequence[Rule]:
        return [*self.deny, *(self.remembered.deny if self.remembered else ())]

    def _allows(self, part: ShellPart) -> bool:
        if self.yolo or Effect.COMMAND in self._everything or part.words[0] in _NO_EFFECT:
            return True
        return _enters_subdirectory(part) or any(rule.matches(part) for rule in self._allowing)

    async def _decide(self, prefix: str, request: ApprovalRequest) -> str | None:
        name = request.subject
        async with self._one_at_a_time:
            if rule := next((rule for rule in self._denying if rule.names(prefix, name)), None):
                return _DENIED.format(rule.text)
            if self.yolo or request.effect in self._everything:
                return None
            if any(rule.names(prefix, name) for rule in self._allowing):
                return None
            return await self._answer(request, Rule(request.covers or ""))

    async def _answer(self, request: ApprovalRequest, rule: Rule | None) -> str | None:
        """Ask the user, remember the answer for its scope, and return the reason of a refusal; None if allowed."""
        answer = await self.ask(request)
        if answer.scope is Scope.EVERYTHING and answer.allowed:
            self._everything.add(request.effect)
        elif answer.scope is not Scope.ONCE and rule is not None and not self._remember(rule, answer):
            (self.allow if answer.allowed else self.deny).append(rule)
        return None if answer.allowed else answer.reason or _REFUSED

    def _remember(self, rule: Rule, answer: Approval) -> bool:
        if answer.scope is not Scope.PROJECT or self.remembered is None:
            return False
        try:
            self.remembered.add(rule, allowed=answer.allowed)
        except OSError as error:
            self.warn(f"the answer holds for this session only: {error.filename}: {error.strerror or error}")
            return False
        return True


def _enters_subdirectory(part: ShellPart) -> bool:
    """Whether a part is a `cd` to a directory below the current one."""
    if part.words[0] != "cd" or len(part.words) != 2 or (target := part.words[1]) is None:
        return False
    path = posixpath.normpath(target)
    return not path.startswith(("/", "..", "~", "-"))
