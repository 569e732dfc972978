"""What the providers' caches and models are known to do, by model and version."""

from __future__ import annotations

import pytest

from wane.caches import RESUMED, SKILL_LOADED, breaks_cache, drops_reasoning, rules_for


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
