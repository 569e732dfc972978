"""Files whose lines look like another agent's: Qwen Code, Kimi Code, and those that are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import check, kinds, texts, title_of
from tests.lab.readers.writing import write_lines
from wane.core.errors import FormatError
from wane.lab.readers import claude_code, kimi_code, mistral_vibe, qwen_code, read_session
from wane.lab.readers.gathering import gather
from wane.lab.recorded_session import CallUsage

Line = dict[str, Any]


def qwen(number: int, kind: str, parts: list[Line] | None = None, *, after: int | None = None, **more: Any) -> Line:
    """A record of Qwen Code 0.24."""
    parent = (number - 1 if number else None) if after is None else after
    message = {} if parts is None else {"message": {"role": "model" if kind == "assistant" else "user", "parts": parts}}
    head = {
        "uuid": f"u{number}",
        "parentUuid": None if parent is None else f"u{parent}",
        "sessionId": "s",
        "type": kind,
    }
    return {
        **head,
        "timestamp": f"2026-11-28T19:00:{number:02}.000Z",
        "version": "0.24.4",
        "cwd": "/w",
        **message,
        **more,
    }


def usage_fields(prompt: int, candidates: int, thoughts: int = 0, cached: int = 0) -> Line:
    total = prompt + candidates
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts}
    return {"usageMetadata": {**counts, "totalTokenCount": total, "cachedContentTokenCount": cached}, "model": "qwen3"}


def response(number: int, prompt: int, output: int) -> Line:
    counts = {"input_token_count": prompt, "output_token_count": output, "total_token_count": prompt + output}
    event = {"event.name": "qwen-code.api_response", "model": "qwen3", **counts}
    return qwen(number, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})


READ: Line = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "/a.py"}}}
SEEN: Line = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "x = 1"}}}
THOUGHT: Line = {"text": "Hm.", "thought": True}


def test_qwen_code_has_the_outer_keys_of_claude_code_and_contents_of_gemini(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "s.jsonl",
        qwen(0, "user", [{"text": "Never touch the migrations."}]),
        response(1, 900, 40),
        qwen(2, "assistant", [THOUGHT, READ], **usage_fields(900, 40, thoughts=8)),
        qwen(3, "tool_result", [SEEN]),
        qwen(4, "user", [{"text": "A cron job ran."}], subtype="cron"),
        response(5, 300, 20),
        qwen(6, "assistant", [{"text": "Done."}], **usage_fields(950, 12, cached=900)),
    )
    assert title_of(path) == "Qwen Code"
    assert not claude_code.recognises([json.loads(line) for line in path.read_text().splitlines()])
    (session,) = map(check, read_session(path))
    assert (session.source, session.title, session.cwd) == (qwen_code.NAME, "Never touch the migrations.", "/w")
    assert kinds(session) == ["user", "reasoning", "call", "result", "notice", "text"]
    # The thoughts are among the candidates, as the total tells.
    assert [call.usage for call in session.calls] == [CallUsage(900, output=40), CallUsage(50, 900, 0, 12)]
    assert [call.usage for call in session.asides] == [CallUsage(300, output=20)]  # a response that was no answer
    assert session.problems == []


def test_calls_that_a_fork_of_qwen_code_copied_count_once(tmp_path: Path) -> None:
    origin = [
        qwen(0, "user", [{"text": "Fix it."}]),
        response(1, 900, 40),
        qwen(2, "assistant", [{"text": "Done."}], **usage_fields(900, 40)),
        response(3, 900, 40),  # what extracts memories behind a turn may need as many tokens
    ]
    copies = [{**line, "sessionId": "t", "forkedFrom": {"sessionId": "s"}} for line in origin]
    again = qwen(6, "assistant", [{"text": "So be it."}], **usage_fields(950, 12))
    fork = [*copies, qwen(4, "user", [{"text": "Again."}]), response(5, 950, 12), again]
    paths = [write_lines(tmp_path / name, *lines) for name, lines in (("a.jsonl", origin), ("b.jsonl", fork))]
    sessions = [recording.session for recording in gather(paths).recordings]
    assert [(len(session.calls), len(session.own_calls)) for session in sessions] == [(1, 1), (2, 1)]
    assert [(len(session.asides), len(session.own_asides)) for session in sessions] == [(1, 1), (1, 0)]


def test_qwen_code_names_branches_that_were_taken_back_and_compresses(tmp_path: Path) -> None:
    kept = [{"text": "Go on."}]
    snapshot = {"role": "user", "parts": [{"text": "<state_snapshot>All.</state_snapshot>"}]}
    payload = {"compressedHistory": [snapshot, {"role": "user", "parts": kept}], "info": {"originalTokenCount": 900}}
    path = write_lines(
        tmp_path / "s.jsonl",
        qwen(0, "user", [{"text": "One."}]),
        qwen(1, "assistant", [{"text": "Wrong."}], **usage_fields(500, 5)),
        qwen(2, "user", [{"text": "Two."}], after=0),
        qwen(3, "user", kept),
        qwen(4, "system", subtype="chat_compression", systemPayload=payload),
        qwen(5, "assistant", [{"text": "Right."}], **usage_fields(600, 6)),
    )
    (session,) = map(check, read_session(path))
    assert texts(session) == ["One.", "Two.", "Go on.", "Right."]
    assert [call.usage for call in session.abandoned] == [CallUsage(500, output=5)]
    (compaction,) = session.compactions
    assert (compaction.position, compaction.first_kept, compaction.tokens_before) == (3, 2, 900)
    assert compaction.summary == "<state_snapshot>All.</state_snapshot>"


def kimi(kind: str, **data: Any) -> Line:
    """A line of Kimi Code 2.1."""
    return {"type": kind, "agentId": "main", "time": 1_795_894_246_000, **data}


def event(kind: str, **data: Any) -> Line:
    return kimi("context.append_loop_event", event={"type": kind, "step": 1, **data})


def user_line(text: str, origin: str = "user") -> Line:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "origin": {"kind": origin}}
    return kimi("context.append_message", message=message)


def kimi_usage(fresh: int, cached: int = 0, output: int = 5) -> Line:
    return {"inputOther": fresh, "output": output, "inputCacheRead": cached, "inputCacheCreation": 0}


def kimi_lines() -> list[Line]:
    usage, summary = kimi_usage(100, 900, 20), kimi_usage(50)
    repeated = {"message": {"role": "assistant", "content": [{"type": "text", "text": "I look."}]}}
    return [
        {"type": "metadata", "protocol_version": "1.5"},
        kimi("profile.bind", systemPrompt="You are Kimi."),
        kimi("turn.prompt", input=[{"type": "text", "text": "Fix it."}]),
        user_line("Fix it."),
        user_line("<system-reminder>Today.</system-reminder>", "injection"),
        event("step.begin"),
        kimi("llm.tools_snapshot", tools=[{"name": "Read"}]),
        kimi("llm.request", provider="kimi", model="kimi-k2.5", modelAlias="m", thinkingEffort="high"),
        kimi("usage.record", model="m", usage=usage),
        event("content.part", part={"type": "think", "think": "Hm."}),
        event("content.part", part={"type": "text", "text": "I look."}),
        event("tool.call", toolCallId="c1", name="Read", args={"path": "a.py"}),
        event("tool.result", toolCallId="c1", result={"output": "x = 1"}),
        event("step.end", usage=usage),
        kimi("usage.record", model="m", usage=summary),
        kimi("context.apply_compaction", summary="So.", contextSummary="As you know: So.", tokensBefore=1_020),
        {"type": "agent.message.appended", "message": repeated, "kind": "event"},
        user_line("Wrong."),
        event("step.begin"),
        event("content.part", part={"type": "text", "text": "Oh."}),
        event("step.end", usage=kimi_usage(70)),
        kimi("context.undo", count=1),
    ]


def test_an_unknown_line_of_qwen_code_is_named_on_an_abandoned_branch_too(tmp_path: Path) -> None:
    lines = [
        qwen(0, "user", [{"text": "Go."}]),
        qwen(1, "memo", after=0),
        qwen(2, "assistant", [{"text": "No."}], after=0),
    ]
    (session,) = read_session(write_lines(tmp_path / "s.jsonl", *lines))
    assert [(problem.line, problem.what) for problem in session.problems] == [(2, "a line of the unknown type 'memo'")]


@pytest.mark.parametrize("kind", ["context.append_note", "memory.recalled"])
def test_a_line_of_kimi_code_that_may_add_to_the_context_is_named_if_its_type_is_unknown(
    tmp_path: Path, kind: str
) -> None:
    known = [kimi("config.update", profileName="agent"), kimi("plan_mode.enter", id="p")]
    (session,) = read_session(write_lines(tmp_path / "s.jsonl", *kimi_lines(), *known, kimi(kind, note="It is late.")))
    unknown = [problem.what for problem in session.problems if "unknown type" in problem.what]
    assert unknown == [f"a line of the unknown type {kind!r}"]


def test_kimi_code_records_everything_twice_and_the_usage_of_a_call_three_times(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "wd" / "session_1"
    write_lines(folder / "agents" / "main" / "wire.jsonl", *kimi_lines())
    step = [event("step.begin"), event("content.part", part={"type": "text", "text": "Yes."}), event("step.end")]
    write_lines(folder / "agents" / "coder-1" / "wire.jsonl", user_line("Look."), *step)
    (folder / "state.json").write_text('{"cwd": "/w"}')
    (session,) = map(check, read_session(tmp_path))
    assert (session.source, session.name, session.cwd, session.title) == (kimi_code.NAME, "session_1", "/w", "Fix it.")
    assert kinds(session) == ["system", "user", "notice", "reasoning", "text", "call", "result"]
    (call,) = session.calls
    assert (call.usage, call.model, call.provider, call.effort) == (
        CallUsage(100, 900, 0, 20),
        "kimi-k2.5",
        "kimi",
        "high",
    )
    assert [aside.usage for aside in session.asides] == [CallUsage(50, output=5)]
    assert [made.usage for made in session.abandoned] == [CallUsage(70, output=5)]
    (compaction,) = session.compactions
    assert (compaction.summary, compaction.tokens_before) == ("As you know: So.", 1_020)
    assert [side.name for side in session.sidechains] == ["session_1/coder-1"]
    assert session.system_tokens


def test_calls_that_a_fork_of_kimi_code_copied_count_once(tmp_path: Path) -> None:
    def step(number: int) -> list[Line]:
        usage = {"inputOther": 100, "output": 5}
        record = {"type": "usage.record", "usage": usage, "time": 1_796_000_000_000 + number}
        answer = event("content.part", part={"type": "text", "text": "Yes."})
        return [event("step.begin"), answer, record, event("step.end", uuid=f"step-{number}", usage=usage)]

    summed_up = [
        {"type": "usage.record", "usage": {"inputOther": 100, "output": 5}, "time": 1_796_000_000_002},
        {"type": "context.apply_compaction", "summary": "So.", "contextSummary": "So."},
    ]
    origin = [user_line("Fix it."), *step(1), *summed_up]
    folders = (("a", origin), ("b", [*origin, {"type": "forked"}, user_line("Again."), *step(3)]))
    paths = [write_lines(tmp_path / name / "agents" / "main" / "wire.jsonl", *lines) for name, lines in folders]
    sessions = [recording.session for recording in gather(paths).recordings]
    assert [(len(session.calls), len(session.own_calls)) for session in sessions] == [(1, 1), (2, 1)]
    assert [(len(session.asides), len(session.own_asides)) for session in sessions] == [(1, 1), (1, 0)]


RESULT_IN_WORDS = {"type": "text", "text": "[read_file for 'calc.py'] Result:\nx = 1"}


@pytest.mark.parametrize(
    ("line", "whose"),
    [
        ({"role": "user", "message": {"content": [{"type": "text", "text": "Go."}]}}, "a transcript of Cursor"),
        ({"type": "message", "role": "user", "text": "Go.", "session_id": "s"}, "the output of Droid"),
        ({"role": "user", "content": [RESULT_IN_WORDS], "ts": 1}, "a task of an earlier extension of Cline"),
        ({"ts": 1759000000000, "type": "say", "say": "text", "text": "Go."}, "a task of an earlier extension of Cline"),
    ],
)
def test_what_holds_too_little_is_refused_by_name(tmp_path: Path, line: Line, whose: str) -> None:
    path = write_lines(tmp_path / "s.jsonl", line)
    with pytest.raises(FormatError, match=f"it is {whose}"):
        read_session(path)
    with pytest.raises(FormatError, match=f"it is {whose}"):
        read_session(write_lines(tmp_path / "t.json", json.dumps([line], indent=1)))


def test_each_file_of_an_old_folder_is_opened_for_its_session_once(tmp_path: Path) -> None:
    for number in range(6):
        line = {"type": "user", "uuid": f"u{number}", "sessionId": f"s{number}", "message": {"content": "Go."}}
        answer = {"type": "assistant", "uuid": f"a{number}", "parentUuid": f"u{number}", "sessionId": f"s{number}"}
        message = {"id": f"m{number}", "content": [{"type": "text", "text": "Yes."}]}
        write_lines(tmp_path / f"{number}.jsonl", line, {**answer, "message": message})
        side = {**line, "uuid": f"x{number}", "isSidechain": True, "agentId": f"{number}"}
        write_lines(tmp_path / f"agent-{number}.jsonl", side)
    before = claude_code._files_beside.cache_info().misses
    sessions = read_session(tmp_path)
    assert [len(session.sidechains) for session in sessions] == [1] * 6
    assert claude_code._files_beside.cache_info().misses == before + 1


CLINE: Line = {
    "version": 1,
    "agent": "lead",
    "sessionId": "1795898361809_27cpc",
    "origin": {"source": "cli", "version": "3.0.65"},
    "system_prompt": "You are Cline.",
    "messages": [
        {"id": "a", "role": "user", "content": [{"type": "text", "text": "Fix calc.py."}], "ts": 1_795_898_399_888},
        {
            "id": "b",
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "tool_use", "id": "c1", "name": "read_files", "input": {"files": [{"path": "calc.py"}]}},
            ],
            "ts": 1_795_898_400_128,
            "modelInfo": {"id": "gpt-5.1", "provider": "openai"},
            "metrics": {"inputTokens": 5_598, "outputTokens": 21, "cacheReadTokens": 4_478, "cost": 0.002},
        },
        {
            "id": "d",
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"query": "calc.py", "result": "1 | x = 1"}]}
            ],
        },
    ],
}


def test_cline_has_blocks_of_anthropic_and_results_of_its_own(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.messages.json", json.dumps(CLINE, indent=2))
    (session,) = map(check, read_session(path))
    assert (session.source, session.name, session.title) == ("cline", "1795898361809_27cpc", "Fix calc.py.")
    assert kinds(session) == ["system", "user", "reasoning", "call", "result"]
    assert session.parts[-1].text == '{"query":"calc.py","result":"1 | x = 1"}'
    (call,) = session.calls
    assert (call.usage, call.cost, call.priced_as) == (CallUsage(1_120, 4_478, 0, 21), 0.002, "openai:gpt-5.1")


def vibe_lines() -> list[Line]:
    """Messages of Mistral Vibe 3.0."""
    function = {"name": "read_file", "arguments": '{"path": "calc.py"}'}
    asks = {"id": "c1", "index": 0, "function": function, "type": "function"}
    return [
        {"role": "user", "content": "Fix calc.py.", "injected": False, "message_id": "m1"},
        {
            "role": "assistant",
            "content": "I look.",
            "injected": False,
            "reasoning_content": "Where is it?",
            "tool_calls": [asks],
            "message_id": "m2",
        },
        {"role": "tool", "content": "x = 1", "injected": False, "name": "read_file", "tool_call_id": "c1"},
        {"role": "user", "content": "Plan mode is off.", "injected": True, "message_id": "m3"},
        {"role": "assistant", "content": "Done.", "injected": False, "message_id": "m4"},
    ]


def test_mistral_vibe_has_messages_of_openai_and_the_rest_in_another_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "session_20261120_120000_ab12cd34" / "messages.jsonl", *vibe_lines())
    meta = {
        "session_id": "ab12cd34",
        "end_time": "2026-11-20T12:00:00+00:00",
        "environment": {"working_directory": "/w"},
        "stats": {"session_prompt_tokens": 2_000, "session_completion_tokens": 30},
        "tools_available": [{"type": "function", "function": {"name": "read_file", "description": "Reads a file."}}],
        "config": {
            "active_model": "devstral-2",
            "models": [{"name": "mistral-vibe-cli-latest", "alias": "devstral-2"}],
        },
        "system_prompt": {"role": "system", "content": "You are Vibe."},
    }
    (path.parent / "meta.json").write_text(json.dumps(meta))
    (session,) = map(check, read_session(path))
    assert (session.source, session.name, session.cwd) == (mistral_vibe.NAME, path.parent.name, "/w")
    assert kinds(session) == ["system", "user", "reasoning", "text", "call", "result", "notice", "text"]
    assert (session.title, session.id, session.problems) == ("Fix calc.py.", "ab12cd34", [])
    assert [call.model for call in session.calls] == ["mistral-vibe-cli-latest"] * 2
    ((total, calls),) = session.totals
    assert (total.usage, calls) == (CallUsage(2_000, output=30), 2)
    assert session.system_tokens
    (path.parent / "meta.json").write_text("{")
    (session,) = map(check, read_session(path))
    assert (kinds(session)[0], session.totals) == ("user", [])
