"""What is deleted of a session is gone wherever it was quoted, and the chain of its requests stays valid."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.journal.support import NOON
from wane.core import EvictedIndex
from wane.journal import (
    MessageRecord,
    NoteRecord,
    PassRecord,
    Receipts,
    Record,
    RequestRecord,
    StateRecord,
    sent_requests,
)
from wane.journal.lines import write_lines
from wane.journal.receipts import chain_digests
from wane.journal.redaction import without_messages

SECRET = "The customer Jane Doe lives in 7 Elm Street, and her dog is called Rex."
KEPT = "This is another paragraph, which nobody wants to have deleted from here."


def turn(text: str, number: int) -> list[dict[str, Any]]:
    """A turn whose words reach a call's arguments, its result and the answer, each in its own spelling."""
    arguments = json.dumps({"path": f"{number}.txt", "content": f"{text}\nyes{number}"})
    function = {"name": "write", "arguments": arguments}
    return [
        {"role": "user", "content": text},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"wrote: {text}"},
        {"role": "assistant", "content": f"ok {number}"},
    ]


def session(texts: list[str]) -> list[Record]:
    records, receipts, history = list[Record](), Receipts(), list[Any]()

    def append(record: Record) -> None:
        records.append(record)
        receipts.follow([record])

    append(StateRecord("compact", {"engine": {"standing": {"summary": f"So far: {texts[0]}"}}}))
    for number, text in enumerate(texts):
        for message in turn(text, number):
            history.append(message)
            append(MessageRecord(message))
            shown = [{**one, "cache_control": {}} if one is history[-1] else one for one in history]
            body = {"model": "m", "system": KEPT, "messages": shown[-6:]}
            append(receipts.of(json.dumps(body, ensure_ascii=number % 2 == 0).encode(), "https://x"))
        append(PassRecord(9, 1, 2, 3, True, False, (), EvictedIndex(f"Files: {number}.txt; {text}", 12, 8)))
        append(
            NoteRecord(
                "reply", {"shape": "61ff", "place": 0, "rounds": [{"message": turn(text, number)[1], "results": []}]}
            )
        )
    return records


@given(st.lists(st.sampled_from([SECRET, KEPT, "Ünïcode 🙂 that is long enough to be found."]), min_size=2, max_size=4))
def test_no_text_of_a_deleted_message_remains_and_all_other_requests_stay(texts: list[str]) -> None:
    texts = [SECRET, *(text for text in texts if text != SECRET)]
    records = session(texts)
    before = list(sent_requests(records))
    redacted = without_messages(records, range(4), NOON)
    content = b"".join(write_lines(redacted, 0)).decode()
    assert "Jane Doe" not in content
    assert "Elm Street" not in content
    after = list(sent_requests(redacted))
    assert len(after) == len(before)
    for was, request in zip(before, after, strict=True):
        assert request.record.chain == was.record.chain
        showed = any(text in (was.body or b"") for text in (b"Jane Doe", b'"ok 0"'))
        assert request.state == ("deleted" if showed else "identical")
        if showed:
            assert request.record.salt == ""
            assert b"[deleted]" in (request.body or b"")
        else:
            assert request.body == was.body
    assert KEPT in content
    assert '"ok 0"' not in content


def test_ids_roles_and_marks_stay_and_no_guess_can_be_confirmed() -> None:
    mark = {"action": "start", "type": "expl", "name": "look", "reason": SECRET}
    call = {"id": "c1", "type": "function", "function": {"name": "delimiter", "arguments": json.dumps(mark)}}
    records: list[Record] = [
        NoteRecord("client", {"entries": [["ab" * 16, "61" + "cd" * 8, 1, 9], ["ef" * 16, "6f" + "cd" * 8, 1, 9]]}),
        MessageRecord({"role": "assistant", "content": None, "tool_calls": [call]}),
        MessageRecord({"role": "user", "content": "look"}),
    ]
    note, message, other = without_messages(records, [0], NOON)
    assert isinstance(note, NoteRecord)
    assert note.data["entries"] == [["00" * 16, "61" + "00" * 8, 1, 9], ["00" * 16, "6f" + "00" * 8, 1, 9]]
    assert isinstance(message, MessageRecord)
    function = message.message["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {**mark, "reason": "[deleted]"}
    assert (message.message["role"], function["name"]) == ("assistant", "delimiter")
    assert other == records[2]


def test_with_any_message_what_files_held_goes_too() -> None:
    kept = NoteRecord("file", {"path": "a.py", "before": f"old\n  1. {SECRET[:9]}\n", "known": True, "after": "61ff"})
    after = without_messages([*session([SECRET]), kept], {0}, NOON)
    assert after[-1] == NoteRecord("file", {"path": "a.py", "known": False, "after": "61ff"})


def test_a_deletion_can_be_followed_by_another_one_and_by_requests() -> None:
    records = without_messages(without_messages(session([SECRET, KEPT]), range(4), NOON), range(4, 8), NOON)
    receipts = Receipts()
    receipts.follow(records)
    records.append(receipts.of(b'{"messages":[]}', "https://x"))
    states = [request.state for request in sent_requests(records)]
    assert set(states[:-1]) == {"deleted"}
    assert states[-1] == "identical"
    last = [record for record in records if isinstance(record, RequestRecord)][-2:]
    assert last[1].chain == chain_digests(last[0].chain, last[1].digest)
