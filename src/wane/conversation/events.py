"""What a conversation tells its listeners, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wane.core import Added, Episode, FitReport, Item


@dataclass(frozen=True, slots=True)
class MessageTaken:
    """A message of the history was taken in.

    Attributes:
        message: the message.
        first_item: index of its first item.
        items: its items, in order.
        added: what each of them meant, in the same order.
    """

    message: Any
    first_item: int
    items: tuple[Item, ...]
    added: tuple[Added, ...]


@dataclass(frozen=True, slots=True)
class EpisodeOpened:
    """An episode began with the message that was just taken in.

    Attributes:
        episode: the episode; implicit ones are told too.
        index: the item that opened it.
    """

    episode: Episode
    index: int


@dataclass(frozen=True, slots=True)
class EpisodeClosed:
    """An episode ended with the message that was just taken in.

    Attributes:
        episode: the episode; implicit ones are told too.
        index: the item that closed it.
    """

    episode: Episode
    index: int


@dataclass(frozen=True, slots=True)
class UsageObserved:
    """It became known what the latest request held; the count goes on from there.

    Attributes:
        input_tokens: all input tokens of the request, cached ones included.
        items: number of items in the history when it was sent.
        message: the answer that reported it, which is taken in next; None if the host reported it.
    """

    input_tokens: int
    items: int
    message: Any = None


@dataclass(frozen=True, slots=True)
class OverheadChanged:
    """What every request carries besides its messages changed: instructions or tool definitions.

    Attributes:
        tokens: what they hold now.
    """

    tokens: int


@dataclass(frozen=True, slots=True)
class PassRan:
    """A pass ran ahead of a model request (R10).

    Attributes:
        report: what it did.
        items: number of items in the history.
    """

    report: FitReport
    items: int


@dataclass(frozen=True, slots=True)
class BudgetUnmet:
    """A request goes out that is over the budget, because nothing more may be evicted (R13).

    Attributes:
        report: by how much, and what holds the tokens.
    """

    report: FitReport


@dataclass(frozen=True, slots=True)
class StrategyActed:
    """A strategy that does not evict by episode changed what the requests show.

    Attributes:
        strategy: its name.
        items: number of items in the history.
        done: what it did, as JSON data that the strategy's `redo` takes; None if that is not needed.
        tokens_before: what the request would have held.
        tokens_after: what it holds.
    """

    strategy: str
    items: int
    done: Mapping[str, Any] | None
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Reminded:
    """The request that goes out now reminds the model to mark its work.

    Attributes:
        text: in which words.
    """

    text: str


@dataclass(frozen=True, slots=True)
class HistoryForked:
    """The history goes on from an earlier message than the last one that was known.

    Attributes:
        kept: number of messages that it shares with what was known.
    """

    kept: int


@dataclass(frozen=True, slots=True)
class HistoryReplaced:
    """The history has nothing in common with the one that was known: all of it is taken in from here on."""


Event: TypeAlias = (
    MessageTaken
    | EpisodeOpened
    | EpisodeClosed
    | UsageObserved
    | OverheadChanged
    | PassRan
    | BudgetUnmet
    | StrategyActed
    | Reminded
    | HistoryForked
    | HistoryReplaced
)
"""Anything that a listener is told."""

Listener: TypeAlias = Callable[[Event], None]
"""Called with each event, after what was told has happened; what it raises goes to whoever called the conversation."""


class Teller:
    """Tells listeners what happens, in order, each event once everything it speaks of has been done.

    Attributes:
        listeners: called with each event, in order.
    """

    __slots__ = ("_untold", "listeners")

    def __init__(self, listeners: list[Listener]) -> None:
        self.listeners = listeners
        self._untold: list[Event] = []

    def note(self, *events: Event) -> None:
        """Keep events until `tell` is called."""
        self._untold += events

    def tell(self) -> None:
        """Tell what was noted. What a listener fails at is told again the next time, to all, ahead of anything else."""
        while self._untold:
            for listener in self.listeners:
                listener(self._untold[0])
            del self._untold[0]
