"""The question whether something may be done: what it says, what the answers mean, and how the prompt waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from wane.agent.approval.permissions import Approval, ApprovalRequest, Effect, Scope
from wane.cli.terminal.text import printable

MAX_LINES: Final = 60
"""Lines of a command or a diff to show."""

_EVERYTHING: Final = {
    Effect.COMMAND: "all commands",
    Effect.WRITE: "all file changes",
    Effect.TOOL: "all tools of MCP servers",
}
_ANSWERS: Final = {
    "y": Approval(allowed=True),
    "a": Approval(allowed=True, scope=Scope.SESSION),
    "p": Approval(allowed=True, scope=Scope.PROJECT),
    "s": Approval(allowed=True, scope=Scope.EVERYTHING),
    "n": Approval(allowed=False),
    "v": Approval(allowed=False, scope=Scope.PROJECT),
}
_SPELLED: Final = {"yes": "y", "always": "a", "project": "p", "session": "s", "no": "n", "never": "v", "": "n"}


def question_lines(request: ApprovalRequest) -> Iterator[Text]:
    """Yield what the user is asked, and what each answer covers."""
    bold = "bold yellow"
    match request.effect:
        case Effect.COMMAND:
            yield Text("The agent wants to run:", style=bold)
            yield from _bounded(request.subject, {})
        case Effect.WRITE:
            yield Text(f"The agent wants to change {printable(request.subject)}:", style=bold)
            yield from _bounded(request.detail, {"+": "green", "-": "red"})
        case Effect.TOOL:
            yield Text(f"The agent wants to call {printable(request.subject)}:", style=bold)
            yield from _bounded(request.detail, {})
    number, of = request.number
    if request.part != request.subject:
        count = f" ({number} of {of})" if of > 1 else ""
        yield Text(f"This asks for one part of it{count}:", style=bold)
        yield from _bounded(request.part, {})
    for key, what in _menu(request):
        yield Text.assemble("  ", (key, bold), f"  {what}")


def prompt_of(request: ApprovalRequest) -> str:
    """Return the words of the prompt for the answer."""
    return f"Allow it? {'/'.join(key for key, _ in _menu(request))}, or say what to do instead "


def answer_to(request: ApprovalRequest, line: str) -> Approval | None:
    """Return what a line answers; None if it is an answer that this question does not offer."""
    word = line.strip().lower()
    key = _SPELLED.get(word, word)
    if key not in _ANSWERS:
        return Approval(allowed=False, reason=f"the user refused it and says: {line}")
    return _ANSWERS[key] if any(key == offered for offered, _ in _menu(request)) else None


def covered(rule: str) -> str:
    """Return in words what a rule is about."""
    if rule.startswith("="):
        return "exactly this text"
    prefix, separator, name = rule.partition(":")
    if separator and prefix in ("edit", "mcp"):
        return f"changes of {printable(name)}" if prefix == "edit" else f"the tool {printable(name)}"
    words = rule.removesuffix(" *")
    return f"{printable(words)} with any arguments" if words != rule else printable(rule)


def _menu(request: ApprovalRequest) -> Iterator[tuple[str, str]]:
    yield "y", "yes, once"
    if request.covers is not None:
        what = covered(request.covers)
        yield "a", f"always: {what}, until the session ends"
        yield "p", f"always: {what}, in this project for good"
    yield "s", f"{_EVERYTHING[request.effect]}, until the session ends"
    yield "n", "no"
    if request.covers is not None:
        yield "v", f"never: {what}, in this project for good"


def _bounded(text: str, styles: dict[str, str]) -> Iterator[Text]:
    lines = text.rstrip("\n").split("\n")
    for line in lines[:MAX_LINES]:
        headed = bool(styles) and line.startswith(("+++", "---", "@@"))
        yield Text(f"  {printable(line, keep=chr(9))}", style="dim" if headed else styles.get(line[:1], ""))
    if len(lines) > MAX_LINES:
        yield Text(f"  ({len(lines) - MAX_LINES} more lines)", style="dim")


class Asking:
    """The question that is open, if there is one; there is one at a time."""

    def __init__(self) -> None:
        self._request: ApprovalRequest | None = None
        self._answer: asyncio.Future[Approval] | None = None

    @property
    def open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._answer is not None and not self._answer.done()

    @property
    def prompt(self) -> str:
        """The words of the prompt for the answer; "" if no question is open."""
        return prompt_of(self._request) if self.open and self._request is not None else ""

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return the answer, once there is one."""
        self._request, self._answer = request, asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self._request = self._answer = None

    def take(self, line: str) -> bool:
        """Take a line as the answer; False if the question does not offer it."""
        assert self._request is not None
        approval = answer_to(self._request, line)
        if approval is not None:
            self.answer(approval)
        return approval is not None

    def answer(self, approval: Approval) -> None:
        """Answer the question that is open."""
        assert self._answer is not None
        self._answer.set_result(approval)
