"""Events of a conversation, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wane.budgets import AutoBudget
from wane.conversation.thrashing import Thrashing
from wane.core import Added, Episode, FitReport, Item
from wane.core.light import light_dataclass


@light_dataclass(frozen=True, slots=True)
class MessageTaken:
    """A message of the history was taken in.

    Attributes:
        message: the message.
        first_item: index of its first item.
        items: its items, in order.
        added: the outcome of each item, in the same order.
    """

    message: Any
    first_item: int
    items: tuple[Item, ...]
    added: tuple[Added, ...]


@dataclass(frozen=True, slots=True)
class EpisodeOpened:
    """An episode began with the message that was just taken in.

    Attributes:
        episode: the episode, which may be implicit.
        index: the item that opened it.
    """

    episode: Episode
    index: int


@dataclass(frozen=True, slots=True)
class EpisodeClosed:
    """An episode ended with the message that was just taken in.

    Attributes:
        episode: the episode, which may be implicit.
        index: the item that closed it.
    """

    episode: Episode
    index: int


@dataclass(frozen=True, slots=True)
class UsageObserved:
    """The provider's count of the latest request became known; later counts build on it.

    Attributes:
        input_tokens: all input tokens of the request, cached ones included.
        items: number of items in the history when it was sent.
        message: the answer that reports it, which is taken in next; None if the host reported it.
    """

    input_tokens: int
    items: int
    message: Any = None


@dataclass(frozen=True, slots=True)
class OverheadChanged:
    """The tokens that every request carries besides its messages changed: instructions or tool definitions."""

    tokens: int


@dataclass(frozen=True, slots=True)
class BudgetChosen:
    """The budget `auto` was chosen, right before the first request.

    Attributes:
        budget: the budget, with its reason.
    """

    budget: AutoBudget


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
    """A request over the budget goes out, because nothing more may be evicted (R13).

    Attributes:
        report: says by how much, and what holds the tokens.
    """

    report: FitReport


@dataclass(frozen=True, slots=True)
class ThrashingBegan:
    """The window has begun to evict what the work needs: passes run every few calls, or content is fetched repeatedly.

    It comes once, and again only after the thrashing has ended.

    Attributes:
        thrashing: the signs of it, and the budget that would help.
    """

    thrashing: Thrashing


@dataclass(frozen=True, slots=True)
class StrategyActed:
    """A strategy that does not evict by episode changed the view.

    Attributes:
        strategy: its name.
        items: number of items in the history.
        done: what it did, as JSON data for the strategy's `redo`; None if that is not needed.
        tokens_before: tokens of the request without the change.
        tokens_after: tokens of the request.
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
        text: the reminder.
        items: number of items in the history.
    """

    text: str
    items: int


@dataclass(frozen=True, slots=True)
class EpisodeChosen:
    """A person has chosen what becomes of an episode (R23), whose `choice` says what."""

    episode: Episode


@dataclass(frozen=True, slots=True)
class HistoryForked:
    """The history continues from an earlier message than the last known one.

    Attributes:
        kept: number of messages that it shares with the known history.
    """

    kept: int


@dataclass(frozen=True, slots=True)
class HistoryReplaced:
    """The history shares nothing with the known one; all of it is taken in next."""


Event: TypeAlias = (
    MessageTaken
    | EpisodeOpened
    | EpisodeClosed
    | UsageObserved
    | OverheadChanged
    | BudgetChosen
    | PassRan
    | BudgetUnmet
    | ThrashingBegan
    | StrategyActed
    | Reminded
    | EpisodeChosen
    | HistoryForked
    | HistoryReplaced
)
"""Any event."""

Listener: TypeAlias = Callable[[Event], None]
"""Called with each event after it has happened. Its exceptions reach the caller of the conversation."""
