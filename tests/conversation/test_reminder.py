"""When a request reminds the model to mark its work, in which words, and that it does not nag."""

from __future__ import annotations

import json
from typing import Any

from wane import ContextWindow, Item, Kind, Policy
from wane.conversation.context import REMIND_AT
from wane.conversation.reminder import Reminder


class Session:
    """A model at work, four characters a token, with a request ahead of each of its messages.

    Attributes:
        said: what each request carried at its tail.
    """

    def __init__(self, budget: int, share: float | None = 0.2, policy: Policy | None = None) -> None:
        self.window, self.reminder = ContextWindow(budget, policy), Reminder(share)
        self.said: list[str | None] = []
        self._message = 0
        self.add(Kind.USER, 10)

    def add(self, kind: Kind, tokens: int, **fields: Any) -> None:
        item = Item(kind, tokens, **fields)
        added = self.window.add(item)
        self.reminder.note(item, added, self.window.active)

    def ask(self) -> str | None:
        overflowed = self.window.fit().overflowed
        return self.reminder.ask(self.window.budget, overflowed=overflowed, active=self.window.active)

    def call(self, tool: str = "read", tokens: int = 10, result: int = 90, **arguments: Any) -> None:
        """One request, a message with one call, and its result."""
        self.said.append(self.ask())
        self._message += 1
        call_id = f"c{self._message}"
        self.add(Kind.CALL, tokens, call_id=call_id, tool=tool, arguments=json.dumps(arguments), message=self._message)
        self.add(Kind.RESULT, result, call_id=call_id)

    def start(self, name: str) -> None:
        self.call("delimiter", result=0, action="start", name=name, type="expl")

    def end(self) -> None:
        self.call("delimiter", result=0, action="end", description="seen")

    @property
    def reminded(self) -> list[int]:
        """Numbers of the requests that carried a reminder."""
        return [number for number, text in enumerate(self.said) if text]


def test_a_model_that_never_starts_is_reminded_at_a_quarter_of_the_share_and_then_at_all_of_it() -> None:
    session = Session(10_000)  # the share are 2,000 tokens, a call and its result 100
    for _ in range(200):
        session.call()
    # Then twice the share, and so on.
    assert session.reminded == [5, 25, 65, 145]
    assert "you have not started an episode yet" in str(session.said[5])
    assert str(session.said[5]).startswith("[Automatic note on the context window, not from the user: ")


def test_once_it_has_started_one_the_whole_share_must_fill_outside_of_episodes() -> None:
    session = Session(10_000)
    session.start("look")
    for _ in range(30):
        session.call()
    session.end()
    for _ in range(41):
        session.call()
    # 30 calls inside are no reason; 20 calls outside are, and 40 more would be.
    assert session.reminded == [52]
    assert "no episode is active" in str(session.said[52])
    for _ in range(40):
        session.call()
    assert session.reminded == [52, 92]
    session.start("look-again")
    assert session.ask() is None
    session.end()
    for _ in range(21):
        session.call()
    # The start was what it was reminded of, so the wait is short again.
    assert session.reminded == [52, 92, 135]


def test_a_rejected_call_marks_nothing() -> None:
    session = Session(10_000)
    for _ in range(6):
        session.call("delimiter", result=90, action="end")
    assert session.reminded == [5]


def test_a_pass_that_had_to_take_of_an_open_episode_says_which() -> None:
    session = Session(2_000)
    session.start("lock\xfcp")
    while not session.reminded:
        session.call()
        assert len(session.said) < 40
    assert 'End the episode "lock\xfcp"' in str(session.said[-1])
    assert session.window.tokens <= 2_000


def test_where_every_pass_must_take_of_it_twice_as_much_fills_before_each_reminder() -> None:
    session = Session(2_000, policy=Policy(low_water=0.5, min_room=0.0))
    session.add(Kind.USER, 1_700)
    session.start("look")
    passes = 0
    for _ in range(40):
        before = session.window.tokens
        session.call()
        passes += session.window.tokens < before + 100
    assert passes > 10
    # A fifth of the budget are four calls.
    gaps = [later - one for one, later in zip(session.reminded, session.reminded[1:], strict=False)]
    assert gaps == [8, 16]


def test_an_episode_that_leaves_in_the_open_is_not_spoken_of_where_nothing_is_taken_of_it() -> None:
    session = Session(2_000, policy=Policy.paper())
    session.start("look")
    for _ in range(40):
        session.call()
    assert session.window.tokens > 2_000
    assert session.reminded == []


def test_what_a_history_begins_with_is_nobody_s_fault() -> None:
    session = Session(1_000)
    for index in range(20):
        session.add(Kind.CALL, 10, call_id=f"old{index}", tool="read", arguments="{}", message=-index - 1)
        session.add(Kind.RESULT, 90, call_id=f"old{index}")
    assert session.ask() is None
    session.call(result=10)
    session.call(result=40)
    assert session.ask() is not None


def test_what_people_and_harnesses_say_is_no_work() -> None:
    session = Session(1_000)
    assert session.ask() is None
    for kind in (Kind.USER, Kind.SYSTEM, Kind.NOTICE):
        session.add(kind, 900)
        assert session.ask() is None


def test_a_request_that_is_sent_again_carries_the_same() -> None:
    session = Session(1_000)
    session.call()
    first = session.ask()
    assert first is not None
    assert session.ask() == session.reminder.text == first
    session.add(Kind.USER, 10)
    assert session.ask() is None


def test_a_reminder_without_room_waits_for_a_request_that_has_some() -> None:
    session = Session(1_000)
    session.ask()
    session.call()
    assert session.reminder.ask(1_000, fits=lambda _: False) is None
    assert session.ask() is None, "it is the same request"
    session.add(Kind.USER, 10)
    assert session.reminder.ask(1_000, fits=lambda _: False) is None
    session.add(Kind.USER, 10)
    assert session.ask() is not None


def test_how_long_it_waits_is_part_of_its_state() -> None:
    session = Session(10_000)
    for _ in range(50):
        session.call()
    again = Reminder(REMIND_AT)
    again.restore(json.loads(json.dumps(session.reminder.export())))
    session.reminder = again
    for _ in range(120):
        session.call()
    assert session.reminded == [5, 25, 65, 145]


def test_it_can_be_turned_off() -> None:
    session = Session(1_000, share=None)
    for _ in range(30):
        session.call()
    assert session.reminded == []
