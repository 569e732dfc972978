"""Sessions of Claude Code: calls over several lines, branches, sub-agents, compactions, what the harness puts in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import SESSIONS, check, kinds, needs_sessions, problems, texts, title_of
from tests.lab.readers.writing import Line, write_lines
from wane import Kind
from wane.lab.cache.paid_again import examine
from wane.lab.counting import count
from wane.lab.readers import claude_code, gather, read_session
from wane.lab.recorded_session import CallUsage, RecordedSession
from wane.lab.replaying.spent import account_of
from wane.lab.replaying.strategy_replay import Pricing
from wane.rewrites import Cause, Certainty

USAGE = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 9}


class Transcript:
    """Lines that follow one another, unless they are told to follow another one; the first is a turn of the user."""

    def __init__(self, begin: str | None = None, **shared: Any) -> None:
        self.lines: list[Line] = []
        self.shared = {"sessionId": "s", "cwd": "/w", "isSidechain": False, **shared}
        self._last: str | None = None
        if begin is not None:
            self.user(begin)

    def add(self, kind: str, *, uuid: str | None = None, **data: Any) -> str:
        uuid = uuid or f"{self.shared.get('agentId', '')}u{len(self.lines)}"
        parent = data.pop("after", self._last)
        stamp = f"2026-01-01T00:00:{len(self.lines):02}Z"
        line = {"parentUuid": parent, "uuid": uuid, "type": kind, "timestamp": stamp, **self.shared, **data}
        self.lines.append(line)
        self._last = uuid
        return uuid

    def user(self, content: object, **data: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **data)

    def result(self, call_id: str, text: object = "ok", **data: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return self.user([block], toolUseResult={"stdout": text}, **data)

    def answer(
        self, message: str, *blocks: dict[str, Any], usage: Any = USAGE, stop: str | None = None, **data: Any
    ) -> str:
        inner = {"id": message, "role": "assistant", "model": "claude-x", "content": list(blocks), "usage": usage}
        return self.add("assistant", message={**inner, "stop_reason": stop}, **data)

    def note(self, **line: Any) -> None:
        self.lines.append(line)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": arguments}


def thinking_block(text: str, signature: str = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def read(folder: Path, lines: list[Line]) -> RecordedSession:
    path = write_lines(folder / "s.jsonl", *lines)
    assert title_of(path) == "Claude Code"
    (session,) = claude_code.read(path)
    return check(session)


def test_a_call_in_fast_mode_is_priced_as_such(tmp_path: Path) -> None:
    script = Transcript("fix it")
    script.answer("m", text_block("done"), usage={**USAGE, "speed": "fast", "service_tier": "standard"})
    (call,) = read(tmp_path, script.lines).calls
    assert call.priced_as == "claude-x (fast)"


def test_what_an_advisor_read_is_no_view_but_costs_what_its_model_costs(tmp_path: Path) -> None:
    def iteration_usage(kind: str, fresh: int, read: int, output: int, **more: str) -> dict[str, Any]:
        tokens = {"input_tokens": fresh, "cache_read_input_tokens": read, "output_tokens": output}
        return {"type": kind, **tokens, "cache_creation_input_tokens": 0, **more}

    advised = {
        "input_tokens": 1_000,
        "cache_read_input_tokens": 20_000,
        "output_tokens": 500,
        "server_tool_use": {"web_search_requests": 2},
        "iterations": [
            iteration_usage("message", 600, 10_000, 100),
            iteration_usage("advisor_message", 100_000, 0, 4_000, model="claude-opus-4-6"),
            iteration_usage("message", 400, 10_000, 400),
        ],
    }
    script = Transcript("fix it", model="claude-sonnet-4-6")
    script.answer("m", text_block("done"), usage=advised, stop="end_turn")
    script.lines[-1]["message"]["model"] = "claude-sonnet-4-6"
    session = read(tmp_path, script.lines)
    (call,) = session.calls
    assert call.usage == CallUsage(600, 10_000, 0, 500, fees=0.02)
    assert [(more.model, more.usage.total_input) for more in call.samplings if more.usage] == [
        ("claude-opus-4-6", 100_000),
        ("claude-sonnet-4-6", 10_400),
    ]
    pricing = Pricing.of_recording(session, Pricing.of("anthropic:claude-sonnet-4-6"))
    account = account_of(session, count(session).output_tokens, pricing)
    assert account.cost == pytest.approx(
        1_000 * 3e-6 + 20_000 * 0.3e-6 + 500 * 15e-6 + 100_000 * 5e-6 + 4_000 * 25e-6 + 0.02
    )
    assert account.input_tokens == 121_000


def test_lines_of_one_message_are_one_call_though_its_tools_ran_while_it_streamed(tmp_path: Path) -> None:
    script = Transcript("fix it")
    script.answer("m", thinking_block("hm"))
    script.answer("m", text_block("on it"))
    first = script.answer("m", tool("a", path="x"))
    script.add("progress", data={"type": "hook_progress"}, after=first)
    script.result("a", after=first)
    script.answer("m", tool("b", path="y"), usage={**USAGE, "output_tokens": 30}, after=first)
    script.result("b")
    script.answer("n", text_block("done"))
    session = read(tmp_path, script.lines)
    assert kinds(session) == ["user", "reasoning", "text", "call", "call", "result", "result", "text"]
    assert texts(session)[3] == 'Read{"path":"x"}'
    one, two = session.calls
    assert (one.first, one.stop, one.usage, one.model) == (1, 5, CallUsage(3, 100, 20, 30), "claude-x")
    assert (one.at, two.first) == (1_767_225_606.0, 7)
    assert [part.needs for part in session.parts[1:5]] == [(1,), (), (-2,), (-3,)]
    assert (session.title, session.cwd, session.problems) == ("fix it", "/w", [])


def test_output_that_was_noted_when_the_answer_began_is_no_figure(tmp_path: Path) -> None:
    script = Transcript()
    script.answer("a", text_block("word " * 100), usage={**USAGE, "output_tokens": 1})
    script.answer("b", text_block("word " * 100), usage={**USAGE, "output_tokens": 1}, stop="end_turn")
    script.answer("c", text_block("word " * 100), usage={**USAGE, "output_tokens": 105})
    script.answer("d", text_block("x"), usage={"input_tokens": 0, "output_tokens": 0})
    session = read(tmp_path, script.lines)
    assert [call.usage and call.usage.output for call in session.calls[:3]] == [None, 1, 105]
    assert session.calls[0].usage is not None
    assert session.calls[3].usage is None


def test_a_turn_that_was_edited_leaves_a_branch_which_is_named(tmp_path: Path) -> None:
    script = Transcript("one")
    start = script.answer("a", text_block("first"))
    script.user("wrong")
    script.answer("b", tool("x"))
    script.result("x")
    script.user("right", after=start)
    script.answer("c", text_block("second"))
    session = read(tmp_path, script.lines)
    assert texts(session) == ["one", "first", "right", "second"]
    assert problems(session) == ["3: lines 3 to 5: on an abandoned branch (a turn that was edited or tried again)"]
    assert (len(session.abandoned), session.unread) == (1, 0)


def test_a_line_that_broke_does_not_take_all_before_it_along(tmp_path: Path) -> None:
    script = Transcript("go")
    script.answer("m", tool("a"))
    script.result("a")
    script.answer("n", text_block("done"))
    lines = script.lines
    lines[2] = json.dumps(lines[2])[:90]
    session = read(tmp_path, lines)
    assert kinds(session) == ["user", "call", "result", "text"]
    assert [problem.split(" (")[0] for problem in problems(session)] == [
        "3: not JSON",
        "4: no result of the call 'a'; taken as empty",
    ]


def test_a_session_that_was_resumed_repeats_its_lines_which_count_once(tmp_path: Path) -> None:
    script = Transcript("go")
    script.answer("m", text_block("a"), tool("x"))
    script.result("x")
    repeated = list(script.lines)
    # A version that gave the lines that it repeated new ids.
    script.answer("m", text_block("a"), tool("x"))
    script.answer("n", text_block("b"))
    session = read(tmp_path, repeated + script.lines)
    assert kinds(session) == ["user", "text", "call", "result", "text"]
    assert len(session.calls) == 2


def test_a_compaction_is_no_turn_of_the_user(tmp_path: Path) -> None:
    script = Transcript("go")
    kept = script.answer("m", text_block("a"))
    about = {"trigger": "auto", "preTokens": 5000}
    script.add("system", subtype="compact_boundary", after=None, logicalParentUuid=kept, compactMetadata=about)
    script.user("This session is continued: all about it", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    script.user("on")
    tail = script.answer("n", text_block("b"))
    segment = {"headUuid": kept, "anchorUuid": "x", "tailUuid": tail}
    script.add(
        "system",
        subtype="compact_boundary",
        after=None,
        logicalParentUuid=tail,
        compactMetadata={"preservedSegment": segment},
    )
    script.answer("o", text_block("c"), after=tail)
    session = read(tmp_path, script.lines)
    assert texts(session) == ["go", "a", "on", "b", "c"]
    first, second = session.compactions
    assert (first.position, first.first_kept, first.tokens_before) == (2, 2, 5000)
    assert first.summary == "This session is continued: all about it"
    assert (second.position, second.first_kept, second.summary) == (4, 1, "")


def test_what_the_harness_puts_in_is_a_notice_and_a_command_gives_the_title(
    tmp_path: Path,
) -> None:
    script = Transcript()
    script.user("Caveat: the messages below were generated by the user", isMeta=True)
    script.user(
        "<command-name>/review</command-name>\n<command-message>x</command-message>\n<command-args>all</command-args>"
    )
    script.user("<local-command-stdout>hm</local-command-stdout>")
    script.add("system", subtype="local_command", content="<local-command-stdout>more</local-command-stdout>")
    script.add("system", subtype="turn_duration", durationMs=5)
    script.user("only for the screen", isVisibleInTranscriptOnly=True)
    script.add(
        "assistant",
        message={"id": "e", "model": "<synthetic>", "content": [text_block("API Error")]},
        isApiErrorMessage=True,
    )
    script.answer("m", text_block("a"))
    session = read(tmp_path, script.lines)
    assert kinds(session) == ["notice", "user", "notice", "notice", "text"]
    assert session.title == "/review all"
    assert session.problems == []


def test_what_was_queued_while_the_agent_worked_comes_where_it_was_given_to_it(tmp_path: Path) -> None:
    script = Transcript("go")
    script.note(type="queue-operation", operation="enqueue", sessionId="s", content='{"task_id":"1"}')
    script.note(type="queue-operation", operation="enqueue", sessionId="s", content="and that too")
    script.note(type="queue-operation", operation="enqueue", sessionId="s", content="taken back")
    script.answer("m", tool("a"))
    script.result("a")
    script.note(type="queue-operation", operation="remove", sessionId="s")
    script.note(type="queue-operation", operation="popAll", sessionId="s", content="taken back")
    script.answer("n", text_block("b"))
    session = read(tmp_path, script.lines)
    assert texts(session) == ["go", "Read{}", "ok", "and that too", "b"]


def test_what_was_queued_and_attached_too_comes_once(tmp_path: Path) -> None:
    script = Transcript("go")
    script.note(type="queue-operation", operation="enqueue", sessionId="s", content="and that too")
    script.note(type="queue-operation", operation="remove", sessionId="s", content="and that too")
    rendered = [{"content": "<system-reminder>The user sent: and that too</system-reminder>"}]
    script.add("attachment", attachment={"type": "queued_command", "prompt": "and that too"}, rendered=rendered)
    script.answer("n", text_block("b"))
    session = read(tmp_path, script.lines)
    assert texts(session)[1:] == ["<system-reminder>The user sent: and that too</system-reminder>", "b"]


def test_images_and_sealed_thinking_are_reckoned(tmp_path: Path) -> None:
    script = Transcript()
    script.user(
        [text_block("see"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}]
    )
    script.answer(
        "m",
        thinking_block("", "x" * 1835),
        thinking_block("", "short"),
        {"type": "redacted_thinking", "data": "y" * 1035},
        tool("a"),
    )
    script.result("a", [text_block("shot"), {"type": "image", "source": {"type": "base64", "data": "x"}}])
    session = read(tmp_path, script.lines)
    assert [part.extra_tokens for part in session.parts] == [1000, 300, 150, 0, 1000]
    assert [part.needs for part in session.parts] == [(), (1,), (1,), (-2, -1), ()]


def test_tools_that_the_provider_ran_have_their_results_in_the_answer(tmp_path: Path) -> None:
    script = Transcript()
    server = {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "q"}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "w",
        "content": [{"type": "web_search_result", "url": "u"}],
    }
    script.answer("m", server, found, text_block("so"))
    session = read(tmp_path, script.lines)
    assert kinds(session) == ["call", "result", "text"]
    assert (session.calls[0].first, session.calls[0].stop) == (0, 3)


def sub_agent(agent: str, prompt: str) -> Transcript:
    script = Transcript(prompt, isSidechain=True, agentId=agent)
    script.answer(f"{agent}m", tool(f"{agent}a"))
    script.result(f"{agent}a")
    script.answer(f"{agent}n", text_block("found"))
    return script


def test_sub_agents_are_kept_apart_wherever_they_are_recorded(tmp_path: Path) -> None:
    script = Transcript("go")
    script.answer("m", tool("t"))
    told = sub_agent("told", "look there")
    for line in told.lines:
        assert isinstance(line, dict)
        message = {
            "type": line["type"],
            "uuid": line["uuid"],
            "timestamp": line["timestamp"],
            "message": line["message"],
        }
        script.add("progress", data={"type": "agent_progress", "agentId": "told", "message": message})
    script.result("t", "found")
    inside = sub_agent("inside", "look here")
    write_lines(tmp_path / "s" / "subagents" / "agent-own.jsonl", *sub_agent("own", "look").lines)
    write_lines(tmp_path / "agent-beside.jsonl", *sub_agent("beside", "look").lines)
    write_lines(tmp_path / "agent-strange.jsonl", *Transcript(sessionId="other").lines)
    session = read(tmp_path, script.lines + inside.lines)
    assert kinds(session) == ["user", "call", "result"]
    assert [side.name for side in session.sidechains] == ["agent-own", "agent-beside", "s/told", "s/inside"]
    assert [kinds(side) for side in session.sidechains] == [["user", "call", "result", "text"]] * 4
    assert all(len(side.calls) == 2 for side in session.sidechains)


def test_a_folder_gives_sub_agents_once_inside_the_session_that_started_them(tmp_path: Path) -> None:
    script = Transcript("go")
    write_lines(tmp_path / "s.jsonl", *script.lines)
    write_lines(tmp_path / "s" / "subagents" / "agent-own.jsonl", *sub_agent("own", "look").lines)
    write_lines(tmp_path / "agent-beside.jsonl", *sub_agent("beside", "look").lines)
    lone = Transcript("look", isSidechain=True, agentId="lone", sessionId="gone")
    write_lines(tmp_path / "agent-lone.jsonl", *lone.lines)
    sessions = read_session(tmp_path)
    assert [session.name for session in sessions] == ["agent-lone", "s"]
    assert [side.name for side in sessions[1].sidechains] == ["agent-own", "agent-beside"]


def test_sub_agents_without_a_name_are_told_apart_by_their_chains(tmp_path: Path) -> None:
    script = Transcript("go")
    script.answer("m", text_block("a"))
    for start in ("one", "two"):
        script.user(start, isSidechain=True, after=None)
        script.answer(f"{start}m", text_block("b"), isSidechain=True)
    session = read(tmp_path, script.lines)
    assert texts(session) == ["go", "a"]
    assert [texts(side) for side in session.sidechains] == [["one", "b"], ["two", "b"]]


def test_a_file_of_a_sub_agent_is_a_session_too(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "agent-x.jsonl", *sub_agent("x", "look").lines)
    (session,) = claude_code.read(path)
    assert (kinds(session), session.sidechains, session.title) == (["user", "call", "result", "text"], [], "look")


def test_what_is_unknown_is_named_once_a_line(tmp_path: Path) -> None:
    script = Transcript("go")
    script.note(type="file-history-snapshot", messageId="x", snapshot={})
    script.note(type="novel")
    script.lines.append(b"\x00\x01\xff")
    script.answer("m", text_block("a"))
    session = read(tmp_path, script.lines)
    assert kinds(session) == ["user", "text"]
    assert [problem.split(" (")[0] for problem in problems(session)] == [
        "3: a line of the unknown type 'novel'",
        "4: not JSON",
    ]


@pytest.mark.full
@needs_sessions
@pytest.mark.parametrize(
    ("name", "calls", "parts", "turns", "compactions", "sides", "side_calls"),
    [
        ("entireio-43_2b48f6b6e6_0", 258, 768, 41, [449, 655], 2, 22),
        ("entireio-5e_5207b424e2_0", 248, 870, 14, [308, 673], 0, 0),
        ("entireio-bc_cb77bb88fa_1", 198, 717, 22, [251, 490], 1, 6),
        ("entireio-cd_95adddad32_0", 225, 774, 43, [187, 445, 753], 0, 0),
        ("packmind-16_b343528434_0", 112, 344, 5, [], 3, 26),
        ("packmind-8f_2ac5b863c7_0", 99, 284, 2, [], 0, 0),
    ],
)
def test_the_shared_sessions(
    name: str, calls: int, parts: int, turns: int, compactions: list[int], sides: int, side_calls: int
) -> None:
    (session,) = read_session(SESSIONS / "claude-code" / f"{name}.jsonl")
    check(session)
    assert (len(session.calls), len(session.parts), len(session.user_turns)) == (calls, parts, turns)
    assert [compaction.position for compaction in session.compactions] == compactions
    assert all(compaction.summary and compaction.tokens_before for compaction in session.compactions)
    assert len(session.sidechains) == sides
    assert sum(len(side.calls) for side in session.sidechains) == side_calls
    assert all(call.usage and call.at for call in session.calls)
    called = {part.call_id for part in session.parts if part.kind is Kind.CALL}
    answered = {part.call_id for part in session.parts if part.kind is Kind.RESULT}
    assert called == answered
    left = [problem for problem in session.problems if "branch" not in problem.what]
    assert left == []


def test_calls_that_a_fork_copied_count_once(tmp_path: Path) -> None:
    origin = Transcript()
    for name in ("one", "two"):
        origin.user(name)
        origin.answer(name, text_block(f"done {name}"))
    fork = Transcript(sessionId="t")
    fork.lines = [{**line, "sessionId": "t"} for line in origin.lines if isinstance(line, dict)]
    copy = list(fork.lines)
    fork.user("three", after="u3")
    fork.answer("three", text_block("done three"))
    files = {"a": origin.lines, "b": fork.lines, "c": copy}
    paths = [write_lines(tmp_path / f"{name}.jsonl", *lines) for name, lines in files.items()]
    sessions = [recording.session for recording in gather(paths).recordings]
    assert [(len(session.calls), len(session.own_calls)) for session in sessions] == [(2, 2), (3, 1), (2, 0)]
    without_origin = [recording.session for recording in gather(paths[1:]).recordings]
    assert [len(session.own_calls) for session in without_origin] == [3, 0], "the fork's file has all of them"
    (whole,) = gather(paths, joined=True).recordings
    assert len(whole.session.own_calls) == 7, "one agent did all of it"


def request_line(
    name: str, messages: list[str], *, base: str = "", keep: int = 0, shape: str = "s1", **params: Any
) -> Line:
    """The line of a request, as version 2.1.332 writes it."""
    return {
        "type": "api-request",
        "sessionId": "s",
        "id": name,
        "shapeHash": shape,
        "params": {"model": "claude-sonnet-5", "max_tokens": 64_000, **params},
        "base": base,
        "keep": keep,
        "tail": messages,
        "cacheControl": [{"path": ["system", 0], "value": {"type": "ephemeral"}}],
    }


def shape_line(name: str, *tools: str, system: str = "You are an agent.") -> Line:
    described = [{"name": tool, "description": f"It is {tool}."} for tool in tools]
    return {
        "type": "api-request-shape",
        "sessionId": "s",
        "shapeHash": name,
        "shape": {"system": [{"type": "text", "text": system}], "tools": described},
    }


OTHER_SHAPE = request_line("r2", ["a", "b"], shape="s2")


@pytest.mark.parametrize(
    ("lines", "cause", "words"),
    [
        ([request_line("r2", ["c"], base="r1", keep=2)], Cause.UNEXPLAINED, "sent all that it had sent before"),
        ([request_line("r2", ["a", "b", "c"])], Cause.UNEXPLAINED, "sent all that it had sent before"),  # resumed
        (
            [request_line("r2", ["x", "c"], base="r1", keep=1)],
            Cause.MESSAGES,
            "other messages from number 2 of 2 on",
        ),
        (
            [shape_line("s2", "Read", "Bash"), request_line("r2", ["a", "b"], shape="s2")],
            Cause.TOOLS,
            "other tools: Bash",
        ),
        (
            [shape_line("s2", "Read", system="New."), request_line("r2", ["a", "b"], shape="s2")],
            Cause.SYSTEM,
            "system prompt",
        ),
        ([request_line("r2", ["a", "b"], thinking={"type": "adaptive"})], Cause.SETTINGS, "changed thinking"),
    ],
)
def test_the_cause_of_a_rewrite_is_known_where_requests_are_recorded(
    tmp_path: Path, lines: list[Line], cause: Cause, words: str
) -> None:
    script = Transcript("go")
    script.lines += [shape_line("s1", "Read"), request_line("r1", ["a", "b"])]
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 20_000, "cache_read_input_tokens": 0, "output_tokens": 9}
    for number, more in enumerate(([], lines), start=1):
        script.lines += more
        script.answer(f"m{number}", text_block("ok"), usage=usage, stop="end_turn")
        script.lines[-1]["requestRef"] = f"r{number}"
        script.user("on")
    session = check(read(tmp_path, script.lines))
    assert session.system_tokens
    (rewrite,) = examine(session).rewrites
    assert (rewrite.explanation.cause, rewrite.explanation.certainty) == (cause, Certainty.RECORDED)
    assert words in rewrite.explanation.evidence
    assert session.problems == []


def test_what_the_sums_have_beyond_the_answers_is_calls_of_no_line(tmp_path: Path) -> None:
    script = Transcript("go")
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 9}
    script.answer("m1", text_block("ok"), usage=usage, stop="end_turn")
    sums = {"inputTokens": 7, "cacheReadInputTokens": 70, "cacheCreationInputTokens": 20, "outputTokens": 19}
    title = {"inputTokens": 100, "outputTokens": 4}
    script.note(type="cost-state", sessionId="s", modelUsage={"claude-x": sums, "claude-haiku-4-5": title})
    script.user("on")
    script.answer("m2", text_block("later"), usage=usage, stop="end_turn")
    session = check(read(tmp_path, script.lines))
    assert [(call.model, call.usage) for call in session.asides] == [
        ("claude-x", CallUsage(2, 40, 0, 10)),
        ("claude-haiku-4-5", CallUsage(100, output=4)),
    ]


def test_results_that_claude_code_cleared_are_an_eviction_that_it_recorded(tmp_path: Path) -> None:
    script = Transcript("go")
    script.answer("m1", tool("a", path="x"), tool("b", path="y"))
    script.result("a", [text_block("one")])
    script.result("b", [text_block("two")])
    script.add("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["a", "gone"]})
    script.answer("m2", text_block("done"), stop="end_turn")
    session = check(read(tmp_path, script.lines))
    (eviction,) = session.evictions
    assert [session.parts[index].text for index in eviction.removed] == ["one"]
    assert (eviction.client, session.managed) == ("Claude Code", False)


def test_the_overhead_is_that_of_a_snapshot_where_no_request_is_recorded(tmp_path: Path) -> None:
    script = Transcript("go")
    script.add("attachment", attachment={"type": "prompt_snapshot", "systemPrompt": ["Be good.", "Be brief."]})
    tools = [{"name": "Read", "schema": {"name": "Read", "input_schema": {}}}]
    script.add("attachment", attachment={"type": "prompt_snapshot", "systemPrompt": ["Be good."], "tools": tools})
    script.answer("m1", text_block("ok"), stop="end_turn")
    session = check(read(tmp_path, script.lines))
    assert session.system_tokens == 2 + 9  # the prompt, and the tool as JSON
    assert kinds(session) == ["user", "text"]
