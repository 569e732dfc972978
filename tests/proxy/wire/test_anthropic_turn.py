"""The turn under way, where thinking has a budget: what it must begin with, what is kept for that, and what if not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.wire.anthropic_replies import WIRE, call, text, thinking
from tests.proxy.wire.test_anthropic_request import model, result, user, user_message
from wane.formats.turns import required_opening
from wane.proxy.wire.anthropic.anthropic_wire import readings_without
from wane.proxy.wire.wire import Body, Message

ENABLED = {"type": "enabled", "budget_tokens": 2_000}
LONG = "word " * 400
LED = model(thinking("t", "s"), text("I look."), call("a"))
AFTER = [model(call("b")), user(result("b")), model(call("c")), user(result("c"))]
REMINDED = user(result("a", LONG), text("<reminder>"))


def find_required(history: list[Message], shown: list[tuple[int, Message]]) -> dict[int, list[int]]:
    parts = WIRE.format.parts
    backwards = ((number, parts(message)) for number, message in reversed(shown))
    return required_opening(lambda number: parts(history[number]), len(history), backwards)


def find_required_at(history: list[Message], *numbers: int) -> dict[int, list[int]]:
    return find_required(history, [(number, history[number]) for number in numbers])


@pytest.mark.parametrize(
    ("messages", "readings"),
    [
        ([user_message("Hi"), LED, user(result("a"))], set()),
        ([user_message("Hi"), LED, user(result("a")), *AFTER], set()),
        ([user_message("Hi"), *AFTER], {False}),
        ([user_message("Hi"), model({"type": "redacted_thinking", "data": "x"}, call("a")), user(result("a"))], set()),
        # The user spoke last: a new turn begins.
        ([user_message("Hi"), *AFTER, model(text("Done.")), user_message("More.")], set()),
        # Behind results the provider reads it with them.
        ([user_message("Hi"), *AFTER, user_message("More.")], {False}),
        ([user_message("Hi"), *AFTER, model(text("Done.")), user_message("More."), LED, user(result("a"))], set()),
        # What stands behind results may begin one, or not.
        ([user_message("Hi"), LED, REMINDED, *AFTER], {True}),
        ([user_message("Hi"), *AFTER, REMINDED, LED, user(result("a"))], {False}),
        ([user_message("Hi"), LED, REMINDED, *AFTER, REMINDED, LED, user(result("a"))], set()),
        ([user_message("Hi"), *AFTER, REMINDED], {False}),
        # A system message is nobody's turn, and what holds nothing but thinking is left out.
        ([user_message("Hi"), {"role": "system", "content": "9 left"}, *AFTER], {False}),
        ([user_message("Hi"), model(thinking("t", "s")), *AFTER], {False}),
    ],
)
def test_whether_a_turn_begins_with_thinking(messages: list[Message], readings: set[bool]) -> None:
    assert readings_without(messages) == readings


def test_the_thinking_of_a_turn_stays_with_the_least_that_may_follow_it() -> None:
    silent = model(thinking("t", "s"), call("a"), call("b"))
    for opening, results, needed in (
        (LED, user(result("a", LONG)), {1: [0, 1]}),
        (silent, user(result("a", LONG), result("b")), {1: [0, 2], 2: [1]}),
        (silent, user(result("a"), result("b", LONG)), {1: [0, 1], 2: [0]}),
    ):
        history = [user_message("Hi"), opening, results, *AFTER]
        assert find_required_at(history, 0, 1, 2, 3, 4, 5, 6) == {}
        assert find_required_at(history, 0, 5, 6) == needed


def test_nothing_is_kept_of_turns_that_are_over_or_never_began_with_thinking() -> None:
    history = [user_message("Hi"), LED, user(result("a")), model(text("Done.")), user_message("More."), *AFTER]
    assert find_required_at(history, 0, 3, 4) == {}
    assert find_required_at(history, 0, 4, 7, 8) == {}


def test_only_thinking_with_a_budget_must_begin_a_turn() -> None:
    assert WIRE.must_open_with_reasoning({"thinking": ENABLED})
    assert not WIRE.must_open_with_reasoning({"thinking": {"type": "adaptive"}})
    assert not WIRE.must_open_with_reasoning({})


def test_of_a_turn_that_can_be_read_in_two_ways_both_begins_are_kept() -> None:
    second = model(thinking("u", "v"), call("d"))
    history = [user_message("Hi"), LED, REMINDED, second, user(result("d")), *AFTER]
    assert find_required_at(history, 0, 2, 5, 6, 7, 8) == {1: [0, 1], 3: [0, 1], 4: [0]}
    # Where the view joins what the user said to results that are left of the turn before, that is one message.
    history = [
        user_message("Hi"),
        LED,
        user(result("a")),
        model(text("Done.")),
        user_message("More."),
        second,
        user(result("d")),
        *AFTER,
    ]
    shown = [(0, history[0]), (1, model(call("a"))), *((n, history[n]) for n in (2, 4, 7, 8))]
    assert find_required(history, shown) == {1: [0, 1], 5: [0, 1], 6: [0]}


def make_body(*messages: Message, thinks: Any = ENABLED) -> Body:
    return {"messages": list(messages), "thinking": thinks}


def test_a_turn_that_lost_its_begin_goes_on_without_thinking_until_the_user_speaks() -> None:
    whole, view = make_body(user_message("Hi"), LED, user(result("a")), *AFTER), make_body(user_message("Hi"), *AFTER)
    correction = WIRE.correction_ahead(view, whole)
    assert correction is not None
    assert correction(view, whole) == {"messages": [user_message("Hi"), *AFTER], "thinking": {"type": "disabled"}}
    # Also where it would be valid again by now.
    assert correction(whole, whole)["thinking"] == {"type": "disabled"}
    later = make_body(*whole["messages"], model(text("Done.")), user_message("More."))
    assert correction(later, later) == later


def test_results_stay_behind_their_calls_where_a_turn_goes_on_without_thinking() -> None:
    """Text beside results is the user's turn to some templates; joined to the one before, it took the results along."""
    last = [model(thinking("u", "v"), call("d")), user(result("d"), text("Note."))]
    whole, view = (
        make_body(user_message("Hi"), LED, user(result("a")), *last),
        make_body(user_message("Hi"), model(call("d")), last[1]),
    )
    correction = WIRE.correction_ahead(view, whole)
    assert correction is not None
    assert correction(view, whole)["messages"] == [user_message("Hi"), model(call("d")), last[1]]


@pytest.mark.parametrize(
    ("view", "client"),
    [
        (make_body(user_message("Hi"), LED, user(result("a"))), make_body(user_message("Hi"), LED, user(result("a")))),
        # What the client itself does is between it and the provider.
        (make_body(user_message("Hi"), *AFTER[2:]), make_body(user_message("Hi"), *AFTER)),
        (
            make_body(user_message("Hi"), *AFTER, thinks={"type": "adaptive"}),
            make_body(user_message("Hi"), LED, user(result("a")), *AFTER),
        ),
        (
            make_body(user_message("Hi"), *AFTER, thinks=None),
            make_body(user_message("Hi"), LED, user(result("a")), *AFTER),
        ),
    ],
)
def test_what_is_not_known_to_be_invalid_is_left_alone(view: Body, client: Body) -> None:
    assert WIRE.correction_ahead(view, client) is None
