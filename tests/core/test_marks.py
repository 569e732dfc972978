"""Marks mean what accepted `delimiter` calls of no tokens would mean in their place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lives import revive, summary
from tests.strategies import Scenario, scenarios
from wane.core import DELIMITER, ContextWindow, Episode, EpisodeType, FitReport, Item, Kind, Mark, Policy
from wane.core.errors import HistoryError

ASSISTANT = (Kind.TEXT, Kind.REASONING, Kind.CALL)


def disguise_marks(items: Sequence[Item]) -> list[Item]:
    """A history whose `delimiter` calls are calls of another tool, with an ordinal for each assistant message.

    Its reasoning is told as text: where a mark leaves a message with nothing but reasoning, a call would stand (R9).
    """
    out: list[Item] = []
    ordinal = -1
    raw: int | None = None
    before = None
    for item in items:
        if item.kind in ASSISTANT:
            joined = before in ASSISTANT if item.message is None else ordinal >= 0 and item.message == raw
            ordinal += not joined
            raw = item.message if item.message is not None or not joined else raw
            kind = Kind.TEXT if item.kind is Kind.REASONING else item.kind
            tool = "read" if item.tool == DELIMITER else item.tool
            item = replace(item, kind=kind, message=ordinal, tool=tool)
        out.append(item)
        before = item.kind
    return out


def draw_marks(items: Sequence[Item], bits: Sequence[int]) -> list[list[Mark]]:
    """Marks for each item, as chance has it."""
    out: list[list[Mark]] = []
    active: Mark | None = None
    closed: list[str] = []
    for index, item in enumerate(items):
        bit, marks = bits[index % len(bits)], []
        if active is not None and item.kind in (*ASSISTANT, Kind.USER) and bit % 3 == 0:
            marks.append(Mark("end", active.name, active.type, (), "what it was"))
            closed += [active.name] if active.type is EpisodeType.EXPL else []
            active = None
        if active is None and item.kind in ASSISTANT and bit % 2 == 0:
            act = bit % 4 == 0
            chosen = tuple(name for n, name in enumerate(reversed(closed)) if bit >> n & 1) or tuple(closed[-1:])
            active = Mark("start", f"m{index}", EpisodeType("act" if act else "expl"), chosen if act else ())
            marks.append(active)
        out.append(marks)
    return out


def spell_marks(items: Sequence[Item], marks: Sequence[Sequence[Mark]]) -> tuple[list[Item], list[int]]:
    """The history with a call and a result of no tokens for each mark, and where each item stands in it."""
    places: list[int] = []
    position = 0
    for before in marks:
        position += 2 * len(before)
        places.append(position)
        position += 1
    out: list[Item] = []
    ordinal = -1
    for index, (item, before) in enumerate(zip(items, marks, strict=True)):
        ordinal = item.message if item.kind in ASSISTANT and item.message is not None else ordinal
        for mark in before:
            call_id = f"mark-{len(out)}"
            out.append(Item(Kind.CALL, 0, call_id, DELIMITER, arguments(mark), ordinal))
            out.append(Item(Kind.RESULT, 0, call_id))
        out.append(replace(item, needs=tuple(places[index + need] - places[index] for need in item.needs)))
    return out, places


def arguments(mark: Mark) -> str:
    if mark.action == "end":
        end = {"action": "end", "description": mark.description}
        return json.dumps(end if mark.type is EpisodeType.EXPL else {"action": "end"})
    start = {"action": "start", "name": mark.name, "type": mark.type.value}
    return json.dumps(start | ({"dependencies": mark.dependencies} if mark.type is EpisodeType.ACT else {}))


def episode_fields(episode: Episode) -> tuple[object, ...]:
    return tuple(
        getattr(episode, name)
        for name in ["number", "name", "type", "closed", "settled", "tokens", "dependencies", "used"]
    )


def essence(report: FitReport) -> tuple[object, ...]:
    return report.ran, report.satisfied, report.tokens_before, report.tokens_after


@given(scenarios(), st.lists(st.integers(0, 255), min_size=1, max_size=9))
def test_a_mark_is_a_delimiter_call_of_no_tokens(scenario: Scenario, bits: list[int]) -> None:
    items = disguise_marks(scenario.items)
    marks = draw_marks(items, bits)
    other, places = spell_marks(items, marks)
    one = ContextWindow(scenario.budget, scenario.policy)
    two = ContextWindow(scenario.budget, scenario.policy)
    stop = 0
    back = {place: index for index, place in enumerate(places)}
    for index, item in enumerate(items):
        if item.kind in ASSISTANT and (index == 0 or items[index - 1].message != item.message):
            assert essence(one.fit()) == essence(two.fit())
            assert one.visible == [back[place] for place in two.visible if place in back]
            one = revive(one)
        one.add(item, marks[index])
        two.extend(other[stop : places[index] + 1])
        stop = places[index] + 1
        assert one.tokens == two.tokens
        assert list(map(episode_fields, one.episodes)) == list(map(episode_fields, two.episodes))
        assert one.pinned == two.pinned


def start(name: str, type_: str = "expl", *dependencies: str) -> Mark:
    return Mark("start", name, EpisodeType(type_), dependencies)


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        ([Mark("end", "a")], "ends an episode that is not open"),
        ([start("a"), start("b")], "while 'a' is open"),
        ([start("a"), Mark("end", "a"), start("a")], "used before"),
        ([start("")], "empty"),
        ([start("a", "act", "b")], r"depends on \['b'\]"),
        ([start("a"), Mark("end", "a"), start("b", "expl", "a")], "only acts depend"),
    ],
)
def test_a_mark_that_cannot_be_made_changes_nothing(marks: list[Mark], says: str) -> None:
    window = ContextWindow()
    before = summary(window)
    with pytest.raises(HistoryError, match=says):
        window.add(Item(Kind.TEXT, 3), marks)
    assert summary(window) == before


def test_the_agents_own_start_ends_an_inferred_episode() -> None:
    window = ContextWindow()
    window.add(Item(Kind.TEXT, 3), [start("guess")])
    call = '{"action": "start", "name": "mine", "type": "act", "dependencies": []}'
    added = window.add(Item(Kind.CALL, 5, "c", DELIMITER, call))
    assert added.verdict is not None
    assert added.verdict.accepted  # nothing inferred counts as explored by the agent
    assert added.closed is not None
    assert (added.closed.name, added.closed.inferred, added.closed.closed) == ("guess", True, True)
    assert window.active is added.opened
    assert not window.active.inferred


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ('{"action": "end", "description": "x"}', "no episode is active"),
        ('{"action": "start", "name": "guess", "type": "expl"}', "used before"),
        ('{"action": "start", "name": "b", "type": "act", "dependencies": ["old"]}', "not a closed expl"),
    ],
)
def test_the_agent_can_neither_end_nor_build_on_what_was_inferred(call: str, why: str) -> None:
    window = ContextWindow()
    window.add(Item(Kind.TEXT, 3), [start("old"), Mark("end", "old", description="seen"), start("guess")])
    added = revive(window).add(Item(Kind.CALL, 5, "c", DELIMITER, call))
    assert added.verdict is not None
    assert not added.verdict.accepted
    assert why in added.verdict.text
    assert added.episode is not None
    assert added.episode.name == "guess"


def test_an_inferred_episode_can_be_recalled_when_it_has_gone() -> None:
    window = ContextWindow(10, Policy.paper())
    window.add(Item(Kind.USER, 5))
    window.add(Item(Kind.TEXT, 3, message=0), [start("a")])
    window.add(Item(Kind.USER, 5), [Mark("end", "a")])
    for message in (1, 2):
        window.add(Item(Kind.TEXT, 1, message=message))
    assert [step.episode for step in window.fit().steps] == ["a"]
    assert window.members("a") == (range(1, 2),)
