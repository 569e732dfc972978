"""Context managers of other libraries as strategies, run through their public API. Needs the `peers` extra.

Before every model call, as in real use, each gets the whole history in messages of its own library, and the messages
that it sends are read back as items. Messages are made once, and token counts are those of the items wherever the
library takes a counter. Results are not corrected: if a library breaks a rule, so does the view.

The distribution's entry points name their classes, and `wane.strategies.registry` loads them by name.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from wane.core import Item, Kind
from wane.core.items import ASSISTANT
from wane.formats.message_format import Part
from wane.strategies.strategy import Fitted, Slot, Strategy, StrategySettings, Substitute


@dataclass(slots=True)
class Turn:
    """One message to make: the items of an assistant message, or one item of another kind."""

    kind: Kind  # kind of the first item
    message: int | None  # the message's number, if known
    indexes: list[int] = field(default_factory=list)  # indexes of the items
    items: list[Item] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)  # the items' contents

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts if part.kind not in (Kind.CALL, Kind.REASONING))

    @property
    def calls(self) -> list[Part]:
        return [part for part in self.parts if part.kind is Kind.CALL]


class Peer(Strategy):
    """A peer's context manager over a history.

    `settings`: budget and overhead; the peer's limit is the budget less the overhead.

    Attributes:
        distributions: the distributions on which its view depends.
    """

    distributions: ClassVar[tuple[str, ...]]

    def __init__(self, settings: StrategySettings) -> None:
        self.room = max(1, settings.budget - settings.overhead)  # tokens that its messages may hold
        self._turn: Turn | None = None
        self._count = 0
        self._sent: list[Slot] = []
        self._since = 0
        self._substitutes: dict[tuple[int, str], Substitute] = {}

    def add(self, item: Item, part: Part) -> None:
        turn = self._turn
        if turn is None or not _joins(turn, item):
            self._flush()
            turn = self._turn = Turn(item.kind, item.message)
        turn.indexes.append(self._count)
        turn.items.append(item)
        turn.parts.append(part)
        self._count += 1

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - no peer uses it
        self._flush()
        view = self._view() if self._count else []
        ran = view != [*self._sent, *range(self._since, self._count)]
        self._sent, self._since = view, self._count
        return Fitted(view, ran=ran)

    @abstractmethod
    def _append(self, turn: Turn) -> None:
        """Make the peer's messages of a turn and add them to its history."""

    @abstractmethod
    def _view(self) -> list[Slot]:
        """Run the peer over its history, and return the items that it sends."""

    def _substitute(self, index: int, text: str, tokens: int) -> Substitute:
        """Return the text that replaces an item; the same object each time."""
        return self._substitutes.setdefault((index, text), Substitute(text, tokens, index))

    def _flush(self) -> None:
        if self._turn is not None:
            self._append(self._turn)
            self._turn = None


def _joins(turn: Turn, item: Item) -> bool:
    return turn.kind in ASSISTANT and item.kind in ASSISTANT and turn.message == item.message
