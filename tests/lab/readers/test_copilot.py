"""Sessions of GitHub Copilot CLI: answers in chunks, sub-agents, what was taken back, compactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab.readers.promises import SESSIONS, check, kinds, needs_sessions, problems, texts, title_of
from tests.lab.readers.writing import Line, write_lines
from wane import Kind
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession


def event(name: str, kind: str, agent: str | None = None, **data: Any) -> Line:
    line = {"type": kind, "data": data, "id": name, "timestamp": "2026-01-01T00:00:01Z", "parentId": None}
    return line if agent is None else {**line, "agentId": agent}


def user(name: str, text: str, **data: Any) -> Line:
    return event(name, "user.message", content=text, transformedContent=f"<now/>\n{text}", **data)


def answer(name: str, *calls: str, agent: str | None = None, **data: Any) -> Line:
    requests = [{"toolCallId": call, "name": "view", "arguments": {"path": "x"}} for call in calls]
    return event(name, "assistant.message", agent, model="claude-x", toolRequests=requests, **data)


def result(name: str, call: str, text: str = "ok", agent: str | None = None, **data: Any) -> Line:
    about = {"toolCallId": call, "success": True, "result": {"content": text}, **data}
    return event(name, "tool.execution_complete", agent, **about)


START = event("e0", "session.start", sessionId="s", context={"cwd": "/w"})


def lines() -> list[Line]:
    return [
        START,
        event("e1", "system.message", role="system", content="You are an agent."),
        event("e2", "hook.start", hookType="userPromptSubmitted"),
        user("e3", "go"),
        answer("e4", "a", content="on it", reasoningText="hm", reasoningOpaque="x" * 300),
        result("e5", "a"),
        event("e6", "system.notification", content="<system_notification>\ndone\n</system_notification>"),
        event("e7", "session.compaction_complete", success=True, summaryContent="all", preCompactionTokens=5),
        event("e8", "session.truncation", messagesRemovedDuringTruncation=2),
        event("e9", "session.snapshot_rewind", upToEventId="e8", eventsRemoved=1),
        answer("e10", "b", agent="sub", content="look"),
        result("e11", "b", agent="sub"),
        answer("e12", content="done"),
    ]


def read(folder: Path, *written: Line) -> RecordedSession:
    path = write_lines(folder / "s.jsonl", *written)
    assert title_of(path) == "GitHub Copilot CLI"
    (session,) = read_session(path)
    return check(session)


def test_events_become_a_session(tmp_path: Path) -> None:
    session = read(tmp_path, *lines())
    assert kinds(session) == ["system", "user", "reasoning", "text", "call", "result", "notice", "text"]
    assert session.parts[1].text == "<now/>\ngo"  # what the model got
    assert (session.title, session.cwd, session.source) == ("go", "/w", "copilot-cli")
    assert session.parts[2].needs == (1,)  # thinking with a seal stays with what follows it (R12)
    assert {call.model for call in session.calls} == {"claude-x"}
    assert all(call.usage is None for call in session.calls)  # Copilot does not keep it
    (compaction,) = session.compactions
    assert (compaction.position, compaction.summary, compaction.tokens_before) == (7, "all", 5)
    (side,) = session.sidechains
    assert (side.name, kinds(side)) == ("sub", ["text", "call", "result"])


def test_chunks_of_an_answer_are_one_call(tmp_path: Path) -> None:
    chunks = [answer("a1", "a", content="x", chunkIndex=0), answer("a2", "b", content="y", chunkIndex=1)]
    session = read(tmp_path, START, user("u", "go"), *chunks, result("r1", "a"), result("r2", "b"))
    assert [(call.first, call.stop) for call in session.calls] == [(1, 5)]


def test_turns_that_were_taken_back_are_left_out_and_named(tmp_path: Path) -> None:
    back = event("w", "session.snapshot_rewind", upToEventId="u2", eventsRemoved=2)
    said = [user("u1", "go"), answer("a1", content="x"), user("u2", "no"), answer("a2", content="y")]
    session = read(tmp_path, START, *said, back, user("u3", "yes"))
    assert texts(session) == ["<now/>\ngo", "x", "<now/>\nyes"]
    assert problems(session) == ["4: lines 4 to 5: on an abandoned branch (a turn that was edited or tried again)"]
    assert (len(session.abandoned), session.unread) == (1, 0)


def test_what_copilot_itself_says_in_the_users_place_is_a_notice(tmp_path: Path) -> None:
    auto = [user("u2", "skill", source="skill-pdf"), user("u3", "go on", isAutopilotContinuation=True)]
    session = read(tmp_path, START, user("u1", "go", source="user"), *auto)
    assert kinds(session) == ["user", "notice", "notice"]


def test_words_may_be_blocks(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "in two"}, {"type": "text", "text": "blocks"}]
    said = event("m", "assistant.message", content=blocks, toolRequests=[{"toolCallId": "a", "name": "view"}])
    session = read(tmp_path, START, user("u", "go"), said, result("r", "a", result={"content": blocks}))
    assert texts(session) == ["<now/>\ngo", "in two\nblocks", "view", "in two\nblocks"]


def test_tools_that_the_user_ran_are_no_results(tmp_path: Path) -> None:
    ran = result("r", "mine", isUserRequested=True)
    session = read(tmp_path, START, user("u", "go"), ran, answer("a", content="x"), event("z", "unheard.of"))
    assert kinds(session) == ["user", "text"]
    assert problems(session) == ["5: an event of the unknown type 'unheard.of'"]


@needs_sessions
def test_a_recorded_session() -> None:
    (session,) = map(check, read_session(SESSIONS / "copilot-cli"))
    assert session.title.startswith("investigate why i get")
    assert session.cwd == "/home/entity/projects/EntityProcess/agentv"
    assert (len(session.calls), len(session.parts)) == (54, 170)
    assert {call.model for call in session.calls} == {"claude-sonnet-4.6"}
    assert sum(part.kind is Kind.RESULT for part in session.parts) == 68
    assert session.problems == []


def test_what_cannot_be_read_of_a_sub_agent_of_which_nothing_is_read_is_named(tmp_path: Path) -> None:
    session = read(tmp_path, START, user("u", "go"), answer("a", content="x"), result("r", "lost", agent="sub"))
    assert not session.sidechains
    assert problems(session) == ["4: a result of the unknown call 'lost'"]
