"""A session that is rebuilt from its records stands as it stood, and goes on as it would have (R14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.support import begin
from tests.strategies import policies, sessions
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.core import EpisodeType, Mark, Pinned, Policy
from wane.core.errors import JournalError
from wane.formats import get_format
from wane.formats.message_format import Transcript
from wane.formats.openai import OpenAIFormat
from wane.journal import (
    ConfigRecord,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PlacedMark,
    Record,
    StrategyRecord,
    UsageRecord,
    read,
)
from wane.rebuilding import Rebuilt, rebuild
from wane.strategies.strategy import Annotate, Fitted

Message = dict[str, Any]


def back(records: Sequence[Record]) -> Rebuilt:
    return rebuild(records, OpenAIFormat())


@dataclass
class Agent:
    """An agent without a model: it lives through a session that is given, and records it."""

    engine: Engine
    transcript: Transcript[Message] = field(default_factory=lambda: Transcript(OpenAIFormat()))
    records: list[Record] = field(default_factory=list)
    shortfalls: list[Pinned | None] = field(default_factory=list)

    @classmethod
    def start(cls, config: ConfigRecord, strategy: str = "cwl", annotate: Annotate = "model") -> Agent:
        context = ContextSettings(
            config.budget, policy=config.policy, annotate=annotate, strategy=strategy, remind_at=None
        )
        agent = cls(Engine(context))
        agent.configure(replace(config, strategy=strategy, annotate=annotate))
        return agent

    @classmethod
    def resume(cls, records: Sequence[Record]) -> Agent:
        it = back(records)
        return cls(it.engine, it.transcript, [*records], [*it.shortfalls])

    def configure(self, config: ConfigRecord) -> None:
        window = self.engine.window
        window.budget, window.policy, self.engine.overhead = config.budget, config.policy, config.overhead
        window.set_tool_classes(config.tool_classes)
        self.records.append(config)

    def live(self, messages: Sequence[Message], drift: int) -> None:
        for message in messages:
            if message["role"] == "assistant":
                self.call(drift)
            self.hear(message)

    def call(self, drift: int) -> None:
        fitted, items = self.engine.fit(), self.engine.item_count
        assert isinstance(fitted, Fitted)
        if fitted.report is not None and fitted.report.ran:
            self.records.append(PassRecord.of(fitted.report, items))
            self.shortfalls.append(fitted.report.pinned)
        elif isinstance(fitted.done, Mapping):
            self.records.append(StrategyRecord(items, self.engine.name, fitted.done))
        reported = max(0, sum(self.sizes()) + drift)
        self.engine.observe(reported)
        self.records.append(UsageRecord(items, reported, 7))

    def hear(self, message: Message) -> None:
        added = [self.engine.add(item, part) for item, part in self.transcript.take(message)]
        self.records.append(MessageRecord.of(message, added))

    def sizes(self) -> list[int]:
        shown = [slot for slot in self.engine.view if isinstance(slot, int)]
        return [len(str(message)) // 4 for message in self.transcript.view(shown)]


def state(engine: Engine) -> object:
    """All of an engine that can be seen."""
    if not engine.evicts:
        engine.redo(None)  # what follows from the history alone shows with the next request
    window = engine.window
    episodes = [
        (e.number, e.name, e.type, e.level, e.closed, e.settled, e.tokens, e.dependencies) for e in engine.episodes
    ]
    limits = window.budget, window.policy, engine.overhead
    return [*engine.view], engine.tokens, engine.evicted, engine.item_count, limits, episodes, window.pinned


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
    strategy = data.draw(st.sampled_from(("cwl", "truncate", "clear-tools")), label="strategy")
    annotate = data.draw(st.sampled_from(("model", "infer")), label="annotate")
    agent = Agent.start(config, strategy, annotate)
    agent.live(messages[:cut], drift)
    resumed = Agent.resume(agent.records)
    assert state(resumed.engine) == state(agent.engine)
    for one in (agent, resumed):
        if change:
            one.configure(replace(later, strategy=strategy, annotate=annotate))
        one.live(messages[cut:], drift)
    assert resumed.records == agent.records
    assert state(resumed.engine) == state(agent.engine)
    again = Agent.resume(agent.records)
    assert state(again.engine) == state(agent.engine)
    assert again.shortfalls == resumed.shortfalls == agent.shortfalls


@given(sessions(), configs, st.data())
def test_a_session_that_a_crash_cut_off_is_rebuilt_up_to_there(
    messages: list[Message], config: ConfigRecord, data: st.DataObject
) -> None:
    agent = Agent.start(config)
    agent.live(messages, 0)
    cut = data.draw(st.integers(0, len(agent.records)), label="cut")
    kept = [record.message for record in agent.records[:cut] if isinstance(record, MessageRecord)]
    assert back(agent.records[:cut]).messages == kept


TRUNCATE = ConfigRecord(60, Policy.paper(), strategy="truncate")

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
def session_records() -> list[Record]:
    agent = Agent.start(ConfigRecord(60, Policy.paper()))
    agent.live(MESSAGES, 0)
    return agent.records


def test_what_is_recorded_of_a_session(session_records: list[Record], tmp_path: Any) -> None:
    kinds = " ".join(record.kind for record in session_records)
    assert kinds == (
        "config message usage message message message"
        " pass usage message message pass usage message message pass usage message"
    )
    assert any(record.steps for record in session_records if isinstance(record, PassRecord))
    records = read(begin(tmp_path, session_records)).records
    assert [replace(record, at=None) for record in records] == session_records
    again = back(records)
    assert (again.messages, again.strategy, again.by_episode) == (MESSAGES, "cwl", True)
    assert [(e.name, e.type, e.description) for e in again.episodes if e.name] == [
        ("look", EpisodeType.EXPL, "it is there")
    ]


def test_notes_change_nothing(session_records: list[Record]) -> None:
    noted = [
        record
        for pair in zip(session_records, [NoteRecord("x")] * len(session_records), strict=True)
        for record in pair
    ]
    assert state(back(noted).engine) == state(back(session_records).engine)


def test_nothing_recorded_is_an_empty_window() -> None:
    empty = back([])
    assert (empty.engine.item_count, empty.strategy, empty.messages) == (0, None, [])


def test_passes_are_told_after_another_strategy_took_over(session_records: list[Record]) -> None:
    before = back(session_records)
    assert any(before.shortfalls)
    items = before.engine.item_count
    after = back([*session_records, TRUNCATE, StrategyRecord(items, "truncate", {"from": items - 1})])
    assert (after.strategy, after.by_episode, [*after.engine.view]) == ("truncate", False, [0, items - 1])
    assert [episode.level for episode in after.episodes] == [episode.level for episode in before.episodes]
    assert after.shortfalls == before.shortfalls


def test_reports_of_another_strategys_requests_say_nothing() -> None:
    agent = Agent.start(ConfigRecord(10_000, Policy()), "truncate")
    agent.live(MESSAGES, 3_000)
    before = back(agent.records).engine.tokens
    after = back([*agent.records, ConfigRecord(10_000)])
    assert before > 3_000 > after.engine.tokens


def test_parts_of_messages_are_refused() -> None:
    items: list[Message] = [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"role": "assistant", "content": "done"},
    ]
    with pytest.raises(JournalError, match="parts of messages"):
        rebuild([MessageRecord(item) for item in items], get_format("openai_responses"))


def spoil(records: list[Record], kind: type[Record], **changes: Any) -> list[Record]:
    """The records, with the last of a kind changed."""
    place = max(place for place, record in enumerate(records) if isinstance(record, kind))
    return [*records[:place], replace(records[place], **changes), *records[place + 1 :]]


def test_records_that_do_not_follow_from_each_other_are_refused(session_records: list[Record]) -> None:
    ran = next(record for record in session_records if isinstance(record, PassRecord) and record.steps)
    step = replace(ran.steps[0], removed=(1,))
    place = session_records.index(ran)
    cases = {
        r"line 16 \(pass\): it was recorded after 3 items, but comes after 11": spoil(
            session_records, PassRecord, items=3
        ),
        r"line 17 \(usage\): it was recorded after 3 items": spoil(session_records, UsageRecord, items=3),
        r"line 2 \(strategy\): it was recorded after 1 items": [StrategyRecord(1, "truncate", {}), *session_records],
        r"line 16 \(pass\): the recorded pass does not fit": [
            *session_records[:place],
            replace(ran, trace=(step,)),
            *session_records[place + 1 :],
        ],
        r"line 5 \(message\): .*no open call": [*session_records[:3], *session_records[4:]],
        ".*budget": spoil(session_records, ConfigRecord, budget=0),
        ".*'hope'": [*session_records, ConfigRecord(strategy="hope")],
        r"line 20 \(strategy\): a cut": [*session_records, TRUNCATE, StrategyRecord(12, "truncate", {"from": 99})],
        r"line 20 \(strategy\): ": [
            *session_records,
            replace(TRUNCATE, strategy="clear-tools"),
            StrategyRecord(12, "clear-tools", {"cleared": 5}),
        ],
    }
    for message, records in cases.items():
        with pytest.raises(JournalError, match=f"the session does not replay: {message}"):
            back(records)


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (PlacedMark(7, Mark("start", "x")), r"marks items \[7\], which are not items of the message"),
        (PlacedMark(0, Mark("end", "x")), "ends an episode that is not open"),
        (PlacedMark(0, Mark("start", "x", EpisodeType.ACT, ("never",))), "depends on"),
    ],
)
def test_marks_that_do_not_fit_the_history_are_refused(mark: PlacedMark, says: str) -> None:
    record = MessageRecord({"role": "assistant", "content": "x"}, (mark,))
    with pytest.raises(JournalError, match=says):
        back([record])
