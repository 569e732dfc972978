"""Episodes that were inferred come back as they were recorded, whatever would be inferred now."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import policies, sessions
from wane.core import ContextWindow, EpisodeType, Mark
from wane.core.errors import JournalError
from wane.formats.base import Transcript
from wane.formats.openai import OpenAIFormat
from wane.inference import Annotator, Limits
from wane.journal import ConfigRecord, MarkedMessageRecord, MessageRecord, PassRecord, PlacedMark, Record, replay

Message = dict[str, Any]


@given(sessions(), policies(), st.integers(1, 600))
def test_a_session_with_inferred_episodes_is_resumed_as_it_was(
    messages: list[Message], policy: Any, budget: int
) -> None:
    transcript = Transcript(OpenAIFormat())
    window, annotator = ContextWindow(budget, policy), Annotator(Limits(episode=40, drift_calls=1))
    records: list[Record] = [ConfigRecord(budget, policy)]
    marked = 0
    for message in messages:
        if message["role"] == "assistant" and (report := window.fit()).ran:
            records.append(PassRecord.of(report, window.item_count))
        added = [annotator.add_to(window, item, part) for item, part in transcript.take(message)]
        records.append(MarkedMessageRecord.of(message, added))
        marked += sum(len(entry.marks) for entry in added)
    again = Transcript(OpenAIFormat())
    back = replay(records, again.append)
    assert back.window.visible == window.visible
    assert back.window.pinned == window.pinned
    assert [(e.name, e.inferred, e.level, e.spans) for e in back.window.episodes] == [
        (e.name, e.inferred, e.level, e.spans) for e in window.episodes
    ]
    assert sum(map(len, back.marks.values())) == marked
    assert all(isinstance(record, MarkedMessageRecord) == bool(getattr(record, "marks", ())) for record in records)


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (PlacedMark(7, Mark("start", "x")), r"marks items \[7\], which are not items of the message"),
        (PlacedMark(0, Mark("end", "x")), "ends an episode that is not open"),
        (PlacedMark(0, Mark("start", "x", EpisodeType.ACT, ("never",))), "depends on"),
    ],
)
def test_marks_that_do_not_fit_the_history_are_refused(mark: PlacedMark, says: str) -> None:
    record = MarkedMessageRecord({"role": "assistant", "content": "x"}, (mark,))
    with pytest.raises(JournalError, match=says):
        replay([record], Transcript(OpenAIFormat()).append)


def test_a_message_without_marks_is_an_ordinary_record() -> None:
    window = ContextWindow()
    transcript = Transcript(OpenAIFormat())
    message = {"role": "user", "content": "x"}
    record = MarkedMessageRecord.of(message, [window.add(item) for item in transcript.append(message)])
    assert type(record) is MessageRecord
