"""The core against the oracle: the same history, budget and policy must give the same view, item for item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import event, example, given
from hypothesis import strategies as st

from tests.lives import Life, assert_agree, assert_same_pass, revive, rules_of, summary, turns_of
from tests.oracle import BULK, DURABLE
from tests.strategies import TOOLS, Scenario, scenarios, times
from wane.core import DEFAULT_TOOL_CLASSES, ContextWindow, EvictedIndex, Item, Kind, Policy, Step
from wane.core.episodes import Choice
from wane.core.room import share_of


def pair(scenario: Scenario) -> tuple[ContextWindow, Life]:
    """The window of a scenario and the oracle's."""
    return scenario.window(), Life(scenario.rules())


def take(window: ContextWindow, life: Life, items: list[Item]) -> None:
    """Feed both."""
    window.extend(items)
    life.items += items


def with_index(scenario: Scenario, share: float) -> Scenario:
    """A scenario in which passes make room for an index (R20)."""
    return replace(scenario, policy=replace(scenario.policy, index_share=share))


SHARES = st.sampled_from((0.0, 0.0, 0.05, 0.2))

# A call that loaded tools holds reasoning whose level is reached, until the tools are withdrawn.
OVERDUE = Scenario(
    [
        *(Item(Kind.USER, 10), Item(Kind.REASONING, 30, message=1)),
        Item(Kind.CALL, 5, call_id="load", tool="load_tools", message=1, needs=(-1,)),
        Item(Kind.RESULT, 20, call_id="load", loads=("a",)),
        *(Item(Kind.CALL, 1, call_id="edit", tool="edit", message=2), Item(Kind.RESULT, 100, call_id="edit")),
        *(Item(Kind.CALL, 1, call_id="read", tool="read", message=3), Item(Kind.RESULT, 300, call_id="read")),
        *(Item(Kind.USER, 1), Item(Kind.TEXT, 40, message=4), Item(Kind.USER, 1), Item(Kind.TEXT, 250, message=5)),
        Item(Kind.USER, 1, withdraws=("a",)),
        *(Item(Kind.TEXT, 150, message=6), Item(Kind.TEXT, 1, message=7)),
    ],
    budget=500,
    policy=Policy(low_water=0.9, guard=0.0, index_share=0.0, min_room=0.0),
)


@times(2)
@given(scenarios(max_moves=40))
def test_protocol(scenario: Scenario) -> None:
    """R2 to R5, R17: verdicts, owners, episodes, tasks."""
    window, items = ContextWindow(tasks=scenario.tasks), scenario.items
    added = window.extend(items)
    reading = scenario.read()
    assert {one.index: one.verdict.accepted for one in added if one.verdict} == reading.verdicts
    owners = {one.index: one.episode.number for one in added if one.episode}
    # A notice that stood belongs to none when it comes (R15).
    assert owners == {index: owner.number for index, owner in reading.owner.items() if index not in reading.stood}
    assert_agree(window, Life(rules_of(window.policy, window.budget, tasks=scenario.tasks), items=items))
    for episode in reading.episodes:
        if episode.name is not None:
            assert [i for span in window.members(episode.name) for i in span] == sorted(episode.members)


@times(2.5)
@given(scenarios(max_moves=40))
def test_one_pass(scenario: Scenario) -> None:
    """One pass over a whole session, as in the conformance cases."""
    window, life = pair(scenario)
    take(window, life, scenario.items)
    report = window.fit()
    assert_same_pass(report, life.fit())
    assert_agree(window, life)
    for step in report.steps:
        event(step.level.value)


@times(2.5)
@given(scenarios(max_moves=40), SHARES)
@example(OVERDUE, 0.0)
def test_life(scenario: Scenario, share: float) -> None:
    """A pass before every model call."""
    window, life = pair(with_index(scenario, share))
    for turn in turns_of(scenario.items):
        assert_same_pass(window.fit(), life.fit())
        take(window, life, turn)
        assert_agree(window, life)
    assert_same_pass(window.fit(), life.fit())
    assert_agree(window, life)


@given(scenarios())
def test_what_holds_the_tokens(scenario: Scenario) -> None:
    """R13: if the budget cannot be met, the report says by how much and what holds the rest."""
    window, life = pair(scenario)
    for turn in turns_of(scenario.items):
        take(window, life, turn)
        report = window.fit()
        life.fit()
        assert (report.pinned is None) == report.satisfied
        assert report.excess == max(0, report.tokens_after - report.budget_used)
        if report.pinned is not None:
            assert report.pinned == life.find_pinned()
            assert report.pinned.total == report.tokens_after


def fit_with_index(window: ContextWindow, life: Life, spared: int, *, cold: bool = False) -> None:
    """R20: let both run a pass that leaves an index, which does not use all the tokens that it may hold."""

    def size(limit: int) -> int:
        return limit - spared % limit

    def write(_: Sequence[Step], limit: int) -> EvictedIndex:
        return EvictedIndex("", size(limit), 0)

    report, outcome = window.fit(cold=cold, write_index=write), life.fit(cold=cold, write_index=size)
    assert_same_pass(report, outcome)
    tokens = 0 if report.index is None else report.index.tokens
    assert tokens == outcome.index
    if report.ran:
        share = share_of(report.budget_used, window.policy.index_share)
        assert max(tokens, window.accounting.scale(tokens)) <= share


@dataclass(frozen=True)
class Act:
    """Something that a caller does between two messages."""

    kind: str
    number: int

    def do(self, window: ContextWindow, life: Life) -> ContextWindow:
        """Do it to both; the window may be another one afterwards."""
        rules = life.rules
        if self.kind in ("fit", "cold"):
            fit_with_index(window, life, self.number, cold=self.kind == "cold")
        elif self.kind == "observe":
            # About the request that the latest `fit` made, whatever was added since.
            window.observe(self.number)
            life.observe(self.number)
        elif self.kind == "budget":
            window.budget = self.number + 1
            life.rules = replace(rules, budget=window.budget)
        elif self.kind == "overhead":
            window.overhead = life.overhead = self.number
        elif self.kind == "policy":
            share = (None, 0.0, 0.1, 1.0)[self.number % 4]
            low, cold = (self.number % 10 + 1) / 10, bool(self.number % 2)
            room = (0.0, 0.3, 1.0)[self.number % 3]
            window.policy = replace(
                window.policy, low_water=low, description_share=share, evict_when_cold=cold, min_room=room
            )
            life.rules = replace(rules, low_water=low, share=share, evict_when_cold=cold, min_room=room)
        elif self.kind == "window":
            window.window = self.number + 1 if self.number % 4 else None
            life.rules = replace(rules, window=window.window)
        elif self.kind == "choose":
            if shown := [episode.number for episode in window.episodes if not episode.is_task]:
                number, choice = shown[self.number % len(shown)], CHOICES[self.number % len(CHOICES)]
                window.choose(number, choice)
                life.rules = replace(rules, choices={**rules.choices, number: choice})
        elif self.kind == "restart":
            before = summary(window)
            window = revive(window)
            assert summary(window) == before
        return window


ACTS = (
    *("nothing", "fit", "fit", "fit", "cold", "observe", "budget", "overhead", "policy", "window", "restart"),
    *("choose", "choose"),
)
CHOICES: Sequence[Choice] = ("keep", "drop", "", "drop", "keep")


# To a provider that counts far less, the system prompt is less than nothing; what the user said is fixed all the same.
REPORTED_LOW = Scenario(
    [Item(Kind.SYSTEM, 50), *(Item(Kind.TEXT, 40, message=n) for n in (1, 2)), Item(Kind.USER, 8), Item(Kind.TEXT, 1)],
    budget=100,
    policy=Policy(min_room=1.0),
)


@times(2.5)
@given(
    scenarios(),
    st.lists(st.builds(Act, st.sampled_from(ACTS), st.integers(0, 1_000)), min_size=1, max_size=30),
    SHARES,
)
@example(REPORTED_LOW, [Act("nothing", 0), Act("nothing", 0), Act("fit", 0), Act("observe", 1)], 0.0)
def test_whatever_the_caller_does(scenario: Scenario, acts: list[Act], share: float) -> None:
    """R10 to R14, R20, R23: anchors, cold caches, restarts, changed settings, choices and an index in any order."""
    window, life = pair(with_index(scenario, share))
    assert_same_pass(window.fit(), life.fit())
    for place, turn in enumerate(turns_of(scenario.items)):
        window = acts[place % len(acts)].do(window, life)
        assert_agree(window, life)
        take(window, life, turn)
    assert_same_pass(window.fit(), life.fit())
    assert_agree(window, life)


CLASSES = st.dictionaries(
    st.sampled_from([*TOOLS, "GREP", "Read"]), st.sampled_from(("bulk", "artifact", "durable")), max_size=4
).filter(lambda classes: len({name.lower() for name in classes}) == len(classes))


@given(scenarios(), CLASSES)
def test_the_users_tool_classes(scenario: Scenario, classes: dict[str, str]) -> None:
    """A user's class for a tool goes before the default, by name without case."""
    window = scenario.window(tool_classes=classes)
    life = Life(scenario.rules(classes))
    take(window, life, scenario.items)
    assert_same_pass(window.fit(), life.fit())
    assert_agree(revive(window), life)


def test_default_tool_classes() -> None:
    """What the oracle knows of tools is part of what the core knows."""
    for name in BULK:
        assert DEFAULT_TOOL_CLASSES[name].value == "bulk"
    for name in DURABLE:
        assert DEFAULT_TOOL_CLASSES[name].value == "durable"
