"""Going on from a record of what was done, such as a journal: view, count and verdicts are those of then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conversation.support import Log, Told, live, turns
from wane.conversation import Adapter, Call, Conversation
from wane.core.errors import ConfigError, JournalError
from wane.integrations.strands import StrandsFormat
from wane.journal import MessageRecord, PassRecord, Record, sent_requests

USAGES = st.lists(st.sampled_from((0, 0, 50, 200, 700)), max_size=4)


def test_requests_of_other_budgets_and_those_not_managed_are_repeated_with_their_own_reminders() -> None:
    history: list[Any] = [{"role": "user", "content": "Go."}]
    for n in range(10):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        history.append({**LONG[1], "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": f"c{n}", "content": "read"})
    lived = Conversation(budget=100_000)
    live(lived, history[:5])  # so far nothing fills a share
    lived.change(manage=False, budget=1_000)
    live(lived, history[:15], known=5)
    lived.change(manage=True)
    live(lived, history, known=15)
    reminder = lived.request().reminder
    assert reminder is not None
    revived = Conversation(budget=1_000)
    revived.log.follow(lived.log.records())
    assert revived.request().reminder == reminder
    # It has been reminded, so it is not reminded again.
    for conversation in (lived, revived):
        call = {"id": "last", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        conversation.append({"role": "assistant", "content": "x", "tool_calls": [call]})
        conversation.append({"role": "tool", "tool_call_id": "last", "content": "read"})
    assert revived.request().reminder == lived.request().reminder is None


def test_a_usage_that_is_told_late_counts_for_its_own_request() -> None:
    lived, revived = Conversation(), Conversation()
    lived.append({"role": "user", "content": "x" * 4_000})
    lived.request()
    lived.append({"role": "assistant", "content": "y" * 4_000})
    lived.observe(1_400)
    revived.log.follow(lived.log.records())
    assert revived.tokens == lived.tokens > 2_400


def test_records_are_given_in_pieces() -> None:
    lived, revived, kept = Conversation(budget="0.3k"), Conversation(budget="0.3k"), list[Record]()
    for message in LONG:
        if message["role"] == "assistant":
            lived.request()
        lived.append(message)
        kept += lived.log.records(len(kept))
    revived.log.follow(kept)
    assert revived.evicted == lived.evicted > 0
    assert revived.log.records() == kept


def test_requests_are_recorded_as_they_are_sent() -> None:
    lived, kept, bodies = Conversation(budget="0.3k"), list[Record](), list[bytes]()
    for message in LONG:
        if message["role"] == "assistant":
            bodies.append(json.dumps({"messages": lived.request().messages}).encode())
            lived.log.sent(bodies[-1], "https://api.example")
        lived.append(message)
        kept += lived.log.records(len(kept))
    revived = Conversation(budget="0.3k")
    revived.log.follow(kept)
    bodies.append(json.dumps({"messages": revived.request().messages}).encode())
    revived.log.sent(bodies[-1])
    requests = list(sent_requests(revived.log.records()))
    assert [request.body for request in requests] == bodies
    assert {request.state for request in requests} == {"identical"}


def test_what_was_not_done_here_is_not_done_again() -> None:
    lived = Conversation(budget="0.3k")
    live(lived, LONG)
    records = lived.log.records()
    ran = next(number for number, record in enumerate(records) if isinstance(record, PassRecord) and record.steps)
    with pytest.raises(JournalError, match=r"line 2 \(pass\): it was recorded after \d+ items, but comes after 0"):
        Conversation(budget="0.3k").log.follow(records[ran:])


def test_messages_of_a_format_without_json_are_not_kept() -> None:
    conversation = Conversation(StrandsFormat())
    with pytest.raises(ConfigError, match="cannot be kept as JSON"):
        conversation.log.records()


def test_verdicts_on_calls_that_are_still_open_are_known() -> None:
    start = '{"action": "start", "name": "x", "type": "expl"}'
    call = {"id": "c1", "type": "function", "function": {"name": "delimiter", "arguments": start}}
    conversation = Conversation()
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    conversation.log.follow(MessageRecord(message) for message in messages)
    assert conversation.host.answer(Call("delimiter", start, "c1")).startswith('Started exploration "x"')


@pytest.mark.parametrize("tool", ["delimiter", "recall"])
def test_own_calls_that_the_records_end_with_are_answered(tool: str) -> None:
    """Records may be kept right behind an answer, ahead of the results of its own calls."""
    arguments = '{"action": "start", "name": "x", "type": "expl"}' if tool == "delimiter" else '{"name": "x"}'
    names = {"c1": tool, "c2": "read"}
    calls = [
        {"id": id_, "type": "function", "function": {"name": n, "arguments": arguments}} for id_, n in names.items()
    ]
    lived, revived = Conversation(recall=True), Conversation(recall=True)
    lived.append({"role": "user", "content": "Go."})
    lived.request()
    (call,) = lived.append({"role": "assistant", "content": None, "tool_calls": calls})
    revived.log.follow(lived.log.records())
    assert revived.calls == [call]
    for conversation in (lived, revived):
        conversation.append(call.result("read"))
    assert revived.request().messages == lived.request().messages
    assert revived.log.records() == lived.log.records()


# Another strategy

LONG = turns(12)


def texts(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages]


def test_another_strategy_begins_with_all_that_has_happened_and_what_one_took_stays_out() -> None:
    conversation = Conversation(budget="0.6k", strategy="truncate", adapter=Told(LONG, [610]))
    live(conversation, LONG)
    kept = texts(conversation.view)
    assert len(kept) < len(LONG)
    conversation.append({"role": "user", "content": "And?"})
    kept.append("And?")
    assert texts(conversation.view) == kept
    conversation.change(strategy="none")
    assert (conversation.settings.strategy, conversation.settings.delimits) == ("none", False)
    # What its requests held says nothing of requests that show all.
    whole = [*texts(LONG), "And?"]
    assert conversation.tokens == sum(-(-len(text) // 4) for text in whole)
    assert texts(conversation.request().view) == whole
    conversation.change(strategy="truncate", budget=10_000)
    assert texts(conversation.request().view) == kept
    conversation.change(strategy="cwl")
    assert conversation.settings.delimits
    assert texts(conversation.view) == whole
    conversation.change(budget="0.6k")
    conversation.append({"role": "user", "content": "On."})
    report = conversation.request().report
    assert report is not None
    assert report.ran


def test_messages_that_were_left_out_do_not_confuse_forks() -> None:
    class Leaving(Adapter[Any]):
        drops_orphans = True

    def orphan(number: int) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": f"c{number}", "content": "late"}

    log = Log()
    conversation = Conversation(adapter=Leaving(), on_event=log)
    history = [LONG[0], LONG[1], orphan(0), LONG[2], LONG[3], orphan(1), LONG[4]]
    conversation.host.ingest(history)
    assert conversation.messages == LONG[:5]
    assert conversation.host.ingest([*history, LONG[5]]).continued
    change = conversation.host.ingest([*history[:5], {"role": "user", "content": "Something else."}])
    assert (change.kept, change.dropped, change.added) == (4, 2, 1)
    assert texts(conversation.messages)[-1] == "Something else."
    assert conversation.host.ingest([LONG[0], LONG[1], orphan(2), LONG[2]]).kept == 2
    # One that is renewed is not taken for its neighbour.
    conversation.host.ingest([LONG[0], LONG[1], {**orphan(2), "more": 1}, LONG[2]])
    assert conversation.messages == LONG[:3]
