"""What a policy and a budget say exactly: the shares, their bounds, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wane import ConfigError, Policy
from wane.core import parse_budget
from wane.core.policy import GUARD, MAX_BUDGET


@pytest.mark.parametrize("name", ["index_share", "min_room"])
@pytest.mark.parametrize("share", [-0.01, 1.01])
def test_a_share_is_from_0_to_1(name: str, share: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {share}; it must be from 0 to 1"):
        replace(Policy(), **{name: share})
    assert getattr(replace(Policy(), **{name: 1.0}), name) == 1.0


def test_the_guard_is_that_of_the_order_unless_it_is_named() -> None:
    assert Policy().guard_share == GUARD > 0
    assert Policy(order="paper").guard_share == 0.0
    assert Policy(order="paper", guard=0.3).guard_share == 0.3


@pytest.mark.parametrize(
    ("guard", "low_water", "budget", "tokens"),
    [
        (0.5, 0.8, 1_000, 425),  # half of the room of 850
        (0.9, 0.5, 1_000, 350),  # what a pass leaves beside what is fixed and the index
        (0.5, 0.8, 100, 0),  # there is no room
    ],
)
def test_the_guard_spares_a_share_of_the_room_that_a_pass_leaves(
    guard: float, low_water: float, budget: int, tokens: int
) -> None:
    policy = Policy(guard=guard, low_water=low_water)
    assert policy.guarded_tokens(budget, fixed=100, index=50) == tokens


def test_the_bounds_of_budgets() -> None:
    assert parse_budget("100%", window=200_000) == 200_000
    assert parse_budget(MAX_BUDGET) == MAX_BUDGET
    with pytest.raises(ConfigError, match="it must be at most 1,000,000,000,000,000 tokens"):
        parse_budget(MAX_BUDGET + 1)
    with pytest.raises(ConfigError, match="budget is 0; it must be at least 1 token"):
        parse_budget("0")


@pytest.mark.parametrize(("budget", "meant"), [("1", "1k"), (1, '"1k"'), (999, '"999k"')])
def test_a_budget_that_lost_its_unit_is_quoted_as_it_must_be_written(budget: str | int, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}\\?"):
        parse_budget(budget)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("x" * 58, f"'{'x' * 58}'"),
        ("x" * 59, f"'{'x' * 56}..."),
        ("é", r"'\xe9'"),
        (10**60 - 1, "9" * 60),
        (10**60, "a number of more than 60 digits"),
        (-(10**60), "a number of more than 60 digits"),
    ],
)
def test_a_refused_value_is_quoted_in_at_most_60_characters(value: object, quoted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_budget(value)  # type: ignore[arg-type]
    assert f"budget is {quoted};" in str(caught.value) or f"budget {quoted} is not understood;" in str(caught.value)
