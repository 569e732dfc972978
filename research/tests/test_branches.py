"""Parallel branches in one history (R18), constructed so that what siblings read again is known."""

from __future__ import annotations

import json

import pytest

from branches import Exchange, Shared, alike
from wane.core import Item, Kind
from wane.formats.message_format import Part

LINE = 40
"""Tokens of a result."""


def exchange(branch: int, at: float, number: int, path: str, tokens: int = LINE) -> Exchange:
    call = f"c{number}"
    arguments = json.dumps({"file_path": path})
    return Exchange(
        branch,
        at,
        at + 0.5,
        [
            (Item(Kind.CALL, 5, call, "Read", message=number), Part(Kind.CALL, "", call, "Read", arguments)),
            (Item(Kind.RESULT, tokens, call), Part(Kind.RESULT, f"{path} " * 20, call)),
        ],
    )


def history(siblings: int, reads: int) -> list[Exchange]:
    """A parent, and siblings that take turns and each read the same files."""
    parent = [exchange(0, number, number, f"/repo/parent-{number}.py") for number in range(3)]
    shared: list[Exchange] = []
    for number in range(reads):
        path = f"/repo/src/module-{number}.py"
        shared += [exchange(branch, 10 + number, number, path) for branch in range(1, siblings + 1)]
    return [*parent, *shared, exchange(0, 100, 9, "/repo/parent-9.py")]


@pytest.mark.parametrize("budget", [300, 500, 100_000])
def test_no_pair_breaks_and_each_repeat_is_counted(budget: int) -> None:
    shared = Shared(budget, 0).run(history(3, 6))
    assert shared.broken == 0
    assert shared.over == 0
    assert shared.read == 3 + 18 + 1
    assert shared.repeats.total() == 12  # all but the first reader of each file
    assert shared.tokens.total() == 12 * LINE
    if budget == 100_000:
        assert shared.repeats == {"in view": 12}


def test_within_the_budget_the_parents_view_is_the_same() -> None:
    mixed = history(3, 6)
    alone = [one for one in mixed if not one.branch]
    for budget, same in ((100_000, [1.0]), (300, [0.0])):
        assert alike(Shared(budget, 0).run(alone), Shared(budget, 0).run(mixed)) == same
