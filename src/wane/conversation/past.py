"""Repeats what was done for a history: after a fork, under another strategy, from records.

What left the view at a request leaves it again, whatever the settings are now (R14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wane.conversation.engine import compatible
from wane.conversation.timeline import Prepared, Sent, Setup, Shown, Timeline
from wane.core import Added, Mark
from wane.core.errors import HistoryError
from wane.formats.base import MessageT
from wane.strategies.base import Done


def answer_within(line: Timeline[MessageT], count: int) -> bool:
    """Whether a model made one of a history's first messages."""
    adapter, take = line.setup.adapter, line.setup.format.parts
    return any(adapter.answers(message, take(message)) for message in line.transcript.messages[:count])


def back_to(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> tuple[Timeline[MessageT], int]:
    """Return a timeline of the first messages and their number; it is empty if no answer is among them.

    What was done for them is repeated. If that is no longer known, their requests are made again.

    Args:
        line: the timeline of all messages.
        count: number of messages.
        setup: settings of the new one.
    """
    return (_again(line, count, setup), count) if answer_within(line, count) else (_afresh(line, setup), 0)


def under(line: Timeline[MessageT], setup: Setup[MessageT]) -> Timeline[MessageT]:
    """Return a timeline of the same messages under another strategy.

    What that strategy did here before is repeated; what others did is not.
    """
    other = _again(line, len(line.transcript.messages), setup)
    other.shown = None
    return other


def follow(
    line: Timeline[MessageT], prepared: Prepared[MessageT], marks: Mapping[int, tuple[Mark, ...]]
) -> list[Added]:
    """Take in a message of a recorded history, with its recorded marks and without events.

    Args:
        line: the timeline.
        prepared: the message.
        marks: by index of the item that follows them.
    """
    if prepared.answers and line.shown is None:
        # Its request was sent, though there is no record of it.
        redo(line, None, line.engine.name, line.engine.overhead)
    return [added for _, added in line.enter(prepared, marks)]


def redo(
    line: Timeline[MessageT],
    done: Done | None,
    strategy: str,
    overhead: int,
    *,
    overflowed: bool = False,
    tokens: int = 0,
) -> None:
    """Repeat what was done before a recorded request, without events.

    Args:
        line: the timeline.
        done: what was done; None for nothing, or nothing more.
        strategy: the strategy that did it.
        overhead: tokens that the request carried besides its messages.
        overflowed: whether a pass had to take unfinished work (R16).
        tokens: its tokens; 0 if not known.

    Raises:
        HistoryError: if it does not fit this history.
    """
    line.host_overhead = max(0, overhead - line.message_overhead)
    if line.shown is None or done is not None:
        _redo(line, Sent(len(line.transcript.messages), overhead, strategy, done, overflowed, line.setup.manage))
    if tokens and compatible(strategy, line.engine.name) and line.engine.observe(tokens):
        line.requests[-1].tokens = tokens


def _again(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> Timeline[MessageT]:
    other = _repeated(line, count, setup)
    if count == len(line.transcript.messages):
        # With the time of the latest request, and what a state told.
        other.asked, other.answered = line.asked, line.answered
    return other


def _repeated(line: Timeline[MessageT], count: int, setup: Setup[MessageT]) -> Timeline[MessageT]:
    messages = line.transcript.messages[:count]
    prepared = [each for each in Timeline(setup).prepare(messages) if each is not None]
    if count >= line.base:
        try:
            return _redone(line, prepared, setup)
        except HistoryError:
            pass  # tool classes have changed, so other items would be evicted
    other = _afresh(line, replace(setup, events=[]))
    for number, each in enumerate(prepared):
        other.take(each, at=line.times.get(number))
    other.setup = setup
    return other


def _redone(
    line: Timeline[MessageT], prepared: Sequence[Prepared[MessageT]], setup: Setup[MessageT]
) -> Timeline[MessageT]:
    same = setup.strategy == line.setup.strategy
    other = line.origin(setup) if line.origin is not None and same else Timeline(setup)
    other.host_overhead = line.host_overhead
    due = [sent for sent in line.requests[len(other.requests) :] if sent.messages <= len(prepared)]
    for number, each in enumerate(prepared[other.base :], other.base):
        while due and due[0].messages == number:
            _redo(other, due.pop(0))
        other.enter(each, line.marks, at=line.times.get(number))
    for sent in due:
        # Its usage was in an answer that is not part of this history.
        _redo(other, replace(sent, tokens=0))
    return other


def _redo(line: Timeline[MessageT], sent: Sent) -> None:
    engine = line.engine
    engine.overhead = sent.overhead
    # What another strategy did is not repeated, and its usage says nothing about this one's requests.
    same = compatible(sent.strategy, engine.name)
    engine.redo(sent.done if same else None)
    reminder = line.remind(overflowed=sent.overflowed) if sent.managed else None
    tokens = engine.tokens
    if sent.tokens and same:
        engine.observe(sent.tokens)
    line.requests.append(replace(sent))
    line.view.changed()
    line.shown = Shown(engine.view, tokens, None, reminder)


def _afresh(line: Timeline[MessageT], setup: Setup[MessageT]) -> Timeline[MessageT]:
    other = Timeline(setup)
    other.host_overhead = line.host_overhead
    return other
