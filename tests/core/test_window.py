"""The window's face: errors, accounting, recall, early passes. The rules have their own properties."""

import dataclasses
import json

import pytest

from wane import (
    ConfigError,
    ContextWindow,
    HistoryError,
    Item,
    Kind,
    Level,
    Policy,
    ToolClass,
    UnknownEpisodeError,
    parse_budget,
)
from wane.core import exact_budget

LOOK = [("grep", 1_000), ("read", 1_000)]
FIX = [("edit", 10), ("bash", 1_000)]


def call(call_id: str, tool: str, tokens: int = 10, **arguments: object) -> list[Item]:
    return [
        Item(Kind.CALL, 5, call_id, tool, json.dumps(arguments)),
        Item(Kind.RESULT, tokens, call_id),
    ]


def episode(name: str, work: list[tuple[str, int]], dependencies: list[str] | None = None) -> list[Item]:
    extra = {"type": "expl"} if dependencies is None else {"type": "act", "dependencies": dependencies}
    items = call(f"{name}-start", "delimiter", action="start", name=name, **extra)
    for number, (tool, tokens) in enumerate(work):
        items += call(f"{name}-{number}", tool, tokens)
    end = {"description": "seen"} if dependencies is None else {}
    return items + call(f"{name}-end", "delimiter", action="end", **end)


def make_window(budget: int = 100_000, policy: Policy | None = None) -> ContextWindow:
    window = ContextWindow(budget, policy or Policy.paper())
    window.extend([Item(Kind.SYSTEM, 7), Item(Kind.USER, 3)])
    window.extend(episode("look", LOOK))
    window.extend(episode("fix", FIX, ["look"]))
    window.add(Item(Kind.TEXT, 4))
    return window


HUGE = pytest.param(10**5000, id="huge")
NEGATIVE = pytest.param(-(10**5000), id="negative")


def test_a_budget_may_be_written() -> None:
    window = ContextWindow("80k")
    assert window.budget == 80_000
    window.budget = "1.5m"
    assert window.budget == 1_500_000
    assert ContextWindow(7).budget == parse_budget(7, exact=True) == 7


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, "80", "much", "50%", None, 10**30, HUGE, NEGATIVE])
def test_a_budget_that_cannot_work_is_refused(budget: object) -> None:
    with pytest.raises(ConfigError, match="budget"):
        ContextWindow(budget)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("80k", 80_000),
        ("80000", 80_000),
        (" 1.5M ", 1_500_000),
        ("50%", 100_000),
        ("0.1%", 200),
        (1_000, 1_000),
        ("0.08k", 80),
        (exact_budget(7), 7),
        ("1000", 1_000),
    ],
)
def test_budgets_as_people_write_them(text: str, tokens: int) -> None:
    assert parse_budget(text, window=200_000) == tokens


@pytest.mark.parametrize(
    "text", ["", "k", "-5", "0", "0%", "101%", "80kb", "1e5", "nan", 0, 80, True, "9" * 5000, "9" * 30 + "k"]
)
def test_budgets_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_budget(text, window=200_000)


@pytest.mark.parametrize(
    ("text", "meant", "few"), [("80", "80k", "0.08k"), (" 1.5 ", "1.5k", "0.002k"), ("999", "999k", "0.999k")]
)
def test_a_number_that_lost_its_unit_is_asked_about(text: str, meant: str, few: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}\\? For that few tokens write {few}$"):
        parse_budget(text, window=200_000)


def test_a_percentage_needs_a_window() -> None:
    with pytest.raises(ConfigError, match="80k"):
        parse_budget("50%")


@pytest.mark.parametrize(
    "change",
    [
        {"order": "random"},
        {"low_water": 0},
        {"low_water": 1.1},
        {"low_water": float("nan")},
        {"low_water": "half"},
        pytest.param({"low_water": 10**5000}, id="huge"),
        {"description_share": -0.1},
        {"description_share": 2},
        {"guard": -0.1},
        {"guard": 1.1},
        {"guard": "all"},
        {"prologue": "none"},
        {"overflow": None},
        {"evict_when_cold": "no"},
    ],
)
def test_policies_that_are_refused(change: dict) -> None:
    with pytest.raises(ConfigError):
        dataclasses.replace(Policy(), **change)


@pytest.mark.parametrize("tokens", [-1, float("inf"), float("nan")])
def test_tokens_that_are_none_are_refused(tokens: float) -> None:
    with pytest.raises(ConfigError, match="it must be at least 0"):
        ContextWindow(overhead=tokens)  # type: ignore[arg-type]
    window = ContextWindow()
    with pytest.raises(HistoryError, match="a count is a number of at least 0"):
        window.add(Item(Kind.USER, tokens))  # type: ignore[arg-type]
    assert window.item_count == 0


def test_the_name_of_a_policy_is_no_policy() -> None:
    with pytest.raises(ConfigError, match=r"'paper'; it must be a Policy, such as .*Policy\.paper"):
        ContextWindow(policy="paper")  # type: ignore[arg-type]


def test_an_unknown_tool_class_is_refused_and_a_known_one_is_used() -> None:
    with pytest.raises(ConfigError, match="bulk, artifact, durable"):
        ContextWindow(tool_classes={"x": "huge"})
    window = ContextWindow(1_200, Policy.paper(), tool_classes={"READ": "bulk", "grep": "durable"})
    window.extend([*episode("look", LOOK), Item(Kind.TEXT, 1)])
    report = window.fit()
    assert [(step.level.value, step.tokens_before - step.tokens_after) for step in report.steps] == [("bulk", 1_005)]


@pytest.mark.parametrize(
    "item",
    [
        Item(Kind.RESULT, 1, "nobody"),
        Item(Kind.RESULT, 1, "look-0"),
        Item(Kind.RESULT, 1),
        Item(Kind.CALL, 1, None, "read"),
        Item(Kind.CALL, 1, "c"),
        Item(Kind.TEXT, -1),
        Item(Kind.TEXT, float("nan")),  # type: ignore[arg-type]
        Item("user", 1),  # type: ignore[arg-type]
        Item("note", 1),  # type: ignore[arg-type]
        Item(Kind.CALL, 1, "c", "delimiter", {"action": "end"}),  # type: ignore[arg-type]
        Item(Kind.CALL, 1, "c", "read", needs=(0,)),
        Item(Kind.CALL, 1, "c", "read", needs=(-1_000,)),
    ],
)
def test_an_item_that_cannot_be_is_refused_and_leaves_the_window_as_it_was(item: Item) -> None:
    window = make_window()
    before = window.export()
    with pytest.raises(HistoryError):
        window.add(item)
    assert window.export() == before


def test_a_budget_smaller_than_the_prologue_is_reported_not_raised() -> None:
    window = ContextWindow(5, Policy.paper())
    window.extend([Item(Kind.SYSTEM, 100), Item(Kind.USER, 50), Item(Kind.NOTICE, 40), Item(Kind.TEXT, 25)])
    report = window.fit()
    assert report.ran
    assert not report.satisfied
    assert report.excess == 210
    assert report.pinned is not None
    assert report.pinned.holders() == [
        ("system prompt and tools", 100),
        ("user turns", 50),
        ("opening and standing notices", 40),
        ("prologue", 25),
    ]
    assert "210 over the budget of 5" in report.explain()


def test_what_holds_the_tokens_adds_up_and_names_the_active_episode() -> None:
    window = make_window(budget=50)
    window.extend(episode("fix2", FIX, ["look"])[:-2])
    window.overhead = 11
    report = window.fit()
    assert not report.satisfied
    assert report.pinned is not None
    assert report.pinned.total == report.tokens_after
    assert report.pinned.active_name == "fix2"
    assert report.pinned.needed == 2_040
    assert "active episode 'fix2'" in report.explain()
    assert "system prompt and tools 18" in report.explain()


def test_the_provider_s_count_anchors_the_total() -> None:
    window = make_window()
    window.fit()
    sent = window.tokens
    window.add(Item(Kind.TEXT, 100))
    window.observe(input_tokens=2 * sent)
    assert window.tokens == 2 * sent + 200
    window.observe(input_tokens=10 * sent)
    assert window.tokens == 10 * sent + 400  # a ratio above 4 is not believed of what is added
    window.observe(input_tokens=10)
    assert window.tokens == 60


@pytest.mark.parametrize("tokens", [0, -1, -1_000_000])
def test_a_report_of_nothing_is_no_report(tokens: int) -> None:
    window = make_window()
    window.fit()
    window.observe(5_000)
    before = window.export()
    window.observe(tokens)
    assert window.export() == before


def test_the_budget_holds_with_a_tokenizer_that_counts_three_times_the_estimate() -> None:
    window, held, tokens = ContextWindow(10_000), [], [100]
    window.add(Item(Kind.USER, 100))
    for number in range(40):
        window.fit()
        held.append(3 * sum(tokens[index] for index in window.visible))
        window.observe(held[-1])
        exchange = call(f"c{number}", "read", 400)
        window.extend(exchange)
        tokens += [item.tokens for item in exchange]
    assert max(held) <= 10_000


def test_a_cold_cache_lets_a_pass_run_early_only_if_the_policy_says_so() -> None:
    policy = Policy("paper", low_water=0.5, description_share=None, evict_when_cold=False)
    assert not make_window(3_500, policy).fit(cold=True).ran
    eager = dataclasses.replace(policy, evict_when_cold=True)
    assert not make_window(3_500, eager).fit().ran
    report = make_window(3_500, eager).fit(cold=True)
    assert report.ran
    assert report.tokens_after <= 1_750
    assert not make_window(100_000, eager).fit(cold=True).ran


def test_recall_names_the_items_of_an_episode_evicted_or_not() -> None:
    window = make_window()
    before = {name: window.members(name) for name in ("look", "fix")}
    window.budget = 40
    window.fit()
    assert [e for e in window.episodes if e.name] == []
    assert {name: window.members(name) for name in before} == before
    assert before["look"] == (range(2, 10),)
    with pytest.raises(UnknownEpisodeError, match="look, fix"):
        window.members("nope")


START_MORE = json.dumps({"action": "start", "name": "fix-more", "type": "act", "dependencies": ["look"]})


def test_an_act_that_names_what_has_left_the_view_is_told_so() -> None:
    window = make_window(2_100)
    assert window.absence("look") == "none"
    assert window.foresee([START_MORE])[0].absent == {}
    window.budget = 1
    window.fit()
    assert window.absence("look") == "all"
    foreseen = window.foresee([START_MORE])
    (told, _) = window.extend(call("again", "delimiter", **json.loads(START_MORE)))
    assert [told.verdict] == foreseen
    assert foreseen[0].absent == {"look": "all"}
    restored = ContextWindow.restore(window.export())
    assert restored.absence("look") == "all"


def test_what_is_left_of_an_exploration_that_was_stripped_in_part_is_told_apart() -> None:
    window = ContextWindow(2_900, Policy.paper())
    window.add(Item(Kind.USER, 3))
    start, read = episode("look", LOOK)[:2], episode("look", LOOK)[2:]
    window.extend([*start, Item(Kind.REASONING, 1_000), *read])
    window.add(Item(Kind.TEXT, 4))
    (reasoning,) = window.fit().steps
    assert reasoning.level is Level.REASONING
    assert window.absence("look") == "none"
    window.budget = 1_900
    assert [step.level for step in window.fit().steps] == [Level.BULK]
    assert window.absence("look") == "some"


def test_what_overflow_took_of_an_exploration_before_it_ended_is_missing_too() -> None:
    window = ContextWindow(1_500, Policy())
    window.add(Item(Kind.USER, 3))
    *work, end, ended = episode("look", [("read", 1_000), ("read", 1_000)])
    window.extend(work)
    window.add(Item(Kind.TEXT, 4))
    assert window.fit().overflowed
    window.extend([end, ended])
    window.add(Item(Kind.TEXT, 4))
    assert window.absence("look") == "some"


def test_late_results_and_user_turns_split_an_episode_s_place() -> None:
    window = ContextWindow()
    items = episode("look", LOOK)
    late = items.pop(3)
    window.extend([*items[:5], Item(Kind.USER, 1), *items[5:], late])
    assert window.members("look") == (range(5), range(6, 9))


def test_two_exploring_calls_of_one_id_are_answered_in_order() -> None:
    window = ContextWindow()
    first, answer = call("same", "read")
    window.extend([first, first, answer, answer])
    with pytest.raises(HistoryError):
        window.add(answer)


def test_a_state_of_another_version_or_damaged_is_refused() -> None:
    state = make_window().export()
    with pytest.raises(ConfigError, match="version 99"):
        ContextWindow.restore({**state, "version": 99})
    with pytest.raises(ConfigError, match="damaged"):
        ContextWindow.restore({key: value for key, value in state.items() if key != "graph"})


def exchange(number: int, tokens: int = 500) -> list[Item]:
    return [Item(Kind.TEXT, 1), *call(f"c{number}", "read", tokens)]


@pytest.mark.parametrize("begun", [False, True])
def test_the_budget_holds_with_an_agent_that_never_ends_an_episode_or_never_marks_one(begun: bool) -> None:
    window = ContextWindow(20_000)
    window.extend([Item(Kind.SYSTEM, 100), Item(Kind.USER, 50)])
    if begun:
        window.extend(call("s", "delimiter", action="start", name="all", type="act", dependencies=[]))
    overflowed = 0
    for number in range(400):
        report = window.fit()
        assert report.satisfied
        overflowed += report.overflowed
        assert report.overflowed == any(step.level is Level.OVERFLOW for step in report.steps)
        window.extend(exchange(number))
    assert (overflowed > 0) == begun
    assert 0 in window.visible
    assert 1 in window.visible


def test_a_class_that_the_call_tells_counts_unless_the_user_set_one() -> None:
    items = episode("look", [("bash", 1_000)])
    place = next(index for index, item in enumerate(items) if item.tool == "bash")
    items[place] = dataclasses.replace(items[place], tool_class=ToolClass.BULK)
    for classes, level in (({}, Level.BULK), ({"bash": "artifact"}, Level.ARTIFACT)):
        window = ContextWindow(100, dataclasses.replace(Policy.paper(), low_water=1.0), tool_classes=classes)
        window.extend([*items, Item(Kind.TEXT, 1)])
        assert [step.level for step in window.fit().steps] == [level]


def test_after_a_restart_reasoning_still_leaves_with_the_rest_of_its_message() -> None:
    window = ContextWindow(policy=Policy.paper())
    window.extend(call("fix-start", "delimiter", action="start", name="fix", type="act", dependencies=[]))
    window.extend([Item(Kind.REASONING, 50), *call("seek", "grep", 500)])
    window.extend(call("fix-end", "delimiter", action="end"))
    window.add(Item(Kind.TEXT, 1))
    window.budget = window.tokens - 500
    revived = ContextWindow.restore(json.loads(json.dumps(window.export())))
    trace = window.fit().trace
    assert len(trace[-1].removed) == 3
    assert revived.fit().trace == trace


def test_an_episode_that_lost_only_reasoning_is_not_said_to_be_absent() -> None:
    window = ContextWindow(30, Policy(low_water=1.0, index_share=0.0, min_room=0.0))
    window.extend(call("start", "delimiter", tokens=1, action="start", name="look", type="expl"))
    window.extend([Item(Kind.REASONING, 20), *call("see", "read", 1), Item(Kind.TEXT, 1)])
    assert [step.level for step in window.fit().steps] == [Level.OVERFLOW]
    assert not window.shows(2)
    assert window.absence("look") == "none"


def test_an_exploration_whose_end_a_person_answered_has_no_description_to_drop() -> None:
    window = ContextWindow(1, Policy.paper())
    window.extend(episode("look", [])[:-1])
    window.add(Item(Kind.RESULT, 10, "look-end", person=True))
    window.add(Item(Kind.TEXT, 1))
    assert [step.level for step in window.fit().trace if step.removed] == [Level.REMOVE]
    assert window.described == []
