"""Wane's own journals: usage, times, passes, and damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.journal.support import NOON, begin, user_record
from tests.lab.readers.promises import check, kinds, texts
from wane import JournalError, Level, Policy, Step
from wane.journal import ChoiceRecord, ConfigRecord, MessageRecord, NoteRecord, PassRecord, Record, UsageRecord
from wane.journal.records import CLIENT_NOTE, FORK_NOTE, REPLY_NOTE, SPENT_NOTE, SamplingUsage, UsageParts
from wane.lab.counting import count
from wane.lab.readers import read_session
from wane.lab.recorded_session import CallUsage, EvictionStep, PersonsChoice, RecordedEviction, RecordedSession
from wane.lab.replaying.managed import money_of
from wane.lab.replaying.spent import Recorded
from wane.lab.replaying.strategy_replay import Pricing


def answer(number: int, **more: Any) -> MessageRecord:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return MessageRecord(message={"role": "assistant", "content": "I look", "tool_calls": [call]} | more)


def result(number: int, text: str = "seen") -> MessageRecord:
    return MessageRecord(message={"role": "tool", "tool_call_id": f"c{number}", "content": text})


def went(items: int, *removed: int) -> PassRecord:
    step = Step(None, 0, Level.BULK, 900, 600, removed)
    return PassRecord(
        items=items, budget=700, tokens_before=900, tokens_after=600, satisfied=True, overflowed=False, trace=(step,)
    )


HISTORY: list[Record] = [
    ConfigRecord(budget=700, policy=Policy(), overhead=0),
    user_record("list the files"),
    UsageRecord(items=1, input_tokens=100, output_tokens=9, cache_read_tokens=50, cache_write_tokens=40, model="p:a:m"),
    answer(1),
    ConfigRecord(budget=700, policy=Policy(), overhead=80),
    NoteRecord("title", {}),
    result(1),
    answer(2),
    result(2),
    went(7, 2, 3),
    UsageRecord(items=7, input_tokens=130, output_tokens=0),
    MessageRecord(message={"role": "assistant", "content": "done"}),
]


def read(path: Path) -> RecordedSession:
    (session,) = read_session(path)
    return check(session)


def test_a_journal_tells_usage_times_and_passes(tmp_path: Path) -> None:
    path = begin(tmp_path, HISTORY)
    session = read(path)
    assert (session.source, session.name, session.cwd) == ("journal", path.stem, str(tmp_path))
    assert kinds(session) == ["user", "text", "call", "result", "text", "call", "result", "text"]
    one, two, three = session.calls
    assert (one.first, one.stop, one.usage, one.priced_as) == (1, 3, CallUsage(10, 50, 40, 9), "p:a:m")
    assert one.at is not None
    assert one.at > NOON.timestamp()
    assert (two.usage, two.model) == (None, None)
    assert three.usage == CallUsage(130), "an output of nothing is none that was reported"
    assert session.system_tokens == 80
    assert not session.problems


def test_the_tier_that_served_a_call_is_no_part_of_its_model(tmp_path: Path) -> None:
    usage = UsageRecord(items=1, input_tokens=100, output_tokens=9, model="p:m (fast, us)")
    call = read(begin(tmp_path, [*HISTORY[:2], usage, *HISTORY[3:]])).calls[0]
    assert (call.model, call.usage, call.priced_as) == (
        "m",
        CallUsage(100, output=9, tier="fast, us"),
        "p:m (fast, us)",
    )


def test_calls_before_a_fork_count_for_the_other_session(tmp_path: Path) -> None:
    session = read(begin(tmp_path, [*HISTORY[:9], NoteRecord(FORK_NOTE, {}), *HISTORY[9:]]))
    whole = read(begin(tmp_path / "whole", HISTORY))
    assert len(session.calls) == len(whole.calls)
    assert 0 < len(session.own_calls) < len(session.calls)
    assert [call.inherited for call in session.calls] == sorted(
        (call.inherited for call in session.calls), reverse=True
    )
    late = read(begin(tmp_path / "late", [*HISTORY[:3], NoteRecord(FORK_NOTE, {}), *HISTORY[3:]]))
    assert late.calls[0].inherited, "the reply came before, although its message is recorded behind"


def test_a_call_for_a_summary_is_no_part_of_the_history_but_counts(tmp_path: Path) -> None:
    spent = NoteRecord(SPENT_NOTE, {"input_tokens": 100, "output_tokens": 20, "cost": 0.25, "model": "p:m"})
    session = read(begin(tmp_path, [*HISTORY, spent]))
    (aside,) = session.asides
    assert (aside.usage, aside.cost, aside.priced_as) == (CallUsage(100, output=20), 0.25, "p:m")
    assert len(session.calls) == len(read(begin(tmp_path / "whole", HISTORY)).calls)


def test_whose_prices_a_recorded_cost_takes_is_told(tmp_path: Path) -> None:
    whose = "openai:gpt-5.2"
    assumed = [replace(it, assumed=whose, cost=0.5) if isinstance(it, UsageRecord) else it for it in HISTORY]
    session = read(begin(tmp_path, assumed))
    assert {call.assumed for call in session.calls if call.cost is not None} == {whose}
    pricing = Pricing.of_recording(session, Pricing.of("anthropic:claude-sonnet-4-5"))
    recorded = Recorded.of(count(session), pricing, 80_000)
    calls = recorded.account.assumed[whose]
    assert calls > 1
    assert f"{calls} calls at the prices of {whose}" in recorded.bounds


def test_fees_of_unknown_amount_make_a_recorded_cost_a_bound(tmp_path: Path) -> None:
    parts = UsageParts(SamplingUsage("", 1_000, 10), further_fees=True)
    open_ended = []
    for record in HISTORY:
        if isinstance(record, UsageRecord):
            record = replace(record, cost=None, model="openai:gpt-5.2", parts=parts)
        open_ended.append(record)
    session = read(begin(tmp_path, open_ended))
    recorded = Recorded.of(count(session), Pricing.of_recording(session, Pricing.of("openai:gpt-5.2")), 80_000)
    assert recorded.account.at_least > 0
    assert not recorded.account.complete


def test_rounds_that_wane_made_itself_are_told_also_where_the_client_never_sent_them_back(tmp_path: Path) -> None:
    """The last reply of a session: without Wane the client would have asked once, not three times."""
    usage = UsageRecord(
        items=1, input_tokens=1_000, output_tokens=9, cache_read_tokens=500, model="anthropic:claude-opus-4-6"
    )
    mark = {"id": "c1", "type": "function", "function": {"name": "delimiter", "arguments": "{}"}}
    records: list[Record] = [
        ConfigRecord(budget=700, policy=Policy(), overhead=0),
        NoteRecord(CLIENT_NOTE, {"entries": []}),
        user_record("list the files"),
        usage,
        NoteRecord(REPLY_NOTE, {}),
        MessageRecord(message={"role": "assistant", "content": None, "tool_calls": [mark]}),
        result(1),
        usage,
        usage,
        usage,
        NoteRecord(REPLY_NOTE, {}),
    ]
    session = read(begin(tmp_path, records))
    assert [call.further for call in session.calls] == [False, False, True, True]
    money = money_of(count(session), Pricing.of("anthropic:claude-opus-4-6"))
    assert money.account.calls == 4
    assert money.unmanaged < money.account.at_least / 2


def test_a_pass_tells_the_parts_that_it_took(tmp_path: Path) -> None:
    (eviction,) = read(begin(tmp_path, HISTORY)).evictions
    step = EvictionStep("bulk", (2, 3), 300)
    assert eviction == RecordedEviction(7, (2, 3), 900, 600, eviction.at, (step,), 700)
    assert eviction.at is not None


def test_what_a_person_let_go_is_told_from_what_a_pass_took_by_itself(tmp_path: Path) -> None:
    chosen = [*HISTORY[:9], ChoiceRecord(0, "keep"), ChoiceRecord(0, "drop"), *HISTORY[9:]]
    session = read(begin(tmp_path, chosen))
    assert session.choices == [PersonsChoice(7, 0, "keep"), PersonsChoice(7, 0, "drop")]
    assert [step.by_person for step in session.evictions[0].steps] == [True]
    again = read(begin(tmp_path, [*chosen[:11], ChoiceRecord(0, ""), *chosen[11:]]))
    assert [step.by_person for step in again.evictions[0].steps] == [False]


def test_a_pass_over_items_that_are_not_here_is_named(tmp_path: Path) -> None:
    session = read(begin(tmp_path, [*HISTORY[:9], went(6, 2, 3)]))
    assert session.evictions[0].removed == ()
    assert "what it removed is unknown" in session.problems[0].what


def test_damaged_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = begin(tmp_path, [*HISTORY[:9], *HISTORY[10:]])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[8] = lines[8].replace(b"I look", b"I took")  # a whole record, but not as it was written
    lines[9] = lines[9][:40] + b"\n"
    path.write_bytes(b"".join(lines) + b'{"kind":"mess')
    session = read(path)
    assert "I took" in texts(session)
    assert [problem.line for problem in session.problems] == [9, 10, 11, 12, 13]
    assert "read anyway" in session.problems[0].what
    assert kinds(session) == ["user", "text", "call", "result", "text", "call", "result", "text"]
    assert texts(session)[6] == "", "its result is lost"


def test_a_record_of_another_version_is_named_and_left_out(tmp_path: Path) -> None:
    path = begin(tmp_path, HISTORY)
    with path.open("ab") as file:
        file.write(b'{"kind":"hologram"}\n')
    session = read(path)
    (problem,) = session.problems
    assert problem.line == len(HISTORY) + 2
    assert problem.what.startswith("the line has a record of unknown kind 'hologram'. A newer Wane wrote it")
    assert kinds(session) == kinds(read(begin(tmp_path / "whole", HISTORY)))


def test_messages_of_pydantic_ai_are_read_as_such(tmp_path: Path) -> None:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, UserPromptPart

    messages = [
        ModelRequest(parts=[UserPromptPart("hi")], instructions="be kind"),
        ModelResponse(parts=[TextPart("x")]),
    ]
    records: list[Record] = [
        MessageRecord(message=m) for m in ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    ]
    records.insert(1, UsageRecord(items=1, input_tokens=5, output_tokens=1, model="p:m"))
    session = read(begin(tmp_path, records, message_format="pydantic_ai"))
    assert kinds(session) == ["user", "text"]
    assert (session.calls[0].usage, session.calls[0].model) == (CallUsage(5, output=1), "m")
    assert session.system_tokens is None, "the journal says what the overhead was"


def test_a_journal_whose_first_line_is_damaged_is_refused(tmp_path: Path) -> None:
    path = begin(tmp_path, HISTORY)
    path.write_bytes(path.read_bytes().replace(b'"version":', b'"version":7', 1))
    with pytest.raises(JournalError):
        read_session(path)


def test_content_of_an_unknown_kind_is_named(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "Look."}, {"type": "hologram", "beam": "xyzzy"}]
    session = read(begin(tmp_path, [MessageRecord(message={"role": "user", "content": blocks}), answer(1)]))
    (problem,) = session.problems
    assert "hologram" in problem.what
    assert not session.unread, "its size counts"
