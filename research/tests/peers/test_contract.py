"""The contract of `Strategy` over peers' code; what a peer breaks is said, not hidden."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.context_strategies import support as rules
from tests.context_strategies.support import Rule, broken, live, untruthful
from tests.context_strategies.test_contract import (
    answered_histories,
    asking_again_changes_nothing,
    cases,
    nothing_goes_while_all_fits,
    views_depend_on_the_past_alone,
)
from tests.strategies import times
from wane.core import Item
from wane.strategies.registry import peer_names, usable_peers
from wane.strategies.strategy import StrategySettings

KEPT: dict[str, tuple[Rule, ...]] = {
    "langchain-trim": (rules.in_order, rules.calls_paired, rules.calls_intact, rules.budget_held),
    "langchain-edit": (rules.in_order, rules.calls_paired, rules.system_stays, rules.users_stay, rules.calls_intact),
    "harness-window": (rules.in_order, rules.calls_paired, rules.first_user_stays, rules.calls_intact),
    "harness-clear": (rules.in_order, rules.calls_paired, rules.system_stays, rules.users_stay, rules.calls_intact),
    "openai-agents-trim": (
        *(
            rules.in_order,
            rules.calls_paired,
            rules.tail_stays,
            rules.system_stays,
            rules.users_stay,
            rules.calls_intact,
        ),
    ),
    "strands-window": (rules.in_order, rules.calls_paired, rules.system_stays, rules.calls_intact),
    "ctxkernel": (rules.calls_paired, rules.system_stays, rules.users_stay),
}
"""The rules that a peer keeps; the other files here have the evidence for those that are not here."""


def of_peers(*but: str) -> pytest.MarkDecorator:
    """A test for each peer but some, skipped if the peer's library is not installed."""
    parameters = []
    for name in peer_names():
        skip = pytest.mark.skipif(name not in usable_peers(), reason="its library is not installed")
        if name not in but:
            parameters.append(pytest.param(name, marks=skip))
    return pytest.mark.parametrize("name", parameters)


def test_it_covers_every_peer() -> None:
    assert set(KEPT) == set(peer_names())


@pytest.mark.full
@of_peers()
@times(0.7)
@given(case=cases(answered_histories()))
def test_they_keep_these(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    life = live(name, *case)
    for rule in KEPT[name]:
        assert not broken(life, rule), rule.__name__
    assert not untruthful(life)


@of_peers()
@times(0.4)
@given(case=cases(answered_histories()))
def test_views_depend_on_nothing_but_what_has_happened(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    views_depend_on_the_past_alone(name, *case)


# Strands trims in place once a call, and at a full window again and again.
@of_peers("strands-window")
@times(0.4)
@given(case=cases(answered_histories()))
def test_asking_again_changes_nothing(name: str, case: tuple[list[Item], StrategySettings]) -> None:
    asking_again_changes_nothing(name, *case)


# These act whatever the budget.
@of_peers("openai-agents-trim", "ctxkernel")
@times(0.3)
@given(items=answered_histories())
def test_nothing_goes_while_all_fits(name: str, items: list[Item]) -> None:
    nothing_goes_while_all_fits(name, items)
