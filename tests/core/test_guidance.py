"""What a system prompt says of the protocol: short in every variant, and true under the policy that it is made from."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from wane import ContextWindow, CounterError, Item, Kind, Policy
from wane.core.guidance import guidance
from wane.counters import get_counter
from wane.strategies.fold import FOLDING

ORDERS, SHARES, OVERFLOWS = ("paper", "last_use"), (None, 0.0, 0.2), ("strip", "surface")

VARIANTS = [
    guidance(Policy(order=order, description_share=share, overflow=overflow), recall=recall)
    for order, share, overflow, recall in product(ORDERS, SHARES, OVERFLOWS, (False, True))
] + [guidance(leaving=FOLDING), guidance(leaving=FOLDING, recall=True)]

MOST = 300
"""Tokens that the guidance may have."""


def test_every_variant_is_short() -> None:
    assert max(len(text) for text in VARIANTS) / 4 <= MOST


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_every_variant_is_short_to_real_tokenizers(encoding: str) -> None:
    try:
        count = get_counter(f"tiktoken:{encoding}")
    except CounterError as error:
        pytest.skip(str(error))
    assert max(map(count, VARIANTS)) <= MOST


def test_tasks_take_one_line_more() -> None:
    with_tasks, without = guidance(tasks=True).splitlines(), guidance().splitlines()
    (line,) = [line for line in with_tasks if line not in without]
    assert [one for one in with_tasks if one != line] == without
    assert len(line) / 4 <= 70
    assert "task" not in guidance(recall=True).replace("task and object", "")


def test_a_variant_speaks_of_recall_only_where_there_is_one() -> None:
    assert "`recall`" in guidance(recall=True)
    assert "recall" not in guidance()


# What it says of a policy is what a pass under that policy does


class Session:
    """An exploration and an act that are finished, and an exploration that is not; each searches, runs and reads."""

    def __init__(self, budget: int, **policy: Any) -> None:
        self.window = ContextWindow(budget, Policy(guard=0.0, evict_when_cold=False, **policy))
        self.told = guidance(self.window.policy)
        self._calls = 0
        self.user = self.window.add(Item(Kind.USER, 10)).index
        self.closing: int | None = None
        self._episode("old", "expl")
        self._episode("done", "act", dependencies=[])
        self._episode("open", "expl")
        self.active = [index for span in self.window.members("open") for index in span]
        self.report = self.window.fit()

    def _episode(self, name: str, kind: str, **start: Any) -> None:
        self._call("delimiter", 5, action="start", name=name, type=kind, **start)
        for tool in ("grep", "bash", "read"):
            self._call(tool, 100)
        if kind == "act":
            self._call("delimiter", 5, action="end", name=name)
        elif name != "open":
            self.closing = self._call("delimiter", 5, action="end", name=name, description="it is so")
        else:
            self._call("read", 100)

    def _call(self, tool: str, tokens: int, **arguments: Any) -> int:
        self._calls += 1
        call_id = f"c{self._calls}"
        item = Item(Kind.CALL, 5, call_id, tool, json.dumps(arguments), message=self._calls)
        index = self.window.add(item).index
        self.window.add(Item(Kind.RESULT, tokens, call_id))
        return index


TOTAL = 1_110  # tokens of the session
OPEN = 440  # tokens of it that are open, or the user's


@pytest.mark.parametrize(("order", "first"), [("paper", "done"), ("last_use", "old")])
def test_what_is_said_to_leave_first_does(order: Any, first: str) -> None:
    session = Session(TOTAL - 50, order=order, low_water=1.0)
    assert session.report.steps[0].episode == first
    words = {
        "done": "finished acts leave first, then the oldest explorations",
        "old": "what went unused longest leaves",
    }
    assert words[first] in session.told


@pytest.mark.parametrize(
    ("share", "words", "kept"), [(None, "stay.", True), (0.2, "stay longer", True), (0.0, "leave too", False)]
)
def test_descriptions_stay_as_it_says(share: float | None, words: str, kept: bool) -> None:
    session = Session(OPEN + 100, low_water=1.0, description_share=share)
    assert {step.episode for step in session.report.steps} == {"old", "done"}
    assert (session.closing in session.window.visible) == kept
    assert f"descriptions {words}" in session.told
    # Longer is not for good.
    pressed = Session(OPEN - 100, description_share=share)
    assert (pressed.closing in pressed.window.visible) == (share is None)


@pytest.mark.parametrize(("overflow", "words"), [("strip", "open episodes are cut"), ("surface", "stay whole")])
def test_open_episodes_are_cut_where_that_is_said_and_the_user_s_messages_never_leave(
    overflow: Any, words: str
) -> None:
    session = Session(250, overflow=overflow)
    visible = set(session.window.visible)
    assert (visible >= set(session.active)) == (overflow == "surface")
    assert session.report.satisfied == (overflow == "strip")
    assert words in session.told
    assert session.user in visible
    assert "User messages never leave" in session.told
