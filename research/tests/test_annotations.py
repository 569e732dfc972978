"""How agents mark their work: a session told by hand, in which every figure is known."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest

from tests.lab.tales import Tale
from wane.core import Level
from wane.lab.recorded_session import Compaction, EvictionStep, RecordedEviction
from wane_research.annotations import Annotations, annotations_of, read_again


class Story:
    """Tells a session of an agent that marks its work; every part holds ten tokens."""

    def __init__(self) -> None:
        self.tale = Tale().user(10)
        self._ids = (f"c{number}" for number in count())

    def mark(self, **arguments: Any) -> Story:
        return self.call("delimiter", "ok", **arguments)

    def explore(self, name: str) -> Story:
        return self.mark(action="start", name=name, type="expl")

    def act(self, name: str, *dependencies: str) -> Story:
        return self.mark(action="start", name=name, type="act", dependencies=list(dependencies))

    def end(self, description: str | None = None) -> Story:
        return self.mark(action="end", description=description)

    def call(self, tool: str, result: str = "done", **arguments: Any) -> Story:
        call_id = next(self._ids)
        self.tale.calls(call_id, 10, tool, **arguments).result(call_id, 10, result)
        return self

    def read(self, path: str, result: str = "text") -> Story:
        return self.call("read", result, path=path)

    def edit(self, path: str) -> Story:
        return self.call("edit", path=path, old="a", new="b")

    def evict(self, *removed: int, level: Level = Level.ARTIFACT, overflowed: bool = False) -> Story:
        step = EvictionStep(level.value, removed, 10 * len(removed))
        here = len(self.tale.session.parts)
        self.tale.session.evictions.append(RecordedEviction(here, removed, 100, 50, None, (step,), 60, overflowed))
        return self

    @property
    def figures(self) -> Annotations:
        found = annotations_of(self.tale.material())
        assert read_again(self.tale.session) == found.read_again
        return found


def test_marks_and_what_they_enclose() -> None:
    story = Story().read("a.py").explore("look").read("b.py").read("c.py").end("b calls c")
    story.mark(action="end").act("fix", "look").edit("b.py").end().explore("more").read("d.py")
    found = story.figures
    assert (found.sessions, found.marked) == (1, 1)
    assert (found.marks, found.refused) == (6, Counter({"none active": 1}))
    assert (found.explorations, found.acts, found.unended) == (2, 1, 1)
    assert (found.calls, found.calls_outside, found.most_calls) == (5, 1, 2)
    assert found.calls_per_episode == pytest.approx(4 / 3)
    # Outside: the first read with its result, and the refused mark with its own.
    assert (found.tokens, found.tokens_outside) == (220, 40)
    assert found.refused_share == pytest.approx(1 / 6)
    assert found.declared == 1


def test_acts_that_do_not_say_what_they_rest_on() -> None:
    story = Story().explore("look").read("/w/src/b.py").end("b").explore("other").read("c.py").end("c")
    story.act("declared", "look").edit("src/b.py").end()
    story.act("wrong", "look").edit("src/b.py").edit("c.py").end()
    story.act("none").edit("c.py").end()
    story.act("read-itself").read("c.py").edit("c.py").end()
    story.act("new-file").edit("new.py").end()
    assert (story.figures.acts_on_files, story.figures.acts_undeclared) == (4, 2)
    assert story.figures.undeclared_share == 0.5


def test_what_was_read_outside_explorations_need_not_be_declared() -> None:
    story = Story().read("a.py").act("first").read("b.py").end().act("second").edit("a.py").edit("b.py").end()
    assert story.figures.acts_on_files == 0
    assert story.figures.undeclared_share is None


def test_results_fetched_again_are_those_that_had_left() -> None:
    story = Story().explore("look").read("a.py").read("b.py").end("x")
    # The user's turn, the start and its result, then the two reads with their results.
    story.evict(3, 4)
    # An argument that is null is one that is missing.
    story.explore("again").call("read", path="a.py", offset=None).read("b.py").end("y").call("recall", query="a.py")
    found = story.figures
    assert (found.read_again, found.explorations_repeated, found.recalls) == (1, 1, 1)
    # It is in view again: what is read now was not gone.
    assert story.read("a.py").figures.read_again == 1


def test_what_a_program_prints_is_no_exploration_repeated() -> None:
    story = Story().call("bash", command="pytest -q").evict(1, 2).call("bash", command="pytest -q")
    assert story.figures.read_again == 0
    story = Story().call("bash", command="rg -n total src").evict(1, 2).call("bash", command="rg -n total src")
    assert story.figures.read_again == 1


def test_after_a_compaction_all_that_it_took_has_left() -> None:
    story = Story().read("a.py").read("b.py")
    story.tale.session.compactions.append(Compaction(5, "a summary", 3))
    assert story.read("a.py").read("b.py").figures.read_again == 1


def test_descriptions_are_held_to_what_was_used_later() -> None:
    story = Story().explore("look").read("a.py", "parse_ledger in tally/ledger.py, and never_used_name")
    story.end("parse_ledger does it")
    story.explore("idle").read("b.py", "nothing_of_use").end("nothing here")
    story.act("fix", "look").call("edit", path="tally/ledger.py", old="parse_ledger", new="x").end()
    found = story.figures
    assert (found.descriptions, found.descriptions_needed, found.descriptions_holding) == (2, 1, 1)
    assert (found.needed, found.held) == (2, 1)
    assert (found.holding_share, found.held_share) == (1.0, 0.5)


def test_what_was_known_before_an_exploration_is_not_its_to_tell() -> None:
    story = Story().read("x", "parse_ledger").explore("look").read("a.py", "parse_ledger").end("nothing")
    story.act("fix").call("edit", path="x", old="parse_ledger", new="y").end()
    assert story.figures.needed == 0
    assert story.figures.held_share is None


def test_overflow() -> None:
    story = Story().explore("endless").read("a.py").read("b.py")
    story.evict(3, 4, level=Level.OVERFLOW, overflowed=True).read("c.py").evict(5, 6)
    found = story.figures
    assert (found.passes, found.overflows, found.overflow_tokens) == (2, 1, 20)


def test_an_agent_that_marks_nothing() -> None:
    found = Story().read("a.py").edit("a.py").figures
    assert (found.marked, found.episodes, found.outside_share) == (0, 0, 1.0)
    assert found.refused_share is None
    assert found.calls_per_episode is None


def test_figures_of_sessions_add_up() -> None:
    one = Story().explore("look").read("a.py").end("x").mark(action="end").figures
    two = Story().explore("look").read("a.py").read("b.py").end("x").mark(action="start").figures
    both = one + two
    assert (both.sessions, both.marks, both.explorations, both.most_calls) == (2, 6, 2, 2)
    assert both.refused == Counter({"none active": 1, "no name": 1})
    data = both.to_dict()
    assert data["refused"] == {"no name": 1, "none active": 1}
    assert data["calls_per_episode"] == 1.5
    assert Annotations().to_dict()["outside_share"] is None
