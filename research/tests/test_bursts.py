"""The episodes of the experiment on finer dependencies: what acts rest on, and what stays for their sake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from finer_dependencies import Declared, DeclaredJob, Edges, bursts, mistaken
from tests.lab.tales import AUTOMATIC, Tale
from wane import Policy
from wane.lab.replaying.strategy_replay import Subject
from wane.strategies.strategy import StrategySettings
from wane.strategies.window_strategy import WindowStrategy

POLICY = Policy(low_water=0.1, guard=0.0, index_share=0)


def subject() -> Subject:
    """Two files are read, one of them is edited twice, and then much else is read."""
    tale = Tale().user(10)
    work = [("a", "read", "a.py"), ("b", "read", "b.py"), ("e", "edit", "a.py"), ("d", "edit", "a.py")]
    for call_id, tool, path in work:
        tale.calls(call_id, 10, tool, path=path).result(call_id, 100)
    for number in range(8):
        tale.calls(f"c{number}", 10, "read", path=f"c{number}.py").result(f"c{number}", 1_000)
    return tale.calls("f", 10, "edit", path="c7.py").result("f", 10).says(10).subject()


def test_acts_rest_on_the_reads_of_their_files() -> None:
    first, act, second, third, last = bursts(subject())
    assert (first.name, act.name, last.name) == ("expl-0", "act-1", "act-4")
    assert [act.rests_on, last.rests_on] == [{0: [2]}, {3: [24]}]
    assert (first.first, first.stop, act.stop) == (1, 5, 9)
    assert [len(second.reads), len(third.reads)] == [6, 2]  # an episode of 6,000 tokens ends


def test_wrong_dependencies_are_drawn_the_same_and_grow_with_their_share() -> None:
    episodes = bursts(subject())
    assert mistaken(episodes, 0.0, 1) == {episode.number: episode.rests_on for episode in episodes}
    wrong = [mistaken(episodes, 1.0, seed)[4] for seed in range(20)]
    assert {number for targets in wrong for number in targets} == {0, 2}
    assert wrong == [mistaken(episodes, 1.0, seed)[4] for seed in range(20)]


@pytest.mark.parametrize(
    ("edges", "visible"), [("none", []), ("whole", [1, 2, 3, 4]), ("only", [1, 2])], ids=["none", "whole", "only"]
)
def test_what_is_declared_stays_while_the_act_does(edges: Edges, visible: list[int]) -> None:
    tale = subject()
    strategy = WindowStrategy("cwl", StrategySettings(440), replace(POLICY, overflow="surface"), Declared(tale, edges))
    for item, part in zip(tale.material.items[:9], tale.material.session.parts, strict=False):
        strategy.add(item, part)
    strategy.fit()
    assert [index for index in strategy.window.visible if index in range(1, 5)] == visible


def test_a_replay_of_it_keeps_pairs_whole() -> None:
    for edges in ("none", "whole", "only"):
        job = DeclaredJob(0, "cwl", StrategySettings(4_000, policy=POLICY), AUTOMATIC, edges=edges)
        totals = job.run(subject()).totals
        assert totals.passes
        assert totals.loss.invalid_pairs == 0
