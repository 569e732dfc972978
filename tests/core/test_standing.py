"""Standing notices in the core: a plan mode, and lists of tools, through passes and restarts (R15)."""

from __future__ import annotations

import json

import pytest

from tests.lives import revive
from wane import ContextWindow, Item, Kind, Policy
from wane.core import Level, Standing
from wane.core.pass_report import Pinned

MODE = (Standing("plan mode"),)
MORE = (Standing("tools", adds=True),)
TOOLS = (Standing("tools"),)


def window(budget: int = 1_000) -> ContextWindow:
    made = ContextWindow(budget, Policy(guard=0.0, low_water=0.5, index_share=0.0, min_room=0.0))
    made.add(Item(Kind.USER, 10))
    return made


def work(to: ContextWindow, calls: int = 1, tokens: int = 300) -> None:
    """Unannotated work, and the end of it."""
    for _ in range(calls):
        name = f"c{to.item_count}"
        to.add(Item(Kind.CALL, 1, call_id=name, tool="read", message=to.item_count))
        to.add(Item(Kind.RESULT, tokens, call_id=name))
    to.add(Item(Kind.TEXT, 1, message=to.item_count))
    to.add(Item(Kind.USER, 1))


def notice(to: ContextWindow, *states: Standing, tokens: int = 100) -> int:
    added = to.add(Item(Kind.NOTICE, tokens, standing=states))
    assert (added.episode is None) == bool(states)
    return added.index


@pytest.mark.parametrize("restart", [False, True])
def test_a_mode_stays_until_it_ends_and_then_leaves_first(restart: bool) -> None:
    life = window()
    work(life)
    on = notice(life, *MODE)
    work(life, 4)
    life.fit()
    assert on in life.visible
    assert life.pinned.notices == 100
    assert not life.notices
    # Its episode has been removed by now, so it is overdue as soon as it has ended.
    assert 0 not in [episode.number for episode in life.episodes]
    off = notice(life, *MODE, tokens=20)
    assert on in life.visible
    assert (life.pinned.notices, sum(life.notices.values())) == (20, 100)
    work(life, 4)
    life = revive(life) if restart else life
    report = life.fit()
    first = report.steps[0]
    assert (first.level, first.removed, first.tokens_before - first.tokens_after) == (Level.ARTIFACT, (on,), 100)
    assert off in life.visible
    assert on not in life.visible


def test_a_mode_that_ends_while_its_episode_lasts_leaves_with_it() -> None:
    life = window(2_000)
    work(life)
    on = notice(life, *MODE)
    added = life.add(Item(Kind.TEXT, 1, message=life.item_count))
    notice(life, *MODE, tokens=20)
    assert life.notices == {0: 100}  # the episode that began last before it
    assert added.episode is not None
    assert added.episode.number == 1
    work(life, 8)
    taken = next(step for step in life.fit().steps if on in step.removed)
    assert (taken.number, taken.level) == (0, Level.ARTIFACT)


def test_what_is_added_stands_with_what_it_is_added_to() -> None:
    life = window()
    work(life)
    listed, more = notice(life, *TOOLS), notice(life, *MORE)
    both = notice(life, *MODE, *MORE)
    work(life, 6)
    life.fit()
    assert {listed, more, both} <= set(life.visible)
    again = notice(life, *TOOLS)
    work(life, 6)
    life.fit()
    assert not {listed, more} & set(life.visible)
    # What states two kinds stays for either.
    assert {both, again} <= set(life.visible)


def test_a_notice_ahead_of_the_first_answer_stays_whatever_comes() -> None:
    life = window()
    opening = notice(life, *MODE)
    work(life)
    notice(life, *MODE)
    work(life, 6)
    assert life.fit().satisfied
    assert opening in life.visible


def test_a_recorded_pass_that_took_what_had_stood_is_repeated() -> None:
    one, other = window(), window()
    for each in (one, other):
        work(each)
        notice(each, *MODE)
        work(each, 4)
    other.apply(one.fit().trace)
    for each in (one, other):
        notice(each, *MODE)
        work(each, 4)
    other.apply(one.fit().trace)
    assert one.export() == other.export()


def test_notices_in_force_are_told_as_what_holds_the_tokens() -> None:
    life = window(300)
    work(life)
    notice(life, *MODE, tokens=500)
    work(life)
    report = life.fit()
    assert not report.satisfied
    assert report.pinned is not None
    assert report.pinned.holders()[0] == ("opening and standing notices", 500)
    assert Pinned(notices=1).explain() == "opening and standing notices 1"


def test_the_guard_counts_what_is_overdue_as_the_pass_begins() -> None:
    """R10: the episode was too large to be spared, so it leaves after what no longer stands of it."""
    policy = Policy(guard=1.0, low_water=0.9, index_share=0.0, min_room=0.0, description_share=None)
    life = ContextWindow(1_000, policy)

    def call(tool: str, tokens: int, **arguments: str) -> None:
        ordinal = life.item_count
        life.add(Item(Kind.CALL, 1, call_id=f"c{ordinal}", tool=tool, arguments=json.dumps(arguments), message=ordinal))
        life.add(Item(Kind.RESULT, tokens, call_id=f"c{ordinal}"))

    life.add(Item(Kind.USER, 10))
    call("delimiter", 10, action="start", name="a", type="expl")
    call("read", 100)
    call("delimiter", 60, action="end", description="what was found")
    call("edit", 100)
    call("read", 600)
    on = notice(life, *MODE, tokens=150)
    life.add(Item(Kind.USER, 1))
    life.add(Item(Kind.TEXT, 41, message=life.item_count))
    assert [(step.episode, step.level) for step in life.fit().steps][-1] == (None, Level.ARTIFACT)
    stripped = life.episodes[0]
    assert (stripped.number, stripped.level, stripped.tokens) == (1, Level.ARTIFACT, 101)
    notice(life, *MODE, tokens=20)
    assert stripped.tokens == 251
    life.add(Item(Kind.TEXT, 709, message=life.item_count))
    report = life.fit()
    assert [(step.number, step.level) for step in report.steps] == [(1, Level.ARTIFACT), (1, Level.REMOVE)]
    assert report.steps[0].removed == (on,)
