"""R12 by hand: what a level does with items that others need, and that a recorded pass brings it back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

import wane
from tests.core.test_agreement import OVERDUE
from tests.lives import Life, assert_agree, assert_same_pass, revive, rules_of, summary, turns_of
from tests.strategies import Scenario, scenarios, times
from wane.core import ContextWindow, FitReport, Item, Kind, Level, Policy


def reasoning_item(message: int, *needs: int) -> Item:
    return Item(Kind.REASONING, 10, message=message, needs=needs)


def call(name: str, message: int, tool: str, *needs: int, arguments: str = "{}") -> Item:
    return Item(Kind.CALL, 10, call_id=name, tool=tool, arguments=arguments, message=message, needs=needs)


def start(name: str, message: int, *needs: int) -> Item:
    arguments = {"action": "start", "name": name, "type": "expl"}
    return call(name, message, "delimiter", *needs, arguments=json.dumps(arguments))


def end(name: str, message: int, *needs: int) -> Item:
    arguments = {"action": "end", "description": "seen"}
    return call(f"end {name}", message, "delimiter", *needs, arguments=json.dumps(arguments))


def result(name: str) -> Item:
    return Item(Kind.RESULT, 10, call_id=name)


def list_steps(report: FitReport) -> list[tuple[str | None, str, tuple[int, ...]]]:
    return [(step.episode, step.level.value, step.removed) for step in report.steps]


def run(items: Sequence[Item], policy: Policy | None = None) -> FitReport:
    """One pass under a budget that cannot be met, on the window and on the oracle."""
    policy = policy or Policy.paper()
    window, life = ContextWindow(1, policy), Life(rules_of(policy, 1), items=list(items))
    window.extend(items)
    report = window.fit()
    assert_same_pass(report, life.fit())
    assert_agree(window, life)
    assert_agree(revive(window), life)
    return report


CLOSING = [Item(Kind.TEXT, 10, message=90)]


def test_an_answer_stays_as_long_as_a_call_ahead_of_it() -> None:
    """R12b: the closing pair stays, and so the answer that parts it from the user's next turn."""
    items = [Item(Kind.USER, 10), start("look", 1), result("look"), end("look", 2), result("end look")]
    answer = Item(Kind.TEXT, 10, message=3)
    report = run([*items, answer, Item(Kind.USER, 10), *CLOSING])
    assert 5 in {index for step in report.steps for index in step.removed}
    report = run([*items, replace(answer, needed_by=(-2, -1)), Item(Kind.USER, 10), *CLOSING])
    assert 5 not in {index for step in report.steps for index in step.removed}
    with pytest.raises(wane.HistoryError, match="offsets point at earlier items"):
        ContextWindow(1).add(replace(answer, needed_by=(-1,)))


def test_a_signed_thought_goes_with_its_call() -> None:
    """It cannot go at `reasoning`, because the call at `bulk` needs it; a thought of no call's can."""
    items = [
        *(start("look", 0), result("look")),
        *(reasoning_item(1), reasoning_item(1), call("g", 1, "grep", -1), result("g")),
        *(end("look", 2), result("end look")),
    ]
    assert list_steps(run(items + CLOSING)) == [
        ("look", "reasoning", (2,)),
        ("look", "bulk", (3, 4, 5)),
        ("look", "remove", (0, 1)),
    ]


def test_the_thought_of_a_closing_pair_stays_with_it() -> None:
    items = [start("look", 0), result("look"), reasoning_item(1), end("look", 1, -1), result("end look")]
    assert list_steps(run(items + CLOSING)) == [("look", "remove", (0, 1))]
    report = run(items + CLOSING, Policy(low_water=1.0, description_share=0.0))
    assert list_steps(report) == [("look", "remove", (0, 1)), ("look", "description", (2, 3, 4))]


def test_an_item_held_by_another_episode_goes_with_its_holder() -> None:
    """The thought is the first exploration's, the call that needs it the second's: they leave together."""
    items = [
        *(start("first", 0), result("first")),
        *(reasoning_item(1), end("first", 1), start("second", 1), call("g", 1, "grep", -3)),
        *(result("end first"), result("second"), result("g")),
        *(end("second", 2), result("end second")),
    ]
    assert list_steps(run(items + CLOSING)) == [
        ("first", "remove", (0, 1)),
        ("second", "bulk", (2, 5, 8)),
        ("second", "remove", (4, 7)),
    ]


def test_a_result_that_a_turn_of_the_user_needs_stays_with_its_call() -> None:
    """The user spoke while the tool ran, and the provider has the words in the result."""
    said = Item(Kind.USER, 10, message=2, needs=(1,))
    items = [
        *(start("look", 0), result("look")),
        *(call("g", 1, "grep"), call("h", 1, "grep"), said, result("g"), result("h")),
        *(end("look", 3), result("end look"), *CLOSING),
    ]
    assert list_steps(run(items)) == [("look", "bulk", (3, 6)), ("look", "remove", (0, 1))]
    active = [*items[:7], Item(Kind.TEXT, 10, message=4)]
    assert list_steps(run(active, Policy(overflow="strip"))) == [("look", "overflow", (3, 6))]


def test_what_a_turn_of_the_user_needs_is_fixed() -> None:
    window = ContextWindow()
    window.extend([call("g", 1, "grep"), Item(Kind.USER, 10, message=2, needs=(1,))])
    assert window.room.user == 10
    window.add(result("g"))
    assert revive(window).room.user == window.room.user == 30
    assert window.episodes[0].tokens == 0


def test_what_an_overdue_call_held_leaves_with_it() -> None:
    """R9, R15: the level of the reasoning was reached while its call stood."""
    window = ContextWindow(500, Policy(low_water=0.9, guard=0.0, index_share=0.0, min_room=0.0))
    for items in turns_of(OVERDUE.items):
        report = window.fit()
        window.extend(items)
    assert list_steps(report)[0] == (None, "artifact", (1, 2, 3))


def test_a_call_stays_with_its_result_in_a_later_answer_for_the_text_behind_it() -> None:
    """The provider ran the tool, and went on in an answer of its own with the result and a text that cites it."""
    items = [
        *(start("look", 0), result("look")),
        *(
            call("web", 1, "web_search"),
            Item(Kind.RESULT, 10, "web", message=2),
            Item(Kind.TEXT, 10, message=2, needs=(-1,)),
        ),
        *(end("look", 3), result("end look")),
    ]
    assert list_steps(run(items + CLOSING)) == [("look", "remove", (0, 1, 2, 3, 4))]


def test_a_thought_of_the_prologue_holds_the_first_start() -> None:
    """OpenAI Responses: a reasoning item needs what follows it. The prologue stays, and so does the start."""
    items = [
        *(reasoning_item(0, 1), start("look", 0, -1), result("look")),
        *(call("g", 1, "grep"), result("g")),
        *(end("look", 2), result("end look")),
    ]
    report = run(items + CLOSING)
    assert list_steps(report) == [("look", "bulk", (3, 4))]
    assert report.trace[-1].level is Level.REMOVE
    assert report.pinned is not None
    assert (report.pinned.prologue, report.pinned.needed) == (10, 20)


@times(2)
@given(scenarios(coupled=True, shares=(None, 0.0, 0.02, 0.2)))
def test_recorded_passes_bring_held_items_back(scenario: Scenario) -> None:
    """R12 and R14: also what a level could not take yet is the same after a rebuild."""
    steady = ContextWindow(scenario.budget, scenario.policy)
    rebuilt = ContextWindow(scenario.budget, scenario.policy)
    for turn in turns_of(scenario.items):
        report = steady.fit()
        rebuilt.apply(report.trace)
        steady.extend(turn)
        rebuilt.extend(turn)
    assert summary(steady) == summary(rebuilt)
    assert steady.fit() == rebuilt.fit()
    assert steady.export() == rebuilt.export()


def test_what_reasoning_holds_back_leaves_with_it_when_a_later_level_leaves_it_alone() -> None:
    """The first call stays for the reasoning that it came of; with the second call both of them go."""
    window = ContextWindow(1, Policy.paper())
    window.extend(
        [
            Item(
                Kind.CALL,
                10,
                "s",
                "delimiter",
                '{"action": "start", "name": "a", "type": "act", "dependencies": []}',
                0,
            ),
            Item(Kind.RESULT, 1, "s", message=1),
            Item(Kind.REASONING, 5, message=2, needs=(1,)),
            Item(Kind.CALL, 5, "g", "grep", "{}", 2, (-1,)),
            Item(Kind.CALL, 5, "r", "read", "{}", 2),
            Item(Kind.RESULT, 5, "g", message=3),
            Item(Kind.RESULT, 5, "r", message=4),
            Item(Kind.CALL, 5, "e", "delimiter", '{"action": "end"}', 5),
            Item(Kind.RESULT, 1, "e", message=6),
            Item(Kind.TEXT, 5, message=7),
        ]
    )
    first = window.fit().steps[0]
    assert (first.level, first.removed) == (Level.ARTIFACT, (2, 3, 4, 5, 6))
