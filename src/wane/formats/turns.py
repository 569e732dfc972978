"""Finds the beginning of the model's current turn, and what a request must show of it.

A tool-use loop is one turn of the assistant. Anthropic demands that it begins with thinking if thinking has a budget
(`thinking.type: enabled`). If its beginning has left the view, the request must show the least of it that is valid: the
thinking that began the turn, one text or call after it, and what these need.

A user's message with results and other content can be read in two ways: the turn continues, or the other content starts
a new one, as it does for the cache. Requests should be valid by both readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from wane.core import Kind, chars
from wane.formats.base import Part, is_answer


class Opening(NamedTuple):
    """The beginning of the current turn, by one reading.

    Attributes:
        after: position of the last message before it; -1 for none.
        at: position of the assistant's first message in it.
        reasons: whether it begins with reasoning.
        after_results: whether the message before it has results, too.
    """

    after: int
    at: int
    reasons: bool
    after_results: bool


def openings(shown: Iterable[tuple[int, Sequence[Part]]]) -> Iterator[Opening]:
    """Yield the beginning of the current turn by each reading; nothing if the user spoke last.

    To the provider, neighbours of one role are one message. Messages with only reasoning are not sent.

    Args:
        shown: the messages of a request, the last one first: their positions in the history, and their visible parts.
            It is read only as far back as the turn goes.
    """
    first: tuple[int, Sequence[Part]] | None = None
    found = False
    sent = (each for each in shown if any(part.kind is not Kind.REASONING for part in each[1]))
    for answers, group in groupby(sent, lambda each: is_answer(each[1])):
        messages = list(group)
        if answers:
            first = messages[-1]
            continue
        parts = [part for _, parts in messages for part in parts]
        results = any(part.kind is Kind.RESULT for part in parts)
        speaks = any(map(_speaks, parts))
        if speaks and first is not None and not (found and results):
            found = True
            yield Opening(messages[0][0], first[0], first[1][0].kind is Kind.REASONING, results)
        if speaks and not results:
            return
    if first is not None:
        yield Opening(-1, first[0], first[1][0].kind is Kind.REASONING, after_results=False)


def required_opening(
    history: Callable[[int], Sequence[Part]], length: int, shown: Iterable[tuple[int, Sequence[Part]]]
) -> dict[int, list[int]]:
    """Return what a request must show besides its view so that the current turn begins with its reasoning.

    Args:
        history: returns all parts of the message at a position in the history.
        length: number of messages in the history.
        shown: as for `openings`.

    Returns:
        Positions in the parts of messages, by the message's position in the history. Empty if the turn begins with
        reasoning anyway, or began without it.
    """
    found: dict[int, list[int]] = {}
    for opening in openings(shown):
        if not opening.reasons:
            candidates = (_least(history, length, number) for number in range(opening.after + 1, opening.at + 1))
            found |= next(filter(None, candidates), {})
    return found


def _speaks(part: Part) -> bool:
    """Whether a part of no answer is a user's, and not inside a result (it then needs the result)."""
    return part.kind not in (Kind.RESULT, Kind.SYSTEM) and not part.system and not part.needs


def _least(history: Callable[[int], Sequence[Part]], length: int, begin: int) -> dict[int, list[int]]:
    """The reasoning that begins a message, and the smallest text or call that may follow it; empty if there is none."""
    parts = history(begin)
    lead = next((place for place, part in enumerate(parts) if part.kind is not Kind.REASONING), len(parts))
    if not lead:
        return {}
    results: dict[str | None, tuple[int, int, Part]] = {}
    for number in range(begin + 1, length):
        later = history(number)
        if is_answer(later):
            break
        results |= {part.call_id: (number, at, part) for at, part in enumerate(later) if part.kind is Kind.RESULT}
    least, found = 0, dict[int, list[int]]()
    for place in range(lead, len(parts)):
        if parts[place].kind is Kind.TEXT and not parts[place].text.strip():
            continue  # the provider refuses blank text
        # The reasoning needs some part after it, which it has.
        kept = sorted({*range(lead), *_together(parts, place)})
        answered = {parts[each].call_id for each in kept if parts[each].kind is Kind.RESULT}
        calls = {parts[each].call_id for each in kept if parts[each].kind is Kind.CALL} - answered
        if not calls <= results.keys():
            continue
        answers = sorted((results[call] for call in calls), key=lambda found: found[:2])
        tokens = sum(
            part.item(chars, 0).tokens for part in (*(parts[each] for each in kept), *(part for _, _, part in answers))
        )
        if not found or tokens < least:
            least, found = tokens, {begin: kept}
            for number, position, _ in answers:
                found.setdefault(number, []).append(position)
    return found


def _together(parts: Sequence[Part], place: int) -> set[int]:
    """A part with all parts that a request must show with it (R12), except what the reasoning needs."""
    found, more = {place}, [place]
    while more:
        here = more.pop()
        needed = {here + offset for offset in parts[here].needs} - found
        found |= needed
        more += (each for each in needed if parts[each].kind is not Kind.REASONING)
    return found
