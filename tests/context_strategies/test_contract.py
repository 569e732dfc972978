"""The contract of `Strategy`, over all of ours."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.context_strategies import support as rules
from tests.context_strategies.support import (
    Rule,
    broken,
    find_returns,
    live,
    look,
    part_of,
    unchanged_items,
    untruthful,
)
from tests.strategies import budgets, histories, often, times
from wane.core import Item, Kind, Policy
from wane.strategies.registry import STRATEGY_NAMES, get_strategy, traits
from wane.strategies.strategy import Resumable, StrategySettings

EVERY: tuple[Rule, ...] = (rules.in_order, rules.calls_paired)
"""What every view is held to."""

TAIL: tuple[Rule, ...] = (rules.tail_stays, rules.system_stays, rules.needs_met)
"""What every view of ours is held to, but for a strategy that starts again."""

BY_TAKES: dict[str, tuple[Rule, ...]] = {
    "": (*TAIL, rules.users_stay, rules.calls_intact),
    "oldest": (*TAIL, rules.first_user_stays, rules.calls_intact, rules.budget_held_with_a_head),
    "summary": (rules.system_stays, rules.needs_met, rules.one_summary),
    # It compresses long results before the model sees them, those of the tail too.
    "compressed": (rules.system_stays, rules.needs_met, rules.one_summary_and_results),
    "cleared": (*TAIL, rules.users_stay, rules.calls_intact),
    "folded": (*TAIL, rules.users_stay, rules.calls_intact),
    "episode": (*TAIL, rules.users_stay),
}
"""What every view is held to by what a strategy takes from it, as its traits say."""

BESIDES: dict[str, tuple[Rule, ...]] = {
    "truncate": (rules.budget_held,),
    "streaming": (rules.head_stays,),
    "compact": (*TAIL, rules.budget_held_beside_a_summary),
    "memgpt": (*TAIL, rules.budget_held_beside_a_summary),
    "resum": (rules.question_stays, rules.starts_again),
    "acon": (rules.question_stays, rules.budget_held_beside_a_summary),
    "mask": (rules.only_the_latest_results,),
    "paper": (rules.calls_intact,),
    "cwl": (rules.one_summary,),
}
"""What some promise besides."""


@st.composite
def cases(draw: st.DrawFn, strategy: st.SearchStrategy[list[Item]]) -> tuple[list[Item], StrategySettings]:
    items = draw(strategy)
    settings = StrategySettings(
        budget=draw(budgets(items, Policy.paper())),
        overhead=draw(st.sampled_from((0, 0, 5, 60))),
        low_water=draw(st.sampled_from((None, None, 1.0, 0.7, 0.3))),
        annotate=draw(st.sampled_from(("model", "infer"))),
    )
    return items, settings


@st.composite
def answered_histories(draw: st.DrawFn) -> list[Item]:
    """Histories as a harness keeps them: each call with an id of its own, answered before the next message."""
    items: list[Item] = [Item(Kind.SYSTEM, draw(st.integers(0, 20)), message=0)] if draw(st.booleans()) else []
    items.append(Item(Kind.USER, draw(st.integers(1, 40)), message=len(items)))
    for number in range(draw(st.integers(0, 16))):
        items += _message(draw, 2 * number + 2, number)
        if draw(st.integers(0, 4)) == 0:
            items.append(Item(Kind.USER, draw(st.integers(1, 40)), message=2 * number + 3))
    return items


def _message(draw: st.DrawFn, ordinal: int, number: int) -> list[Item]:
    tokens = often((2, st.integers(1, 20)), (1, st.integers(50, 400)))
    calls = [f"c{number}.{place}" for place in range(draw(st.integers(0, 4)))]
    said = [Item(Kind.REASONING, draw(tokens), message=ordinal)] if draw(st.booleans()) else []
    if not calls or draw(st.booleans()):
        said.append(Item(Kind.TEXT, draw(tokens), message=ordinal))
    arguments = json.dumps({"pattern": "x"})
    asked = [Item(Kind.CALL, draw(tokens), call, "grep", arguments, ordinal) for call in calls]
    return [*said, *asked, *(Item(Kind.RESULT, draw(tokens), call, message=ordinal + 1) for call in calls)]


def test_what_is_promised_besides_is_promised_by_strategies() -> None:
    assert set(BESIDES) <= set(STRATEGY_NAMES)


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", STRATEGY_NAMES)
@times(0.7)
@given(case=cases(histories()))
def test_ours_keep_every_rule(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    life = live(name, *case)
    for rule in (*EVERY, *BY_TAKES[traits(name).takes], *BESIDES.get(name, ())):
        assert not broken(life, rule), rule.__name__
    assert not untruthful(life)
    assert not find_returns(life)


@pytest.mark.parametrize("name", STRATEGY_NAMES)
@times(0.4)
@given(case=cases(answered_histories()))
def test_views_depend_on_nothing_but_what_has_happened(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    views_depend_on_the_past_alone(name, *case)


def views_depend_on_the_past_alone(name: str, items: list[Item], settings: StrategySettings) -> None:
    """Deterministic, and never looking ahead: another future changes no view before it."""
    life = live(name, items, settings)
    assert live(name, items, settings).sights == life.sights
    middle = life.sights[len(life.sights) // 2].known
    other = [replace(item, tokens=item.tokens * 3 + 1) if at >= middle else item for at, item in enumerate(items)]
    sights = live(name, other, settings).sights
    assert [it for it in sights if it.known <= middle] == [it for it in life.sights if it.known <= middle]


@pytest.mark.parametrize("name", STRATEGY_NAMES)
@times(0.4)
@given(case=cases(answered_histories()))
def test_asking_again_changes_nothing(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    asking_again_changes_nothing(name, *case)


def asking_again_changes_nothing(name: str, items: list[Item], settings: StrategySettings) -> None:
    life = live(name, items, settings)
    again = look(life.strategy, len(life.items))
    assert (again.view, again.ran, again.asked) == (life.sights[-1].view, False, None)


# `mask` acts whatever the budget.
@pytest.mark.parametrize("name", [name for name in STRATEGY_NAMES if name != "mask"])
@times(0.3)
@given(items=answered_histories())
def test_nothing_goes_while_all_fits(name: str, items: list[Item]) -> None:
    nothing_goes_while_all_fits(name, items)


def nothing_goes_while_all_fits(name: str, items: list[Item]) -> None:
    settings = StrategySettings(budget=10 + sum(item.tokens for item in items), overhead=10)
    life = live(name, items, settings)
    assert [sight.view for sight in life.sights] == [list(range(sight.known)) for sight in life.sights]
    assert not any(sight.ran for sight in life.sights)


RESUMABLE = tuple(name for name in STRATEGY_NAMES if not traits(name).by_episode)


def told_of(name: str, items: list[Item], settings: StrategySettings) -> Resumable:
    """A new strategy that knows the items, and has done nothing."""
    revived = get_strategy(name, replace(settings, budget=10**9))
    assert isinstance(revived, Resumable)
    for item in items:
        revived.add(item, part_of(item))
    return revived


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", RESUMABLE)
@times(0.7)
@given(case=cases(histories()))
def test_what_was_done_can_be_done_again(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    items, settings = case
    life = live(name, items, settings)
    assert isinstance(life.strategy, Resumable)
    revived = told_of(name, items, settings)
    for sight in life.sights:
        assert (sight.done is not None) == (sight.ran and name != "fold")
        if sight.done is not None:
            revived.redo(json.loads(json.dumps(sight.done)))
    assert look(revived, len(items)).view == life.sights[-1].view
    # And it goes on from there as it would have.
    revived.budget = life.strategy.budget = max(1, settings.budget // 2)
    assert look(revived, len(items)) == look(life.strategy, len(items))


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", RESUMABLE)
@times(0.7)
@given(case=cases(histories()))
def test_what_stands_brings_a_new_strategy_to_where_it_was(
    name: str, case: tuple[list[Item], StrategySettings]
) -> None:
    items, settings = case
    life = live(name, items, settings)
    assert isinstance(life.strategy, Resumable)
    revived = told_of(name, items, settings)
    standing = life.strategy.standing
    assert standing is not None or not any(sight.done is not None for sight in life.sights)
    if standing is not None:
        revived.redo(json.loads(json.dumps(standing)))
    assert look(revived, len(items)).view == life.sights[-1].view
    assert revived.standing == standing


@times(0.7)
@given(case=cases(histories()))
def test_a_summary_is_written_of_what_the_model_saw_last(case: tuple[list[Item], StrategySettings]) -> None:
    life = live("compact", *case)
    before = life.sights[0]
    for sight in life.sights[1:]:
        if sight.asked is not None:
            assert sight.ran
            # But for what no longer stood (R15), which goes at once.
            still = [slot for slot in before.view if slot in sight.asked]
            assert all(isinstance(slot, int) and life.items[slot].standing for slot in before.view if slot not in still)
            assert sight.asked[: len(still)] == still
            assert unchanged_items(sight.view) < unchanged_items(sight.asked)
        before = sight


@times(0.7)
@given(case=cases(histories()))
def test_clearing_stops_only_when_nothing_more_may_be_cleared(case: tuple[list[Item], StrategySettings]) -> None:
    life = live("clear-tools", *case)
    for sight in life.sights:
        results = [at for at in range(sight.known) if life.items[at].kind is Kind.RESULT]
        left = set(results[:-3]) & unchanged_items(sight.view) - rules.tail_of(life.items[: sight.known])
        left = {at for at in left if not life.items[at].person and not life.items[at].loads}
        assert not rules.over(life, sight) or all(life.items[at].tokens <= 7 for at in left)
