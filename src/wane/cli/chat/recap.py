"""A session in a few lines, for the user who resumes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from rich.text import Text

from wane.cli.terminal.answer import AnswerText
from wane.cli.terminal.text import counted, cut, local_time, printable, short
from wane.formats.notices import is_notice
from wane.journal import PassRecord

if TYPE_CHECKING:
    from wane.agent.session import AgentSession

CUT_OFF: Final = "The last turn was cut off before an answer."
"""Shown after a turn that was interrupted or failed."""

_LENGTH: Final = 120
_LONGEST_ANSWER: Final = 2_000


def recap_lines(session: AgentSession) -> list[Text | AnswerText]:
    """Return lines about a session, and its last answer; none if nothing was said in it. The caller cuts long lines."""
    turns = [text for message in session.history for text in _user_lines(message)]
    if not turns:
        return []
    last = session.history[-1]
    records = session.journal.contents.records if session.journal else ()
    passes = sum(isinstance(record, PassRecord) for record in records)
    used = records[-1].at if records else None
    figures = [
        counted(len(turns), "turn"),
        counted(passes, "pass", "passes"),
        f"view {short(session.tokens)}/{short(session.window.budget_used)}",
    ]
    if used is not None:
        figures.insert(0, f"last used {local_time(used)}")
    lines: list[Text | AnswerText] = [
        Text(turns[0] or "(no text)", style="bold"),
        Text("  ".join(figures), style="dim"),
    ]
    if len(turns) > 1:
        lines.append(Text(f"> {turns[-1] or '(no text)'}", style="cyan"))
    # A request without an answer, or an answer that broke off.
    if not isinstance(last, ModelResponse) or last.state != "complete":
        lines.append(Text(CUT_OFF, style="yellow"))
        return lines
    answers = [part.content for part in last.parts if isinstance(part, TextPart) and part.content.strip()]
    if answers:
        lines.append(AnswerText(cut(answers[0], _LONGEST_ANSWER)))
    return lines


def _user_lines(message: ModelMessage) -> Iterator[str]:
    """Yield the user turns in a message, each on one line; the output of a command of the user's is no turn (R15)."""
    if not isinstance(message, ModelRequest):
        return
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            text = next((text for text in content if isinstance(text, str) and text.strip()), "")
            if not is_notice(text):
                # Only the beginning is read; a turn may be a whole pasted file.
                words = text.lstrip()[: 4 * _LENGTH].split()
                yield printable(cut(" ".join(words), _LENGTH))
