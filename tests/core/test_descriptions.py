"""R11 where it is hard: explorations that are removed in another order than they were started in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.lives import Life, assert_agree, assert_same_pass, revive, rules_of, summary
from tests.strategies import times
from wane.core import ContextWindow, FitReport, Item, Kind, Policy


def exchange(name: str, arguments: dict[str, object], tokens: int = 5) -> list[Item]:
    """A delimiter call and its result, of so many tokens together."""
    text = json.dumps(arguments)
    call = Item(Kind.CALL, tokens - tokens // 2, call_id=name, tool="delimiter", arguments=text)
    return [call, Item(Kind.RESULT, tokens // 2, call_id=name)]


def look(number: int, closing: int) -> list[Item]:
    """An exploration whose closing pair holds so many tokens."""
    start = exchange(f"s{number}", {"action": "start", "name": f"look {number}", "type": "expl"})
    return start + exchange(f"e{number}", {"action": "end", "description": "seen"}, closing)


def act(name: str, needs: Sequence[int]) -> list[Item]:
    """The start of an act that builds on explorations; it ends with `done`."""
    names = [f"look {number}" for number in needs]
    return exchange(name, {"action": "start", "name": name, "type": "act", "dependencies": names})


def done(name: str) -> list[Item]:
    return exchange(f"end {name}", {"action": "end"})


def list_steps(report: FitReport) -> list[tuple[str | None, str]]:
    return [(step.episode, step.level.value) for step in report.steps]


def test_the_oldest_goes_first_by_start_not_by_removal() -> None:
    """The first exploration is removed last, as an act builds on it; its description still goes first."""
    window = ContextWindow(60, Policy(low_water=0.1, description_share=0.5))
    window.extend([*look(0, 12), *look(1, 12), *look(2, 12), *act("work", [0])])
    assert list_steps(window.fit()) == []
    window.extend([Item(Kind.TEXT, 10)])
    assert list_steps(window.fit()) == [("look 1", "remove"), ("look 2", "remove")]
    window.extend([*done("work"), Item(Kind.TEXT, 10)])
    assert list_steps(window.fit()) == [("work", "remove"), ("look 0", "remove"), ("look 0", "description")]


@dataclass(frozen=True)
class Stage:
    """An act that builds on some explorations, and the budget of the pass that runs while it is active."""

    needs: frozenset[int]
    budget: int
    restart: bool


def stages() -> st.SearchStrategy[Stage]:
    needs = st.frozensets(st.integers(0, 11), min_size=1, max_size=8)
    return st.builds(Stage, needs, st.integers(20, 260), st.booleans())


@times(3)
@given(
    st.lists(st.integers(2, 20), min_size=3, max_size=12),
    st.lists(stages(), min_size=1, max_size=8),
    st.sampled_from((0.1, 0.3, 0.5, 1.0)),
)
def test_any_order_of_removal(closings: list[int], plan: list[Stage], share: float) -> None:
    """Window, window after restarts, rebuilt window and oracle drop the same descriptions."""
    policy = Policy(low_water=1.0, description_share=share)
    steady, broken, rebuilt = (ContextWindow(1_000, policy) for _ in range(3))
    life = Life(rules_of(policy, 1_000))

    def take(items: list[Item]) -> None:
        life.items += items
        for window in (steady, broken, rebuilt):
            window.extend(items)

    take([item for number, closing in enumerate(closings) for item in look(number, closing)])
    for place, stage in enumerate(plan):
        take(act(f"act {place}", sorted({number % len(closings) for number in stage.needs})))
        take([Item(Kind.TEXT, 1)])
        life.rules = rules_of(policy, stage.budget)
        steady.budget = broken.budget = rebuilt.budget = stage.budget
        report = steady.fit()
        assert_same_pass(report, life.fit())
        assert broken.fit() == report
        rebuilt.apply(report.trace)
        broken = revive(broken) if stage.restart else broken
        take(done(f"act {place}"))
    assert_agree(steady, life)
    assert summary(steady) == summary(broken) == summary(rebuilt)
    take([Item(Kind.TEXT, 1)])
    for budget in (150, 80, 40, 1):
        life.rules = rules_of(policy, budget)
        steady.budget = broken.budget = rebuilt.budget = budget
        report = steady.fit()
        assert_same_pass(report, life.fit())
        assert broken.fit() == rebuilt.fit() == report
