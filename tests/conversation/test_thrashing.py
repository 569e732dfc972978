"""Work that the window is too small for: what shows it, when it is said, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wane import Item, Kind, Policy
from wane.conversation import Conversation
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.conversation.events import ThrashingBegan
from wane.conversation.thrashing import FETCHES, NEAR, PASSES, WITHIN, Thrashing, ThrashingDetector
from wane.formats.message_format import Part
from wane.strategies.strategy import Fitted

BUDGET = 1_000


class Work:
    """An agent that reads files, with a request ahead of each call."""

    def __init__(self, strategy: str = "cwl", policy: Policy | None = None, budget: int = BUDGET) -> None:
        settings = ContextSettings(budget, policy=policy or Policy(), annotate="infer", strategy=strategy)
        self.engine = Engine(settings)
        self.number = 0
        self.states: list[Thrashing | None] = []
        self._add(Kind.USER, 10)

    def read(self, path: str, tokens: int, times: int = 1) -> Thrashing | None:
        for _ in range(times):
            assert isinstance(self.engine.fit(), Fitted)
            self.engine.mark_sent()
            self.number += 1
            self._add(Kind.CALL, 5, call_id=f"c{self.number}", tool="read", arguments=json.dumps({"path": path}))
            self._add(Kind.RESULT, tokens, call_id=f"c{self.number}")
        assert isinstance(self.engine.fit(), Fitted)
        self.states.append(self.engine.thrashing)
        return self.engine.thrashing

    def _add(self, kind: Kind, tokens: int, **fields: Any) -> None:
        text = fields.get("arguments")
        part = Part(kind, call_id=fields.get("call_id"), tool=fields.get("tool"), arguments=text)
        self.engine.add(Item(kind, tokens, message=self.number, **fields), part)


def test_passes_every_few_calls() -> None:
    work = Work()
    while work.read(f"f{work.number}", 500) is None:
        assert work.number < 20
    (found,) = filter(None, work.states)
    assert (found.passes, found.tool, found.fetches) == (PASSES, None, 0)
    assert f"{PASSES} passes ran within {found.calls} model calls" in found.warning
    assert f"Set a budget of {found.advised:,}, " in found.warning
    wider = Work(budget=found.advised)
    for number in range(100):
        assert wider.read(f"f{number}", 500) is None


def test_it_ends_with_the_passes() -> None:
    work = Work()
    while work.read(f"f{work.number}", 500) is None:
        pass
    for number in range(NEAR):
        assert work.read(f"g{number}", 1) is not None
    assert work.read("h", 1) is None


@pytest.mark.parametrize("strategy", ["cwl", "paper", "truncate", "streaming"])
def test_the_same_content_fetched_again_and_again(strategy: str) -> None:
    work = Work(strategy)
    while work.read(f"f{work.number % 5}", 300) is None:
        assert work.number < 50
    found = work.states[-1]
    assert found is not None
    if not found.passes:
        assert found.warning.startswith(
            'The budget of 1,000 tokens is too small for this work: "read" fetched the same content 4 '
        )
    while (found := work.read(f"f{work.number % 5}", 300)) is None or found.tool is None:
        assert work.number < 50
    assert (found.tool, found.fetches) == ("read", FETCHES)
    for number in range(WITHIN + 1):
        found = work.read(f"g{number}", 1)
    assert found is None


@pytest.mark.parametrize(("strategy", "policy"), [("paper", None), ("cwl", Policy(low_water=1.0)), ("truncate", None)])
def test_small_passes_that_are_meant_are_none(strategy: str, policy: Policy | None) -> None:
    work = Work(strategy, policy)
    for number in range(30):
        assert work.read(f"f{number}", 300) is None


def test_a_call_that_is_repeated_while_its_result_is_in_view_is_none() -> None:
    work = Work()
    assert work.read("f", 10, times=30) is None


def test_a_call_that_is_repeated_long_after_is_none() -> None:
    work = Work()
    for _ in range(3 * FETCHES):
        assert work.read("f", 10) is None
        for number in range(WITHIN):
            assert work.read(f"g{work.number + number}", 50) is None


def test_a_pass_that_is_repeated_from_its_record_counts() -> None:
    work = Work()
    other = Engine(ContextSettings(BUDGET, annotate="infer", strategy="cwl", remind_at=None))
    fit, add = work.engine.fit, work.engine.add

    def fit_both(*, cold: bool = False) -> Any:
        outcome = fit(cold=cold)
        assert isinstance(outcome, Fitted)
        other.redo(outcome.done)
        return outcome

    def add_both(item: Item, part: Part) -> Any:
        other.add(item, part)
        return add(item, part)

    work.engine.fit, work.engine.add = fit_both, add_both  # type: ignore[method-assign, assignment]
    other.add(Item(Kind.USER, 10, message=0), Part(Kind.USER))
    for number in range(12):
        work.read(f"f{number}", 500)
        assert other.thrashing == work.engine.thrashing
    assert other.thrashing is not None


def test_it_keeps_little_of_a_long_history() -> None:
    detector = ThrashingDetector()
    for number in range(2_000):
        call = Item(Kind.CALL, 1, f"c{number}", "read", message=number)
        detector.note(call, f"{number}", 2 * number, lambda _: True, begins=True)
        detector.note(Item(Kind.RESULT, 1, f"c{number}"), None, 2 * number + 1, lambda _: True, begins=False)
    assert len(detector._fetches) <= 512
    assert not detector._open


def test_a_conversation_tells_it_once_until_it_has_ended() -> None:
    events: list[ThrashingBegan] = []
    conversation = Conversation(
        budget=1_000, on_event=lambda event: events.append(event) if isinstance(event, ThrashingBegan) else None
    )
    conversation.append({"role": "user", "content": "Go."})

    def read(count: int, size: int) -> None:
        for _ in range(count):
            conversation.request()
            call = {"id": f"c{conversation.length}", "type": "function"}
            function = {"name": "read", "arguments": json.dumps({"path": str(conversation.length)})}
            conversation.append({"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]})
            conversation.append({"role": "tool", "tool_call_id": call["id"], "content": "x" * size})
        conversation.request()

    read(12, 2_000)
    assert events == [ThrashingBegan(events[0].thrashing)]
    assert conversation.thrashing is not None
    conversation.change(manage=False)
    assert conversation.thrashing is None
    conversation.change(manage=True)
    read(6, 10)
    assert conversation.thrashing is None
    read(8, 2_000)
    assert len(events) == 2
