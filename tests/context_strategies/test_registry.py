"""The registry: names, descriptions, and what cannot be had."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from wane.conversation import ContextSettings
from wane.core import Policy
from wane.core.errors import ConfigError
from wane.strategies.registry import (
    STRATEGY_NAMES,
    check_live,
    check_unaided,
    describe,
    get_strategy,
    traits,
)
from wane.strategies.strategy import Strategy, StrategySettings, Traits
from wane.strategies.window_strategy import WindowStrategy


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_each_of_ours_can_be_had_by_name(name: str) -> None:
    strategy = get_strategy(name)
    assert isinstance(strategy, Strategy)
    assert strategy.name == name


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_each_is_described_in_a_line(name: str) -> None:
    assert 10 < len(describe(name)) < 90
    assert "\n" not in describe(name)


@pytest.mark.parametrize("ask", [describe, get_strategy])
def test_an_unknown_name_is_told_with_those_that_are_known(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(ConfigError, match=r"'cut' is unknown; known: none, truncate, .*cwl, "):
        ask("cut")


@pytest.mark.parametrize("settings", [{"budget": 0}, {"budget": "80"}, {"low_water": 0}, {"overhead": -1}])
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        StrategySettings(**settings)


@pytest.mark.parametrize("settings", [StrategySettings, ContextSettings])
def test_a_budget_may_be_text(settings: Callable[..., StrategySettings | ContextSettings]) -> None:
    assert settings(budget="80k").budget == 80_000
    with pytest.raises(ConfigError, match="no unit"):
        settings(budget="80")


def test_low_water_is_of_cwl_and_not_of_the_paper() -> None:
    settings = StrategySettings(policy=Policy(description_share=0.5), low_water=0.4)
    paper, cwl = get_strategy("paper", settings), get_strategy("cwl", settings)
    assert isinstance(paper, WindowStrategy)
    assert isinstance(cwl, WindowStrategy)
    assert paper.window.policy == Policy.paper()
    assert cwl.window.policy == Policy(description_share=0.5, low_water=0.4)


def test_our_strategies_load_no_peer() -> None:
    code = """
import sys
from wane.strategies.registry import STRATEGY_NAMES, get_strategy
for name in STRATEGY_NAMES:
    get_strategy(name)
print([name for name in ("wane_research", "langchain_core", "agents", "pydantic_ai", "openai") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_strategy_states_its_own_facts() -> None:
    for name in STRATEGY_NAMES:
        strategy = get_strategy(name)
        assert strategy.name == name
        assert describe(name) == type(strategy).summary
        assert traits(name) is type(strategy).traits
        assert (traits(name).takes == "") == (name == "none")
    assert traits("of another library") == Traits()


def test_the_proxy_runs_the_strategies_that_call_no_model() -> None:
    alone = {name for name in STRATEGY_NAMES if not traits(name).summarises}
    for name in STRATEGY_NAMES:
        assert check_live(name) == name
        if name in alone:
            assert check_unaided(name) == name
        else:
            with pytest.raises(ConfigError, match=f"cannot run the strategy '{name}'; it runs none, truncate, "):
                check_unaided(name)
