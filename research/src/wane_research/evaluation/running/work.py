"""What an agent did in a session, call by call: what it explored, changed and did again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wane.conversation.calls import normalised
from wane.core import DELIMITER, Kind
from wane.core.delimiter import Protocol
from wane.lab.session import RecordedSession
from wane.recall import RECALL
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool, other than Wane's own.

    Attributes:
        explores: whether it gathers information.
        changes: whether it changes something.
        repeats: whether it explores as an earlier call of the user's turn did, with nothing changed in between.
    """

    explores: bool = False
    changes: bool = False
    repeats: bool = False


def tool_uses(session: RecordedSession) -> Iterator[ToolUse]:
    """Yield the tool calls of a session, in order, by what their names and arguments show."""
    since_change: set[tuple[str, str]] = set()
    for part in session.parts:
        if part.kind is Kind.USER:
            since_change.clear()  # the user may have changed something, and a new task has a new environment
        if part.kind is not Kind.CALL or part.tool in (DELIMITER, RECALL):
            continue
        activity = judge_call(part.tool or "", part.arguments).activity
        if activity is Activity.ACT:
            since_change.clear()
            yield ToolUse(changes=True)
        elif activity is Activity.EXPLORE:
            call = part.tool or "", normalised(part.arguments)
            yield ToolUse(explores=True, repeats=call in since_change)
            since_change.add(call)
        else:
            yield ToolUse()


def explored_first(work: Sequence[ToolUse]) -> int:
    """Return how many calls explored before the first one that changed something; all of them if none did."""
    first = next((number for number, use in enumerate(work) if use.changes), len(work))
    return sum(use.explores for use in work[:first])


def unended_episodes(session: RecordedSession) -> set[str]:
    """Return the names of the episodes that the model began and did not end: one at most, as it has one at a time."""
    protocol = Protocol()
    for part in session.parts:
        if part.kind is Kind.CALL and part.tool == DELIMITER:
            protocol.judge(part.arguments)
    return {protocol.active[0]} if protocol.active else set()
