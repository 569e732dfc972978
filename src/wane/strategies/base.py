"""The interface of a strategy: items come in, and before each model call it says what the call shows.

The live agent, the replay of recorded sessions and the proxy drive the same strategies. A strategy is sans
I/O: one that needs a model, such as summarising compaction, yields what it wants summarised and is told the
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from wane.core import DEFAULT_BUDGET, Added, FitReport, Item, Policy, ToolClass
from wane.formats.base import Part

Annotate = Literal["model", "infer"]
"""Who marks episodes: the agent itself, or the deterministic annotator of `wane.inference` in its place."""

AnnotateChoice = Literal["auto", "model", "infer"]
"""Who marks episodes in a recorded session: `auto` takes the agent's own where it made any, else infers them."""


@dataclass(frozen=True, slots=True)
class Substitute:
    """Text in a view that is not in the history: a placeholder, a shortened result, a summary.

    Attributes:
        text: what stands there.
        tokens: what it costs in a request, in tokens.
        index: the item in whose place it stands; None if it stands on its own, as a turn of the user.
    """

    text: str
    tokens: int
    index: int | None = None


Slot = int | Substitute
"""One place in a view: an item of the history as it was, by its index, or a text in its stead."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What the next model call shows.

    Attributes:
        view: its items, in order. Not to be changed, and valid until the strategy is called again.
        ran: whether the strategy took anything out of the view, or changed it, just now.
        report: what a pass did, for strategies that evict by episode.
        done: what it did just now, as JSON data that `Resumable.redo` takes.
    """

    view: Sequence[Slot]
    ran: bool = False
    report: FitReport | None = None
    done: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SummaryNeeded:
    """A model call that the strategy asks for before it can say what the next call shows.

    Attributes:
        view: what the summarising call reads, ahead of the instructions; begins as the last view did, so
            that the provider's cache serves it.
        instructions: what it is told to do, as a last turn of the user.
    """

    view: Sequence[Slot]
    instructions: str


@runtime_checkable
class Strategy(Protocol):
    """Decides what each model call sees.

    Attributes:
        name: what it is called on the command line and in reports.
    """

    name: str

    def add(self, item: Item, part: Part) -> Added | None:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: the same with its content.

        Returns:
            What it meant to a strategy that knows episodes, else None.
        """
        ...

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Say what the next model call shows; only before a call, as it may evict.

        Args:
            cold: the provider's cache has expired, so that a changed prefix costs nothing.
        """
        ...


@runtime_checkable
class Summarising(Strategy, Protocol):
    """A strategy whose `fit` may ask for a summary."""

    def summarised(self, text: str, tokens: int) -> Fitted:
        """Take the summary that `fit` asked for, and say what the next model call shows.

        Args:
            text: the summary.
            tokens: what it costs in a request.
        """
        ...


@runtime_checkable
class Resumable(Strategy, Protocol):
    """A strategy that a live agent can be run with: it can be adjusted on the way, and brought back.

    Attributes:
        budget: tokens that a view may hold, the overhead included; may be changed between calls.
        overhead: tokens that every request carries besides the items, as far as they are known; likewise.
    """

    budget: int
    overhead: int

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """What `redo` has a new strategy over the same history show what this one does; None if nothing was done."""
        ...

    def redo(self, done: Mapping[str, Any]) -> None:
        """Do again what an earlier `fit` or `summarised` did, whatever the budget is now.

        All items that were there at the time must have been added; more may have been.

        Args:
            done: its `Fitted.done`.

        Raises:
            HistoryError: if it does not fit this history.
        """
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What strategies are made with.

    Attributes:
        budget: tokens that a view may hold, the overhead included.
        overhead: tokens that every request carries besides the items (system prompt, tool definitions).
        policy: order and descriptions of `cwl`.
        low_water: share of the budget down to which a strategy other than `paper` goes once it acts; None
            for each one's own habit.
        tool_classes: classes of tools by name, on top of the defaults.
        annotate: who marks episodes, for strategies that know them.
    """

    budget: int = DEFAULT_BUDGET
    overhead: int = 0
    policy: Policy = field(default_factory=Policy)
    low_water: float | None = None
    tool_classes: Mapping[str, ToolClass | str] | None = None
    annotate: Annotate = "model"
