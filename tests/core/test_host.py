"""Marks by the host (R18): several episodes open at once, against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.lives import Life, assert_agree, assert_same_pass, revive, summary
from tests.strategies import Branching, branchings, times
from wane.core import DELIMITER, ContextWindow, EpisodeType, Item, Kind, Mark, Policy
from wane.core.errors import HistoryError

EXPL, ACT = EpisodeType.EXPL, EpisodeType.ACT


def start(name: str, type_: EpisodeType = EXPL, *dependencies: str) -> Mark:
    return Mark("start", name, type_, dependencies, host=True)


def enter(name: str = "") -> Mark:
    return Mark("enter", name, host=True)


def end(name: str, closing: int | None = None) -> Mark:
    return Mark("end", name, host=True, closing=closing)


def exchange(message: int, tokens: int = 10) -> list[Item]:
    """An answer with one call, and its result."""
    call = f"c{message}"
    return [Item(Kind.CALL, 1, call, "read", message=message), Item(Kind.RESULT, tokens, call)]


@times(2.5)
@given(branchings(max_moves=40), st.integers(0, 5))
def test_branches(branching: Branching, restart: int) -> None:
    """A pass before every model call, and between branches; now and then a restart."""
    window, life = branching.window(), Life(branching.rules())
    for place, (marks, items) in enumerate(branching.stretches(life)):
        life.mark(marks)
        describing = [mark for mark in marks if mark.action == "describe"]
        if not describing:
            window.mark(marks)
        if items and items[0].kind in (Kind.TEXT, Kind.REASONING, Kind.CALL):
            report = window.fit()
            assert_same_pass(report, life.fit())
            assert report.pinned is None or report.pinned == life.find_pinned()
            for step in report.steps:
                event(f"{step.level.value} with {min(2, len(window.open))} open")
        if place % 6 == restart:
            before = summary(window)
            window = revive(window)
            assert summary(window) == before
        window.add(items[0], describing)
        window.extend(items[1:])
        life.items += items
        assert_agree(window, life)
    assert_same_pass(window.fit(), life.fit())
    assert_agree(window, life)


def test_each_item_belongs_to_the_scope_in_which_it_came() -> None:
    window = ContextWindow()
    window.mark([start("a"), enter(), start("b", ACT)])
    in_b = window.add(Item(Kind.TEXT, 5, message=0))
    window.mark([enter("a")])
    call = window.add(Item(Kind.CALL, 5, "c", "read", message=1))
    window.mark([enter("b")])
    result = window.add(Item(Kind.RESULT, 5, "c"))
    window.mark([enter()])
    outside = window.add(Item(Kind.TEXT, 5, message=2))
    owners = [added.episode.name for added in (in_b, call, result, outside) if added.episode]
    assert owners == ["b", "a", "a", None]
    assert [episode.name for episode in window.open] == ["a", "b"]
    assert window.active is None


def test_no_open_episode_is_evicted_and_each_keeps_its_latest_message() -> None:
    """R13: what one branch has just done stays, however much the others do meanwhile."""
    window = ContextWindow(60, Policy(low_water=0.5, guard=0.0, index_share=0.0))
    window.mark([start("a")])
    for message in range(3):
        window.extend(exchange(message))
    window.mark([enter(), start("b")])
    for message in range(3, 9):
        window.extend(exchange(message))
    report = window.fit()
    assert report.overflowed
    assert window.visible[:2] == [4, 5]  # the latest exchange of `a`
    assert window.visible[-2:] == [16, 17]  # the latest exchange of `b`


def test_the_item_with_the_description_stays_until_descriptions_go() -> None:
    window = ContextWindow(20, Policy(low_water=1.0, guard=0.0, description_share=1.0, index_share=0.0))
    window.mark([start("a")])
    window.extend(exchange(0))
    window.extend([Item(Kind.TEXT, 6, message=1), Item(Kind.TEXT, 4, message=2)])
    window.mark([end("a", closing=3)])
    window.extend([Item(Kind.TEXT, 12, message=3)])
    window.fit()
    assert window.visible == [3, 4]
    assert [episode.name for episode in window.described] == ["a"]
    revived = revive(window)
    revived.budget = 12
    revived.add(Item(Kind.TEXT, 1, message=4))
    assert next(step.level.value for step in revived.fit().steps) == "description"
    assert not revived.described


def test_an_exploration_without_a_description_leaves_whole() -> None:
    window = ContextWindow(8, Policy(low_water=1.0, guard=0.0, index_share=0.0))
    window.mark([start("a")])
    window.extend(exchange(0))
    window.mark([end("a")])
    window.extend([Item(Kind.TEXT, 3, message=1)])
    window.fit()
    assert window.visible == [2]
    assert window.members("a") == (range(2),)


def test_the_model_can_neither_start_nor_end_while_the_host_marks() -> None:
    window = ContextWindow()
    window.mark([start("a")])
    for number, raw in enumerate(
        ('{"action": "end", "description": "x"}', '{"action":"start","name":"m","type":"expl"}')
    ):
        (foreseen,) = window.foresee([raw])
        added = revive(window).add(Item(Kind.CALL, 5, f"c{number}", DELIMITER, raw))
        assert added.verdict == foreseen
        assert not foreseen.accepted
        assert foreseen.text == ("Error: the program around you marks the episodes itself. Go on without `delimiter`.")
    window.mark([end("a")])
    assert window.foresee(['{"action":"start","name":"m","type":"expl"}'])[0].accepted


def test_the_host_may_end_what_the_agent_began() -> None:
    window = ContextWindow()
    raw = '{"action":"start","name":"mine","type":"expl"}'
    window.add(Item(Kind.CALL, 5, "c", DELIMITER, raw))
    marked = window.mark([end("mine"), start("a")])
    assert [episode.name for episode in marked.closed] == ["mine"]
    assert [episode.name for episode in marked.opened] == ["a"]
    window.mark([end("a")])
    assert window.foresee([raw.replace("mine", "next")])[0].accepted


def test_nothing_stays_of_what_the_agent_began_and_the_host_ends() -> None:
    """The result of its start would stay without the call."""
    window = ContextWindow()
    raw = '{"action": "start", "name": "mine", "type": "expl"}'
    window.extend([Item(Kind.CALL, 5, "c", DELIMITER, raw), Item(Kind.RESULT, 5, "c")])
    with pytest.raises(HistoryError, match="not a member that may stay"):
        window.mark([end("mine", closing=1)])
    window.mark([end("mine")])


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        ([enter("b")], "enters an episode that is not open"),
        ([end("b")], "not open"),
        ([start("b")], "while 'a' is open"),
        ([enter(), start("a")], "used before"),
        ([enter(), start("b", ACT, "a")], r"depends on \['a'\]"),
        ([end("a", closing=0)], "not a member"),
        ([enter(), start("b", ACT), end("b", closing=1)], "not a member"),
    ],
)
def test_a_mark_that_cannot_be_made_changes_nothing(marks: list[Mark], says: str) -> None:
    window = ContextWindow()
    window.add(Item(Kind.USER, 3))
    window.mark([start("a")])
    window.add(Item(Kind.TEXT, 3))
    before = summary(window)
    with pytest.raises(HistoryError, match=says):
        window.mark(marks)
    assert summary(window) == before


def test_a_description_of_what_is_not_open_is_refused() -> None:
    window = ContextWindow()
    window.mark([start("open")])
    with pytest.raises(HistoryError, match="describes an episode that is not open"):
        window.add(Item(Kind.NOTICE, 1), [Mark("describe", "other", host=True)])


def test_the_agent_cannot_end_its_task_once_the_host_has_ended_it() -> None:
    window = ContextWindow(tasks=True)
    begin = '{"action": "start", "type": "task", "name": "work"}'
    window.extend([Item(Kind.CALL, 1, "c", DELIMITER, begin), Item(Kind.RESULT, 1, "c")])
    window.mark([end("work")])
    (verdict,) = window.foresee(['{"action": "end", "name": "work", "description": "done"}'])
    assert not verdict.accepted
