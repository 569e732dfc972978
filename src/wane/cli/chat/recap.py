"""A session again on the screen, for the user who resumes it or goes back in it; and what Wane did in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from rich.text import Text

from wane.agent.prompts import INTERRUPTED
from wane.agent.user_turns import UserTurn, turns_of
from wane.cli.chat.narration import format_call
from wane.cli.terminal.answer import AnswerText
from wane.cli.terminal.text import count_noun, cut, local_time, printable, short
from wane.core import DELIMITER
from wane.formats.pydantic_ai import raw_arguments
from wane.journal import MessageRecord, PassRecord, ReminderRecord

if TYPE_CHECKING:
    from wane.agent.session import AgentSession

CUT_OFF: Final = "The last turn was cut off before an answer."
"""Shown after a turn that was interrupted or failed."""

SHOWN_TURNS: Final = 10
"""Turns that are shown again."""

_LENGTH: Final = 120
_LONGEST_ANSWER: Final = 2_000
# How a refusing verdict of the delimiter begins (`wane.core.delimiter`).
_REFUSED: Final = "Error: "


def recap_lines(session: AgentSession) -> list[Text | AnswerText]:
    """Return a session's figures and its latest turns; none if nothing was said in it. The caller cuts long lines."""
    turns = turns_of(session.history)
    if not turns:
        return []
    records = session.journal.contents.records if session.journal else ()
    passes = sum(isinstance(record, PassRecord) for record in records)
    used = records[-1].at if records else None
    figures = [
        count_noun(len(turns), "turn"),
        count_noun(passes, "pass", "passes"),
        f"view {short(session.tokens)}/{short(session.window.budget_used)}",
    ]
    if used is not None:
        figures.insert(0, f"last used {local_time(used)}")
    lines: list[Text | AnswerText] = [Text("  ".join(figures), style="dim")]
    earlier = len(turns) - SHOWN_TURNS
    if earlier > 0:
        lines.append(Text(f"({count_noun(earlier, 'earlier turn')}; /rewind lists them)", style="dim"))
    for turn in turns[-SHOWN_TURNS:]:
        lines += _turn_lines(turn)
    # A request without an answer, or an answer that broke off.
    last = session.history[-1]
    if not isinstance(last, ModelResponse) or last.state != "complete":
        lines.append(Text(CUT_OFF, style="yellow"))
    return lines


def one_line(words: str) -> str:
    """Return the beginning of a user's words on one line."""
    # Only the beginning is read; a turn may be a whole pasted file.
    return printable(cut(" ".join(words.lstrip()[: 4 * _LENGTH].split()), _LENGTH)) or "(no text)"


def _turn_lines(turn: UserTurn) -> Iterator[Text | AnswerText]:
    """Yield the words of a turn, and its answers; calls in a row are one line."""
    yield Text()
    yield Text(f"> {one_line(turn.words)}", style="cyan")
    calls: list[ToolCallPart] = []
    answered = {
        part.tool_call_id
        for message in turn.messages
        for part in message.parts
        if isinstance(part, RetryPromptPart) or (isinstance(part, ToolReturnPart) and part.content != INTERRUPTED)
    }
    for message in turn.messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.tool_name != DELIMITER:
                calls.append(part)
            elif isinstance(part, TextPart) and isinstance(message, ModelResponse) and part.content.strip():
                yield from _call_line(calls, answered)
                calls = []
                yield AnswerText(cut(part.content, _LONGEST_ANSWER))
    yield from _call_line(calls, answered)


def _call_line(calls: list[ToolCallPart], answered: Collection[str]) -> Iterator[Text]:
    """Yield a line for calls in a row, and one for each of them that has no result: whether it ran is not recorded."""
    if len(calls) == 1:
        yield Text(f"  {format_call(calls[0].tool_name, raw_arguments(calls[0]) or '{}')}", style="dim")
    elif calls:
        tools = Counter(printable(call.tool_name) for call in calls)
        names = ", ".join(f"{tool} ({number})" if number > 1 else tool for tool, number in tools.items())
        yield Text(f"  {len(calls):,} calls: {names}", style="dim")
    for call in calls:
        if call.tool_call_id not in answered:
            which = "" if len(calls) == 1 else f" of {format_call(call.tool_name, raw_arguments(call) or '{}')}"
            yield Text(f"  no result{which}: the session stopped before, so that it may not have run", style="yellow")


def log_lines(session: AgentSession) -> list[str]:
    """Return what Wane did in a session besides the conversation, in order, a line each."""
    lines: list[str] = []
    messages = iter(session.conversation.messages)
    for record in session.conversation.log.records():
        match record:
            case MessageRecord():
                for part in next(messages).parts:
                    if isinstance(part, ToolReturnPart) and part.tool_name == DELIMITER:
                        verdict = part.model_response_str()
                        if verdict.startswith(_REFUSED):
                            reason = verdict.removeprefix(_REFUSED).partition(". ")[0]
                            lines.append(f"mark refused: {printable(reason)}")
            case PassRecord():
                freed = count_noun(record.tokens_before - record.tokens_after, "token")
                lines.append(f"pass: {freed} evicted, {record.tokens_after:,} of {record.budget_used:,} left in view")
            case ReminderRecord():
                lines.append("reminder: the model was asked to mark its work as episodes")
    return lines
