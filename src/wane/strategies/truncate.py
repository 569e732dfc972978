"""Truncation: when the budget is exceeded the oldest messages go, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.core import Item, Kind
from wane.core.errors import ConfigError
from wane.core.standing import InForce
from wane.formats.base import Part
from wane.strategies.base import Fitted, Resumable, Settings
from wane.strategies.groups import Groups

HEAD: Final = 4
"""Messages at the head that `streaming` keeps: as many as StreamingLLM keeps tokens (Xiao et al., 2023)."""


class Truncate(Resumable):
    """Cuts off the oldest messages, whole and with their results, so that pairs stay valid.

    System items and standing notices (R15) stay, and so does the first user turn: most agents keep it, and some
    providers demand one. Later user turns go with the rest. The latest assistant message and everything after it stay.
    The cut only moves forward.

    Args:
        settings: budget, overhead, and the low water to cut down to; without one it cuts to the budget itself.
        head: number of the first messages that stay as well, with their results, whatever they hold.
        name: its name in reports.

    Raises:
        ConfigError: for a negative number of messages.
    """

    def __init__(self, settings: Settings, *, head: int = 0, name: str = "truncate") -> None:
        if head < 0:
            raise ConfigError(f"the head is {head} messages; it cannot be below 0")
        super().__init__(settings)
        self.name = name
        self._head = head
        self._low_water = settings.low_water or 1.0
        self._groups = Groups()
        self._held = 0
        self._pinned: set[int] = set()
        self._standing = InForce()
        self._released = False  # whether a replaced notice has left the view since the last request
        self._user = False
        self._cut = 0
        # By group, the tokens that go with it.
        self._weights: list[int] = []

    def add(self, item: Item, part: Part) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item; a late result of a call that was cut off goes too."""
        index = len(self._groups.tokens)
        group = self._groups.add(item)
        if group == len(self._weights):
            self._weights.append(0)
        pinned = group < self._head or item.kind is Kind.SYSTEM or bool(item.standing)
        pinned |= item.kind is Kind.USER and not self._user
        self._user |= item.kind is Kind.USER
        if pinned:
            self._pinned.add(index)
        else:
            self._weights[group] += item.tokens
        if pinned or group >= self._cut:
            self._view.append(index)
            self._held += item.tokens
        for replaced in self._standing.enter(index, item.standing):
            self._release(replaced)

    def _release(self, index: int) -> None:
        """Let a notice that is no longer in force go with its message, at once if that has gone (R15)."""
        group, tokens = self._groups.of[index], self._groups.tokens[index]
        if group < self._head:
            return
        self._pinned.discard(index)
        if group >= self._cut:
            self._weights[group] += tokens
        else:
            self._view.remove(index)
            self._held -= tokens
            self._released = True

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Cut if the view is over the budget."""
        ran, self._released = self._released, False
        if self._held + self.overhead > self.budget:
            target = self.budget * self._low_water - self.overhead
            while self._held > target and self._cut < self._groups.latest:
                self._advance()
            ran |= self._leave_out()
        return Fitted(self._view, ran, done={"from": self._groups.first[self._cut]} if ran else None)

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """The place of the cut."""
        return {"from": self._groups.first[self._cut]} if self._cut else None

    def redo(self, done: Mapping[str, Any]) -> None:
        """Cut at the place of an earlier cut.

        Raises:
            HistoryError: if no message begins there.
        """
        group = self._groups.at(done.get("from"))
        while self._cut < group:
            self._advance()
        self._leave_out()

    def _advance(self) -> None:
        self._held -= self._weights[self._cut]
        self._cut += 1

    def _leave_out(self) -> bool:
        of, cut, pinned, before = self._groups.of, self._cut, self._pinned, len(self._view)
        self._view = [slot for slot in self._view if isinstance(slot, int) and (of[slot] >= cut or slot in pinned)]
        return len(self._view) < before


def streaming(settings: Settings) -> Truncate:
    """Return truncation with a head of HEAD messages and a window that moves on at each call, as in StreamingLLM."""
    return Truncate(settings, head=HEAD, name="streaming")
