"""From a history to a window: in one go or as it grows, joined or not, reloaded, continued or replaced."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.usage import RequestUsage

from tests.integrations.support import FORMAT, Log, histories, live, responses, shapes_of, standing
from tests.strategies import policies, times
from wane import ConfigError, HistoryError, Policy, UnknownEpisodeError, Verdict
from wane.integrations.events import (
    BudgetUnmet,
    EpisodeClosed,
    EpisodeOpened,
    HistoryReplaced,
    MessageTaken,
    OverheadChanged,
    PassRan,
    Reminded,
    UsageObserved,
)
from wane.integrations.tracker import Tracker

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def user(text: str = "Go.", **fields: Any) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)], **fields)


def result(call_id: str, text: str = "ok") -> ToolReturnPart:
    return ToolReturnPart("tool", text, call_id)


def mark(call_id: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart("delimiter", arguments, call_id)


def reply(*parts: Any, tokens: int = 0, **fields: Any) -> ModelResponse:
    return ModelResponse(
        list(parts), usage=RequestUsage(input_tokens=tokens), model_name="m", provider_name="p", **fields
    )


def explored(name: str, size: int = 400, start: int = 0) -> list[ModelMessage]:
    """An exploration of three messages and their results; `start` keeps call ids apart."""
    a, b, c = (f"c{start}{letter}" for letter in "abc")
    return [
        reply(mark(a, action="start", name=name, type="expl"), ToolCallPart("grep", {"p": name}, b)),
        ModelRequest([result(a), result(b, "x" * size)]),
        reply(mark(c, action="end", description=f"{name} is known")),
        ModelRequest([result(c)]),
    ]


LONG: list[ModelMessage] = [
    user(),
    *(message for number in range(6) for message in explored(f"e{number}", start=number)),
    reply(TextPart("Done.")),
]


# The same history, however it comes


@times(1.5)
@given(history=histories(), budget=st.integers(1, 400), policy=policies())
def test_a_history_taken_in_at_once_gives_the_view_of_the_run_that_made_it(
    history: list[ModelMessage], budget: int, policy: Policy
) -> None:
    lived, replayed = Tracker(budget, policy), Tracker(budget, policy)
    live(lived, history)
    replayed.sync(history)
    replayed.prepare()
    assert standing(replayed) == standing(lived)
    assert replayed.window.item_count == sum(len(FORMAT.parts(message)) for message in history)


@given(history=histories(joined=False), budget=st.integers(1, 400), data=st.data())
def test_joined_cleaned_and_reloaded_histories_are_continuations(
    history: list[ModelMessage], budget: int, data: st.DataObject
) -> None:
    """Between two runs Pydantic AI joins requests, moves results up and may have read everything from JSON."""
    log = Log()
    tracker, plain = Tracker(budget, listener=log), Tracker(budget)
    stops = [number for number, message in enumerate(history, start=1) if isinstance(message, ModelResponse)]
    first = history[: data.draw(st.sampled_from([0, *stops]))]
    live(tracker, first, asked=False)
    again = FORMAT.load(json.loads(json.dumps(FORMAT.dump(repair_messages(history, repair_last_response=False)))))
    live(tracker, again, known=responses(first))
    live(plain, history)
    assert standing(tracker) == standing(plain)
    assert not log.of(HistoryReplaced)


@times(0.7)
@given(history=histories(), budget=st.integers(1, 400))
def test_syncing_again_changes_nothing(history: list[ModelMessage], budget: int) -> None:
    log = Log()
    tracker = Tracker(budget, listener=log)
    live(tracker, history)
    before, told = standing(tracker), len(log)
    for again in (history, list(history), copy.deepcopy(history), FORMAT.load(FORMAT.dump(history))):
        tracker.sync(again)
        tracker.prepare()
    assert standing(tracker) == before
    assert len(log) == told


def told_later(verdict: Verdict | None) -> Verdict | None:
    return verdict and replace(verdict, text="", left=())


@times(0.7)
@given(history=histories(), budget=st.integers(1, 400), data=st.data())
def test_a_restored_window_goes_on_as_if_nothing_had_happened(
    history: list[ModelMessage], budget: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    lived, stopped = Tracker(budget), Tracker(budget)
    live(lived, history[:cut])
    live(stopped, history[:cut])
    state = json.loads(json.dumps(stopped.window.export()))
    resumed = Tracker(budget)
    resumed.restore(type(stopped.window).restore(state), stopped.transcript.messages, stopped.episodes)
    log = Log()
    for tracker in (lived, resumed):
        tracker.listeners.append(log)
        live(tracker, history, known=responses(history[:cut]))
    assert not log.of(HistoryReplaced)
    assert shapes_of(resumed.view()) == shapes_of(lived.view())
    assert resumed.window.export() == lived.window.export()
    # All but what had left the view by then, which is told once, as the call is judged.
    assert all(
        told_later(resumed.verdict(part.call_id or "")) == told_later(lived.verdict(part.call_id or ""))
        for message in history
        for part in FORMAT.parts(message)
        if part.tool == "delimiter"
    )


@times(0.7)
@given(history=histories(), budget=st.integers(10, 400), share=st.sampled_from((0.05, 0.2)), data=st.data())
def test_a_restored_agent_is_reminded_as_if_nothing_had_happened(
    history: list[ModelMessage], budget: int, share: float, data: st.DataObject
) -> None:
    lived, stopped = Tracker(budget, remind_at=share), Tracker(budget, remind_at=share)
    overflows: list[int] = []

    def note(event: object) -> None:
        if isinstance(event, PassRan) and event.report.overflowed:
            overflows.append(stopped.window.item_count)

    stopped.listeners.append(note)
    cut = data.draw(st.integers(0, len(history)))
    for tracker in (lived, stopped):
        live(tracker, history[:cut])
    resumed = Tracker(budget, remind_at=share)
    resumed.restore(stopped.window, stopped.transcript.messages, stopped.episodes, overflows=overflows)
    assert reminders(resumed, history, history[:cut]) == reminders(lived, history, history[:cut])


def reminders(tracker: Tracker, history: list[ModelMessage], known: list[ModelMessage]) -> list[str | None]:
    """What each request that is yet to come carries at its tail, and the one that comes after all."""
    said = []
    for stop in range(len(known), len(history) + 1):
        if stop == len(history) or isinstance(history[stop], ModelResponse):
            tracker.sync(history[:stop])
            tracker.prepare()
            said.append(tracker.reminder)
    return said


def test_requests_of_other_budgets_and_those_not_managed_reminded_by_their_own() -> None:
    history: list[ModelMessage] = [user()]
    for number in range(10):
        history += [reply(ToolCallPart("grep", {}, f"c{number}")), ModelRequest([result(f"c{number}", "x" * 400)])]
    lived = Tracker(100_000)
    live(lived, history[:5])  # so far nothing fills a share
    lived.manage, lived.window.budget = False, 1_000
    live(lived, history[:15], known=2)
    items = lived.window.item_count
    lived.manage = True
    live(lived, history, known=7)
    assert lived.reminder is not None
    for budgets, told in (({0: 100_000, 7: None, items + 2: 1_000}, True), ({0: 1_000}, False)):
        resumed = Tracker(1_000)
        resumed.restore(lived.window, history, lived.episodes, budgets=budgets)
        resumed.prepare()
        assert (resumed.reminder == lived.reminder) == told


def test_a_window_is_restored_only_with_its_own_messages() -> None:
    tracker = Tracker(100)
    live(tracker, LONG)
    with pytest.raises(HistoryError, match=r"window holds 38 items and the messages 1;"):
        Tracker(100).restore(tracker.window, LONG[:1])


# What is new


def grown(known: list[ModelMessage], history: list[ModelMessage]) -> tuple[Tracker, Log]:
    log = Log()
    tracker = Tracker(100_000, listener=log)
    tracker.sync(known)
    log.clear()
    tracker.sync(history)
    return tracker, log


def taken(log: Log) -> list[str]:
    return [part.text for event in log.of(MessageTaken) for part in FORMAT.parts(event.message)]


def test_a_request_that_was_never_answered_may_be_joined_with_the_next() -> None:
    tracker, log = grown([user("One.")], [ModelRequest([UserPromptPart("One."), UserPromptPart("Two.")]), reply()])
    assert taken(log) == ["Two."]
    assert [shape[1] for shape in shapes_of(tracker.view())] == ["One.", "Two."]
    assert not log.of(HistoryReplaced)


def test_parts_that_a_request_gains_in_place_are_taken_in() -> None:
    request = user("One.")
    tracker = Tracker(100_000)
    tracker.sync([request])
    request.parts = [*request.parts, SystemPromptPart("Now also this.")]
    tracker.sync([request])
    tracker.sync([request])
    assert tracker.window.item_count == 2


def test_calls_that_were_interrupted_get_their_results() -> None:
    history = [user(), reply(ToolCallPart("grep", {}, "c1"), ToolCallPart("grep", {}, "c2"))]
    stopped = [*history, ModelRequest([result("c1")], state="interrupted")]
    tracker, log = grown(stopped, [*repair_messages(stopped), reply(TextPart("On."))])
    assert not log.of(HistoryReplaced)
    assert taken(log)[1:] == ["On."]
    assert [shape[2] for shape in shapes_of(tracker.view()) if shape[0] == "result"] == ["c1", "c2"]


def test_a_renewed_system_prompt_is_shown_and_is_no_other_history() -> None:
    def history(prompt: str) -> list[ModelMessage]:
        return [ModelRequest([SystemPromptPart(prompt, dynamic_ref="f"), UserPromptPart("Go.")]), reply(TextPart("x"))]

    tracker, log = grown(history("It is one."), [*history("It is two."), user()])
    assert not log.of(HistoryReplaced)
    assert tracker.view()[0].parts[0] == SystemPromptPart("It is two.", dynamic_ref="f", timestamp=log_time(tracker))


def log_time(tracker: Tracker) -> datetime:
    part = tracker.view()[0].parts[0]
    assert isinstance(part, SystemPromptPart)
    return part.timestamp


@pytest.mark.parametrize(
    "history",
    [
        LONG[:-2],
        [],
        [user("Something else."), *LONG[1:]],
        [*LONG[:1], *LONG[3:]],
        [*LONG[:-1], reply(TextPart("Undone."))],
        [ModelRequest([SystemPromptPart("New."), *LONG[0].parts]), *LONG[1:]],
    ],
    ids=["cut", "empty", "other start", "gap", "other end", "new system prompt"],
)
def test_what_is_no_continuation_is_taken_in_from_its_beginning(history: list[ModelMessage]) -> None:
    tracker, log = grown(LONG, history)
    assert len(log.of(HistoryReplaced)) == 1
    fresh = Tracker(100_000)
    fresh.sync(history)
    assert standing(tracker) == standing(fresh)
    assert not log.of(HistoryReplaced) or log[0] == HistoryReplaced()


def test_settings_survive_a_replaced_history() -> None:
    tracker = Tracker(100, Policy.paper(), tool_classes={"read": "bulk"})
    tracker.set_tool_classes({"look": "bulk"})
    tracker.window.budget = 70
    tracker.sync(LONG)
    tracker.sync([user("Else.")])
    state = tracker.window.export()
    assert (state["budget"], state["tool_classes"]) == (70, {"look": "bulk"})
    assert tracker.window.policy == Policy.paper()


def test_results_without_a_call_are_left_out_as_pydantic_ai_does() -> None:
    tracker = Tracker(100_000)
    history = [user(), reply(TextPart("x")), ModelRequest([result("nobody"), UserPromptPart("Go.")])]
    tracker.sync(history)
    tracker.sync([*history, reply(TextPart("y"))])
    assert [shape[1] for shape in shapes_of(tracker.view())] == ["Go.", "x", "Go.", "y"]


# Events


def test_events_come_in_the_order_of_what_happens() -> None:
    log = Log()
    tracker = Tracker(300, Policy.paper(), listener=log, remind_at=None)
    live(tracker, [user(instructions="Be brief."), *LONG[1:5]])
    names = [type(event).__name__ for event in log]
    assert names == [
        "MessageTaken",
        "OverheadChanged",
        "MessageTaken",
        "EpisodeOpened",
        "MessageTaken",
        "MessageTaken",
        "EpisodeClosed",
        "MessageTaken",
    ]
    taken = log.of(MessageTaken)
    assert [event.first_item for event in taken] == [0, 1, 3, 5, 6]
    assert [len(event.items) for event in taken] == [1, 2, 2, 1, 1]
    assert [added.index for event in taken for added in event.added] == list(range(7))
    assert log.of(OverheadChanged) == [OverheadChanged(3)]
    assert (log.of(EpisodeOpened)[0].index, log.of(EpisodeClosed)[0].index) == (1, 5)


def test_usage_comes_ahead_of_the_response_that_reports_it_and_anchors_the_total() -> None:
    log = Log()
    tracker = Tracker(100_000, listener=log)
    live(tracker, [user("x" * 1_600), reply(TextPart("y" * 40), tokens=500)])
    usage = log.of(UsageObserved)[0]
    assert log.index(usage) == log.index(log.of(MessageTaken)[1]) - 1
    assert (usage.input_tokens, usage.model) == (500, "p:m")
    assert tracker.window.tokens == 500 + 12  # 10 more, each as many tokens as the report tells of the first 400


def test_what_the_context_held_is_read_where_usage_sums_several_requests() -> None:
    log = Log()
    tracker = Tracker(100_000, listener=log)
    summed = reply(TextPart("y"), tokens=900, metadata={"__pydantic_ai__": {"context_input_tokens": 300}})
    live(tracker, [user(), summed, user(), reply(TextPart("z"), tokens=0)])
    assert [event.input_tokens for event in log.of(UsageObserved)] == [300]


def test_passes_and_unmet_budgets_are_told() -> None:
    log = Log()
    tracker = Tracker(150, Policy.paper(), listener=log)
    live(tracker, LONG)
    assert any(event.report.steps for event in log.of(PassRan))
    assert log.of(BudgetUnmet)
    assert all(not event.report.satisfied for event in log.of(BudgetUnmet))


def test_with_management_off_everything_is_taken_in_and_nothing_evicted() -> None:
    log = Log()
    tracker = Tracker(10, listener=log, manage=False, remind_at=0.01)
    live(tracker, LONG)
    assert shapes_of(tracker.view()) == shapes_of(LONG)
    assert not log.of(PassRan)
    assert not log.of(BudgetUnmet)
    assert not log.of(Reminded)
    assert tracker.reminder is None
    assert [episode.name for episode in tracker.episodes if episode.name] == [f"e{n}" for n in range(6)]
    tracker.manage = True
    live(tracker, [*LONG, user()], known=responses(LONG))
    assert len(tracker.view()) < len(LONG)


def test_a_pass_may_run_early_when_the_cache_has_expired() -> None:
    def history(pause: timedelta) -> list[ModelMessage]:
        answered = [replace(message, timestamp=NOON) for message in LONG]
        return [*answered, user(timestamp=NOON + pause)]

    policy = Policy(low_water=0.5, evict_when_cold=True)
    for pause, passes in ((timedelta(seconds=299), 0), (timedelta(seconds=301), 1)):
        log = Log()
        tracker = Tracker(1_000, policy, listener=log)
        live(tracker, history(pause))
        assert len(log.of(PassRan)) == passes
        replayed = Tracker(1_000, policy)
        replayed.sync(history(pause))
        replayed.prepare()
        assert standing(replayed) == standing(tracker)


@pytest.mark.parametrize(
    "failing", [MessageTaken, UsageObserved, EpisodeOpened, EpisodeClosed, PassRan, OverheadChanged]
)
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_a_listener_that_fails_is_told_again_and_nothing_is_lost(failing: type, split: bool) -> None:
    heard, plain = Log(), Log()
    failed: list[object] = []

    def listener(event: Any) -> None:
        if isinstance(event, failing) and len(failed) < 2 and event not in failed:
            failed.append(event)
            raise OSError("disk full")
        heard(event)

    known = [user(instructions="Be brief.")]
    history: list[ModelMessage] = [*known, reply(TextPart("x"), tokens=60), *LONG]
    if split:
        history[0] = ModelRequest([*known[0].parts, *user("Also.").parts], instructions="Be brief.")
    tracker, whole = Tracker(750, Policy.paper()), Tracker(750, Policy.paper(), listener=plain)
    tracker.listeners.append(listener)
    for step in (known, history):
        for _ in range(3):
            with contextlib.suppress(OSError):
                tracker.sync(step)
        whole.sync(step)
    assert failed
    assert standing(tracker) == standing(whole)
    assert [type(event) for event in heard] == [type(event) for event in plain]
    assert [event for event in heard if not isinstance(event, (EpisodeOpened, EpisodeClosed, MessageTaken))] == [
        event for event in plain if not isinstance(event, (EpisodeOpened, EpisodeClosed, MessageTaken))
    ]


# Verdicts


def test_every_delimiter_call_of_a_message_is_judged_by_its_position() -> None:
    tracker = Tracker(100_000)
    tracker.sync(
        [
            user(),
            reply(
                mark("a", action="start", name="x", type="expl"),
                mark("b", action="start", name="y", type="expl"),
                mark("c", action="end", description="known"),
                mark("d", action="start", name="y", type="act", dependencies=["x"]),
                ToolCallPart("delimiter", '{"action": ', "e"),
            ),
        ]
    )
    verdicts = {call: tracker.verdict(call) for call in "abcdef"}
    assert [call for call, verdict in verdicts.items() if verdict and verdict.accepted] == ["a", "c", "d"]
    assert verdicts["f"] is None


def test_calls_judged_ahead_come_out_as_they_will() -> None:
    tracker = Tracker(100_000)
    tracker.sync([user()])
    calls = [
        mark("a", action="start", name="x", type="expl"),
        mark("b", action="start", name="x", type="expl"),
        mark("c", action="end", description="known"),
    ]
    for call in (*calls, *calls):
        tracker.judge_ahead(call.tool_call_id, json.dumps(call.args))
    ahead = [tracker.verdict(call.tool_call_id) for call in calls]
    assert [verdict.accepted for verdict in ahead if verdict] == [True, False, True]
    tracker.sync([user(), reply(*calls)])
    assert [tracker.verdict(call.tool_call_id) for call in calls] == ahead


# Recall


def test_recall_gives_an_evicted_episode_back_exactly_page_by_page() -> None:
    tracker = Tracker(600, Policy.paper())
    live(tracker, [user(), *explored("big", size=1_500), *explored("next", start=1), *LONG[9:]])
    assert next(episode for episode in tracker.episodes if episode.name == "big").removed
    text, offset = "", 0
    pages = 0
    while True:
        page = tracker.recall("big", offset)
        head, body = page.split("\n\n", 1)
        content, _, tail = body.rpartition("\n\n[")
        text, pages = text + content, pages + 1
        if tail.startswith("End"):
            break
        offset = json.loads(tail[tail.index("{") : tail.rindex("}") + 1])["offset"]
        assert head.startswith('Episode "big", characters ')
    assert pages > 3
    assert "x" * 1_500 in text
    assert text.startswith('[call delimiter] {"action":"start","name":"big","type":"expl"}')


def test_recall_says_what_is_wrong() -> None:
    tracker = Tracker(10_000)
    tracker.sync(LONG)
    assert tracker.recall("e1").startswith('Episode "e1", whole:\n\n')
    for offset in (-1, 10**9):
        assert "is outside of it" in tracker.recall("e1", offset)
    with pytest.raises(UnknownEpisodeError, match="no episode is named 'e9'; episodes so far: e0"):
        tracker.recall("e9")


# Reminders


def test_the_agent_is_reminded_by_what_the_history_tells_and_its_listeners_with_it() -> None:
    log = Log()
    tracker = Tracker(4_000, listener=log)
    history: list[ModelMessage] = [user()]
    said = []

    def ask() -> str | None:
        live(tracker, history, known=responses(history) - 1)
        return tracker.reminder

    for number in range(16):
        history += [reply(ToolCallPart("grep", {}, f"c{number}")), ModelRequest([result(f"c{number}", "x" * 300)])]
        said.append(ask() is not None)
    # 76 tokens a turn; a quarter of a fifth of the budget are 200, and the whole of it 800.
    assert [number for number, reminded in enumerate(said) if reminded] == [2, 13]
    assert len(log.of(Reminded)) == 2
    history += [reply(mark("m", action="start", name="x", type="expl")), ModelRequest([result("m", "x" * 5_000)])]
    assert ask() is None
    # The same history, taken in again, says the same.
    again = Tracker(4_000, listener=(other := Log()))
    live(again, history, known=0)
    assert len(other.of(Reminded)) == 2
    assert again.reminder is None


@pytest.mark.parametrize("share", [0, -1, float("nan")])
def test_a_share_that_cannot_work_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="remind_at is"):
        Tracker(100, remind_at=share)
