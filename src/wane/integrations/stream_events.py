"""Wane's events in an agent's event stream, besides Pydantic AI's own."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai import CapabilityEvent

from wane.conversation.events import BudgetUnmet, EpisodeClosed, EpisodeOpened, Event, PassRan, Reminded


@dataclass(kw_only=True)
class PassRanEvent(CapabilityEvent, namespace="context_lifecycle"):
    """A pass ran before a model request.

    Attributes:
        tokens_before: tokens of the view before it.
        tokens_after: tokens of the view after it.
        budget: tokens that the view may hold.
        evicted: number of items that left the view.
    """

    tokens_before: int
    tokens_after: int
    budget: int
    evicted: int


@dataclass(kw_only=True)
class BudgetUnmetEvent(CapabilityEvent, namespace="context_lifecycle"):
    """A request goes out over the budget.

    Attributes:
        excess: tokens over the budget.
        explanation: what holds the tokens, for people.
    """

    excess: int
    explanation: str


@dataclass(kw_only=True)
class EpisodeOpenedEvent(CapabilityEvent, namespace="context_lifecycle"):
    """An annotated episode began.

    Attributes:
        name: its name.
        type: `expl` or `act`.
        dependencies: names of the explorations that an act builds on.
    """

    name: str
    type: str
    dependencies: list[str]


@dataclass(kw_only=True)
class EpisodeClosedEvent(CapabilityEvent, namespace="context_lifecycle"):
    """An annotated episode ended.

    Attributes:
        name: its name.
        type: `expl` or `act`.
        description: what an exploration learned; None for an act.
    """

    name: str
    type: str
    description: str | None


@dataclass(kw_only=True)
class RemindedEvent(CapabilityEvent, namespace="context_lifecycle"):
    """A request reminds the agent to mark its work."""


def stream_event(event: Event) -> CapabilityEvent | None:
    """Return an event for the event stream; None for events that its consumers do not need."""
    match event:
        case PassRan(report):
            evicted = sum(len(step.removed) for step in report.steps)
            return PassRanEvent(
                tokens_before=report.tokens_before,
                tokens_after=report.tokens_after,
                budget=report.budget,
                evicted=evicted,
            )
        case BudgetUnmet(report):
            return BudgetUnmetEvent(excess=report.excess, explanation=report.shortfall)
        case EpisodeOpened(episode) if episode.name is not None:
            return EpisodeOpenedEvent(
                name=episode.name, type=episode.type.value, dependencies=list(episode.dependencies)
            )
        case EpisodeClosed(episode) if episode.name is not None:
            return EpisodeClosedEvent(name=episode.name, type=episode.type.value, description=episode.description)
        case Reminded():
            return RemindedEvent()
    return None
