"""The strategies over the window: the paper's and ours, over the agent's episodes or inferred ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from tests.conformance import policy_of
from tests.strategies import Scenario, scenarios
from wane.core import DELIMITER, ContextWindow, Item, Kind, Policy
from wane.core.view import MessageStarts
from wane.formats.message_format import Part
from wane.formats.openai import OpenAIFormat
from wane.inference import Annotator, EpisodeBounds
from wane.strategies.strategy import Annotate, Strategy, StrategySettings
from wane.strategies.window_strategy import IndexPlace, WindowStrategy

ASSISTANT = (Kind.TEXT, Kind.REASONING, Kind.CALL)
RUNS = Path(__file__).resolve().parents[3] / "shared" / "sessions" / "terminal-bench-2"
FREE = OpenAIFormat(demands_reasoning=False)
"""The cases are of a server that does not demand a call's reasoning (R12)."""
SMALL = EpisodeBounds(episode=200, drift_calls=2, drift_tokens=60, dependencies=100)


def parts_of(items: Sequence[Item]) -> list[Part]:
    """Content for random items: calls that read, run and change files by turns."""
    commands = ("cat f1.py", "sed -i s/a/b/ f2.py", "pytest", "ls", "echo x > f1.py")
    out = []
    for index, item in enumerate(items):
        arguments = item.arguments
        if item.kind is Kind.CALL and item.tool != DELIMITER:
            arguments = json.dumps({"command": commands[index % 5], "path": f"f{index % 4}.py"})
        out.append(Part(item.kind, "", item.call_id, item.tool, arguments, item.needs))
    return out


def make_strategy(scenario: Scenario, annotate: Annotate = "infer") -> WindowStrategy:
    settings = StrategySettings(budget=scenario.budget, annotate=annotate)
    return WindowStrategy("cwl", settings, scenario.policy, Annotator(SMALL) if annotate == "infer" else None)


def begins_call(items: Sequence[Item], index: int) -> bool:
    item, before = items[index], items[index - 1] if index else None
    return item.kind in ASSISTANT and (before is None or before.kind not in ASSISTANT)


def views(strategy: WindowStrategy, items: Sequence[Item]) -> list[list[Any]]:
    """What each model call of a history shows."""
    out = []
    for index, (item, part) in enumerate(zip(items, parts_of(items), strict=True)):
        if begins_call(items, index):
            out.append(list(strategy.fit().view))
        strategy.add(item, part)
    out.append(list(strategy.fit().view))
    return out


def test_it_is_a_strategy() -> None:
    strategy = WindowStrategy("paper", StrategySettings(), Policy.paper())
    assert isinstance(strategy, Strategy)


@given(scenarios())
def test_with_inference_the_view_is_still_a_filter_of_the_history(scenario: Scenario) -> None:
    items = scenario.items
    strategy = make_strategy(scenario)
    for view in views(strategy, items):
        assert view == sorted(set(view))
    stop = len(items)
    shown = set(view)
    assert shown <= set(range(stop))
    assert shown >= {index for index in range(stop) if items[index].kind in (Kind.USER, Kind.SYSTEM)}
    for index, item in enumerate(items):
        if index in shown:
            assert shown >= {index + need for need in item.needs if 0 <= index + need < stop}
    assert calls_paired(items, view)
    assert strategy.window.visible == view


def calls_paired(items: Sequence[Item], view: Sequence[int]) -> bool:
    """Whether each result that is shown has its call, and each call its result if it has one at all."""
    waiting: dict[str, list[int]] = {}
    pairs = []
    for index, item in enumerate(items):
        if item.kind is Kind.CALL:
            waiting.setdefault(item.call_id or "", []).append(index)
        elif item.kind is Kind.RESULT:
            pairs.append((waiting[item.call_id or ""].pop(0), index))
    shown = set(view)
    return all((call in shown) == (result in shown) for call, result in pairs)


@given(scenarios())
def test_the_same_history_gives_the_same_views(scenario: Scenario) -> None:
    one, two = make_strategy(scenario), make_strategy(scenario)
    assert views(one, scenario.items) == views(two, scenario.items)
    assert [episode.name for episode in one.episodes] == [episode.name for episode in two.episodes]


@given(scenarios())
def test_item_by_item_is_all_at_once(scenario: Scenario) -> None:
    # With nothing to evict on the way, it does not matter how often it was asked.
    settings = StrategySettings(budget=10**9, annotate="infer")
    one = WindowStrategy("cwl", settings, scenario.policy, Annotator(SMALL))
    two = WindowStrategy("cwl", settings, scenario.policy, Annotator(SMALL))
    views(one, scenario.items)
    for item, part in zip(scenario.items, parts_of(scenario.items), strict=True):
        two.add(item, part)
    one.window.budget = two.window.budget = scenario.budget
    assert list(one.fit().view) == list(two.fit().view)


@given(scenarios())
def test_the_agents_own_marks_make_it_the_window_itself(scenario: Scenario) -> None:
    strategy = make_strategy(scenario, "model")
    window = ContextWindow(scenario.budget, scenario.policy)
    for index, (item, part) in enumerate(zip(scenario.items, parts_of(scenario.items), strict=True)):
        if begins_call(scenario.items, index):
            window.fit()
            assert list(strategy.fit().view) == window.visible
        window.add(item)
        strategy.add(item, part)
    assert strategy.fit().report == window.fit()
    assert not any(episode.inferred for episode in strategy.episodes)


@given(scenarios(), st.booleans())
def test_a_view_says_whether_it_lost_anything(scenario: Scenario, cold: bool) -> None:
    strategy = make_strategy(scenario)
    for item, part in zip(scenario.items, parts_of(scenario.items), strict=True):
        strategy.add(item, part)
    fitted = strategy.fit(cold=cold)
    assert fitted.ran == (len(fitted.view) < len(scenario.items))
    assert not strategy.fit().ran or fitted.report is None or not fitted.report.satisfied


@pytest.mark.full
def test_the_conformance_cases(shared_cases: list[dict[str, Any]], subtests: pytest.Subtests) -> None:
    for case in shared_cases:
        policy = policy_of(case)
        strategy = WindowStrategy("cwl", StrategySettings(budget=case["budget"]), policy)
        for item, part in in_openai(case["messages"]):
            strategy.add(item, part)
        fitted = strategy.fit()
        planned = wane.plan(case["messages"], budget=case["budget"], policy=policy, format=FREE, annotate="model")
        with subtests.test(case["name"]):
            assert list(fitted.view) == list(planned.visible) == case["expect"]["visible"]
            assert fitted.report == planned.report


def in_openai(messages: list[Any]) -> list[tuple[Item, Part]]:
    chosen = FREE
    loaded = enumerate(chosen.load(messages))
    return [(part.item(wane.chars, number), part) for number, message in loaded for part in chosen.parts(message)]


def load_recording(name: str) -> list[tuple[Item, Part]]:
    file = RUNS / f"{name}.json"
    if not file.exists():
        pytest.skip("no recorded sessions: ../shared/sessions (relative to the repository) is not there")
    return in_openai(json.loads(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["build-cython-ext", "fix-git", "regex-chess"])
def test_a_real_session_has_sensible_episodes(name: str) -> None:
    session = load_recording(name)
    strategy = WindowStrategy("cwl", StrategySettings(budget=20_000, annotate="infer"), Policy())
    for item, part in session:
        strategy.fit()
        strategy.add(item, part)
    kinds = Counter(episode.type.value for episode in strategy.episodes if episode.inferred)
    assert kinds["expl"]
    assert kinds["act"]
    members = [index for episode in strategy.episodes for first, stop in episode.spans for index in range(first, stop)]
    assert [len(list(group)) for _, group in groupby(sorted(members))] == [1] * len(members)
    acts = [episode for episode in strategy.episodes if episode.type == "act"]
    assert all(act.dependencies for act in acts[1:])


def find_place(items: Sequence[Item]) -> int:
    """The place of an index behind some items."""
    turn, starts, latest = IndexPlace(), MessageStarts(), -1
    for index, item in enumerate(items):
        latest = index if starts.begins(item) else latest
        turn.add(index, item, latest)
    return turn.place


def test_an_index_stands_ahead_of_all_of_a_message() -> None:
    """Tools that OpenAI searched stand ahead of what the model says then, and are the system's."""
    said = Item(Kind.USER, 5, message=0)
    answer = [Item(Kind.SYSTEM, 5, message=1), Item(Kind.TEXT, 5, message=1)]
    assert find_place([said, *answer]) == 1


def test_an_index_stands_within_no_turn_that_the_provider_goes_on_with() -> None:
    said, paused = Item(Kind.USER, 5, message=0), Item(Kind.CALL, 5, "s", "web_search", "{}", 1)
    further = [Item(Kind.RESULT, 5, "s", message=2), Item(Kind.TEXT, 5, message=2)]
    assert find_place([said, paused, *further]) == 1
    assert find_place([said, paused, *further, Item(Kind.USER, 5, message=3), Item(Kind.TEXT, 5, message=4)]) == 5


def test_an_index_stands_ahead_of_a_turn_with_reasoning_that_the_provider_goes_on_with() -> None:
    """A pass may take the answer that waited, and with it the reasoning behind the index."""
    said, read = Item(Kind.USER, 5, message=0), Item(Kind.CALL, 5, "r", "read", "{}", 1)
    first = [Item(Kind.REASONING, 5, message=1), read, Item(Kind.RESULT, 5, "r", message=2)]
    paused = [Item(Kind.REASONING, 5, message=3), Item(Kind.CALL, 5, "s", "web_search", "{}", 3)]
    assert find_place([said, *first, *paused]) == 4
    assert find_place([said, *first, *paused, Item(Kind.RESULT, 5, "s", message=4), Item(Kind.TEXT, 5, message=4)]) == 0
