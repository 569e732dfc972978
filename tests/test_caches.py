"""What the providers' caches and models are known to do, by model and version."""

from __future__ import annotations

import pytest

from wane.caches import (
    RESUMED,
    SKILL_LOADED,
    breaks_cache,
    describe_duration,
    describe_pause,
    drops_reasoning,
    rules_for,
)


@pytest.mark.parametrize(
    ("model", "drops"),
    [
        ("claude-3-7-sonnet-20250219", True),
        ("claude-opus-4-20250514", True),
        ("claude-opus-4-1", True),
        ("claude-opus-4-5-20251101", False),
        ("claude-sonnet-4-5", True),
        ("claude-haiku-4-5", True),
        ("claude-sonnet-4-6", False),
        ("anthropic/claude-opus-5.5", False),
        ("claude-fable-5", False),
        ("gpt-5", True),
        ("gpt-5.5", True),
        ("gpt-5.6", False),
        ("gpt-6", False),
        ("gemini-3-pro", False),
    ],
)
def test_older_models_leave_out_the_reasoning_of_earlier_turns(model: str, drops: bool) -> None:
    assert drops_reasoning(model) is drops


@pytest.mark.parametrize(
    ("model", "minutes"),
    [
        ("gpt-4o", 5),
        ("gpt-4.1-mini", 30),
        ("gpt-5", 30),
        ("gpt-5.5", 30),
        ("gpt-5.6", 30),
        ("o3", 5),
        ("claude-sonnet-5", 5),
    ],
)
def test_how_long_entries_live_depends_on_the_model(model: str, minutes: int) -> None:
    assert rules_for("", model).lifetime == 60 * minutes


def test_writes_are_charged_since_gpt_5_6() -> None:
    charged = [rules_for("openai", model).charges_writes for model in ("gpt-5.5", "gpt-5.6", "gpt-6")]
    assert charged == [False, True, True]


@pytest.mark.parametrize(
    ("event", "version", "breaks"),
    [
        (RESUMED, "2.1.96", True),
        (RESUMED, "2.1.97", False),
        (SKILL_LOADED, "2.1.37", True),
        (SKILL_LOADED, "2.1.38", False),
        (RESUMED, "2.2", False),
        (RESUMED, "next", False),
        ("", "1.0.0", False),
    ],
)
def test_claude_code_broke_the_cache_up_to_a_version(event: str, version: str, breaks: bool) -> None:
    assert breaks_cache(event, version) is breaks


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (300, "5 min"),
        (81_189, "22.6 h"),
        (90_000, "25 h"),
        (1e8, "1,157.4 days"),
    ],
)
def test_a_duration_is_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    assert describe_duration(seconds) == words


def test_a_pause_is_told_with_the_lifetime() -> None:
    assert describe_pause(81_189, 3_600) == "the answers are 22.6 h apart, and the cache lives for 1 h"
