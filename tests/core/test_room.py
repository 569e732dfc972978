"""The room that a budget leaves: what is fixed, the budget that is used instead, and what is said of both (R22)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from tests.lives import live, revive
from tests.strategies import Scenario, scenarios
from wane import ContextWindow, Item, Kind, Policy, Room
from wane.core import EvictedIndex, Standing, Step
from wane.core.errors import ConfigError, HistoryError
from wane.core.room import EASY, share_of

STRICT = Policy(min_room=0.0)


def test_a_window_says_what_no_pass_may_take() -> None:
    window = ContextWindow(1_000, STRICT, overhead=300, window=9_000)
    window.extend([Item(Kind.SYSTEM, 50), Item(Kind.NOTICE, 40), Item(Kind.USER, 30), Item(Kind.TEXT, 500)])
    window.add(Item(Kind.NOTICE, 20, standing=(Standing("mode"),)))
    assert window.room == Room(1_000, system=350, user=30, notices=60, window=9_000)
    window.add(Item(Kind.NOTICE, 7, standing=(Standing("mode"),)))
    assert window.room.notices == 47
    assert window.room.work == 573


def test_persons_answers_and_loaded_tools_are_fixed_with_their_calls() -> None:
    window = ContextWindow(1_000, STRICT)
    window.extend(
        [
            Item(Kind.CALL, 5, call_id="ask", tool="ask_user"),
            Item(Kind.CALL, 7, call_id="load", tool="load_tools"),
            Item(Kind.RESULT, 60, call_id="ask", person=True),
        ]
    )
    assert window.room == Room(1_000, system=0, user=65)
    window.add(Item(Kind.RESULT, 80, call_id="load", loads=("a", "b")))
    assert window.room == Room(1_000, system=0, user=65, loaded=87)
    window.add(Item(Kind.USER, 1, withdraws=("b", "a")))
    assert window.room == Room(1_000, system=0, user=66)
    assert sum(episode.tokens for episode in window.episodes) == 87


def test_what_a_call_that_always_stays_needs_is_fixed_as_long() -> None:
    policy = Policy(min_room=0.6, low_water=0.3, guard=0.4, index_share=0.0)
    window = ContextWindow(100, policy)
    window.extend(
        [
            Item(Kind.REASONING, 30, message=1, needs=(1,)),
            Item(Kind.TEXT, 3, message=1),
            Item(Kind.CALL, 5, call_id="ask", tool="ask_user", message=1, needs=(-2,)),
            Item(Kind.CALL, 2, call_id="read", tool="read", message=1),
            Item(Kind.RESULT, 6, call_id="read"),
        ]
    )
    assert window.room.fixed == 0
    window.add(Item(Kind.RESULT, 4, call_id="ask", person=True))
    assert window.room == Room(100, system=0, user=42, min_room=0.6)
    assert window.episodes[0].tokens == 8
    window.extend([Item(Kind.TEXT, 80, message=2), Item(Kind.TEXT, 1, message=3)])
    assert revive(window).room == window.room
    report = window.fit()
    assert (report.budget, report.budget_used) == (100, 102)
    assert window.visible[:4] == [0, 1, 2, 5]


def test_what_a_call_that_loaded_tools_needs_is_fixed_until_they_are_withdrawn() -> None:
    window = ContextWindow(1_000, STRICT)
    window.extend(
        [
            Item(Kind.REASONING, 30, message=1),
            Item(Kind.CALL, 5, call_id="load", tool="load_tools", message=1, needs=(-1,)),
            Item(Kind.CALL, 7, call_id="more", tool="load_tools", message=1, needs=(-2,)),
            Item(Kind.CALL, 9, call_id="ask", tool="ask_user", message=1, needs=(-1,)),
            Item(Kind.RESULT, 10, call_id="load", loads=("a",)),
            Item(Kind.RESULT, 20, call_id="more", loads=("b",)),
        ]
    )
    assert window.room == Room(1_000, system=0, loaded=72)
    window.add(Item(Kind.USER, 0, withdraws=("a",)))
    assert window.room == Room(1_000, system=0, loaded=57)
    window.add(Item(Kind.RESULT, 40, call_id="ask", person=True))
    assert revive(window).room == window.room == Room(1_000, system=0, user=106)
    window.add(Item(Kind.USER, 0, withdraws=("b",)))
    assert window.room == Room(1_000, system=0, user=106)
    assert sum(episode.tokens for episode in window.episodes) == 15


def test_only_a_result_is_a_persons_or_loads_tools() -> None:
    window = ContextWindow()
    with pytest.raises(HistoryError, match="item 0 is a text; only a result is a person's or loads tools"):
        window.add(Item(Kind.TEXT, 1, person=True))
    with pytest.raises(HistoryError, match="names tools by a text"):
        window.add(Item(Kind.USER, 1, withdraws="grep"))  # type: ignore[arg-type]
    assert window.item_count == 0


@pytest.mark.parametrize("tokens", [0, -1, float("inf")])
def test_a_window_of_no_tokens_is_refused(tokens: int) -> None:
    with pytest.raises(ConfigError, match=f"window is {tokens}; it must be the tokens of the model's window"):
        ContextWindow(window=tokens)


def test_the_providers_count_is_what_counts() -> None:
    window = ContextWindow(1_000, STRICT, overhead=100)
    window.extend([Item(Kind.USER, 100), Item(Kind.TEXT, 200)])
    window.fit()
    window.observe(800)
    assert window.room == Room(1_000, system=200, user=200)


@given(scenarios())
def test_fixed_content_is_what_even_the_smallest_strict_budget_keeps(scenario: Scenario) -> None:
    window = ContextWindow(1, scenario.policy)
    for _ in live(window, scenario.items):
        pinned = window.pinned
        fixed = pinned.system + pinned.user + pinned.notices + pinned.loaded + pinned.prologue
        assert window.room.fixed == fixed <= window.tokens


@given(scenarios())
def test_the_budget_that_is_used_is_never_below_the_one_that_was_set_nor_beyond_the_window(scenario: Scenario) -> None:
    window = scenario.window()
    for report in live(window, scenario.items):
        assert report.budget == scenario.budget <= report.budget_used
        if scenario.model_window is not None:
            assert report.budget_used <= max(scenario.budget, scenario.model_window)
        if not scenario.policy.min_room:
            assert report.budget_used == scenario.budget


def test_a_budget_that_leaves_its_least_room_is_used_as_set() -> None:
    room = Room(50_000, system=30_000, min_room=0.4)
    assert (room.used, room.widened, room.tight, room.widening) == (50_000, False, False, "")
    assert room.remark == ""


def test_one_that_leaves_less_is_widened_and_says_so() -> None:
    room = Room(50_000, system=30_000, user=16_200, min_room=0.4)
    assert (room.used, room.work, room.widened, room.tight) == (66_200, 20_000, True, False)
    assert room.widening == "budget 50,000; 46,200 of it always stay; working with 66,200"
    assert room.remark == (
        "Budget 50,000; 46,200 of it always stay (system prompt and tools 30,000, user turns 16,200); "
        "working with 66,200."
    )
    over = Room(50_000, system=60_000, min_room=0.4)
    assert over.widening == "budget 50,000; 60,000 tokens always stay; working with 80,000"


def test_the_window_ends_it() -> None:
    room = Room(50_000, system=46_200, min_room=0.4, window=60_000)
    assert (room.used, room.work, room.tight) == (60_000, 13_800, True)
    assert Room(50_000, system=46_200, min_room=0.4, window=40_000).used == 50_000


def test_a_report_says_that_another_budget_was_used() -> None:
    window = ContextWindow(1_000, Policy(min_room=0.4), overhead=900)
    window.extend([Item(Kind.TEXT, 300), Item(Kind.USER, 50), Item(Kind.TEXT, 60)])
    report = window.fit()
    assert report.explain().startswith(
        "Budget 1,000; 950 of it always stay; working with 1,350. Nothing had to go: the view holds 1,310 "
        "tokens, within the budget of 1,350."
    )


def test_an_index_is_never_over_its_share_by_any_count() -> None:
    policy = Policy(index_share=0.1, low_water=0.5, guard=0.0)
    for reported in (400, 800, 1_600):
        window = ContextWindow(1_000, policy)
        window.extend([Item(Kind.USER, 10), Item(Kind.TEXT, 790)])
        window.fit()
        window.observe(reported)
        window.extend([Item(Kind.USER, 10), Item(Kind.TEXT, 1_500), Item(Kind.USER, 10), Item(Kind.TEXT, 10)])
        limits: list[int] = []

        def write(_: Sequence[Step], limit: int, limits: list[int] = limits) -> EvictedIndex:
            limits.append(limit)
            return EvictedIndex("x", limit, 0)

        report = window.fit(write_index=write)
        assert report.index is not None
        assert 0 < report.index.tokens == limits[0] <= 100
        assert window.accounting.scale(report.index.tokens) <= 100
        assert revive(window).index == report.index


def test_a_strict_budget_with_less_room_than_the_default_is_tight() -> None:
    assert not Room(80_000, system=48_000).tight
    assert Room(80_000, system=48_000).warning == ""
    assert Room(80_000, system=48_001).tight


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
        (Room(8_000, system=1, loaded=5_000), ", or load fewer tools."),
    ],
)
def test_the_warning_says_what_holds_the_tokens_and_what_would_help(room: Room, end: str) -> None:
    assert room.warning.endswith(end)


def test_the_advised_budget_is_room_enough() -> None:
    for fixed in (1, 399, 400, 401, 40_000, 50_686, 999_999):
        advised = Room(1, system=fixed).advised
        assert not Room(advised, system=fixed).tight
        assert fixed <= EASY * advised <= fixed + EASY * 1_000


def test_a_share_is_the_decimal_that_people_write() -> None:
    assert share_of(100, 0.29) == 29
    assert share_of(1_001, 0.25) == 250
    assert share_of(10**15, 0.1) == 10**14


def test_as_data() -> None:
    room = Room(10, system=7, user=2, min_room=0.4, window=12)
    assert room.to_dict() == {
        "budget": 10,
        "system": 7,
        "user": 2,
        "notices": 0,
        "loaded": 0,
        "prologue": 0,
        "window": 12,
        "min_room": 0.4,
        "fixed": 9,
        "used": 12,
        "work": 3,
        "tight": True,
        "advised": 1_000,
        "warning": room.warning,
    }
    enough = Room(100, system=4).to_dict()
    assert enough["advised"] is enough["warning"] is None
