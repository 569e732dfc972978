"""Decides what the agent may do: by rules, by earlier answers, or by asking the user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from glob import escape
from typing import TYPE_CHECKING, Final, TypeAlias

from wane.agent.approval.grammar import UnreadableError, read_line
from wane.agent.approval.permission_rules import EDIT, MCP, RememberedRules, Rule, rule_for
from wane.agent.approval.readonly import Reading, Surroundings, readings
from wane.agent.approval.splitting import ShellPart, find_bound_parts, parts_of_line

if TYPE_CHECKING:
    from wane.agent.repositories import RepositoryGuard


class Effect(StrEnum):
    """What a tool is about to do."""

    COMMAND = "command"
    WRITE = "write"
    TOOL = "tool"
    REPOSITORY = "repository"
    """Let Git use the settings of a repository that may start programs."""


class AnswerScope(StrEnum):
    """What an answer covers, and for how long."""

    ONCE = "once"
    SESSION = "session"
    """All that the request's rule matches, until the session ends."""
    PROJECT = "project"
    """All that the rule matches in this project, in later sessions too."""
    EVERYTHING = "everything"
    """All requests with the same effect, until the session ends."""
    EACH = "each"
    """Nothing yet: each part of the command line is to be asked about by itself."""


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """What the rules say of one part of a command line."""

    text: str
    allowed: str = ""
    """Why it needs no approval; empty if it needs one."""
    rule: str | None = None
    """What an answer for longer than this once creates for it; None if it is allowed, or no rule can be made."""


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule that decides something: it allows, or else denies."""

    allows: bool
    text: str
    source: str
    """Where it comes from, and for how long it holds."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What the user is asked to allow."""

    effect: Effect
    subject: str
    """The whole command line, the file's path, the tool's name, or the repository's directory."""
    detail: str = ""
    """The diff of a change, the arguments of a tool, the settings of a repository, or why commands of Git are asked."""
    parts: tuple[PartVerdict, ...] = ()
    """The verdict on each part of a command line that has several."""
    part: str = ""
    """The part in question, if the user wants to be asked about each."""
    number: tuple[int, int] = (1, 1)
    """Its number among the parts that need approval, from 1, and how many these are."""
    rules: tuple[str, ...] = ()
    """What an answer for longer than this once creates; none if no rule can be made."""

    @property
    def covers_line(self) -> bool:
        """Whether such an answer is about exactly this line, because its parts say what others do."""
        return bool(self.parts) and self.rules == (_exact(self.subject),)

    @property
    def unsettled(self) -> int:
        """The number of parts that the question is about."""
        if not self.parts:
            return 1
        return sum(not part.allowed for part in self.parts)


@dataclass(frozen=True, slots=True)
class Approval:
    """The user's answer, and the reason that the model reads for a refusal. Within its scope nobody is asked again."""

    allowed: bool
    scope: AnswerScope = AnswerScope.ONCE
    reason: str | None = None


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approval]]
"""Asks the user. It is called for one request at a time."""

CANNOT_ASK: Final = (
    "this needs the user's approval, and print mode cannot ask. Do what is possible without it and say what is left;"
    " the user can allow commands with --allow, and everything with -y/--yolo"
)
"""The reason that the model reads in print mode."""

EVERYTHING: Final = {
    Effect.COMMAND: "all commands",
    Effect.WRITE: "all file changes",
    Effect.TOOL: "all tools of MCP servers",
    Effect.REPOSITORY: "all settings of the repository",
}
"""What an answer of the scope `EVERYTHING` covers, in words."""

REMEMBERED: Final = "this project, for good"
"""The source of a rule that is remembered."""

_OF_GIT: Final = re.compile(r"\b(git|gh|glab|hub|tig|jj)\b")
"""Programs that open a repository by its settings, wherever they stand in a part."""

_QUOTES: Final = str.maketrans("", "", "\\'\"\n")
"""What a shell takes away within a word: `g\\it` is `git`, also to another shell."""

_SETTINGS: Final = "settings or options"
_ANSWERED: Final = "an answer, until the session ends"
_REFUSED: Final = "the user refused it"
_NOT_REMEMBERED: Final = "the answer holds for this session only: {}: {}"
_DENIED: Final = "a rule of the user denies it: {}"


@dataclass(frozen=True, slots=True)
class Clearance:
    """What was decided about a command line.

    Attributes:
        refusal: why it must not run; None if it may.
        confined: whether nobody has allowed any of it, and it may run because it only reads. Then it must run where the
            kernel lets it do nothing else. A line with an allowed part runs as a whole outside of the sandbox.
    """

    refusal: str | None = None
    confined: bool = False


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line that has been read.

    Attributes:
        text: the line.
        parts: what it runs, reads or writes.
        bound: those parts of which another one says what they do, so that no rule covers them by their words.
        doubtful: parts that start Git, where its settings may start programs that nobody has allowed.
        reading: how sure it is of each part that it only reads.
    """

    text: str
    parts: tuple[ShellPart, ...]
    bound: frozenset[ShellPart] = frozenset()
    doubtful: frozenset[ShellPart] = frozenset()
    reading: Mapping[ShellPart, Reading] = field(default_factory=dict)

    @property
    def rule(self) -> Rule | None:
        """The rule that covers exactly this line; None if only the shell, or the input, knows what it runs."""
        if self.doubtful or any(None in part.words or rule_for(part) is None for part in self.parts):
            return None
        return Rule(_exact(self.text))


def _exact(line: str) -> str:
    """Return the text of the rule that covers exactly a line, or a part of one."""
    return f"={line}"


def _may_start_git(part: ShellPart) -> bool:
    return None in part.words or _OF_GIT.search(part.text.translate(_QUOTES)) is not None


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
        surroundings: where commands run. Those that only read below it need no approval; None if all need it.
        sandboxed: whether what only reads is run in a sandbox. Without one, a line needs no approval only
            if a short table knows it and the shell leaves all of its words as they are.
        repository: says where Git may be used unasked; None if there is nothing to ask about it.
    """

    ask: Approver = refuse
    yolo: bool = False
    allow: list[Rule] = field(default_factory=list)
    deny: list[Rule] = field(default_factory=list)
    remembered: RememberedRules | None = None
    warn: Callable[[str], object] = str
    surroundings: Surroundings | None = None
    sandboxed: bool = False
    repository: RepositoryGuard | None = None
    _everything: set[Effect] = field(default_factory=set, init=False)
    _answered_repositories: set[str] = field(default_factory=set, init=False)
    _given: frozenset[Rule] = field(default=frozenset(), init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._given = frozenset((*self.allow, *self.deny))

    async def command(self, line: str) -> str | None:
        """Return why a command line must not run; None if it may. The user is asked once about all its parts."""
        return (await self.clear_command(line)).refusal

    async def clear_command(self, line: str) -> Clearance:
        """Decide about a command line. The user is asked once about all its parts."""
        if self.yolo and not self._denying:
            return Clearance()
        async with self._one_at_a_time:
            try:
                script = read_line(line)
            except UnreadableError:
                return Clearance(await self._unread_command(line))
            parts = parts_of_line(script)
            if not parts:
                return Clearance(await self._unread_command(line))  # only redirections and loops over nothing
            if self._denying and any(part.words[0] is None for part in parts):
                return Clearance(await self._unread_command(line))  # only the shell knows which program runs
            judged = _Line(line, parts, find_bound_parts(script))
            for part in parts:
                if rule := next((rule for rule in self._denying if self._denies(rule, part, line)), None):
                    return Clearance(_DENIED.format(rule.text))
            words = [word for part in parts for word in part.words if word]
            if any(map(_may_start_git, parts)) and await asyncio.to_thread(self._doubts_repository, words):
                judged = replace(judged, doubtful=frozenset(filter(_may_start_git, parts)))
            if all(self._verdict(part, judged).allowed for part in parts):
                return Clearance()
            if self.surroundings is not None:
                # In a thread, because the file system and Git are asked.
                judged = replace(judged, reading=await asyncio.to_thread(readings, script, self.surroundings))
            if self.sandboxed and all(judged.reading.get(part) for part in parts):
                return Clearance(confined=True)
            if all(judged.reading.get(part, Reading.ASKS) >= Reading.PLAIN for part in parts):
                return Clearance()
            verdicts = tuple(self._verdict(part, judged) for part in parts)
            if all(verdict.allowed for verdict in verdicts):
                return Clearance()
            if any(part in judged.bound for part, verdict in zip(parts, verdicts, strict=True) if not verdict.allowed):
                rules: tuple[str, ...] = () if judged.rule is None else (judged.rule.text,)
            else:
                rules = tuple(dict.fromkeys(verdict.rule for verdict in verdicts if verdict.rule is not None))
            listed = verdicts if len(verdicts) > 1 else ()
            why = ""
            if self.repository is not None and any(_OF_GIT.search(v.text) for v in verdicts if not v.allowed):
                why = await asyncio.to_thread(self.repository.explain, words)
            request = ApprovalRequest(Effect.COMMAND, line, why, listed, rules=rules)
            return Clearance(await self._ask(request, judged))

    async def _unread_command(self, line: str) -> str | None:
        """Decide about a line whose parts are unknown: only `*` can allow it, and no rule can be sure to deny it."""
        free = self.yolo or Effect.COMMAND in self._everything or any(rule.text == "*" for rule in self._allowing)
        by_rule = not (self.yolo or Effect.COMMAND in self._everything)
        if free and not self._denying and not (by_rule and await asyncio.to_thread(self._doubts_repository, [line])):
            return None
        return await self._ask(ApprovalRequest(Effect.COMMAND, line))

    def refuses_repository(self) -> bool:
        """Return whether the settings of the session's repository may start programs, and nobody has allowed that."""
        return self.repository is not None and not self.yolo and self.repository.is_inert

    async def ask_about_repository(self) -> None:
        """Ask once whether the settings of the session's repository may start programs, and remember the answer."""
        guard = self.repository
        if guard is None or self.yolo:
            return
        async with self._one_at_a_time:
            settings, digest = await asyncio.to_thread(lambda: (guard.question, guard.digest))
            if not settings or digest in self._answered_repositories:
                return
            answers = self.remembered.repositories if self.remembered is not None else {}
            if digest not in answers:
                answer = await self.ask(ApprovalRequest(Effect.REPOSITORY, str(guard.directory), settings))
                self._answered_repositories.add(digest)
                answers = {digest: answer.allowed}
                if answer.reason == CANNOT_ASK:
                    names = ", ".join(settings.splitlines())
                    effect = "there is no git status and git" if guard.is_inert else "no rule covers git"
                    self.warn(
                        f"the repository's own settings or hooks may start programs ({names}), so {effect} commands"
                        f"{' ask' if guard.is_inert else ''}; start wane here without -p to decide about them"
                    )
                elif answer.reason is None and self.remembered is not None:
                    try:
                        self.remembered.add_repository(digest, trusted=answer.allowed)
                    except OSError as error:
                        self.warn(_NOT_REMEMBERED.format(error.filename, error.strerror or error))
            if answers[digest]:
                guard.trusted = digest

    async def change(self, path: str, diff: str) -> str | None:
        """Return why a file must not be changed; None if it may."""
        return await self._ask_unless_ruled(EDIT, Effect.WRITE, path, diff)

    async def tool(self, name: str, arguments: str) -> str | None:
        """Return why a tool of an MCP server must not be called; None if it may."""
        return await self._ask_unless_ruled(MCP, Effect.TOOL, name, arguments)

    @property
    def in_force(self) -> list[RuleInForce]:
        """All rules, in the order in which they are looked at: those that deny come first.

        What none of them covers is asked for.
        """
        rules: list[RuleInForce] = []
        for allows, of_session in ((False, self.deny), (True, self.allow)):
            remembered: Sequence[Rule] = ()
            if self.remembered is not None:
                remembered = self.remembered.allow if allows else self.remembered.deny
            rules += [RuleInForce(allows, rule.text, REMEMBERED) for rule in remembered]
            for rule in of_session:
                rules.append(RuleInForce(allows, rule.text, _SETTINGS if rule in self._given else _ANSWERED))
        rules += [RuleInForce(True, EVERYTHING[effect], _ANSWERED) for effect in Effect if effect in self._everything]
        return rules

    def allows_all(self, effect: Effect) -> bool:
        """Return whether the user has allowed all requests with an effect until the session ends."""
        return effect in self._everything

    @property
    def _allowing(self) -> Sequence[Rule]:
        return [*self.allow, *(self.remembered.allow if self.remembered else ())]

    @property
    def _denying(self) -> Sequence[Rule]:
        return [*self.deny, *(self.remembered.deny if self.remembered else ())]

    def _denies(self, rule: Rule, part: ShellPart, line: str) -> bool:
        return rule.text == _exact(line) or rule.matches(part, through_wrappers=True)

    def _doubts_repository(self, words: Sequence[str]) -> bool:
        return self.repository is not None and self.repository.doubts(words)

    def _verdict(self, part: ShellPart, line: _Line) -> PartVerdict:
        if self.yolo or Effect.COMMAND in self._everything:
            return PartVerdict(part.text, EVERYTHING[Effect.COMMAND])
        if part in line.doubtful:
            return PartVerdict(part.text)
        for rule in self._allowing:
            if rule.text in ("*", _exact(line.text)) or (part not in line.bound and rule.matches(part)):
                return PartVerdict(part.text, rule.text)
        # The line runs as a whole, beside parts that the user allows, so outside of the sandbox.
        found = line.reading.get(part, Reading.ASKS)
        if found is Reading.IDLE:
            return PartVerdict(part.text, "it only reads")
        if part in line.bound:
            return PartVerdict(part.text)
        if found >= (Reading.SANDBOXED if self.sandboxed else Reading.PLAIN) and None not in part.words:
            created: Rule | None = Rule(_exact(part.text))  # by itself it needs no rule, so none for others like it
        else:
            created = rule_for(part)
        return PartVerdict(part.text, rule=created.text if created else None)

    async def _ask_each(self, line: _Line) -> str | None:
        """Ask about each part by itself, and return the reason of the first refusal; None if all are allowed."""
        unsettled = [part for part in line.parts if not self._verdict(part, line).allowed]
        for number, part in enumerate(unsettled, start=1):
            verdict = self._verdict(part, line)
            if verdict.allowed:  # an answer about an earlier part covers it
                continue
            number_of, rules = (number, len(unsettled)), () if verdict.rule is None else (verdict.rule,)
            request = ApprovalRequest(Effect.COMMAND, line.text, part=part.text, number=number_of, rules=rules)
            if reason := await self._ask(request):
                return reason
        return None

    async def _ask_unless_ruled(self, prefix: str, effect: Effect, name: str, detail: str) -> str | None:
        async with self._one_at_a_time:
            if rule := next((rule for rule in self._denying if rule.names(prefix, name)), None):
                return _DENIED.format(rule.text)
            if self.yolo or effect in self._everything or any(rule.names(prefix, name) for rule in self._allowing):
                return None
            return await self._ask(ApprovalRequest(effect, name, detail, rules=(f"{prefix}{escape(name)}",)))

    async def _ask(self, request: ApprovalRequest, line: _Line | None = None) -> str | None:
        """Ask the user, remember the answer for its scope, and return the reason of a refusal; None if it allows."""
        answer = await self.ask(request)
        if answer.scope is AnswerScope.EACH and line is not None:
            return await self._ask_each(line)
        if answer.scope is AnswerScope.EVERYTHING and answer.allowed:
            self._everything.add(request.effect)
        elif answer.scope not in (AnswerScope.ONCE, AnswerScope.EACH):
            of_session = self.allow if answer.allowed else self.deny
            for rule in map(Rule, request.rules):
                if answer.scope is not AnswerScope.PROJECT or self.remembered is None:
                    of_session.append(rule)
                    continue
                try:
                    self.remembered.add(rule, allowed=answer.allowed)
                except OSError as error:
                    self.warn(_NOT_REMEMBERED.format(error.filename, error.strerror or error))
                    of_session.append(rule)
        return None if answer.allowed else answer.reason or _REFUSED
