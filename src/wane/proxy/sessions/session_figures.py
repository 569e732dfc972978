"""Figures of sessions that the server shows: of the last request, of the cost, and of the view over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wane.budgets import AutoBudget
from wane.conversation.thrashing import Thrashing
from wane.core import Room
from wane.core.episodes import Choice
from wane.prices import NO_USAGE, TokenUsage
from wane.savings import Money


@dataclass(frozen=True, slots=True)
class Facts:
    """Figures of a request's view, for headers, the log and metrics.

    Attributes:
        session: the session's id.
        api: name of the wire.
        model: the requested model.
        view: tokens of the view.
        budget: tokens that it may hold: those that were set, or more where what is fixed leaves too little (R22).
        history: tokens of the whole history, evicted or not.
        evicted: tokens that are not in the view.
        evicted_now: tokens that were evicted for this request.
        used: usage of all rounds of the session before this request, as the provider reported it.
        satisfied: whether the view is within the budget.
        room: the room that the budget leaves for the work; None if no budget is kept.
        thrashing: the evidence that the window evicts content that the work needs; usually None.
        note: a note for people, such as why the budget cannot be met, or that the session could not be stored; usually
            empty.
        owner: the member of a team to whom the session belongs; empty for none.
        parent: for a sub-agent's session, the id of the session that started it, or `?` if that is not known; else
            empty.
        chosen: the budget `auto` of the session; None if another one was set.
    """

    session: str
    api: str
    model: str
    view: int
    budget: int
    history: int
    evicted: int
    evicted_now: int = 0
    used: TokenUsage = NO_USAGE
    satisfied: bool = True
    room: Room | None = None
    thrashing: Thrashing | None = None
    note: str = ""
    owner: str = ""
    parent: str = ""
    chosen: AutoBudget | None = None

    @property
    def warning(self) -> str:
        """The text of `x-wane-warning`; empty for none."""
        if self.thrashing is None:
            return self.note
        return f"{self.note} {self.thrashing.warning}".strip()

    @property
    def advice(self) -> str:
        """Which budget would help the session, and why, or which one is used instead; empty if it is enough."""
        if self.thrashing is not None:
            return self.thrashing.warning
        return "" if self.room is None else self.room.remark

    @property
    def tight(self) -> bool:
        """Whether the budget leaves too little room."""
        return self.room is not None and self.room.tight

    @property
    def widened(self) -> bool:
        """Whether passes work with a larger budget than was set."""
        return self.room is not None and self.room.widened


@dataclass(frozen=True, slots=True)
class EpisodeStatus:
    """An episode as the live page shows it.

    Attributes:
        name: its name; None for an implicit one.
        type: `expl`, `act` or `task`.
        state: `active`, `closed`, or the level to which it has been stripped.
        tokens: its tokens in the view.
        notices: how many of them are notices of the harness.
        task: name of the task that it belongs to; None if it is in none.
        abandoned: whether it is a task that was abandoned, or is in such a task.
        number: by which a person chooses for it; see `SessionIndex.choose`.
        choice: what a person has chosen for it (R23); empty for nothing.
    """

    name: str | None
    type: str
    state: str
    tokens: int
    notices: int = 0
    task: str | None = None
    abandoned: bool = False
    number: int = 0
    choice: Choice = ""


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """The view of a request.

    Attributes:
        at: when it arrived, in UTC.
        view: its tokens.
        evicted: tokens that were evicted for it.
        history: tokens of the whole history then, evicted or not.
    """

    at: datetime
    view: int
    evicted: int
    history: int


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as `/wane/status` shows it, with times in UTC.

    Attributes:
        facts: figures of its last request.
        title: the beginning of the user's first message.
        created: when its first request arrived.
        last: when its last request arrived.
        requests: the number of requests.
        system: tokens of system messages, which are never evicted.
        user: tokens of the user's turns, which are never evicted.
        notices: tokens of notices in the view: those ahead of the first answer, and those of its episodes.
        episodes: the episodes with tokens in the view, in order of start.
        removed: the number of episodes that were removed whole.
        used: usage of all its rounds, as the provider reported it.
        money: their cost.
        views: its latest requests, oldest first.
        rewritten: what its requests in this process paid again although it was cached, by cause; see `CauseTotals`.
        client: the client's own id of the session; empty if it sends none.
        followed: the part of `money` that this process has read from records; see `SavingsMeter`.
        unlisted: models without known prices; see `SavingsMeter`.
    """

    facts: Facts
    title: str
    created: datetime
    last: datetime
    requests: int
    system: int
    user: int
    notices: int
    episodes: tuple[EpisodeStatus, ...]
    removed: int
    used: TokenUsage = NO_USAGE
    money: Money = field(default_factory=Money)
    views: tuple[ViewStatus, ...] = ()
    rewritten: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    client: str = ""
    followed: Money = field(default_factory=Money)
    unlisted: tuple[str, ...] = ()

    @property
    def own_money(self) -> Money:
        """The cost of the requests that this process made."""
        return self.money.minus(self.followed)
