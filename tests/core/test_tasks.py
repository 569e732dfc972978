"""R17: tasks, their protocol, what leaves first, and the line that stays of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.core.test_descriptions import exchange, list_steps
from tests.lives import live, revive, summary
from tests.oracle import State, is_needed
from tests.strategies import Scenario, scenarios, times
from wane.core import ContextWindow, Item, Kind, Level, Mark, Policy
from wane.core.delimiter import MAX_OPEN_TASKS, DelimiterProtocol
from wane.core.episodes import EpisodeType
from wane.core.errors import HistoryError

SEEN = [Item(Kind.TEXT, 1)]


def call(**arguments: object) -> str:
    return json.dumps(arguments)


def begin(name: str) -> str:
    return call(action="start", name=name, type="task")


def finish(name: str, **more: object) -> str:
    return call(action="end", name=name, description=f"{name} is done", **more)


# The protocol


def list_refusals(texts: Sequence[str], *, tasks: bool = True) -> list[str]:
    """The refusals of calls in their order, empty where a call is accepted."""
    protocol = DelimiterProtocol(tasks=tasks)
    return [protocol.judge(text).refusal or "" for text in texts]


def test_tasks_nest_and_end_from_within() -> None:
    texts = [begin("outer"), begin("inner"), finish("outer"), finish("inner"), finish("outer")]
    assert list_refusals(texts) == ["", "", "other name", "", ""]


def test_a_task_does_not_start_or_end_while_an_episode_is_active() -> None:
    look = call(action="start", name="look", type="expl")
    seen = call(action="end", description="seen")
    texts = [begin("task"), look, begin("inner"), finish("task"), seen, finish("task")]
    assert list_refusals(texts) == ["", "", "still active", "other name", "", ""]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (call(action="end", description="done"), "other name"),
        (call(action="end", name="task"), "no description"),
        (call(action="end", name="task", description="<what came of it>"), "placeholder"),
        (call(action="end", name="task", description="done", abandoned="yes"), "malformed"),
        (call(action="start", name="work", type="act", dependencies=["task"]), "dependency not closed"),
        (begin("task"), "name used"),
        (call(action="start", name="task", type="expl"), "name used"),
        (call(action="end", name="task", description="done", abandoned=None), ""),
    ],
)
def test_ends_and_names(text: str, refusal: str) -> None:
    assert list_refusals([begin("task"), text]) == ["", refusal]


def test_an_end_that_is_refused_for_its_flag_is_shown_as_an_end() -> None:
    protocol = DelimiterProtocol(tasks=True)
    protocol.judge(begin("task"))
    verdict = protocol.judge(call(action="end", name="task", description="done", abandoned="yes"))
    assert 'A right call: {"action": "end", "name": "task"' in verdict.text


def test_so_many_may_be_open_and_no_more() -> None:
    texts = [begin(f"task {number}") for number in range(MAX_OPEN_TASKS + 1)]
    assert list_refusals(texts) == [""] * MAX_OPEN_TASKS + ["too many tasks"]
    protocol = DelimiterProtocol(tasks=True)
    verdict = [protocol.judge(text) for text in texts][-1]
    shown = json.loads(verdict.text.split("A right call: ")[1])
    assert (shown["action"], shown["name"]) == ("end", f"task {MAX_OPEN_TASKS - 1}")


def test_without_tasks_a_task_is_no_type() -> None:
    verdict = DelimiterProtocol().judge(begin("task"))
    assert verdict.refusal == "no type"
    assert '"expl" or "act", and "task" is no type' in verdict.text
    assert DelimiterProtocol().judge(call(action="start", name="a", type="expl", abandoned=7)).accepted


def test_tasks_may_be_turned_off_with_one_open() -> None:
    protocol = DelimiterProtocol(tasks=True)
    assert protocol.judge(begin("task")).accepted
    protocol.tasks = False
    assert [protocol.judge(text).accepted for text in (begin("more"), finish("task"))] == [False, True]


# The window


def task(name: str, tokens: int = 10) -> list[Item]:
    return exchange(f"start {name}", json.loads(begin(name)), tokens)


def done(name: str, tokens: int = 10, **more: object) -> list[Item]:
    return exchange(f"end {name}", json.loads(finish(name, **more)), tokens)


def look(name: str, tokens: int = 100, closing: int = 10) -> list[Item]:
    """An exploration of two marks and a read."""
    return [
        *exchange(f"start {name}", {"action": "start", "name": name, "type": "expl"}, 10),
        *read(name, tokens),
        *exchange(f"end {name}", {"action": "end", "description": f"{name} is clear"}, closing),
    ]


def act(name: str, needs: Sequence[str] = (), tokens: int = 100) -> list[Item]:
    start = {"action": "start", "name": name, "type": "act", "dependencies": list(needs)}
    return [*exchange(f"start {name}", start, 10), *read(name, tokens), *exchange(f"end {name}", {"action": "end"}, 10)]


def read(name: str, tokens: int) -> list[Item]:
    return [
        Item(Kind.CALL, 1, call_id=f"read {name}", tool="read", arguments="{}"),
        Item(Kind.RESULT, tokens - 1, call_id=f"read {name}"),
    ]


def window(items: Sequence[Item], budget: int, **policy: Any) -> ContextWindow:
    made = ContextWindow(
        budget,
        Policy(**{"low_water": 1.0, "guard": 0.0, "index_share": 0.0, "description_share": None, **policy}),
        tasks=True,
    )
    made.extend(items)
    return made


def in_view(window: ContextWindow, items: Sequence[Item]) -> list[str]:
    """The ids of the calls in view."""
    return [item.call_id or "" for index, item in enumerate(items) if item.kind is Kind.CALL and window.shows(index)]


def test_episodes_belong_to_the_innermost_task_and_its_calls_to_none() -> None:
    items = [*task("outer"), *look("a"), *task("inner"), *look("b"), *done("inner"), *SEEN, *done("outer"), *SEEN]
    made = window(items, 10_000)
    around = {episode.name: episode.task and episode.task.name for episode in made.episodes if episode.name}
    assert around == {"outer": None, "a": "outer", "inner": "outer", "b": "inner"}
    unmarked = [episode.task and episode.task.name for episode in made.episodes if episode.implicit]
    assert unmarked == ["outer", None]  # the end of a task closes unmarked work
    assert [list(span) for span in made.members("inner")] == [[8, 9], [16, 17]]


def test_one_line_stays_of_a_task() -> None:
    """(b) As soon as the last of its episodes is removed, its own end replaces their descriptions."""
    items = [*task("fix"), *look("a"), *look("b"), *act("c", ["a"]), *done("fix"), *SEEN]
    made = window(items, 20)
    report = made.fit()
    assert list_steps(report)[-3:] == [("fix", "remove"), ("a", "description"), ("b", "description")]
    assert in_view(made, items) == ["end fix"]
    assert made.tokens == 11


def test_the_line_of_an_outer_task_replaces_that_of_an_inner_one() -> None:
    items = [*task("outer"), *task("inner"), *look("a"), *done("inner"), *look("b"), *done("outer"), *SEEN]
    made = window(items, 170)
    made.fit()
    assert in_view(made, items) == ["start outer", "end inner", "start b", "read b", "end b", "end outer"]
    made.budget = 40
    made.fit()
    assert in_view(made, items) == ["end outer"]


def test_an_open_task_keeps_its_start_and_its_descriptions() -> None:
    items = [*task("fix"), *look("a"), *look("b"), *SEEN]
    made = window(items, 40)
    made.fit()
    assert in_view(made, items) == ["start fix", "end a", "end b"]
    assert made.pinned.tasks == 10


def test_an_act_keeps_the_descriptions_that_it_needs() -> None:
    """(b) A task waits as long as an act in view declares one of its explorations."""
    ended = [*task("one"), *look("a"), *done("one"), *SEEN]
    made = window(ended, 20)
    made.fit()
    assert in_view(made, ended) == ["end one"]
    begun = [*task("one"), *look("a"), *SEEN]
    made = window(begun, 20)
    made.fit()
    needing = {"action": "start", "name": "c", "type": "act", "dependencies": ["a"]}
    items = [*begun, *done("one"), *exchange("start c", needing, 10), *SEEN]
    made.extend(items[len(begun) :])
    made.fit()
    assert in_view(made, items) == ["start one", "end a", "end one", "start c"]
    more = [*items, *exchange("end c", {"action": "end"}, 10), *SEEN]
    made.extend(more[len(items) :])
    made.fit()
    assert in_view(made, more) == ["end one"]


def test_descriptions_go_before_lines_and_inner_lines_before_outer_ones() -> None:
    """(c) The oldest first among each."""
    early = [*task("first"), *look("a"), *done("first")]
    nested = [*task("outer"), *task("inner"), *look("b"), *done("inner"), *look("c")]
    made = window([*early, *nested, *look("d"), *SEEN], 60, description_share=1.0)
    made.fit()
    assert [episode.name for episode in made.described] == ["first", "inner", "c", "d"]
    made.budget = 1
    assert [name for name, _ in list_steps(made.fit())] == ["c", "d", "inner", "first"]


def test_abandoned_work_leaves_first() -> None:
    """(a) Ahead of older work and of the guard; and what it was built on is free."""
    items = [*look("old"), *task("way"), *look("a"), *act("try", ["a", "old"]), *done("way", abandoned=True), *SEEN]
    for abandoned, expected in (
        (True, ["try", "try", "a", "a", "way", "a"]),
        (False, ["try", "try", "old", "old", "a"]),
    ):
        written = items if abandoned else [*items[:-3], *done("way"), *SEEN]
        made = window(written, 140, order="paper")
        assert [name for name, _ in list_steps(made.fit())] == expected
    guarded = window(items, 250, order="last_use", guard=1.0)
    # `a` was used by `try`, which holds it back no longer, so that it goes ahead of it.
    assert [name for name, _ in list_steps(guarded.fit())] == ["a", "a", "try"]
    assert guarded.shows(0)


def test_what_is_active_elsewhere_still_holds_back_what_it_needs() -> None:
    needing = {"action": "start", "name": "now", "type": "act", "dependencies": ["a"]}
    items = [*task("way"), *look("a"), *done("way", abandoned=True), *exchange("start now", needing, 10), *SEEN]
    made = window(items, 20, overflow="surface")
    assert list_steps(made.fit()) == []
    assert made.pinned.needed == 120


def test_inner_tasks_are_abandoned_with_the_outer_one() -> None:
    items = [*task("way"), *task("inner"), *look("a"), *done("inner"), *done("way", abandoned=True), *look("b"), *SEEN]
    made = window(items, 150)
    abandoned = [episode.name for episode in made.episodes if episode.abandoned]
    assert abandoned == ["way", "inner", "a"]
    made.fit()
    assert in_view(made, items) == ["end way", "start b", "read b", "end b"]


# Marks


def test_marks_group_inferred_episodes() -> None:
    made = ContextWindow(100, Policy(low_water=1.0, guard=0.0, index_share=0.0))
    made.add(Item(Kind.USER, 1), [Mark("start", "goal", EpisodeType.TASK), Mark("start", "a")])
    made.extend(read("a", 90))
    made.add(Item(Kind.TEXT, 1), [Mark("end", "a", description="seen"), Mark("start", "b")])
    ends = [Mark("end", "b"), Mark("end", "goal", description="done", abandoned=True)]
    made.add(Item(Kind.TEXT, 1), ends)
    made.extend([Item(Kind.USER, 1), Item(Kind.TEXT, 20)])
    assert [(episode.name, episode.abandoned) for episode in made.episodes][:3] == [
        ("goal", True),
        ("a", True),
        ("b", True),
    ]
    assert list_steps(made.fit())[0] == ("a", "artifact")
    assert summary(revive(made)) == summary(made)


@pytest.mark.parametrize(
    "marks",
    [
        [Mark("end", "goal")],
        [Mark("start", "goal", EpisodeType.TASK), Mark("start", "a"), Mark("end", "goal")],
        [Mark("start", "goal", EpisodeType.TASK), Mark("start", "inner", EpisodeType.TASK), Mark("end", "goal")],
        [Mark("start", "goal", EpisodeType.TASK), Mark("start", "goal")],
        [Mark("start", "goal", EpisodeType.TASK, ("a",))],
    ],
)
def test_marks_that_cannot_be_made(marks: list[Mark]) -> None:
    made = ContextWindow()
    before = made.export()
    with pytest.raises(HistoryError):
        made.add(Item(Kind.TEXT, 1), marks)
    assert made.export() == before


def test_marks_do_not_end_the_tasks_of_the_agent() -> None:
    made = window(task("goal"), 100)
    with pytest.raises(HistoryError, match="agent itself"):
        made.add(Item(Kind.TEXT, 1), [Mark("end", "goal")])


# Properties


@times(4)
@given(scenarios(max_moves=40, tasks=True))
def test_no_description_leaves_without_a_line_of_its_task(scenario: Scenario) -> None:
    """(b), (c): while a description leaves that belongs to a task, a line of that task or one around it is in view."""
    made = scenario.window()
    for report in live(made, scenario.items):
        reading = scenario.read(made.item_count)
        gone = set(range(made.item_count)) - set(made.visible) - {i for step in report.steps for i in step.removed}
        for step in report.steps:
            gone |= set(step.removed)
            episode = reading.episodes[step.number]
            if step.level is Level.DESCRIPTION and episode.type == "expl" and episode.task is not None:
                tasks = [one for one in reading.episodes if one.type == "task"]
                lines = [one for one in tasks if one is episode.task or _encloses(one, episode.task)]
                assert any(set(line.members) - reading.stood - gone for line in lines)


def _encloses(outer: Any, inner: Any) -> bool:
    return inner.task is not None and (inner.task is outer or _encloses(outer, inner.task))


@pytest.mark.full
@times(4)
@given(scenarios(max_moves=40, tasks=True))
def test_a_line_is_dropped_only_when_no_description_is_free(scenario: Scenario) -> None:
    """(c): the line of an outermost task goes when acts need the descriptions that are left of explorations."""
    made = scenario.window()
    state = State()
    for report in live(made, scenario.items):
        reading = scenario.read(made.item_count)
        for step in report.trace:
            episode = reading.episodes[step.number]
            if step.level is Level.DESCRIPTION:
                if episode.type == "task" and episode.task is None:
                    removed = [one for one in reading.episodes if one.type == "expl" and state.is_removed(one)]
                    kept = [one for one in removed if one.closing and one.number not in state.dropped]
                    assert all(is_needed(reading, state, one) for one in kept)
                state = replace(state, dropped=state.dropped | {step.number})
            elif step.level is Level.REMOVE:
                state = replace(state, reached={**state.reached, step.number: "remove"})
