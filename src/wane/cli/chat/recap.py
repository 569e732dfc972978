"""A session in a few lines, for the user who resumes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from rich.text import Text

from wane.cli.chat.footer import short
from wane.cli.terminal.text import counted, local_time, printable
from wane.journal import PassRecord

if TYPE_CHECKING:
    from wane.agent.session import AgentSession

CUT_OFF: Final = "The last turn was cut off before an answer."
"""Told about a turn that was interrupted or failed."""

_LENGTH: Final = 120
# Only the beginning of a turn or answer is read; a turn may be a whole pasted file.
_LOOKED_AT: Final = 4 * _LENGTH


@dataclass(frozen=True, slots=True)
class Recap:
    """A summary of a session.

    Attributes:
        title: beginning of the user's first turn.
        asked: beginning of their last turn.
        answer: beginning of its answer; "" if there is none.
        cut_off: whether the last turn was interrupted, or failed, before an answer.
        turns: number of user turns.
        passes: number of passes.
        tokens: tokens of the view.
        budget: tokens that it may hold.
        used: when the session was last written before it was opened.
    """

    title: str
    asked: str
    answer: str
    cut_off: bool
    turns: int
    passes: int
    tokens: int
    budget: int
    used: datetime | None


def recap_of(session: AgentSession) -> Recap | None:
    """Return the recap of a session; None if nothing was said in it."""
    said = [text for message in session.history for text in _said(message)]
    if not said:
        return None
    last = session.history[-1]
    answer = ""
    if isinstance(last, ModelResponse):
        answer = next((p.content for p in last.parts if isinstance(p, TextPart) and p.content.strip()), "")
    records = session.journal.found.records if session.journal else ()
    return Recap(
        title=said[0],
        asked=said[-1],
        answer=_one_line(answer),
        # A request without an answer, or an answer that broke off.
        cut_off=not isinstance(last, ModelResponse) or last.state != "complete",
        turns=len(said),
        passes=sum(isinstance(record, PassRecord) for record in records),
        tokens=session.tokens,
        budget=session.window.budget,
        used=records[-1].at if records else None,
    )


def recap_lines(recap: Recap) -> list[Text]:
    """Return two to four lines; the caller cuts long ones."""
    counts = [
        counted(recap.turns, "turn"),
        f"{recap.passes:,} pass{'es' * (recap.passes != 1)}",
        f"view {short(recap.tokens)}/{short(recap.budget)}",
    ]
    used = [f"last used {local_time(recap.used)}"] if recap.used is not None else []
    lines = [Text(recap.title or "(no text)", style="bold"), Text("  ".join([*used, *counts]), style="dim")]
    if recap.turns > 1:
        lines.append(Text(f"> {recap.asked or '(no text)'}", style="cyan"))
    if recap.cut_off:
        lines.append(Text(CUT_OFF, style="yellow"))
    elif recap.answer:
        lines.append(Text(f"  {recap.answer}"))
    return lines


def _said(message: ModelMessage) -> Iterator[str]:
    """Yield the user turns in a message, each on one line."""
    if isinstance(message, ModelRequest):
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                content = [part.content] if isinstance(part.content, str) else part.content
                yield _one_line(next((text for text in content if isinstance(text, str) and text.strip()), ""))


def _one_line(text: str) -> str:
    line = " ".join(text.lstrip()[:_LOOKED_AT].split())
    return printable(line if len(line) <= _LENGTH else f"{line[: _LENGTH - 1]}…")
