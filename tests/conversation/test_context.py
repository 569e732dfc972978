from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from wane import Conversation, Policy
from wane.conversation import ContextSettings
from wane.conversation.context import SETTING_NAMES
from wane.core.errors import ConfigError
from wane.integrations.lifecycle import LifecycleSettings
from wane.strategies.base import Settings

GUIDE = Path(__file__).parents[2] / "docs" / "conversation.md"


def test_each_setting_can_be_written_but_those_of_strategies_alone() -> None:
    assert set(SETTING_NAMES) == {field.name for field in fields(ContextSettings)} - {"overhead", "low_water"}
    assert get_type_hints(LifecycleSettings).keys() - {"on_event"} < set(SETTING_NAMES)


def test_the_guide_has_each_setting() -> None:
    first_column = re.findall(r"^\| (`.*?`) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(SETTING_NAMES) <= set(re.findall(r"\w+", " ".join(first_column)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("budget", 0),
        ("policy", "paper"),
        ("annotate", "nobody"),
        ("recall", 1),
        ("remind_at", 0),
        ("remind_at", 1.01),
        ("remind_at", -1),
        ("remind_at", float("nan")),
        ("remind_at", True),
        ("tool_classes", {"grep": "huge"}),
        ("tool_classes", ["grep"]),
        ("counter", "abacus"),
        ("counter", 4),
        ("cache_lifetime", -1),
        ("cache_lifetime", float("nan")),
        ("manage", None),
    ],
)
def test_a_value_that_cannot_work_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        ContextSettings(**{name: value})
    assert name.replace("_", " ") in str(raised.value).replace("_", " ") or "'grep'" in str(raised.value)
    with pytest.raises(ConfigError):
        Conversation(**{name: value})


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    settings: dict[str, Any] = {"bugdet": "80k"}
    with pytest.raises(ConfigError, match=r"unknown setting 'bugdet'; known: budget, policy, .*, manage"):
        Conversation(**settings)


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
    assert {field.name for field in fields(Settings)} < {field.name for field in fields(ContextSettings)}
    assert ContextSettings(strategy="paper", low_water=0.3).eviction == Policy.paper()
    assert ContextSettings(low_water=0.3).eviction == Policy(low_water=0.3)
