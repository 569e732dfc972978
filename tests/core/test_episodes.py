"""What an episode and the graph of episodes say at their bounds."""

from __future__ import annotations

from dataclasses import replace

from tests.core.test_window import FIX, LOOK, episode
from wane import ContextWindow, Item, Kind, Policy
from wane.core.episodes import EpisodeGraph


def test_an_episode_says_whether_it_is_open() -> None:
    window = ContextWindow()
    window.extend(episode("a", LOOK)[:2])
    (started,) = window.episodes
    assert repr(started).startswith("<Episode 0 'a' expl open, ")
    window.extend(episode("a", LOOK)[2:])
    assert repr(started).startswith("<Episode 0 'a' expl closed, ")


def test_an_open_episode_keeps_its_own_latest_message_even_if_that_is_the_first_item() -> None:
    window = ContextWindow()
    window.extend(episode("a", LOOK)[:1])
    (started,) = window.episodes
    assert started.latest == 0
    assert started.protect_from(5) == 0
    started.closed = True
    assert started.protect_from(5) == 5


def test_only_an_act_that_stays_needs_what_it_builds_on_and_what_is_kept_itself_is_counted_once() -> None:
    window = ContextWindow(policy=replace(Policy(), min_room=0.0, guard=0.0))
    window.extend([*episode("b", LOOK), *episode("fix", FIX, ["b"]), Item(Kind.TEXT, 20)])
    explored, act = window.episodes[:2]
    assert act.settled
    assert window.pinned.needed == 0
    window.choose(act.number, "keep")
    assert window.pinned.needed == window.accounting.scale(explored.tokens) > 0
    window.choose(explored.number, "keep")
    assert window.pinned.needed == 0
    assert window.pinned.kept == window.accounting.scale(explored.tokens + act.tokens)


def test_the_newest_episodes_may_hold_a_single_token() -> None:
    graph = EpisodeGraph()
    smallest = graph.start()
    smallest.tokens = 1
    assert graph.newest(1) == smallest.number
    assert graph.newest(0.9) == graph.newest(0) == graph.started
