"""The calls of a history: which wait for a result, and what became of each `delimiter` call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wane.core import DELIMITER, Item, Kind, Verdict
from wane.core.delimiter import HasLeft, Protocol
from wane.formats.base import Part


class Calls:
    """Follows calls and results by their ids, which may come back once they are answered.

    Args:
        has_left: says of an episode, by its name, whether it has left the view.
    """

    __slots__ = ("_ahead", "_foreseen", "_has_left", "_open", "_protocol", "_verdicts")

    def __init__(self, has_left: HasLeft) -> None:
        self._has_left = has_left
        self._open: dict[str, int] = {}
        # The window judges by itself; this one says the same of histories that it was restored from, and ahead of them.
        self._protocol = Protocol()
        self._verdicts: dict[str, Verdict] = {}
        self._ahead = self._protocol
        self._foreseen: dict[str, Verdict] = {}

    def note(self, item: Item) -> Verdict | None:
        """Take in the next item of the history; return the verdict if it is a `delimiter` call."""
        self._foreseen.clear()
        if item.call_id is None:
            return None
        if item.kind is not Kind.CALL:
            self._answer(item.call_id)
            return None
        self._open[item.call_id] = self._open.get(item.call_id, 0) + 1
        if item.tool != DELIMITER:
            return None
        verdict = self._verdicts[item.call_id] = self._protocol.judge(item.arguments, self._has_left)
        return verdict

    def reserve(self, name: str) -> None:
        """Take note of an inferred episode, whose name no `delimiter` call may use again (R3)."""
        self._protocol.started[name] = False

    def answering(self, parts: Sequence[Part]) -> list[int]:
        """Positions of the parts of a request that are no result, or answer an open call."""
        left, kept = dict(self._open), []
        for number, part in enumerate(parts):
            if part.call_id is None:
                kept.append(number)
            elif left.get(part.call_id):
                left[part.call_id] -= 1
                kept.append(number)
        return kept

    def verdict(self, call_id: str) -> Verdict | None:
        """Return what became of a `delimiter` call, None if there is none of that id."""
        return self._foreseen.get(call_id) or self._verdicts.get(call_id)

    def foresee(self, call_id: str, arguments: str | None) -> None:
        """Judge a `delimiter` call that is not in the history yet, as it will be there; once for each id."""
        if not self._foreseen:
            self._ahead = replace(self._protocol, started=dict(self._protocol.started))
        if call_id not in self._foreseen:
            self._foreseen[call_id] = self._ahead.judge(arguments, self._has_left)

    def _answer(self, call_id: str) -> None:
        if self._open[call_id] == 1:
            del self._open[call_id]
        else:
            self._open[call_id] -= 1
