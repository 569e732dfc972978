"""The budget `auto`: what it goes by, that a session keeps it, and that persons' answers survive a restart with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wane
from wane.budgets import TunedBudget, choose_budget, is_auto
from wane.conversation.events import BudgetChosen, Event
from wane.core.errors import ConfigError
from wane.formats.message_format import Part
from wane.formats.openai import OpenAIFormat
from wane.prices import price_step, window_of
from wane.tuned import read_tuned, save_tuned, usable_tuned


def test_it_is_the_default_unless_something_speaks_against_it() -> None:
    assert str(choose_budget()) == "budget auto: 80,000 tokens, the default"
    assert str(choose_budget(window=1_000_000, step=272_000, fixed=20_000)) == str(choose_budget())


def test_what_never_leaves_takes_two_fifths_of_it() -> None:
    assert str(choose_budget(fixed=43_000)) == "budget auto: 108,000 tokens, 2.5 times the 43,000 that never leave"


def test_it_stays_below_a_price_step_and_within_the_window() -> None:
    assert str(choose_budget(fixed=90_000, step=200_000)) == (
        "budget auto: 180,000 tokens, below the price step at 200,000"
    )
    assert str(choose_budget(window=32_768)) == "budget auto: 26,214 tokens, 80% of the window of 32,768"


def test_a_tuned_budget_counts_where_it_leaves_room() -> None:
    tuned = TunedBudget(60_000, 12)
    told = "budget auto: 60,000 tokens, tuned on 12 of your sessions"
    assert str(choose_budget(tuned=tuned, fixed=24_000)) == told
    assert choose_budget(tuned=TunedBudget(60_000, 1)).reason == "tuned on your session"
    assert choose_budget(tuned=tuned, fixed=24_001).tokens == 61_000
    assert choose_budget(tuned=tuned, window=50_000).tokens == 40_000
    assert choose_budget(tuned=TunedBudget(250_000, 12), step=200_000).tokens == 180_000


def test_a_tuned_budget_is_kept_in_a_file_of_the_user(tmp_path: Path) -> None:
    environ = {"WANE_CONFIG_DIR": str(tmp_path / "config")}
    assert read_tuned(environ) is None
    path = save_tuned(TunedBudget(60_000, 12), environ)
    assert read_tuned(environ) == TunedBudget(60_000, 12)
    save_tuned(TunedBudget(70_000, 3), environ)
    assert read_tuned(environ) == TunedBudget(70_000, 3)
    for broken in ("", "[]", "{}", '{"tokens": "60k", "sessions": 1}', '{"tokens": 60000, "sessions": 0}'):
        path.write_text(broken)
        with pytest.raises(ConfigError, match=r"holds no tuned budget: remove it, or run wane tune --save again"):
            read_tuned(environ)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"cannot be read \(.*\): remove it"):
        read_tuned(environ)
    warnings: list[str] = []
    assert usable_tuned(environ, warnings.append) is None
    assert [str(path) in warning for warning in warnings] == [True]
    path.unlink()
    assert usable_tuned(environ, warnings.append) is None
    assert len(warnings) == 1
    path.parent.rmdir()
    path.parent.write_text("a file where the directory should be")
    with pytest.raises(ConfigError, match="cannot write"):
        save_tuned(TunedBudget(70_000, 3), environ)


@pytest.mark.parametrize(("written", "auto"), [("auto", True), (" Auto ", True), ("80k", False), (80_000, False)])
def test_what_a_user_writes_for_it(written: object, auto: bool) -> None:
    assert is_auto(written) is auto


def test_price_steps_are_those_of_the_price_list() -> None:
    assert price_step("openai:gpt-5.4") == 272_000
    assert price_step("anthropic:claude-opus-4-6") is None
    assert price_step("nobody:nothing") is None
    assert window_of("anthropic:claude-opus-4-6") == 1_000_000


TASK = {"role": "user", "content": "Make it work. " * 100}


def test_a_conversation_chooses_it_with_its_first_request_and_keeps_it() -> None:
    events: list[Event] = []
    conversation = wane.Conversation(budget="auto", window="200k", on_event=events.append)
    assert conversation.auto_budget is None
    conversation.overhead = 40_000
    conversation.append(TASK)
    conversation.request()
    chosen = conversation.auto_budget
    assert chosen is not None
    assert chosen.reason == "2.5 times the 40,350 that never leave"
    assert conversation.settings.budget == conversation.window.budget == chosen.tokens == 101_000
    conversation.append({"role": "assistant", "content": "Done."})
    conversation.overhead = 60_000
    conversation.append(TASK)
    conversation.request()
    assert conversation.window.budget == 101_000
    assert [event for event in events if isinstance(event, BudgetChosen)] == [BudgetChosen(chosen)]

    again = wane.Conversation(budget="auto", window="200k")
    assert again.restore(conversation.state(), conversation.messages)
    assert again.window.budget == again.settings.budget == 101_000
    followed = wane.Conversation(budget="auto", window="200k")
    followed.log.follow(conversation.log.records())
    assert followed.window.budget == followed.settings.budget == 101_000
    assert followed.window.visible == again.window.visible == conversation.window.visible


def test_plan_takes_it() -> None:
    assert wane.plan([TASK], budget="auto").report.budget == 80_000
    assert wane.plan([TASK], budget="auto", overhead=50_000).report.budget == 126_000


class Asking(OpenAIFormat):
    """A format that knows one tool whose results a person gives, and one that loads tools."""

    def parts(self, message: dict[str, Any]) -> list[Part]:
        parts = super().parts(message)
        if str(message.get("content", "")).startswith("person:"):
            return [replace(part, person=True) for part in parts]
        if str(message.get("content", "")).startswith("loaded:"):
            return [replace(part, loads=("grep",)) for part in parts]
        return parts


def exchange(number: int, content: str) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": content},
    ]


def test_what_a_format_knows_of_results_holds_in_requests_and_after_a_restart() -> None:
    conversation = wane.Conversation(Asking(), budget="0.4k", annotate="infer")
    conversation.append({"role": "user", "content": "go"})
    contents = ["person: use the other one", "loaded: grep", *[f"{number} " * 300 for number in range(6)]]
    for number, content in enumerate(contents):
        for message in exchange(number, content):
            conversation.append(message)
        conversation.request()
    shown = [str(message["content"]) for message in conversation.request().messages if message["role"] == "tool"]
    assert shown[:2] == contents[:2]
    assert len(shown) < len(contents)
    restored = wane.Conversation(Asking(), budget="0.4k", annotate="infer")
    assert restored.restore(conversation.state(), conversation.messages)
    followed = wane.Conversation(Asking(), budget="0.4k", annotate="infer")
    followed.log.follow(conversation.log.records())
    for revived in (restored, followed):
        assert revived.window.visible == conversation.window.visible
        assert revived.window.room == conversation.window.room
        revived.append({"role": "assistant", "content": "Go on."})
    conversation.append({"role": "assistant", "content": "Go on."})
    assert restored.request().messages == followed.request().messages == conversation.request().messages
