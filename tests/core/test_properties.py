"""Properties of the core for the rules R1 to R17, over random histories, each told without the oracle's pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lives import Life, assert_agree, live, revive, rules_of, summary, turns_of
from tests.oracle import (
    Ep,
    Meter,
    Reading,
    State,
    assistant_messages,
    eligible,
    exchange,
    exempt,
    fixed_tokens,
    guarded_episodes,
    is_needed,
    is_settled,
    latest_message,
    open_tasks,
    read,
)
from tests.strategies import FIELDS, RAW, VALUES, Scenario, histories, scenarios, times
from wane.core import ContextWindow, FitReport, Item, Kind, Level, Policy
from wane.core.errors import HistoryError, UnknownEpisodeError
from wane.core.items import ASSISTANT


def window_of(scenario: Scenario) -> ContextWindow:
    return scenario.window()


def state_of(window: ContextWindow, reports: Sequence[FitReport]) -> State:
    """What passes left behind, by their own reports."""
    steps = [step for report in reports for step in report.trace if step.level is not Level.OVERFLOW]
    # An overdue notice leaves at a level that its episode has passed (R15).
    levels = [(step.number, step.level.value) for step in sorted(steps, key=lambda step: step.level.rank)]
    dropped = frozenset(number for number, level in levels if level == "description")
    reached = dict(levels) | dict.fromkeys(dropped, "remove")
    gone = frozenset(range(window.item_count)) - set(window.visible)
    return State(gone, reached, dropped)


def described_episodes(reading: Reading, state: State) -> list[Ep]:
    """R11, R17: the removed explorations and tasks whose closing pair is kept."""
    kept = [ep for ep in reading.episodes if state.is_removed(ep) and ep.type != "act" and ep.closing]
    return [ep for ep in kept if ep.number not in state.dropped]


def closing_tokens(reading: Reading, episodes: Sequence[Ep]) -> int:
    """What the closing pairs of episodes hold."""
    return sum(reading.items[index].tokens for ep in episodes for index in ep.closing)


# R1, R13, R14: the view


@given(scenarios())
def test_view_is_a_subsequence_and_never_grows_back(scenario: Scenario) -> None:
    """The one idea, and R14: items are kept or left out; what left does not come back."""
    window, gone = window_of(scenario), set[int]()
    for report in live(window, scenario.items):
        view = window.visible
        assert all(first < second for first, second in pairwise(view))
        assert set(view) <= set(range(window.item_count))
        assert not gone & set(view)
        gone |= {index for step in report.steps for index in step.removed}
        assert set(view) | gone == set(range(window.item_count))


@given(scenarios())
def test_calls_keep_their_results(scenario: Scenario) -> None:
    """A visible answered call has its result, and a visible result its call, at any time."""
    window = window_of(scenario)
    for _ in live(window, scenario.items):
        seen = set(window.visible)
        partner = scenario.read(window.item_count).partner
        assert all((call in seen) == (result in seen) for call, result in partner.items())


@given(scenarios())
def test_what_is_never_evicted(scenario: Scenario) -> None:
    """R13, R15, R17: what the system and the user said, what is active, open tasks, the latest message with results."""
    window, policy = window_of(scenario), scenario.policy
    for _ in live(window, scenario.items):
        reading = scenario.read(window.item_count)
        keep = {index for index in range(len(reading.items)) if index not in reading.owner}
        assert keep >= {n for n, item in enumerate(reading.items) if item.kind in (Kind.SYSTEM, Kind.USER)}
        keep |= reading.fixed
        if reading.active and policy.overflow == "surface":
            keep |= set(reading.active.members)
        elif reading.active:
            accepted = {call for call, verdict in reading.verdicts.items() if verdict}
            accepted |= {reading.partner[call] for call in accepted if call in reading.partner}
            keep |= accepted.intersection(reading.active.members)
        for task in open_tasks(reading.episodes):
            keep |= set(task.members) - reading.stood
        if policy.prologue == "whole":
            for episode in reading.episodes:
                if episode.prologue:
                    keep |= set(episode.members)
        latest = range(latest_message(reading.items), len(reading.items))
        keep |= set(latest) | {reading.partner[index] for index in latest if index in reading.partner}
        assert keep <= set(window.visible)


@given(scenarios())
def test_what_stands_is_in_view_until_it_is_replaced(scenario: Scenario) -> None:
    """R15: the latest notice of each kind stays, with what was added to it."""
    window = window_of(scenario)
    for _ in live(window, scenario.items):
        latest: dict[str, list[int]] = {}
        opened = False
        for index, item in enumerate(scenario.items[: window.item_count]):
            opened |= item.kind in ASSISTANT
            for one in item.standing if opened else ():
                latest[one.kind] = [*latest.get(one.kind, ()), index] if one.adds else [index]
        assert {index for indexes in latest.values() for index in indexes} <= set(window.visible)


@given(scenarios())
def test_no_message_is_left_with_nothing_but_reasoning(scenario: Scenario) -> None:
    """R9: unless the reasoning is another episode's than those that lost something, or more than one episode's."""
    window = window_of(scenario)
    list(live(window, scenario.items))
    reading, seen = scenario.read(), set(window.visible)
    for message in assistant_messages(scenario.items):
        left, lost = seen & set(message), set(message) - seen
        if left and lost and all(scenario.items[index].kind is Kind.REASONING for index in left):
            owners = {reading.owner[index].number for index in message}
            needs = any(item.needs for item in scenario.items)
            assert len(owners) > 1 or needs


@given(scenarios(coupled=True))
def test_needed_items_stay(scenario: Scenario) -> None:
    """R12: no visible item lacks an item that it needs."""
    window = window_of(scenario)
    for _ in live(window, scenario.items):
        seen = set(window.visible)
        assert all(index + offset in seen for index in seen for offset in scenario.items[index].needs)


# R6, R7, R9, R10, R11: the pass


@given(scenarios())
def test_a_pass_stops_only_at_its_target_or_with_nothing_left(scenario: Scenario) -> None:
    """R7, R10: never over the target while something eligible is left, but for what the guard spares."""
    window, reports = window_of(scenario), list[FitReport]()
    rules = scenario.rules()
    for report in live(window, scenario.items):
        rules = replace(rules, budget=report.budget_used)
        before = scenario.read(window.item_count)
        taken = {index for step in report.steps for index in step.removed}
        earlier = state_of(window, reports)
        begun = replace(earlier, gone=earlier.gone - taken)
        spared = guarded_episodes(before, begun, rules, Meter(), fixed_tokens(before, begun, rules, Meter()))
        reports.append(report)
        assert report.ran == (report.tokens_before > report.budget_used)
        reading, state = scenario.read(window.item_count), state_of(window, reports)
        left = [episode.number for episode in reading.episodes if eligible(reading, state, rules, episode)]
        if report.ran and report.tokens_after > report.budget_used * scenario.policy.low_water:
            # What the guard spares goes last, down to the budget only; what becomes free by that is left too.
            late = spared & {step.number for step in report.steps}
            free = {episode.number for episode in before.episodes if eligible(before, begun, rules, episode)}
            assert spared.issuperset(set(left) & free if late else left)
            assert report.satisfied or not left
        # What overflow had to pass over, as an item of another episode needed it, may be free by the end of the pass.
        coupled = any(item.needs for item in scenario.items)
        if not report.satisfied and rules.overflow == "strip" and not coupled:
            for index in set(window.visible) & set(reading.owner) - reading.fixed:
                free = not is_settled(reading, reading.owner[index]) and not exempt(reading.owner[index], rules)
                assert not (free and any(exchange(reading, state, rules, index, clause) for clause in "bcd"))


@given(scenarios())
def test_a_pass_makes_progress_and_ends(scenario: Scenario) -> None:
    """R9: every step removes something, nothing goes twice, and a second pass at once changes nothing."""
    window, gone = window_of(scenario), set[int]()
    for report in live(window, scenario.items):
        for step in report.steps:
            assert step.removed
            assert not gone & set(step.removed)
            gone |= set(step.removed)
        before = window.visible
        # What overflow had to pass over, as an item of another episode needed it, may be free by the end of the pass.
        if report.satisfied or scenario.policy.overflow != "strip" or not any(item.needs for item in scenario.items):
            assert window.fit().steps == ()
            assert window.visible == before


@given(scenarios(), st.integers(0, 500))
def test_tokens_add_up(scenario: Scenario, overhead: int) -> None:
    """Steps chain from the total before to the total after, and each total is that of the visible items."""
    window = scenario.window(overhead=overhead)
    for report in live(window, scenario.items):
        chain = [report.tokens_before]
        for step in report.steps:
            assert step.tokens_before == chain[-1]
            chain.append(step.tokens_after)
            assert step.tokens_before - step.tokens_after == sum(scenario.items[i].tokens for i in step.removed)
        assert chain[-1] == report.tokens_after == window.tokens
        assert window.tokens == overhead + sum(scenario.items[index].tokens for index in window.visible)
        assert report.satisfied == (window.tokens <= report.budget_used)


@given(scenarios())
def test_levels_only_rise(scenario: Scenario) -> None:
    """R9: an episode continues from the level that it has reached."""
    order = ["none", "reasoning", "bulk", "artifact", "remove", "description"]
    window, reached = window_of(scenario), dict[int, int]()
    for report in live(window, scenario.items):
        stood = scenario.read(window.item_count).stood
        for step in report.steps:
            # What stood leaves as soon as it does not, even if its episode has lost its notices before (R15).
            if step.level is Level.OVERFLOW or stood.issuperset(step.removed):
                continue
            rank = order.index(step.level.value)
            assert rank > reached.get(step.number, 0)
            reached[step.number] = rank


@given(scenarios())
def test_descriptions_keep_to_their_share(scenario: Scenario) -> None:
    """R11: after a pass, closing pairs of removed explorations hold at most their share of the budget.

    More only where acts need them. A pair that was dropped, but that R12 holds back, is not counted.
    """
    window, reports = window_of(scenario), list[FitReport]()
    share = scenario.policy.description_share
    for report in live(window, scenario.items):
        reports.append(report)
        reading, state = scenario.read(window.item_count), state_of(window, reports)
        kept = described_episodes(reading, state)
        free = [episode for episode in kept if not is_needed(reading, state, episode)]
        if share is None:
            assert all(reading.episodes[number].task for number in state.dropped)  # R17 (b)
            continue
        assert closing_tokens(reading, kept) <= share * scenario.budget or not (report.steps and free)
        assert report.satisfied or not free


# R14: the same view by any way


@given(scenarios())
def test_item_by_item_is_all_at_once(scenario: Scenario) -> None:
    one, many, parts = window_of(scenario), window_of(scenario), window_of(scenario)
    singly = [one.add(item) for item in scenario.items]
    together = many.extend(scenario.items)
    for turn in turns_of(scenario.items):
        parts.extend(iter(turn))
    assert [(a.index, a.verdict) for a in singly] == [(a.index, a.verdict) for a in together]
    assert one.export() == many.export() == parts.export()
    assert one.fit() == many.fit() == parts.fit()
    assert one.export() == many.export() == parts.export()


@given(scenarios(), st.sets(st.integers(0, 40)))
def test_a_restart_changes_nothing(scenario: Scenario, restarts: set[int]) -> None:
    """R14: export and restore, at any points and through JSON, against an uninterrupted life."""
    steady, broken = window_of(scenario), window_of(scenario)
    for place, turn in enumerate(turns_of(scenario.items)):
        assert steady.fit() == broken.fit()
        for item in turn:
            assert steady.add(item).verdict == broken.add(item).verdict
            broken = revive(broken) if place in restarts else broken
    broken = revive(broken)
    assert summary(steady) == summary(broken)
    assert steady.fit() == broken.fit()
    assert summary(steady) == summary(broken)


@given(scenarios(), st.integers(0, 40), st.integers(1, 1_000), st.lists(st.none() | st.integers(0, 900), max_size=20))
def test_rebuilt_from_history_and_recorded_passes(
    scenario: Scenario, stop: int, budget: int, usage: list[int | None]
) -> None:
    """R14: history, recorded passes and usage give the window back, whatever its settings were while it was rebuilt."""
    steady, rebuilt = window_of(scenario), ContextWindow(budget, Policy.paper(), tasks=scenario.tasks)
    for place, turn in enumerate(turns_of(scenario.items)):
        report = steady.fit()
        if place == stop:
            rebuilt.budget, rebuilt.policy = scenario.budget, scenario.policy
            rebuilt.window = scenario.model_window
        if place < stop:
            rebuilt.apply(report.trace)
        else:
            assert rebuilt.fit() == report
        for window in (steady, rebuilt):
            window.extend(turn)
            if place < len(usage) and (tokens := usage[place]) is not None:
                window.observe(tokens)
    rebuilt.budget, rebuilt.policy = scenario.budget, scenario.policy
    rebuilt.window = scenario.model_window
    assert summary(steady) == summary(rebuilt)
    assert steady.fit() == rebuilt.fit()
    assert steady.export() == rebuilt.export()


# R3: bad input


def argument_texts() -> st.SearchStrategy[str | None]:
    """Arguments of a delimiter call, of every kind: objects of right and wrong fields, JSON, and anything."""
    value = st.one_of(st.sampled_from(VALUES), st.text(max_size=8), st.integers(), st.floats())
    objects = st.dictionaries(st.sampled_from(FIELDS), value).map(json.dumps)
    return st.one_of(objects, objects, st.sampled_from(RAW), st.text(max_size=30), st.none())


def fill_placeholders(lesson: str, items: Sequence[Item]) -> str:
    """A call that was shown, its placeholders in angle brackets filled in."""
    closed = [episode.name for episode in read(items, True).episodes if episode.closed and episode.type == "expl"]
    names = [name for name in closed if name is not None]
    values = {"<what you learned>": "seen", "<what came of it>": "done", "<an expl it will use>": (names or ["raw"])[0]}
    for placeholder, value in values.items():
        lesson = lesson.replace(json.dumps(placeholder), json.dumps(value))
    return lesson


@times(3)
@given(histories(max_moves=10, tasks=True), st.lists(argument_texts(), min_size=1, max_size=6), st.booleans())
def test_a_refusal_shows_the_call_that_would_be_right(items: list[Item], texts: list[str | None], tasks: bool) -> None:
    """R3, R17: no argument raises, and making the call that a refusal shows is accepted."""
    window = ContextWindow(tasks=tasks)
    window.extend(items)
    for number, text in enumerate(texts):
        call = Item(Kind.CALL, 1, call_id=f"x{number}", tool="delimiter", arguments=text, message=10_000 + number)
        verdict = window.add(call).verdict
        assert verdict is not None
        if not verdict.accepted:
            shown = fill_placeholders(verdict.text.rsplit("A right call: ", 1)[1], items)
            again = Item(Kind.CALL, 1, call_id="y", tool="delimiter", arguments=shown, message=20_000)
            corrected = revive(window).add(again).verdict
            assert corrected is not None
            assert corrected.accepted


@given(scenarios(max_moves=20), st.data())
def test_a_state_stays_as_it_is_whatever_happens_next(scenario: Scenario, data: st.DataObject) -> None:
    """Neither the window that it was taken of changes it, nor one that was restored from it."""
    window, items = window_of(scenario), scenario.items
    cut = data.draw(st.integers(0, len(items)))
    window.extend(items[:cut])
    state = window.export()
    saved = copy.deepcopy(state)
    for each in (ContextWindow.restore(state), window):
        each.extend(items[cut:])
        each.budget = 1
        each.fit()
        assert state == saved


@given(histories(max_moves=15), st.booleans())
def test_a_bad_item_is_refused_and_changes_nothing(items: list[Item], answered: bool) -> None:
    window = ContextWindow()
    window.extend(items)
    before = window.export()
    used = [item.call_id for item in items if item.kind is Kind.RESULT and item.call_id not in window.open_calls]
    bad = Item(Kind.RESULT, 1, call_id=used[-1] if used and answered else "never called")
    with pytest.raises(HistoryError, match="no open call"):
        window.add(bad)
    with pytest.raises(HistoryError, match="tokens"):
        window.add(Item(Kind.USER, -1))
    with pytest.raises(UnknownEpisodeError):
        window.members("no episode has this name")
    assert window.export() == before


# Memory and recall (the paper's section 5)


@given(scenarios())
def test_members_can_be_recalled_after_eviction(scenario: Scenario) -> None:
    window = window_of(scenario)
    list(live(window, scenario.items))
    for episode in scenario.read().episodes:
        if episode.name is not None:
            assert [i for span in window.members(episode.name) for i in span] == sorted(episode.members)


@given(scenarios())
def test_what_is_absent_of_an_exploration_is_what_left_the_view(scenario: Scenario) -> None:
    window = window_of(scenario)
    reports = list(live(window, scenario.items))
    state = state_of(window, reports)
    for episode in scenario.read().episodes:
        if episode.name is None or episode.type != "expl":
            continue
        absence = window.absence(episode.name)
        gone = [index for index in episode.members if index in state.gone]
        assert (absence == "all") == state.is_removed(episode)
        assert absence == "none" or gone
        if absence == "none":
            assert {scenario.items[index].kind for index in gone} <= {Kind.REASONING}


def long_session(count: int) -> list[Item]:
    """Explorations and acts that depend on them, `count` times, with unannotated work between."""
    items = [Item(Kind.SYSTEM, 5), Item(Kind.USER, 5)]

    def call(tool: str, arguments: str = "{}") -> None:
        items.extend(
            [
                Item(Kind.CALL, 10, call_id=f"c{len(items)}", tool=tool, arguments=arguments),
                Item(Kind.RESULT, 20, call_id=f"c{len(items)}"),
            ]
        )

    for number in range(count):
        look, act = f"look {number}", f"act {number}"
        call("delimiter", json.dumps({"action": "start", "name": look, "type": "expl"}))
        call("grep")
        call("delimiter", '{"action": "end", "description": "seen"}')
        call("bash")
        call("delimiter", json.dumps({"action": "start", "name": act, "type": "act", "dependencies": [look]}))
        call("edit")
        call("delimiter", '{"action": "end"}')
    return items


def test_the_graph_holds_what_is_live() -> None:
    """Wholly evicted episodes leave the graph: what is live does not grow with the session."""
    window = ContextWindow(500, Policy(low_water=0.5, description_share=0.2))
    largest = 0
    for _ in live(window, long_session(400)):
        largest = max(largest, len(window.episodes), len(window.visible) // 10)
    assert window.item_count > 5_000
    assert largest < 12
    exported = window.export()
    assert len(exported["graph"]["live"]) < 12


def test_everything_can_go() -> None:
    """With nothing left to protect, only turns and the latest message stay, and no episode but the open one is live."""
    items = long_session(50)
    window = ContextWindow(1, Policy(low_water=1.0, description_share=0.0))
    window.extend([*items, Item(Kind.TEXT, 1, message=1), Item(Kind.USER, 1), Item(Kind.TEXT, 1, message=2)])
    assert not window.fit().satisfied
    assert window.visible == [0, 1, len(items) + 1, len(items) + 2]
    assert [episode.implicit for episode in window.episodes] == [True]


@times(0.5)
@given(histories(max_moves=25))
def test_the_oracle_agrees_after_a_life_under_default_policy(items: list[Item]) -> None:
    """`Policy()` as it is shipped, not only what the strategies vary."""
    budget = max(1, sum(item.tokens for item in items) // 3)
    window, life = ContextWindow(budget), Life(rules_of(Policy(), budget))
    for turn in turns_of(items):
        window.fit()
        life.fit()
        window.extend(turn)
        life.items += turn
    assert_agree(window, life)
