"""Two requests compared: every planted change is named, and nothing is where nothing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.agents import Worker
from tests.proxy.world import AnthropicClient, ChatClient, Client, Upstream, exchange, work
from wane.conversation import ContextSettings
from wane.core import Policy
from wane.prices import TokenUsage
from wane.proxy.sessions.caching import AnsweredPrefix, CacheWatch, SentPrefix
from wane.proxy.sessions.client_messages import Arrival
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore
from wane.rewrites import Cause, Certainty, Explanation

Body = dict[str, Any]
MARK = {"type": "ephemeral"}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def body() -> Body:
    return {
        "model": "claude-sonnet-4-5",
        "system": [{"type": "text", "text": "You code.\nBe brief.", "cache_control": MARK}],
        "tools": [{"name": "read", "input_schema": {}}, {"name": "edit", "input_schema": {}}],
        "thinking": {"type": "adaptive"},
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I will."}]},
            {"role": "user", "content": [{"type": "text", "text": "Go on.", "cache_control": MARK}]},
        ],
    }


def following(before: Body) -> Body:
    """The next request of the same session: one more exchange, and the breakpoint moved to its end."""
    after = copy.deepcopy(before)
    after["messages"][-1]["content"][-1].pop("cache_control", None)
    number = len(after["messages"])
    after["messages"].append({"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}."}]})
    turn = {"type": "text", "text": f"Turn {number}.", "cache_control": MARK}
    after["messages"].append({"role": "user", "content": [turn]})
    return after


def prefix(sent: Body) -> SentPrefix:
    messages = sent.get("messages", [])
    wire = AnthropicClient().wire
    arrivals = [Arrival(wire, message) for message in messages]
    return SentPrefix.of(wire, sent, [arrival.sent for arrival in arrivals], messages[0] if messages else {})


def nothing(sent: Body) -> None: ...


def model(sent: Body) -> None:
    sent["model"] = "claude-opus-5"


def tool(sent: Body) -> None:
    sent["tools"].append({"name": "mcp__search", "input_schema": {}})


def tool_order(sent: Body) -> None:
    sent["tools"].reverse()


def system(sent: Body) -> None:
    sent["system"][0]["text"] = "You code.\nIt is 12:05."


def thinking(sent: Body) -> None:
    if sent.pop("thinking", None) is None:
        sent["thinking"] = {"type": "adaptive"}


def first_message(sent: Body) -> None:
    sent["messages"][0]["content"][0]["text"] = "Do that."


def shorter(sent: Body) -> None:
    del sent["messages"][1:3]


def branch_messages(sent: Body) -> None:
    sent["messages"][1:] = [
        {"role": "user", "content": [{"type": "text", "text": "Rather this.", "cache_control": MARK}]}
    ]


def changed_tool(sent: Body) -> None:
    sent["tools"][1]["description"] = "Edits."


def far_breakpoint(sent: Body) -> None:
    """A turn that adds so much that the breakpoint at its end does not look back to the one before."""
    turn = sent["messages"][-1]["content"]
    turn[:0] = [{"type": "text", "text": f"File {number}."} for number in range(20)]


def drop_breakpoints(sent: Body) -> None:
    del sent["system"][0]["cache_control"]
    del sent["messages"][-1]["content"][0]["cache_control"]


CHANGES: list[tuple[Callable[[Body], None], Cause, str]] = [
    (nothing, Cause.UNEXPLAINED, "all 3 messages are the same as before"),
    (model, Cause.MODEL, "the model was claude-sonnet-4-5, and is claude-opus-5"),
    (tool, Cause.TOOLS, "tools added: mcp__search"),
    (tool_order, Cause.TOOLS, "the same tools in another order"),
    (system, Cause.SYSTEM, "the system prompt changed"),
    (thinking, Cause.SETTINGS, 'thinking was {"type":"adaptive"}, and is not set'),
    (first_message, Cause.MESSAGES, "message 1 of the 3 sent before is not the same"),
    (shorter, Cause.MESSAGES, "message 2 of the 3 sent before is not the same"),
    (branch_messages, Cause.BRANCH, "message 2 of the 3 sent before is not the same, and no answer follows"),
    (changed_tool, Cause.TOOLS, "tools changed: edit"),
    (far_breakpoint, Cause.BREAKPOINTS, "ended 3 blocks into the messages, and the first breakpoint after it is 22"),
    (drop_breakpoints, Cause.BREAKPOINTS, "the request has no cache_control"),
]


@pytest.mark.parametrize(("change", "cause", "words"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
def test_names_what_changed(change: Callable[[Body], None], cause: Cause, words: str) -> None:
    after = following(body())
    change(after)
    explanation = prefix(after).explain(prefix(body()), evicted=False)
    assert (explanation.cause, words in explanation.evidence) == (cause, True), explanation


def test_a_change_of_the_system_prompt_or_a_tool_is_shown_line_by_line() -> None:
    before, after = body(), following(body())
    system(after)
    assert prefix(after).explain(prefix(before), evicted=False).diff == "-Be brief.\n+It is 12:05."
    after = following(before)
    changed_tool(after)
    assert '+ "description": "Edits."' in prefix(after).explain(prefix(before), evicted=False).diff.splitlines()


def test_geminis_tools_have_names() -> None:
    sent = {"model": "gemini-3", "tools": [{"functionDeclarations": [{"name": "read"}, {"name": "edit"}]}]}
    later = {"model": "gemini-3", "tools": [{"functionDeclarations": [{"name": "read"}]}]}
    explanation = prefix(later).explain(prefix(sent), evicted=False)
    assert explanation.evidence == "tools removed: edit"


def test_a_change_in_the_middle_is_an_eviction_if_a_pass_ran() -> None:
    after = following(body())
    shorter(after)
    assert prefix(after).explain(prefix(body()), evicted=True).cause is Cause.EVICTION


def test_what_another_request_needs_not_share_is_not_compared() -> None:
    after = following(body())
    after |= {"max_tokens": 9, "stream": True, "metadata": {"user_id": "x"}}
    assert prefix(after).explain(prefix(body()), evicted=False).cause is Cause.UNEXPLAINED


class Provider:
    """Caches each whole request by model, for five minutes; each message is 2,000 tokens, and so is what is ahead."""

    def __init__(self) -> None:
        self.cached: dict[str, tuple[list[str], datetime]] = {}

    def usage(self, sent: Body, at: datetime) -> TokenUsage:
        ahead = repr((sent["system"], sent["tools"], sent.get("thinking")))
        blocks = [ahead, *(message["content"][0]["text"] for message in sent["messages"])]
        before, when = self.cached.get(sent["model"], ([], at))
        whole = blocks[: len(before)] == before and at - when < timedelta(minutes=5)
        read = 2_000 * len(before) if whole else 0
        self.cached[sent["model"]] = (blocks, at)
        return TokenUsage(2_000 * len(blocks), 10, read, 2_000 * len(blocks) - read)


PLANTED = [nothing, model, tool, tool_order, system, thinking, first_message]


@given(st.lists(st.tuples(st.sampled_from(PLANTED), st.booleans()), max_size=12))
def test_a_watched_session_counts_each_planted_cause_and_nothing_else(events: list[tuple[Any, bool]]) -> None:
    provider, watch, sent, at = Provider(), CacheWatch(), body(), NOW
    watch.take_answer(AnsweredPrefix(prefix(sent), provider.usage(sent, at), at))
    for number, (change, pauses) in enumerate(events):
        sent = following(sent)
        before = copy.deepcopy(sent)
        change(sent)
        if change is tool and sent["tools"] != before["tools"]:
            sent["tools"][-1]["name"] = f"tool{number}"
        if change is system:
            sent["system"][0]["text"] = f"It is 12:{number:02}."
        if change is first_message:
            sent["messages"][0]["content"][0]["text"] = f"Do {number}."
        if change is model:
            sent["model"] = f"model-{number}"
        at += timedelta(minutes=10 if pauses else 1)
        rewritten = watch.take_answer(AnsweredPrefix(prefix(sent), provider.usage(sent, at), at))
        if pauses:
            assert rewritten is not None
            assert rewritten.explanation.cause is Cause.IDLE
        elif sent == before:
            assert rewritten is None
        else:
            expected = next(cause for known, cause, _ in CHANGES if known is change)
            assert rewritten is not None
            assert rewritten.explanation.cause is expected
            assert rewritten.explanation.certainty is Certainty.RECORDED
    assert sum(total.requests for total in watch.totals.values()) <= len(events)


def test_an_explanation_survives_the_journal() -> None:
    explanation = Explanation(Cause.TOOLS, Certainty.RECORDED, "tools changed: x", "-1\n+2")
    assert Explanation.read(explanation.to_dict() | {"tokens": 7}) == explanation
    assert Explanation.read({"cause": "weather"}) is None


def rewritten(after: Body, *, read: int, minutes: int = 1, reported: str = "") -> tuple[Cause, Certainty, str]:
    watch, written = CacheWatch(), TokenUsage(20_000, 10, 3_000, 17_000)
    watch.take_answer(AnsweredPrefix(prefix(body()), written, NOW))
    usage, at = TokenUsage(21_000, 10, read, 21_000 - read), NOW + timedelta(minutes=minutes)
    prefix_ = watch.take_answer(AnsweredPrefix(prefix(after), usage, at, "", reported))
    assert prefix_ is not None
    # A million tokens cost $3, 1.25 of it to write and 0.1 of it to read.
    assert prefix_.dollars == pytest.approx(prefix_.tokens * (1.25 - 0.1) * 3e-6)
    why = prefix_.explanation
    return why.cause, why.certainty, why.evidence


def test_what_the_provider_reports_is_the_cause_only_where_no_other_is_known() -> None:
    same, changed = following(body()), following(body())
    system(changed)
    said = "the provider reported messages_changed"
    assert rewritten(same, read=0, reported="messages_changed") == (Cause.MESSAGES, Certainty.REPORTED, said)
    expected = (Cause.SYSTEM, Certainty.RECORDED, f"the system prompt changed; {said}")
    assert rewritten(changed, read=0, reported="messages_changed") == expected
    assert rewritten(same, read=0, reported="unavailable")[1] is Certainty.UNKNOWN


def test_a_cache_that_was_read_had_not_expired() -> None:
    edited = following(body())
    edited["messages"][1]["content"][0]["text"] = "I would."
    cause, _, evidence = rewritten(edited, read=3_000, minutes=6)
    assert cause is Cause.IDLE
    assert evidence.endswith("besides, message 2 of the 3 sent before is not the same")
    assert rewritten(edited, read=12_000, minutes=6)[0] is Cause.MESSAGES


def test_what_was_paid_again_is_priced_at_the_tier_that_served_it() -> None:
    paid = []
    for tier in ("", "fast"):
        watch, sent = CacheWatch(), body() | {"model": "claude-opus-5"}
        watch.take_answer(AnsweredPrefix(prefix(sent), TokenUsage(20_000, 10, 0, 20_000, tier=tier), NOW))
        usage, at = TokenUsage(21_000, 10, 0, 21_000, tier=tier), NOW + timedelta(minutes=1)
        again = watch.take_answer(AnsweredPrefix(prefix(following(sent)), usage, at))
        assert again is not None
        paid.append(again.dollars)
    assert paid[1] == pytest.approx(2 * paid[0])


class ForAnHour(AnthropicClient):
    """A client that has its prefix cached for an hour."""

    def body(self) -> dict[str, Any]:
        body = super().body()
        for block in (*body["system"], *body["messages"][-1]["content"]):
            if "cache_control" in block:
                block["cache_control"]["ttl"] = "1h"
        return body


class HalfADay(ChatClient):
    """A client that has its requests cached for half a day."""

    def body(self) -> dict[str, Any]:
        return super().body() | {"prompt_cache_options": {"ttl": "12h"}}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("make", "minutes", "cold"),
    [
        (AnthropicClient, 10, True),
        (ForAnHour, 10, False),
        (ForAnHour, 70, True),
        (ChatClient, 10, False),
        (ChatClient, 40, True),
        (HalfADay, 40, False),
    ],
)
async def test_a_cache_is_cold_when_its_lifetime_is_over(
    make: type[Client], minutes: int, cold: bool, restarted: bool
) -> None:
    budget, store = 6_000, MemoryStore()
    settings = ContextSettings(budget=budget, remind_at=None)
    client, index = make(), SessionIndex(store, settings)
    upstream = Upstream(client.provider, Worker(0))
    while (await work(index, client, upstream, 1))[-1].facts.view < 0.7 * budget:
        pass
    (cached,) = index._finders[""].memory
    cached.last -= timedelta(minutes=minutes)
    if restarted:  # without what its requests were like
        cached.caching = CacheWatch()
    client.say("Go on after the pause.")
    assert ((await exchange(index, client, upstream)).facts.evicted_now > 0) is cold


# The breakpoint that the proxy adds


def blocks_up_to_marks(sent: Body) -> list[list[Any]]:
    """What a body's messages hold up to each of their breakpoints, block by block."""
    blocks: list[Any] = []
    prefixes = []
    for message in sent["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else [message["content"]]:
            plain = {key: value for key, value in block.items() if key != "cache_control"}
            blocks.append((message["role"], plain))
            if "cache_control" in block:
                prefixes.append(list(blocks))
    return prefixes


@pytest.mark.parametrize("seed", range(3))
async def test_no_pass_changes_what_is_ahead_of_the_breakpoint_that_is_added(seed: int) -> None:
    client = AnthropicClient()
    settings = ContextSettings(budget=2_400, policy=Policy(index_share=0.1), remind_at=None)
    index, upstream = SessionIndex(MemoryStore(), settings), Upstream(client.provider, Worker(seed, marks=False))
    done = await work(index, client, upstream, 10)
    bodies = [sent for one in done for sent in one.bodies]
    added = [prefixes[0] for sent in bodies if len(prefixes := blocks_up_to_marks(sent)) == 2]
    assert len(added) > 10
    assert len({len(prefix) for prefix in added}) > 1, "it moves on with the user's turns"
    for before, after in pairwise(added):
        assert after[: len(before)] == before
