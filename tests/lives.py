"""Lives of a window: a history fed as an agent would, and the same life lived by the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.oracle import (
    Meter,
    Outcome,
    Reading,
    Rules,
    State,
    assistant_messages,
    eligible,
    exempt,
    fixed_items,
    innermost,
    is_abandoned,
    is_kept,
    is_settled,
    read,
    run_pass,
    visible,
)
from wane.core import ContextWindow, Episode, FitReport, Item, Kind, Mark, Pinned, Policy


def rules_of(
    policy: Policy,
    budget: int,
    tool_classes: dict[str, str] | None = None,
    *,
    tasks: bool = False,
    window: int | None = None,
) -> Rules:
    """The oracle's words for a policy."""
    return Rules(
        budget,
        policy.low_water,
        policy.description_share,
        policy.evict_when_cold,
        tool_classes or {},
        policy.order,
        policy.guard_share,
        policy.prologue,
        policy.overflow,
        tasks,
        policy.index_share,
        policy.min_room,
        window,
    )


def turns_of(items: Sequence[Item]) -> list[list[Item]]:
    """The history in pieces, cut before every assistant message: where a model call, and so a `fit`, comes."""
    cuts = [0, *(message.start for message in assistant_messages(items)), len(items)]
    return [list(items[first:stop]) for first, stop in pairwise(cuts) if first < stop]


def live(window: ContextWindow, items: Sequence[Item]) -> Iterator[FitReport]:
    """Feed a history to a window, with a `fit` before every model call and one at the end."""
    for turn in turns_of(items):
        yield window.fit()
        window.extend(turn)
    yield window.fit()


def revive(window: ContextWindow) -> ContextWindow:
    """The window after a restart, its state having been through JSON."""
    return ContextWindow.restore(json.loads(json.dumps(window.export())))


@dataclass
class Life:
    """The oracle's window."""

    rules: Rules
    overhead: int = 0
    ratio: float = 1.0
    drift: float = 0.0
    items: list[Item] = field(default_factory=list)
    marks: dict[int, tuple[Mark, ...]] = field(default_factory=dict)
    state: State = field(default_factory=State)
    sent: int = 0
    index: int = 0

    @property
    def meter(self) -> Meter:
        """How tokens are counted now."""
        return Meter(self.overhead, self.ratio, self.drift)

    @property
    def held(self) -> int:
        """Tokens of the visible items."""
        return sum(self.items[index].tokens for index in visible(self.items, self.state))

    @property
    def reading(self) -> Reading:
        """The history as the oracle reads it."""
        return read(self.items, self.rules.tasks, self.marks)

    def mark(self, marks: Sequence[Mark]) -> None:
        """Make a host's marks behind the latest item (R18). A description that has left the view does not stay."""
        made = list(self.marks.get(len(self.items), ()))
        for mark in marks:
            gone = mark.closing is not None and mark.closing in self.state.gone
            made.append(replace(mark, closing=None) if gone else mark)
        self.marks[len(self.items)] = tuple(made)

    def fit(self, *, cold: bool = False, write_index: Callable[[int], int] | None = None) -> Outcome:
        """Run a pass if one is due, and remember what is sent."""
        outcome = run_pass(
            self.items,
            self.state,
            self.rules,
            meter=self.meter,
            cold=cold,
            marks=self.marks,
            index=self.index,
            write_index=write_index,
        )
        self.state, self.index = outcome.state, outcome.index
        self.sent = self.held + self.index + self.overhead
        return outcome

    def observe(self, input_tokens: int) -> None:
        """Anchor to what the provider said that the last request held."""
        if input_tokens > 0:
            self.ratio = 1.0
            if self.sent:
                self.ratio = max(0.5, min(4.0, input_tokens / self.sent))
            self.drift = input_tokens - self.sent * self.ratio

    def find_pinned(self) -> Pinned:
        """R13: what no pass could take now, by what holds it."""
        reading = self.reading
        tokens: dict[str, int] = {}
        for index in visible(self.items, self.state):
            holder = _holder(reading, self.state, self.rules, index)
            tokens[holder] = tokens.get(holder, 0) + self.items[index].tokens
        tokens.pop("evictable", 0)
        name = ", ".join(str(episode.name) for episode in reading.open) or None
        scaled = {holder: self.meter.scale_tokens(held) for holder, held in tokens.items()}
        return Pinned(overhead=self.meter.total(0), active_name=name, **scaled)


def _holder(reading: Reading, state: State, rules: Rules, index: int) -> str:
    """Which field of `Pinned` counts a visible item."""
    owner, kind = reading.owner.get(index), reading.items[index].kind
    if index in reading.beside:
        return reading.beside[index]
    if owner is None:
        return {Kind.USER: "user", Kind.NOTICE: "notices"}.get(kind, "system")
    if owner.type == "task" and not state.is_removed(owner):
        return "tasks"
    if exempt(owner, rules):
        return "prologue"
    if owner in reading.open:
        return "active"
    if not is_settled(reading, owner):
        return "unsettled"
    if state.is_removed(owner):
        described = owner.type != "act" and index in owner.closing and owner.number not in state.dropped
        return "descriptions" if described else "needed"
    if is_kept(rules, owner):
        return "kept"
    return "evictable" if eligible(reading, state, rules, owner) else "needed"


def summary(window: ContextWindow) -> dict[str, object]:
    """All that a window shows."""
    return {
        "visible": window.visible,
        "tokens": window.tokens,
        "count": window.item_count,
        "active": window.active and window.active.number,
        "task": window.task and window.task.number,
        "open": [episode.number for episode in window.open],
        "episodes": [_episode_fields(episode) for episode in window.episodes],
        "pinned": window.pinned,
        "notices": window.notices,
        "index": window.index,
        "settings": (window.budget, window.policy, window.overhead, window.window),
    }


def _episode_fields(episode: Episode) -> tuple[object, ...]:
    names = "number name type implicit closed removed level dependencies tokens description abandoned"
    return (*(getattr(episode, name) for name in names.split()), episode.task and episode.task.number)


def assert_agree(window: ContextWindow, life: Life) -> None:
    """The window shows what the oracle says."""
    reading, state = life.reading, life.state
    shown = visible(life.items, state)
    assert window.visible == shown
    assert window.tokens == life.meter.total(life.held + life.index)
    assert (window.active and window.active.number) == (reading.active and reading.active.number)
    task = innermost(reading)
    assert (window.task and window.task.number) == (task and task.number)
    assert [episode.number for episode in window.open] == [episode.number for episode in reading.open]
    expected = []
    for ep in reading.episodes:
        if state.is_removed(ep):
            continue
        held = sum(life.items[one].tokens for one in ep.members if one in shown and one not in reading.beside)
        level = state.reached.get(ep.number, "none")
        expected.append(
            (
                *(ep.number, ep.name, ep.type, ep.implicit, ep.closed, False, level, ep.dependencies, held),
                *(ep.description, is_abandoned(ep), ep.task and ep.task.number),
            )
        )
    assert [_episode_fields(episode) for episode in window.episodes] == expected
    notices: dict[int, int] = {}
    for index in shown:
        if life.items[index].kind is Kind.NOTICE and (owner := reading.owner.get(index)):
            notices[owner.number] = notices.get(owner.number, 0) + life.meter.scale_tokens(life.items[index].tokens)
    assert window.notices == notices
    fixed = fixed_items(reading, state, rules_of(window.policy, window.budget))
    assert window.fixed_head == next((n for n, index in enumerate(shown) if index not in fixed), len(shown))


def assert_same_pass(report: FitReport, outcome: Outcome) -> None:
    """The window's pass did what the oracle's did."""
    assert (report.ran, report.satisfied) == (outcome.ran, outcome.satisfied)
    assert (report.tokens_before, report.tokens_after) == (outcome.before, outcome.after)
    assert (report.budget_used, report.room and report.room.fixed) == (
        outcome.used,
        outcome.fixed if report.budget_used > report.budget else None,
    )
    steps = [(s.episode, s.number, s.level.value, s.tokens_before, s.tokens_after, s.removed) for s in report.steps]
    assert steps == [(s.episode, s.number, s.level, s.before, s.after, s.removed) for s in outcome.steps]
