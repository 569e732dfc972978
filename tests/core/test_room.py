"""The room that a budget leaves: what is fixed, when that is too much, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.lives import live
from tests.strategies import Scenario, scenarios
from wane import ContextWindow, Item, Kind, Room
from wane.core import Standing
from wane.core.room import EASY, TIGHT


def test_a_window_tells_what_no_pass_may_take() -> None:
    window = ContextWindow(1_000, overhead=300)
    window.extend([Item(Kind.SYSTEM, 50), Item(Kind.NOTICE, 40), Item(Kind.USER, 30), Item(Kind.TEXT, 500)])
    window.add(Item(Kind.NOTICE, 20, standing=(Standing("mode"),)))
    assert window.room == Room(1_000, system=350, user=30, notices=60)
    window.add(Item(Kind.NOTICE, 7, standing=(Standing("mode"),)))
    assert window.room.notices == 47
    assert window.room.work == 573


def test_the_providers_count_is_what_counts() -> None:
    window = ContextWindow(1_000, overhead=100)
    window.extend([Item(Kind.USER, 100), Item(Kind.TEXT, 200)])
    window.fit()
    window.observe(800)
    assert window.room == Room(1_000, system=200, user=200)


@given(scenarios())
def test_fixed_content_is_what_even_the_smallest_budget_keeps(scenario: Scenario) -> None:
    window = ContextWindow(1, scenario.policy)
    for _ in live(window, scenario.items):
        pinned = window.pinned
        assert window.room.fixed == pinned.system + pinned.user + pinned.notices <= window.tokens


def test_half_of_the_budget_is_room_enough() -> None:
    assert not Room(80_000, system=40_000).tight
    assert Room(80_000, system=40_000).warning == ""
    assert Room(80_000, system=40_001).tight


@pytest.mark.parametrize(
    ("room", "end"),
    [
        (
            Room(80_000, system=43_490, user=7_196),
            (
                "50,686 may never be evicted (system prompt and tools 43,490, user turns 7,196), "
                "so that 29,314 are left for the work. Set a budget of 127,000, or load fewer tools."
            ),
        ),
        (Room(20_000, system=30_000), "nothing is left for the work. Set a budget of 75,000, or load fewer tools."),
        (
            Room(80_000, system=70_000, window=128_000),
            "A budget of 175,000 would help, but the model's window holds 128,000: load fewer tools.",
        ),
        (Room(8_000, system=1, notices=5_000), ", or load fewer instructions and skills."),
        (Room(8_000, system=1, user=5_000), ", or begin a new session."),
    ],
)
def test_the_warning_says_what_holds_the_tokens_and_what_would_help(room: Room, end: str) -> None:
    assert room.warning.endswith(end)


def test_the_advised_budget_is_room_enough() -> None:
    for fixed in (1, 399, 400, 401, 40_000, 50_686, 999_999):
        advised = Room(1, system=fixed).advised
        assert not Room(advised, system=fixed).tight
        assert fixed <= EASY * advised <= fixed + EASY * 1_000 < TIGHT * advised + 1_000


def test_as_data() -> None:
    assert Room(10, system=4, user=2).to_dict() == {
        "budget": 10,
        "system": 4,
        "user": 2,
        "notices": 0,
        "window": None,
        "fixed": 6,
        "work": 4,
        "tight": True,
        "advised": 1_000,
        "warning": Room(10, system=4, user=2).warning,
    }
    enough = Room(100, system=4).to_dict()
    assert enough["advised"] is enough["warning"] is None
