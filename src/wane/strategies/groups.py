"""Groups of messages with their results, for strategies that drop whole messages."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from wane.core import Item, Kind
from wane.core.errors import HistoryError

ASSISTANT: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL})


class Groups:
    """Numbers the messages of a history, in order; a result is in the group of its call, wherever it stands.

    A view of whole groups therefore has valid pairs and keeps coupled items (R12) together.

    Attributes:
        of: by item, the number of its group.
        tokens: by item, its tokens.
        first: by group, its first item.
        call: by item, the index of the call that a result answers; itself for every other item.
        latest: group of the latest assistant message, -1 before the first.
    """

    def __init__(self) -> None:
        self.of = array("L")
        self.tokens: list[int] = []
        self.first = array("L")
        self.call = array("L")
        self.latest = -1
        self._message: int | None = None
        self._growing = False
        self._open: dict[str, list[int]] = {}

    def add(self, item: Item) -> int:
        """Take in the next item and return its group.

        Raises:
            HistoryError: for a result without an open call.
        """
        index = len(self.tokens)
        call = self._answered(item, index) if item.kind is Kind.RESULT else index
        group = self.of[call] if call != index else self._group(item)
        self.of.append(group)
        self.tokens.append(item.tokens)
        self.call.append(call)
        if item.kind is Kind.CALL and item.call_id is not None:
            self._open.setdefault(item.call_id, []).append(index)
        return group

    def _answered(self, item: Item, index: int) -> int:
        waiting = self._open.get(item.call_id or "")
        if not waiting:
            raise HistoryError(f"item {index} is a result for the call {item.call_id!r}, but no such call is open")
        self._growing = False
        call = waiting.pop(0)
        if not waiting:
            del self._open[item.call_id or ""]
        return call

    def _group(self, item: Item) -> int:
        if item.kind not in ASSISTANT:
            self._growing = False
            return self._next()
        # As in the core: items join by the message's ordinal or, without one, with the items right before them.
        joined = self._growing if item.message is None else self.latest >= 0 and item.message == self._message
        if not joined:
            self.latest = self._next()
            self._message = None
        if item.message is not None:
            self._message = item.message
        self._growing = True
        return self.latest

    def _next(self) -> int:
        # The item about to be added is the first of its group.
        self.first.append(len(self.tokens))
        return len(self.first) - 1

    def at(self, index: object) -> int:
        """Return the number of groups ahead of a recorded cut, which names the item at which the rest begins.

        The rest may begin with the next item to come, and that one may be a late result of a group that was cut off.

        Raises:
            HistoryError: if no group begins there.
        """
        if isinstance(index, int) and 0 <= index <= len(self.of):
            group = bisect_left(self.first, index)
            if index == len(self.of) or self.first[self.of[index]] == index or self.call[index] != index:
                return group
        raise HistoryError(f"a cut was recorded at item {index!r}, where no message of this history begins")
