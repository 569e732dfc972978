"""No strategy: everything is sent, whatever the budget."""

from __future__ import annotations

from wane.core import Item
from wane.formats.message_format import Part
from wane.strategies.strategy import Fitted, Resumable, StrategySettings, Traits


class Uncapped(Resumable):
    """Sends the whole history.

    Args:
        settings: not used; the budget is ignored.
    """

    name = "none"
    summary = "everything is sent, whatever the budget"
    traits = Traits(bounded=False)

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._sent = 0  # length of the last view

    def add(self, item: Item, part: Part) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item."""
        self._view.append(len(self._view))

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Return the whole history."""
        same, self._sent = self._sent, len(self._view)
        return Fitted(self._view, same=same)
