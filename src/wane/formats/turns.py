"""Finds the beginning of the model's current turn, and what a request must show of it.

A tool-use loop is one turn of the assistant. Anthropic demands that it begins with thinking if thinking has a budget
(`thinking.type: enabled`). If its beginning has left the view, the request must show the least of it that is valid: the
thinking that began the turn, one text or call after it, and what these need.

A user's message with results and other content can be read in two ways: the turn continues, or the other content starts
a new one, as it does for the cache. Requests should be valid by both readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from wane.core import Kind, chars
from wane.formats.message_format import Part, is_answer


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


def openings(visible: Iterable[tuple[int, Sequence[Part]]], answers_at: Callable[[int], bool]) -> Iterator[Opening]:
    """Yield the beginning of the current turn by each reading; nothing if the user spoke last.

    To the provider, neighbours of one role are one message. Messages with only reasoning are not sent.

    Args:
        visible: the messages of a request, the last one first: their positions in the history, and their visible parts.
            It is read only as far back as the turn goes.
        answers_at: whether a message is the assistant's. Its visible parts cannot tell: they may be a result alone, of
            a tool that the provider ran.
    """
    first: tuple[int, Sequence[Part]] | None = None
    yielded = False
    for answers, group in groupby(filter(_is_sent, visible), lambda message: answers_at(message[0])):
        messages = list(group)
        if answers:
            first = messages[-1]
            continue
        parts = [part for _, parts in messages for part in parts]
        results = any(part.kind is Kind.RESULT for part in parts)
        speaks = any(map(_speaks, parts))
        if speaks and first is not None and not (yielded and results):
            yielded = True
            yield Opening(messages[0][0], first[0], first[1][0].kind is Kind.REASONING, results)
        if speaks and not results:
            return
    if first is not None:
        yield Opening(-1, first[0], first[1][0].kind is Kind.REASONING, after_results=False)


def required_opening(
    history: Callable[[int], Sequence[Part]], length: int, visible: Iterable[tuple[int, Sequence[Part]]]
) -> dict[int, list[int]]:
    """Return what a request must show besides its view so that the current turn begins with its reasoning.

    Args:
        history: returns all parts of the message at a position in the history.
        length: number of messages in the history.
        visible: as for `openings`.

    Returns:
        Positions in the parts of messages, by the message's position in the history. Empty if the turn begins with
        reasoning anyway, or began without it.
    """
    required: dict[int, list[int]] = {}
    for opening in openings(visible, lambda number: is_answer(history(number))):
        if not opening.reasons:
            for number in range(opening.after + 1, opening.at + 1):
                if continuation := _find_cheapest_continuation(history, length, number):
                    required |= continuation
                    break
    return required


def _is_sent(message: tuple[int, Sequence[Part]]) -> bool:
    return any(part.kind is not Kind.REASONING for part in message[1])


def _speaks(part: Part) -> bool:
    """Whether a part of no answer is a user's, and not inside a result (it then needs the result)."""
    return part.kind not in (Kind.RESULT, Kind.SYSTEM) and not part.system and not part.needs


def _find_cheapest_continuation(
    history: Callable[[int], Sequence[Part]], length: int, begin: int
) -> dict[int, list[int]]:
    """Return the reasoning that begins a message, and the smallest text or call that may follow it.

    A call comes with its results, which may stand in later messages. Empty if there is no such part.
    """
    parts = history(begin)
    lead = next((position for position, part in enumerate(parts) if part.kind is not Kind.REASONING), len(parts))
    if not lead:
        return {}
    results = _results_behind(history, length, begin)
    fewest, cheapest = 0, dict[int, list[int]]()
    for position in range(lead, len(parts)):
        if parts[position].kind is Kind.TEXT and not parts[position].text.strip():
            continue  # the provider refuses blank text
        # The reasoning needs some part after it, which it has.
        shown = {(begin, number) for number in (*range(lead), *_together(parts, position))}
        if not _add_results(history, shown, results):
            continue
        tokens = sum(history(number)[position].item(chars, 0).tokens for number, position in shown)
        if not cheapest or tokens < fewest:
            fewest, cheapest = tokens, {}
            for number, shown_position in sorted(shown):
                cheapest.setdefault(number, []).append(shown_position)
    return cheapest


def _add_results(
    history: Callable[[int], Sequence[Part]],
    shown: set[tuple[int, int]],
    results: Mapping[str | None, tuple[int, int]],
) -> bool:
    """Add the results of all calls among shown parts, with what they need; return whether each call has one."""
    pending = list(shown)
    while pending:
        number, position = pending.pop()
        part = history(number)[position]
        if part.kind is not Kind.CALL:
            continue
        if part.call_id not in results:
            return False
        number, position = results[part.call_id]
        added = {(number, needed) for needed in _together(history(number), position)} - shown
        shown |= added
        pending += added
    return True


def _results_behind(
    history: Callable[[int], Sequence[Part]], length: int, begin: int
) -> dict[str | None, tuple[int, int]]:
    """Return where the results of a turn stand from an answer on, by call: their messages and their positions there.

    What the provider runs may return its result in a later answer (`pause_turn`).
    """
    results: dict[str | None, tuple[int, int]] = {}
    for number in range(begin, length):
        parts = history(number)
        returned = [(part.call_id, position) for position, part in enumerate(parts) if part.kind is Kind.RESULT]
        if not returned and not is_answer(parts) and any(map(_speaks, parts)):
            break
        for call_id, position in returned:
            results.setdefault(call_id, (number, position))
    return results


def _together(parts: Sequence[Part], position: int) -> set[int]:
    """A part with all parts that a request must show with it (R12), except what the reasoning needs."""
    together, pending = {position}, [position]
    while pending:
        current = pending.pop()
        needed = {current + offset for offset in parts[current].needs} - together
        together |= needed
        pending += (need for need in needed if parts[need].kind is not Kind.REASONING)
    return together
