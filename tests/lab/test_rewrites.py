"""What broke the cache: every planted cause is named, and nothing is where nothing changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.readers.promises import SESSIONS, needs_sessions
from wane.core import Kind
from wane.formats.message_format import Part
from wane.lab.cache.paid_again import Rewrite, examine, totals_by_cause
from wane.lab.readers import read_session
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Content
from wane.lab.recorded_session import CallUsage, RecordedSession
from wane.rewrites import Cause, Certainty, Explanation

LIFETIME = 300
STEP = 2_000
"""Tokens that each turn adds."""


class Event(Enum):
    """What happens ahead of a request."""

    NOTHING = "nothing"
    PAUSE = "pause"
    OTHER_MODEL = "other model"
    COMPACTION = "compaction"
    EFFORT = "another effort"
    NEW_SYSTEM = "new system prompt"
    NEW_FIRST_MESSAGE = "new first message"
    NEW_SYSTEM_REPORTED = "new system prompt, and the provider says so"


CAUSES = {
    Event.PAUSE: (Cause.IDLE, Certainty.RECORDED),
    Event.OTHER_MODEL: (Cause.MODEL, Certainty.RECORDED),
    Event.COMPACTION: (Cause.COMPACTION, Certainty.RECORDED),
    Event.EFFORT: (Cause.SETTINGS, Certainty.RECORDED),
    Event.NEW_SYSTEM: (Cause.HEAD, Certainty.UNKNOWN),
    Event.NEW_FIRST_MESSAGE: (Cause.HEAD, Certainty.UNKNOWN),
    Event.NEW_SYSTEM_REPORTED: (Cause.SYSTEM, Certainty.REPORTED),
}


@dataclass
class Client:
    """A client and its provider, which caches the system prompt and the whole of each request exactly."""

    builder: SessionBuilder = field(default_factory=lambda: SessionBuilder("planted", "claude-code"))
    clock: float = 1_000_000.0
    model: str = "claude-sonnet-4-6"
    versions: int = 0
    request: list[str] = field(default_factory=lambda: ["system", "first"])
    states: dict[str, list[str]] = field(default_factory=dict)

    def turn(self, event: Event) -> None:
        """Do a turn of the user after an event."""
        self.versions += 1
        self.clock += 2 * LIFETIME if event is Event.PAUSE else 10
        if event is Event.OTHER_MODEL:
            self.model = f"claude-sonnet-4-6-{self.versions}"
        elif event is Event.COMPACTION:
            self.request[1:] = [f"summary {self.versions}", "kept", "kept too"]
            self.builder.compaction("a summary", at=self.clock)
        elif event is Event.EFFORT:
            # The messages cached under another effort are of no use.
            self.builder.effort = self.request[1] = f"effort {self.versions}"
        elif event in (Event.NEW_SYSTEM, Event.NEW_SYSTEM_REPORTED):
            self.request[0] = f"system {self.versions}"
        elif event is Event.NEW_FIRST_MESSAGE:
            self.request[1] = f"first {self.versions}"
        self.request.append(f"turn {self.versions}")
        self.builder.user(Content("go on"))
        said = Explanation(Cause.SYSTEM, Certainty.REPORTED, "system_changed")
        rewritten = said if event is Event.NEW_SYSTEM_REPORTED else None
        expired = event is Event.PAUSE
        read = 0 if expired else self._read(self.states.get(self.model, []))
        total = STEP * len(self.request)
        usage = CallUsage(0, read, total - read, 100, rewritten=rewritten)
        self.builder.answer([Part(Kind.TEXT, "done")], usage=usage, at=self.clock, model=self.model)
        self.states[self.model] = list(self.request)

    def _read(self, state: list[str]) -> int:
        """Return what a request reads: all of the one before, or else the system prompt, or else nothing."""
        if state and self.request[: len(state)] == state:
            return STEP * len(state)
        return STEP if state[:1] == self.request[:1] else 0

    def session(self) -> RecordedSession:
        return self.builder.build()


def after(events: list[Event]) -> RecordedSession:
    client = Client()
    client.builder.effort = "effort 0"
    client.turn(Event.NOTHING)
    client.turn(Event.NOTHING)
    for event in events:
        client.turn(event)
    return client.session()


def cause_and_certainty(rewrite: Rewrite) -> tuple[Cause, Certainty]:
    return rewrite.explanation.cause, rewrite.explanation.certainty


@given(st.lists(st.sampled_from(list(Event)), max_size=30))
def test_names_every_planted_cause_and_nothing_else(events: list[Event]) -> None:
    examination = examine(after(events))
    expected = [(number + 2, *CAUSES[event]) for number, event in enumerate(events) if event in CAUSES]
    assert [(entry.call, *cause_and_certainty(entry)) for entry in examination.rewrites] == expected
    assert examination.compared == len(events) + 1


def test_counts_the_tokens_that_were_paid_again_and_their_price() -> None:
    (rewrite,) = examine(after([Event.PAUSE])).rewrites
    assert (rewrite.cached, rewrite.input, rewrite.read, rewrite.tokens) == (8_000, 10_000, 0, 8_000)
    # Writing costs 1.25 of $3 for a million tokens, reading 0.1 of it.
    assert rewrite.dollars == pytest.approx(8_000 * (1.25 - 0.1) * 3e-6)
    totals = totals_by_cause([rewrite])[Cause.IDLE]
    assert (totals.requests, totals.tokens, totals.priced) == (1, 8_000, 1)


def test_says_nothing_of_sessions_without_cache_reads() -> None:
    builder = SessionBuilder("silent", "openai")
    for number in range(3):
        builder.user(Content("go on"))
        builder.answer([Part(Kind.TEXT, "done")], usage=CallUsage(5_000 * (number + 1)), model="gpt-5.5")
    examination = examine(builder.build())
    assert (examination.compared, examination.rewrites) == (0, ())
    assert examination.to_dict()["tokens"] is None


def test_counts_calls_without_usage_as_unknown() -> None:
    client = Client()
    client.turn(Event.NOTHING)
    client.builder.answer([Part(Kind.TEXT, "lost")], at=client.clock)
    client.turn(Event.NOTHING)
    examination = examine(client.session())
    assert (examination.compared, examination.without_usage) == (1, 1)


def test_takes_no_pause_from_a_clock_that_went_back() -> None:
    client = Client()
    client.turn(Event.NOTHING)
    client.clock -= 10_000
    client.turn(Event.NEW_SYSTEM)
    (rewrite,) = examine(client.session()).rewrites
    assert rewrite.explanation.cause is Cause.HEAD


@pytest.mark.parametrize(
    ("pause", "read", "cause"),
    [
        (400, 30_000, Cause.IDLE),  # the part for five minutes had expired, the one for an hour ahead of it was read
        (200, 30_000, Cause.UNEXPLAINED),
        (400, 20_000, Cause.UNEXPLAINED),  # the read ends elsewhere
    ],
)
def test_knows_two_lifetimes_in_one_prefix(pause: float, read: int, cause: Cause) -> None:
    builder, at = SessionBuilder("planted", "claude-code"), 1_000.0
    usages = (
        CallUsage(10, 0, 10_000, 9, cache_write_hour=10_000),
        CallUsage(10, 10_000, 20_000, 9, cache_write_hour=20_000),
        CallUsage(10, 30_000, 15_000, 9),
        CallUsage(10, 45_000, 5_000, 9),
        CallUsage(10, read, 50_100 - read, 9),
    )
    builder.user(Content("begin"))
    for number, usage in enumerate(usages):
        at += pause if number == 4 else 10
        builder.answer([Part(Kind.TEXT, "looking")], usage=usage, at=at, model="claude-opus-4-6")
        builder.user(Content("go on"))
    (rewrite,) = examine(builder.build()).rewrites
    assert (rewrite.call, rewrite.explanation.cause) == (4, cause)


@pytest.mark.parametrize(
    ("year", "cause", "certainty"), [(2025, Cause.SYSTEM, Certainty.INFERRED), (2027, Cause.HEAD, Certainty.UNKNOWN)]
)
def test_knows_when_a_client_wrote_the_time_of_its_start(year: int, cause: Cause, certainty: Certainty) -> None:
    client = Client(SessionBuilder("planted", "pi"), clock=datetime(year, 1, 1, tzinfo=UTC).timestamp())
    for event in (Event.NOTHING, Event.NEW_SYSTEM, Event.NOTHING, Event.NEW_FIRST_MESSAGE):
        client.turn(event)
    restarted, edited = examine(client.session()).rewrites
    assert (restarted.call, *cause_and_certainty(restarted)) == (1, cause, certainty)
    # The system prompt was read, so it was the same.
    assert (edited.call, *cause_and_certainty(edited)) == (3, Cause.HEAD, Certainty.UNKNOWN)


CLAUDE_CODE = {
    "skill": [("user", "<command-message>review</command-message>"), ("user", "Base directory for this skill: /s")],
    "exit": [("user", "<command-name>/exit</command-name>"), ("user", "go on")],
    "nothing": [("user", "go on")],
    "quoted": [("user", "go on")],  # the answer quotes the words of an exit
}


@pytest.mark.parametrize(
    ("events", "version", "calls"),
    [
        (["skill", "nothing", "nothing"], "2.1.37", [1, 2]),  # its turn and the one after it
        (["skill", "nothing", "nothing"], "2.1.38", []),
        (["exit", "nothing", "nothing"], "2.1.96", [1]),
        (["exit", "nothing", "nothing"], "2.1.97", []),
        (["exit", "skill", "nothing"], "a build", []),
        (["quoted", "nothing", "nothing"], "2.1.96", []),
    ],
)
def test_knows_events_at_which_claude_code_changed_its_messages(
    tmp_path: Path, events: list[str], version: str, calls: list[int]
) -> None:
    lines: list[dict[str, object]] = []
    for number, event in enumerate(["nothing", *events]):
        for kind, words in CLAUDE_CODE[event]:
            lines.append({"type": kind, "message": {"role": kind, "content": words}})
        usage = {"cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 20_000 + number, "output_tokens": 9}
        answer = {"id": f"m{number}", "role": "assistant", "model": "claude-opus-4-6", "stop_reason": "end_turn"}
        words = "<command-name>/exit</command-name>" if event == "quoted" else "done"
        answer |= {"content": [{"type": "text", "text": words}], "usage": usage}
        lines.append({"type": "assistant", "version": version, "message": answer})
    common = {"sessionId": "s", "timestamp": "2026-02-08T09:00:00Z"}
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(json.dumps(common | line | {"uuid": str(n)}) for n, line in enumerate(lines)))
    (session,) = read_session(path)
    rewrites = examine(session).rewrites
    assert [rewrite.call for rewrite in rewrites] == [1, 2, 3]
    assert [
        rewrite.call for rewrite in rewrites if cause_and_certainty(rewrite) == (Cause.MESSAGES, Certainty.INFERRED)
    ] == calls
    for number, update in enumerate(rewrites):
        session.calls[update.call] = replace(session.calls[update.call], version=f"2.0.{number}")
    assert {cause_and_certainty(rewrite) for rewrite in examine(session).rewrites[1:]} == {
        (Cause.MESSAGES, Certainty.INFERRED)
    }


def explain_usages(*usages: CallUsage, model: str, spoken: int = 0) -> list[tuple[int, Cause, Certainty]]:
    """Return what is said of requests in one turn, of which the user interrupts one."""
    builder = SessionBuilder("planted", "codex")
    builder.user(Content("begin"))
    for number, usage in enumerate(usages):
        if number and number == spoken:
            builder.user(Content("and this"))
        builder.answer([Part(Kind.TEXT, "looking")], usage=usage, at=100.0 + number, model=model)
    return [(rewrite.call, *cause_and_certainty(rewrite)) for rewrite in examine(builder.build()).rewrites]


def test_what_the_next_request_reads_again_was_there_all_along() -> None:
    usages = (CallUsage(0, 0, 20_000, 9), CallUsage(0, 20_000, 2_000, 9), CallUsage(0, 0, 24_000, 9))
    routed = [(2, Cause.ROUTING, Certainty.INFERRED)]
    assert explain_usages(*usages, CallUsage(0, 22_000, 4_000, 9), model="claude-opus-4-6") == [
        *routed,
        (3, Cause.UNEXPLAINED, Certainty.UNKNOWN),  # what the request before has written
    ]
    unknown = [(2, Cause.HEAD, Certainty.UNKNOWN)]
    assert explain_usages(*usages, CallUsage(0, 24_000, 2_000, 9), model="claude-opus-4-6") == unknown
    # The next request reads what this one has written, which is shorter than what was cached before.
    shorter = (*usages[:2], CallUsage(0, 0, 21_000, 9), CallUsage(0, 21_000, 1_000, 9))
    assert explain_usages(*shorter, model="claude-opus-4-6") == unknown


@pytest.mark.parametrize(("spoken", "cause"), [(0, Cause.ROUTING), (2, Cause.HEAD)])
def test_within_a_turn_an_automatic_cache_misses_by_itself(spoken: int, cause: Cause) -> None:
    usages = (CallUsage(17_568, 2_432), CallUsage(600, 19_840), CallUsage(20_568, 2_432), CallUsage(900, 22_912))
    ((call, found, _),) = explain_usages(*usages, model="gpt-5.5", spoken=spoken)
    assert (call, found) == (2, cause)


@pytest.mark.parametrize(("pause", "cause"), [(590, Cause.HEAD), (610, Cause.IDLE)])
def test_an_automatic_cache_may_be_gone_after_ten_minutes(pause: int, cause: Cause) -> None:
    builder = SessionBuilder("planted", "codex")
    for number, usage in enumerate((CallUsage(17_568, 2_432), CallUsage(600, 19_840), CallUsage(20_568, 2_432))):
        builder.user(Content("go on"))
        at = 100.0 + number + (pause if number == 2 else 0)
        builder.answer([Part(Kind.TEXT, "done")], usage=usage, at=at, model="gpt-5.5")
    (rewrite,) = examine(builder.build()).rewrites
    certainty = Certainty.INFERRED if cause is Cause.IDLE else Certainty.UNKNOWN
    assert cause_and_certainty(rewrite) == (cause, certainty)


@pytest.mark.full
@needs_sessions
def test_says_of_real_sessions_only_what_is_known() -> None:
    folders = ["claude-code", "pi", "codex"]
    sessions = [session for folder in folders for session in read_session(SESSIONS / folder)]
    totals = totals_by_cause(rewrite for session in sessions for rewrite in examine(session).rewrites)
    tokens = sum(total.tokens for total in totals.values())
    known = 0
    for total in totals.values():
        known += total.certainty.get(Certainty.RECORDED, 0) + total.certainty.get(Certainty.REPORTED, 0)
    assert tokens > 5_000_000
    assert 0.25 * tokens < known
    assert totals[Cause.COMPACTION].requests == sum(len(session.compactions) for session in sessions)
    assert totals[Cause.SYSTEM].certainty.keys() == {Certainty.REPORTED, Certainty.INFERRED}
    assert totals[Cause.SETTINGS].certainty.keys() == {Certainty.RECORDED}
    assert 0.95 * tokens < tokens - sum(total.certainty.get(Certainty.UNKNOWN, 0) for total in totals.values())


LOST = "everything but its first part was written again"


@pytest.mark.quick(5)
@needs_sessions
@pytest.mark.parametrize("number", [20, 57, 90])
@pytest.mark.parametrize(
    ("event", "cause"),
    [("nothing", None), (LOST, Cause.HEAD), ("pause", Cause.IDLE), ("model", Cause.MODEL), ("report", Cause.TOOLS)],
)
def test_names_what_is_planted_in_a_real_session_and_nothing_else(number: int, event: str, cause: Cause | None) -> None:
    (session,) = read_session(SESSIONS / "claude-code" / "packmind-16_b343528434_0.jsonl")
    assert not examine(session).rewrites
    calls, head = list(session.calls), min(call.usage.cache_read for call in session.calls if call.usage)
    usage = calls[number].usage
    assert usage is not None
    if event != "nothing":
        written = usage.cache_write + usage.cache_read - head
        said = Explanation(Cause.TOOLS, Certainty.REPORTED, "tools_changed") if event == "report" else None
        usage = replace(usage, cache_read=head, cache_write=written, rewritten=said)
        calls[number] = replace(calls[number], usage=usage)
    if event == "pause":
        calls[number:] = [replace(call, at=(call.at or 0) + 7_200) for call in calls[number:]]
    if event == "model":
        calls[number] = replace(calls[number], model="claude-haiku-4-5")
    session.calls = calls
    causes = [(rewrite.call, rewrite.explanation.cause) for rewrite in examine(session).rewrites]
    assert causes == ([] if cause is None else [(number, cause)])
