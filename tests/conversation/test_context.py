from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from wane import Conversation, Policy
from wane.budgets import AutoBudget, TunedBudget
from wane.conversation import ContextSettings
from wane.conversation.context import SETTING_NAMES
from wane.core.errors import ConfigError
from wane.integrations.lifecycle import LifecycleSettings
from wane.strategies.strategy import StrategySettings

GUIDE = Path(__file__).parents[2] / "docs" / "conversation.md"


def test_each_setting_can_be_written_but_those_of_strategies_alone() -> None:
    not_written = {"overhead", "low_water", "auto", "price_step"}
    assert set(SETTING_NAMES) == {field.name for field in fields(ContextSettings)} - not_written
    assert get_type_hints(LifecycleSettings).keys() - {"on_event"} < set(SETTING_NAMES)


def test_the_guide_has_each_setting() -> None:
    first_column = re.findall(r"^\| (`.*?`) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(SETTING_NAMES) <= set(re.findall(r"\w+", " ".join(first_column)))


REMIND_AT = "it must be a share of the budget above 0 and at most 1"
LIFETIME = "it must be a number of seconds, at least 0"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("budget", 0, "budget is 0; it must be at least 1"),
        ("budget", "much", "budget 'much' is not understood"),
        ("policy", "paper", "policy is 'paper'; it must be a Policy"),
        ("strategy", "magic", "strategy 'magic' is unknown; known: none, truncate"),
        ("strategy", 7, "strategy 7 is unknown"),
        ("annotate", "nobody", "annotate is 'nobody'; it must be one of"),
        ("recall", 1, "recall is 1; it must be true or false"),
        ("remind_at", 0, f"remind_at is 0; {REMIND_AT}"),
        ("remind_at", 1.01, f"remind_at is 1.01; {REMIND_AT}"),
        ("remind_at", -1, f"remind_at is -1; {REMIND_AT}"),
        ("remind_at", float("nan"), f"remind_at is nan; {REMIND_AT}"),
        ("remind_at", True, f"remind_at is True; {REMIND_AT}"),
        ("tool_classes", {"grep": "huge"}, "tool 'grep' has the class 'huge'; a class is one of"),
        ("tool_classes", ["grep"], "tool_classes is ['grep']"),
        ("tool_classes", {1: "bulk"}, "tool_classes is {1: 'bulk'}"),
        ("tool_classes", {" read": "bulk"}, "the name ' read'"),
        ("tool_classes", {"": "bulk"}, "the name ''"),
        ("tool_classes", {"Read": "bulk", "read": "durable"}, "two classes for 'read'"),
        ("counter", "abacus", "counter 'abacus' is unknown"),
        ("counter", 4, "counter is 4"),
        ("cache_lifetime", -1, f"cache_lifetime is -1; {LIFETIME}"),
        ("cache_lifetime", float("nan"), f"cache_lifetime is nan; {LIFETIME}"),
        ("manage", None, "manage is None; it must be true or false"),
        ("tuned", 60_000, "tuned is 60000; it must be what wane.tuned.read_tuned returns"),
    ],
)
def test_a_value_that_cannot_work_is_named(name: str, value: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        ContextSettings(**{name: value})
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Conversation(**{name: value})


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    settings: dict[str, Any] = {"bugdet": "80k"}
    with pytest.raises(ConfigError, match=r"unknown setting 'bugdet'; known: budget, policy, .*, manage"):
        Conversation(**settings)


def test_a_tuned_budget_counts_where_it_is_passed() -> None:
    conversation = Conversation(budget="auto", tuned=TunedBudget(60_000, 7))
    conversation.append({"role": "user", "content": "Hello."})
    assert conversation.settings.budget == 60_000
    conversation.request()
    assert conversation.auto_budget == AutoBudget(60_000, "tuned on 7 of your sessions")


def test_what_users_write_is_read_once() -> None:
    settings = ContextSettings.of(budget="20k", policy=None, counter=len)
    assert (settings.budget, settings.policy, settings.counter("four")) == (20_000, Policy(), 4)
    assert ContextSettings.of(settings, recall=True) == replace(settings, recall=True)
    with pytest.raises(ConfigError, match="no unit"):
        ContextSettings.of(budget=80)


def test_settings_as_a_whole_and_one_by_one_are_the_same() -> None:
    whole = Conversation(settings=ContextSettings(20_000, strategy="truncate"), recall=True)
    single = Conversation(budget=20_000, strategy="truncate", recall=True)
    assert whole.log.config == single.log.config
    assert whole.own_tools == single.own_tools


def test_the_settings_are_those_of_a_strategy_too() -> None:
    assert {field.name for field in fields(StrategySettings)} < {field.name for field in fields(ContextSettings)}
    assert ContextSettings(strategy="paper", low_water=0.3).eviction == Policy.paper()
    assert ContextSettings(low_water=0.3).eviction == Policy(low_water=0.3)
