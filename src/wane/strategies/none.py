"""No strategy: everything is sent, whatever the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wane.core import Item
from wane.formats.base import Part
from wane.strategies.base import Fitted, Settings, Slot


class Uncapped:
    """Sends the whole history.

    Args:
        settings: not used; the budget is ignored.
    """

    name = "none"

    def __init__(self, settings: Settings) -> None:
        self.budget = settings.budget
        self.overhead = settings.overhead
        self._view: list[Slot] = []
        self._sent = 0  # length of the last view

    def add(self, item: Item, part: Part) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item."""
        self._view.append(len(self._view))

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Return the whole history."""
        same, self._sent = self._sent, len(self._view)
        return Fitted(self._view, same=same)

    @property
    def standing(self) -> None:
        """None: there is nothing to repeat."""

    def current(self) -> Sequence[Slot]:
        """Return the view as it stands."""
        return self._view

    def redo(self, done: Mapping[str, Any]) -> None:
        """Do nothing."""
