"""A session that is resumed has the window that it would have had (R14)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.support import begin
from tests.strategies import policies, sessions
from wane.core import ContextWindow, EpisodeType, Pinned, Policy
from wane.core.errors import JournalError
from wane.formats.base import Transcript
from wane.formats.openai import OpenAIFormat
from wane.journal import (
    AnnotationRecord,
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    Replay,
    UsageRecord,
    read,
    replay,
)

Message = dict[str, Any]


@dataclass
class Agent:
    """An agent without a model: it lives through a session that is given, and records it."""

    window: ContextWindow
    transcript: Transcript[Message] = field(default_factory=lambda: Transcript(OpenAIFormat()))
    records: list[Record] = field(default_factory=list)
    shortfalls: list[Pinned | None] = field(default_factory=list)

    @classmethod
    def start(cls, config: ConfigRecord) -> Agent:
        agent = cls(ContextWindow())
        agent.configure(config)
        return agent

    @classmethod
    def resume(cls, records: Sequence[Record]) -> Agent:
        transcript = Transcript(OpenAIFormat())
        back = replay(records, transcript.append)
        return cls(back.window, transcript, [*records, *back.unrecorded], list(back.shortfalls))

    def configure(self, config: ConfigRecord) -> None:
        self.window.budget, self.window.policy, self.window.overhead = config.budget, config.policy, config.overhead
        self.window.set_tool_classes(config.tool_classes)
        self.records.append(config)

    def live(self, messages: Sequence[Message], drift: int) -> None:
        for message in messages:
            if message["role"] == "assistant":
                self.call(drift)
            self.hear(message)

    def call(self, drift: int) -> None:
        report = self.window.fit()
        if report.ran:
            self.records.append(PassRecord.of(report, self.window.item_count))
            self.shortfalls.append(report.pinned)
        reported = max(0, sum(self.sizes()) + drift)
        self.window.observe(reported)
        self.records.append(UsageRecord(self.window.item_count, reported, 7))

    def hear(self, message: Message) -> None:
        self.records.append(MessageRecord(message=message))
        for item in self.transcript.append(message):
            annotation = AnnotationRecord.of(self.window.add(item))
            if annotation is not None:
                self.records.append(annotation)

    def sizes(self) -> list[int]:
        return [len(str(message)) // 4 for message in self.transcript.view(self.window.visible)]


def state(window: ContextWindow) -> object:
    """All of a window that can be seen."""
    episodes = [
        (e.number, e.name, e.type, e.level, e.closed, e.settled, e.tokens, e.dependencies) for e in window.episodes
    ]
    return window.visible, window.tokens, window.item_count, window.budget, window.policy, episodes, window.pinned


configs = st.builds(
    ConfigRecord,
    budget=st.integers(1, 600),
    policy=policies(),
    tool_classes=st.dictionaries(
        st.sampled_from(("grep", "read", "edit")), st.sampled_from(("bulk", "artifact", "durable"))
    ),
    overhead=st.integers(0, 50),
)


@given(sessions(), configs, configs, st.integers(-50, 50), st.data())
def test_a_resumed_session_goes_on_as_if_it_had_never_ended(
    messages: list[Message], config: ConfigRecord, later: ConfigRecord, drift: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(messages)), label="cut")
    change = data.draw(st.booleans(), label="change of settings")
    agent = Agent.start(config)
    agent.live(messages[:cut], drift)
    resumed = Agent.resume(agent.records)
    assert state(resumed.window) == state(agent.window)
    assert resumed.records == agent.records
    for one in (agent, resumed):
        if change:
            one.configure(later)
        one.live(messages[cut:], drift)
    assert resumed.records == agent.records
    assert state(resumed.window) == state(agent.window)
    again = Agent.resume(agent.records)
    assert state(again.window) == state(agent.window)
    assert again.shortfalls == resumed.shortfalls == agent.shortfalls


@given(sessions(), configs, st.data())
def test_annotations_that_a_crash_cut_off_are_completed(
    messages: list[Message], config: ConfigRecord, data: st.DataObject
) -> None:
    agent = Agent.start(config)
    agent.live(messages, 0)
    cut = data.draw(st.integers(1, len(agent.records)), label="cut")
    resumed = Agent.resume(agent.records[:cut])
    said = [record for record in resumed.records if isinstance(record, AnnotationRecord)]
    expected = [record for record in agent.records if isinstance(record, AnnotationRecord)]
    assert said == expected[: len(said)]
    assert Agent.resume(resumed.records).records == resumed.records


MESSAGES: list[Message] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "looking",
        "tool_calls": [
            {
                "id": "c1",
                "function": {"name": "delimiter", "arguments": '{"action":"start","name":"look","type":"expl"}'},
            },
            {"id": "c2", "function": {"name": "grep", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    {"role": "tool", "tool_call_id": "c2", "content": "found " * 100},
    {
        "role": "assistant",
        "content": "seen",
        "tool_calls": [
            {"id": "c3", "function": {"name": "delimiter", "arguments": '{"action":"end","description":"it is there"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c3", "content": "ok"},
    {"role": "assistant", "content": "done"},
    {"role": "user", "content": "more"},
    {"role": "assistant", "content": "sure"},
]


@pytest.fixture
def lived() -> list[Record]:
    agent = Agent.start(ConfigRecord(60, Policy.paper()))
    agent.live(MESSAGES, 0)
    return agent.records


def back(records: Sequence[Record]) -> Replay:
    return replay(records, Transcript(OpenAIFormat()).append)


def test_what_is_recorded_of_a_session(lived: list[Record], tmp_path: Any) -> None:
    kinds = " ".join(record.kind for record in lived)
    assert kinds == (
        "config message usage message annotation message message"
        " pass usage message annotation message pass usage message message pass usage message"
    )
    start, end = (record for record in lived if isinstance(record, AnnotationRecord))
    assert start == AnnotationRecord(2, "start", 1, "look", EpisodeType.EXPL)
    assert end == AnnotationRecord(7, "end", 1, "look", EpisodeType.EXPL, (), "it is there")
    assert any(record.steps for record in lived if isinstance(record, PassRecord))
    again = back(read(begin(tmp_path, lived)).records)
    assert again.messages == tuple(MESSAGES)
    assert again.config is not None
    assert replace(again.config, at=None) == lived[0]
    assert again.unrecorded == ()


def test_notes_change_nothing(lived: list[Record]) -> None:
    noted = [record for pair in zip(lived, [NoteRecord("x")] * len(lived), strict=True) for record in pair]
    assert state(back(noted).window) == state(back(lived).window)


def test_nothing_recorded_is_an_empty_window() -> None:
    empty = back([])
    assert (empty.window.item_count, empty.config, empty.messages) == (0, None, ())


def spoil(records: list[Record], kind: type[Record], **changes: Any) -> list[Record]:
    """The records, with the last of a kind changed."""
    place = max(place for place, record in enumerate(records) if isinstance(record, kind))
    return [*records[:place], replace(records[place], **changes), *records[place + 1 :]]


def test_a_name_that_its_format_reads_back_otherwise_is_the_same_name() -> None:
    agent = Agent.start(ConfigRecord(10**6, Policy()))
    call = {"id": "c1", "type": "function"}
    start = '{"action": "start", "name": "half \ud83d", "type": "expl"}'
    calls = [call | {"function": {"name": "delimiter", "arguments": start}}]
    agent.live([{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": calls}], 0)
    assert any(isinstance(record, AnnotationRecord) for record in agent.records)

    def read_back(message: Any) -> Any:
        return transcript.append(json.loads(json.dumps(message).replace(r"\ud83d", r"\ufffd")))

    transcript = Transcript(OpenAIFormat())
    active = replay(agent.records, read_back).window.active
    assert active is not None
    assert active.name == "half \ufffd"


def test_records_that_do_not_follow_from_each_other_are_refused(lived: list[Record]) -> None:
    ran = next(record for record in lived if isinstance(record, PassRecord) and record.steps)
    step = replace(ran.steps[0], removed=(1,))
    place = lived.index(ran)
    cases = {
        r"\(pass\): it was recorded after 3 items": spoil(lived, PassRecord, items=3),
        r"\(usage\): it was recorded after 3 items": spoil(lived, UsageRecord, items=3),
        "the messages imply": spoil(lived, AnnotationRecord, name="other"),
        "the messages imply None for item 99": spoil(lived, AnnotationRecord, item=99),
        "the recorded pass does not fit": [*lived[:place], replace(ran, trace=(step,)), *lived[place + 1 :]],
        "no open call": [*lived[:3], *lived[5:]],
    }
    for message, records in cases.items():
        with pytest.raises(JournalError, match=f"the session does not replay: line .*{message}"):
            back(records)
