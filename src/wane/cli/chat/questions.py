"""Questions for approval: what they say, what the answers mean, and how the prompt waits for one.

A question stands above the prompt until it is answered, by the digit ahead of an answer or in words; then one line
about the answer is written in its place. A digit answers at once. Letters do not: words begin with them, and "stop"
must not allow all commands because its first letter does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from wane.agent.approval.permissions import EVERYTHING, AnswerScope, Approval, ApprovalRequest, Effect
from wane.cli.terminal.text import count_noun, printable

MAX_LINES: Final = 60
"""Lines of a command or a diff to show."""

_ANSWERS: Final = {
    "y": Approval(allowed=True),
    "a": Approval(allowed=True, scope=AnswerScope.SESSION),
    "p": Approval(allowed=True, scope=AnswerScope.PROJECT),
    "s": Approval(allowed=True, scope=AnswerScope.EVERYTHING),
    "e": Approval(allowed=False, scope=AnswerScope.EACH),
    "n": Approval(allowed=False),
    "v": Approval(allowed=False, scope=AnswerScope.PROJECT),
}
# Each has its digit in every question, offered or not: a hand that has learnt one must not refuse a rule for good.
_DIGITS: Final = {"y": "1", "a": "2", "p": "3", "s": "4", "n": "5", "e": "6", "v": "7"}
_SPELLED: Final = {
    "yes": "y", "always": "a", "project": "p", "session": "s", "each": "e", "no": "n", "never": "v",
}  # fmt: skip


_SAYS: Final = "the user refused it and says: "

_GRACE: Final = 0.3
"""Seconds within which no digit answers a new question: nobody has read it yet."""

_SCOPES: Final = {
    AnswerScope.ONCE: "once",
    AnswerScope.SESSION: "until the session ends",
    AnswerScope.PROJECT: "in this project for good",
}


def question_lines(request: ApprovalRequest) -> Iterator[Text]:
    """Yield what the user is asked about."""
    bold = "bold yellow"
    match request.effect:
        case Effect.COMMAND:
            yield Text("The agent wants to run:", style=bold)
            yield from _bound_lines(request.subject, {})
            if request.detail:
                yield Text(printable(request.detail), style="dim")
        case Effect.WRITE:
            yield Text(f"The agent wants to change {printable(request.subject)}:", style=bold)
            yield from _bound_lines(request.detail, {"+": "green", "-": "red"})
        case Effect.TOOL:
            yield Text(f"The agent wants to call {printable(request.subject)}:", style=bold)
            yield from _bound_lines(request.detail, {})
        case Effect.REPOSITORY:
            yield Text(
                f"Settings or hooks of the repository in {printable(request.subject)} may start programs:", style=bold
            )
            yield from _bound_lines(request.detail, {})
    number, of = request.number
    if request.part:
        yield Text(f"Part {number} of the {of} that need approval:", style=bold)
        yield from _bound_lines(request.part, {})
    if request.parts:
        yield Text("Its parts:", style=bold)
        for part in request.parts:
            if part.allowed:
                yield Text.assemble(("  allowed  ", "green"), printable(part.text), (f"  ({part.allowed})", "dim"))
                continue
            always = ""
            if request.unsettled > 1 and not request.covers_line:  # the menu has no room for what "always" covers
                always = f"  (always: {describe_rule(part.rule)})" if part.rule else "  (asked for each time)"
            yield Text.assemble(("  asks     ", "yellow"), printable(part.text), (always, "dim"))


def choice_lines(request: ApprovalRequest) -> Iterator[Text]:
    """Yield the answers to choose from, and what each covers."""
    for key, what in _menu(request):
        yield Text.assemble("  ", (_DIGITS[key], "bold yellow"), f"  {what}")


def answer_line(request: ApprovalRequest, approval: Approval) -> str:
    """Return what was asked and answered, on one line."""
    subject = printable(request.part or request.subject)
    if request.effect is Effect.WRITE:
        subject = f"changes of {subject}"
    elif request.effect is Effect.REPOSITORY:
        subject = f"the settings of the repository in {subject}"
    rule = "" if request.unsettled > 1 or not request.rules else describe_rule(request.rules[0])
    if approval.scope is AnswerScope.EACH:
        return f"asked about each part of {subject}"
    if approval.scope is AnswerScope.EVERYTHING:
        return f"allowed {EVERYTHING[request.effect]}, until the session ends"
    if approval.allowed:
        return (
            f"allowed {_SCOPES[approval.scope]}: {subject if approval.scope is AnswerScope.ONCE else rule or subject}"
        )
    refused = f"refused for good: {rule}" if approval.scope is AnswerScope.PROJECT else f"refused: {subject}"
    return f"{refused} ({printable(approval.reason.removeprefix(_SAYS))})" if approval.reason else refused


def describe_rule(rule: str) -> str:
    """Return in words what a rule covers."""
    if rule.startswith("="):
        return "exactly this text"
    prefix, separator, name = rule.partition(":")
    if separator and prefix in ("edit", "mcp"):
        return f"changes of {printable(name)}" if prefix == "edit" else f"the tool {printable(name)}"
    words = rule.removesuffix(" *")
    return f"{printable(words)} with any arguments" if words != rule else printable(rule)


def _menu(request: ApprovalRequest) -> Iterator[tuple[str, str]]:
    if request.effect is Effect.REPOSITORY:
        yield "y", "yes, I trust them, in this project for good"
        yield (
            "n",
            "no: then git commands ask, and because of settings the agent sees no git status; in this project for good",
        )
        return
    several = request.unsettled > 1
    yield "y", "yes, this whole line, once" if request.parts else "yes, once"
    if request.rules:
        shown = "exactly this line" if request.covers_line else describe_rule(request.rules[0])
        always = "always, as shown above," if several and not request.covers_line else f"always: {shown},"
        yield "a", f"{always} until the session ends"
        yield "p", f"{always} in this project for good"
    yield "s", f"{EVERYTHING[request.effect]}, until the session ends"
    yield "n", "no"
    if several:
        yield "e", "ask about each part"
    if request.rules and not several:
        yield "v", f"never: {describe_rule(request.rules[0])}, in this project for good"


def _bound_lines(text: str, styles: dict[str, str]) -> Iterator[Text]:
    lines = text.rstrip("\n").split("\n")
    for line in lines[:MAX_LINES]:
        headed = bool(styles) and line.startswith(("+++", "---", "@@"))
        yield Text(f"  {printable(line, keep=chr(9))}", style="dim" if headed else styles.get(line[:1], ""))
    if len(lines) > MAX_LINES:
        yield Text(f"  ({count_noun(len(lines) - MAX_LINES, 'more line')})", style="dim")


class Asking:
    """The question that is open, if there is one; there is one at a time."""

    def __init__(self) -> None:
        self.request: ApprovalRequest | None = None
        self._answer: asyncio.Future[Approval] | None = None
        self._readable_at = 0.0

    @property
    def open(self) -> bool:
        return self._answer is not None and not self._answer.done()

    @property
    def prompt(self) -> str:
        """The words of the prompt for the answer; "" if no question is open."""
        if not self.open or self.request is None:
            return ""
        *digits, last = _number_answers(self.request)
        return f"Allow it? {', '.join(digits)} or {last}, or say what to do instead "

    async def ask(self, request: ApprovalRequest) -> Approval:
        loop = asyncio.get_running_loop()
        self._readable_at = loop.time() + _GRACE
        self.request, self._answer = request, loop.create_future()
        try:
            return await self._answer
        finally:
            self.request = self._answer = None

    def press(self, digit: str) -> bool:
        """Take a digit as the answer; False if it answers nothing, or nobody can have read the question yet."""
        if self.request is None or asyncio.get_running_loop().time() < self._readable_at:
            return False
        return digit in _number_answers(self.request) and self.take(digit)

    def take(self, line: str) -> bool:
        """Take a line as the answer; False if it is an answer that the question does not offer."""
        assert self.request is not None
        word = line.strip().lower()
        key = _number_answers(self.request).get(word, _SPELLED.get(word, word))
        if key not in _ANSWERS and not word.isdecimal():
            self.answer(Approval(allowed=False, reason=f"{_SAYS}{line}"))
            return True
        if key not in dict(_menu(self.request)):
            return False
        self.answer(_ANSWERS[key])
        return True

    def answer(self, approval: Approval) -> None:
        assert self._answer is not None
        self._answer.set_result(approval)


def _number_answers(request: ApprovalRequest) -> dict[str, str]:
    """Return the letters of the answers that a question offers, by their digits."""
    return {_DIGITS[key]: key for key, _ in _menu(request)}
