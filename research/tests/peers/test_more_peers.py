"""What Strands' and ctxkernel's own code does to a view: the evidence for docs/lab/strategies.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.context_strategies.support import live
from wane.core import Item, Kind
from wane.strategies.base import Settings, Slot, Substitute


def work(*sizes: int, path: str = "{}.py") -> list[Item]:
    """A system item, a task, and messages each of a read with a result of so many tokens: 5 more each."""
    items = [Item(Kind.SYSTEM, 10, message=0), Item(Kind.USER, 10, message=1)]
    for number, size in enumerate(sizes):
        arguments = json.dumps({"path": path.format(number)})
        items.append(Item(Kind.CALL, 5, f"c{number}", "read", arguments, 2 * number + 2))
        items.append(Item(Kind.RESULT, size, f"c{number}", message=2 * number + 3))
    return items


def last(name: str, items: list[Item], settings: Settings) -> list[Slot]:
    return live(name, items, settings).sights[-1].view


class TestStrands:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("strands", reason="Strands is not installed")

    def test_it_drops_the_task_with_the_rest(self) -> None:
        assert last("strands-window", work(50, 50, 50, 50), Settings(budget=150)) == [0, 6, 7, 8, 9]

    def test_it_drops_two_messages_a_call_even_where_that_is_not_enough(self) -> None:
        life = live("strands-window", work(*[50] * 8), Settings(budget=250))
        assert [len(sight.view) for sight in life.sights] == [0, 2, 4, 6, 8, 10, 9, 9, 9, 9]
        life = live("strands-window", work(*[50] * 4, 200, 50), Settings(budget=250))
        assert life.tokens(life.sights[-1].view) > 250

    def test_what_was_dropped_does_not_come_back(self) -> None:
        life = live("strands-window", work(*[50] * 8), Settings(budget=250))
        for before, after in zip(life.sights, life.sights[1:], strict=False):
            assert not {slot for slot in after.view if isinstance(slot, int) and slot < before.known} - {*before.view}


class TestCtxKernel:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("ctxkernel", reason="ctxkernel is not installed")

    def test_what_a_later_read_supersedes_goes_with_its_call_even_within_the_budget(self) -> None:
        items = work(50, 60, 70, path="same.py")
        assert last("ctxkernel", items, Settings(budget=10_000)) == [0, 1, 6, 7]

    def test_the_same_bytes_are_kept_once(self) -> None:
        assert last("ctxkernel", work(50, 60, 50), Settings(budget=10_000)) == [0, 1, 4, 5, 6, 7]

    def test_long_results_become_extracts_before_the_model_has_seen_them(self) -> None:
        view = last("ctxkernel", work(60, 1_500), Settings(budget=10_000))
        listed, extract = view[2], view[-1]
        assert isinstance(listed, Substitute)
        assert listed.text.startswith("Available via expand(handle_id)")
        assert isinstance(extract, Substitute)
        assert extract.index == 5
        assert extract.tokens < 100

    def test_the_turns_of_the_user_stand_ahead_of_everything_else(self) -> None:
        items: list[Any] = [*work(50, 60), Item(Kind.USER, 5, message=9)]
        assert last("ctxkernel", items, Settings(budget=10_000)) == [0, 1, 6, 2, 3, 4, 5]

    def test_past_the_budget_a_note_stands_for_what_is_older(self) -> None:
        view = last("ctxkernel", work(50, 60, 55, 65), Settings(budget=200))
        assert isinstance(view[2], Substitute)
        assert view[2].text.startswith("[2 earlier exchanges elided")
        assert view[3:] == [6, 7, 8, 9]
