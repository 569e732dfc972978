"""The interface of a strategy: it takes in items, and before each model call it decides what the call shows.

The agent, the replay of recorded sessions and the proxy drive the same strategies. A strategy does no I/O: one that
needs a model, such as summarising compaction, returns a request for a summary and receives the answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from wane.core import (
    DEFAULT_BUDGET,
    Added,
    EpisodeType,
    FitReport,
    Item,
    Policy,
    Step,
    ToolClass,
    parse_budget,
    parse_window,
)
from wane.core.errors import ConfigError, HistoryError
from wane.core.items import read_tool_classes
from wane.core.light import light_dataclass
from wane.core.policy import check_policy
from wane.formats.message_format import Part
from wane.inference import Annotator, EpisodeBounds, is_annotated
from wane.strategies.host import HostMarker

Annotate = Literal["model", "infer", "host"]
"""Who marks episodes: the agent, the deterministic annotator of `wane.inference`, or the program around the model."""

AnnotateChoice = Literal["auto", "model", "infer"]
"""Who marks episodes in a recorded session: `auto` takes a host's marks (R18), else the agent's, else infers them."""


def choose_annotator(choice: AnnotateChoice, parts: Iterable[Part], marks: Collection[int]) -> Annotate:
    """Return who marks the episodes of a recorded session.

    Args:
        choice: what was chosen.
        parts: the session's content.
        marks: the items before which the program around the model made marks (R18).
    """
    if choice != "auto":
        return choice
    if marks:
        return "host"
    return "model" if is_annotated(parts) else "infer"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a strategy is, whatever its settings.

    Attributes:
        bounded: whether it keeps a budget.
        by_episode: whether it evicts by episode, with a policy, so that its view is a part of the history.
        policy: the policy that it always has; None for the one given.
        marked: whether it is based on episodes, so that the model marks its work.
        searches: whether it warns the model before content leaves, and always gives it the tool `recall`.
        summarises: whether it needs a model to write summaries.
        takes: what it takes from the view, in a word for pages.
        leaving: what a model that marks its work is told about how episodes leave, if not as under a policy.
    """

    bounded: bool = True
    by_episode: bool = False
    policy: Policy | None = None
    marked: bool = False
    searches: bool = False
    summarises: bool = False
    takes: Literal["", "cleared", "compressed", "episode", "folded", "oldest", "summary"] = ""
    leaving: str | None = None


def unasked_error(strategy: str) -> HistoryError:
    """Return the error for a summary that a strategy did not ask for."""
    return HistoryError(f"the strategy {strategy!r} did not ask for a summary")


@dataclass(frozen=True, slots=True)
class Substitute:
    """Text in a view that is not in the history: a placeholder, a shortened result, a summary.

    Attributes:
        text: the text.
        tokens: its tokens in a request.
        index: the item that it replaces; None if it is a turn of the user by itself.
    """

    text: str
    tokens: int
    index: int | None = None


Slot = int | Substitute
"""One place in a view: an item of the history, by its index, or a text in place of items."""


def item_of(slot: Slot) -> int | None:
    """Return the item that a slot shows or stands for; None for a text that stands for none."""
    return slot if isinstance(slot, int) else slot.index


Done: TypeAlias = tuple[Step, ...] | Mapping[str, Any]
"""What was done before a request, so that it can be repeated: a pass's trace, or data for a strategy's `redo`."""


@light_dataclass(frozen=True, slots=True)
class Fitted:
    """The view for the next model call.

    Attributes:
        view: its items, in order. Do not change it; it is valid until the next call of the strategy.
        ran: whether the strategy changed the view just now.
        report: report of the pass, for strategies that evict by episode.
        done: what the strategy did just now; None if nothing.
        same: leading slots that are known to be those of the strategy's last view; there may be more.
    """

    view: Sequence[Slot]
    ran: bool = False
    report: FitReport | None = None
    done: Done | None = None
    same: int = 0


@dataclass(frozen=True, slots=True)
class SummaryNeeded:
    """A model call that the strategy needs before it can return the next view.

    Attributes:
        view: what the summarising call reads, ahead of the instructions. It begins like the last view, so that the
            provider's cache serves it.
        instructions: the task, as a last turn of the user.
        expected: assumed tokens of the answer where nobody writes one, as in a replay; None for those of a summary.
    """

    view: Sequence[Slot]
    instructions: str
    expected: int | None = None


class Strategy(ABC):
    """Decides what each model call sees.

    Attributes:
        name: its name on the command line and in reports.
        summary: one line on what it does.
        traits: what it is, whatever its settings.
    """

    name: str
    summary: ClassVar[str] = ""
    traits: ClassVar[Traits] = Traits()

    @abstractmethod
    def add(self, item: Item, part: Part) -> Added | None:
        """Take in the next item of the history.

        Args:
            item: the item.
            part: its content.

        Returns:
            The outcome for a strategy with episodes, else None.
        """

    @abstractmethod
    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Return the next model call's view. Call it only before a model call, because it may evict.

        Args:
            cold: the provider's cache has expired, so that a changed prefix costs nothing.
        """

    def take_summary(self, text: str, tokens: int) -> Fitted | SummaryNeeded:  # noqa: ARG002 - for subclasses
        """Take in the summary that was asked for, and return the next model call's view, or ask for another one.

        Args:
            text: the summary; empty if it is not known, as in a replay, and then its text in the view is empty too.
            tokens: its tokens in a request.

        Raises:
            HistoryError: if none was asked for.
        """
        raise unasked_error(self.name)


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """Settings of a strategy.

    Attributes:
        budget: tokens that a view may hold, including the overhead: a number, or text such as `"80k"`.
        overhead: tokens that every request carries besides the items (system prompt, tool definitions).
        policy: what a pass of `cwl` evicts, and how far; `Policy()` if None.
        low_water: share of the budget down to which a strategy other than `paper` goes once it acts; None for the
            strategy's default.
        tool_classes: classes of tools by name, on top of the defaults.
        annotate: where episodes come from: `model`, the model marks them with the tool `delimiter`; `infer`, they are
            inferred from its tool calls (`wane.inference`), and it gets no such tool; `host`, the program around the
            model marks them (R18).
        recall: whether the model can recall what has left the view, by the tool `recall`.
        tasks: whether a model that marks its work may group episodes in tasks (R17).
        subagents: under `host`, names of tools that are sub-agents, with the type of the episode that each call is:
            `expl` or `act`.
        window: tokens of the model's window, beyond which no pass works (R22): a number, or text such as `"200k"`; None
            if unknown.

    Raises:
        ConfigError: for a value that cannot work. The message names it.
    """

    budget: int = DEFAULT_BUDGET
    overhead: int = 0
    policy: Policy = field(default_factory=Policy)
    low_water: float | None = None
    tool_classes: Mapping[str, ToolClass | str] | None = None
    annotate: Annotate = "model"
    recall: bool = False
    tasks: bool = False
    subagents: Mapping[str, EpisodeType | str] | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", parse_budget(self.budget, exact=True))
        if self.window is not None:
            object.__setattr__(self, "window", parse_window(self.window))
        policy: object = self.policy
        object.__setattr__(self, "policy", Policy() if policy is None else check_policy(policy))
        read_tool_classes(self.tool_classes)
        if self.annotate not in get_args(Annotate):
            raise ConfigError(f"annotate is {self.annotate!r}; it must be one of: {', '.join(get_args(Annotate))}")
        for name in ("recall", "tasks"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be true or false")
        object.__setattr__(self, "subagents", _read_subagents(self.subagents, self.annotate))
        if self.low_water is not None and not 0 < self.low_water <= 1:
            raise ConfigError(f"low_water is {self.low_water}; it must be above 0 and at most 1")
        if self.overhead < 0:
            raise ConfigError(f"overhead is {self.overhead} tokens; it must be at least 0")

    def annotator(self) -> Annotator | None:
        """Return the annotator for this budget; None if episodes are not inferred."""
        return Annotator(EpisodeBounds.of(self.budget)) if self.annotate == "infer" else None

    def marker(self) -> HostMarker | None:
        """Return what marks episodes for the program around the model; None if that marks none."""
        types = {name: EpisodeType(type_) for name, type_ in (self.subagents or {}).items()}
        return HostMarker(types) if self.annotate == "host" else None


def _read_subagents(subagents: object, annotate: Annotate) -> Mapping[str, EpisodeType] | None:
    if subagents is None:
        return None
    if not isinstance(subagents, Mapping) or any(type_ not in ("expl", "act") for type_ in subagents.values()):
        raise ConfigError(f"subagents is {subagents!r}; it must have 'expl' or 'act' for each name of a tool")
    if subagents and annotate != "host":
        raise ConfigError(f"subagents needs annotate='host'; annotate is {annotate!r}")
    return {name: EpisodeType(type_) for name, type_ in subagents.items()}


class Resumable(Strategy):
    """A strategy for a live agent: its settings can change during a session, and the session can be resumed.

    Args:
        settings: budget and overhead.

    Attributes:
        budget: tokens that a view may hold, including the overhead; may be changed between calls.
        overhead: tokens that every request carries besides the items, as far as known; may be changed between calls.
    """

    def __init__(self, settings: StrategySettings) -> None:
        self.budget = settings.budget
        self.overhead = settings.overhead
        self._view: list[Slot] = []

    @classmethod
    def for_live(cls, settings: StrategySettings) -> StrategySettings:
        """Return its settings for a live agent, whose provider caches the beginning of each request."""
        return settings

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """Data for `redo`, which gives a new strategy over the same history this view; None if nothing was done."""
        return None

    def follow(self, item: Item, part: Part, added: Added) -> None:  # noqa: ARG002 - for subclasses
        """Take in the next item as `add` does, with the episodes of a window that takes in the same items.

        Args:
            item: the item.
            part: its content.
            added: what the window made of it.
        """
        self.add(item, part)

    def current(self) -> Sequence[Slot]:
        """Return the view as it stands; valid until the next call of the strategy."""
        return self._view

    def redo(self, done: Mapping[str, Any]) -> None:
        """Repeat what an earlier `fit` or `take_summary` did, whatever the budget is now.

        All items of that time must have been added; later ones may have been added too.

        Args:
            done: its `Fitted.done`.

        Raises:
            HistoryError: if it does not fit this history.
        """
