"""Trajectories of Harbor, through the versions of their format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import check, kinds, problems, texts
from wane import chars
from wane.lab.readers import read_session
from wane.lab.readers.gathering import gather
from wane.lab.recorded_session import CallUsage, RecordedSession

Step = dict[str, Any]

USER: Step = {"step_id": 1, "source": "user", "message": "what is the price?", "timestamp": "2025-10-11T10:30:00Z"}


def call(number: int) -> dict[str, Any]:
    return {"tool_call_id": f"c{number}", "function_name": "search", "arguments": {"n": number}}


def agent(*calls: dict[str, Any], results: list[dict[str, Any]] | None = None, **more: Any) -> Step:
    step: Step = {"source": "agent", "message": "I search", "tool_calls": list(calls)}
    if results is not None:
        step["observation"] = {"results": results}
    return step | more


def result(number: int, content: Any = "found") -> dict[str, Any]:
    return {"source_call_id": f"c{number}", "content": content}


def trajectory(*steps: Step, **more: Any) -> dict[str, Any]:
    named = {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
    }
    return named | {"steps": list(steps)} | more


def read(folder: Path, data: object) -> RecordedSession:
    file = folder / "trajectory.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    (session,) = read_session(file)
    return check(session)


@pytest.mark.parametrize("version", ["ATIF-v1.0", "ATIF-v1.2", "ATIF-v1.4", "ATIF-v1.6", "ATIF-v1.8", "1.4"])
def test_steps_become_messages_and_calls_of_the_model(tmp_path: Path, version: str) -> None:
    metrics = {"prompt_tokens": 520, "completion_tokens": 80, "cached_tokens": 200, "cost_usd": 0.1}
    first = agent(
        call(1), call(2), results=[result(1), result(2)], reasoning_content="two things", metrics=metrics,
        timestamp="2025-10-11T10:30:02Z",
    )  # fmt: skip
    last = {"source": "agent", "message": "185", "model_name": "other", "metrics": {"prompt_tokens": 600}}
    session = read(
        tmp_path, trajectory({"source": "system", "message": "be brief"}, USER, first, last, schema_version=version)
    )
    assert (session.source, session.title) == ("atif", "what is the price?")
    assert kinds(session) == ["system", "user", "reasoning", "text", "call", "call", "result", "result", "text"]
    assert texts(session)[4] == 'search{"n": 1}'
    one, two = session.calls
    assert (one.first, one.stop, one.model, one.at) == (2, 6, "m", 1760178602.0)
    assert one.usage == CallUsage(320, 200, 0, 80)
    assert (two.model, two.usage) == ("other", CallUsage(600))
    assert not session.problems


def test_what_was_written_to_a_cache_is_part_of_the_prompt(tmp_path: Path) -> None:
    metrics = {"prompt_tokens": 1000, "cached_tokens": 300, "extra": {"cache_creation_input_tokens": 600}}
    session = read(tmp_path, trajectory(USER, agent(metrics=metrics)))
    assert session.calls[0].usage == CallUsage(100, 300, 600)


def test_contents_of_several_parts_keep_their_text_and_weigh_their_pictures(tmp_path: Path) -> None:
    content = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
    ]
    session = read(tmp_path, trajectory(USER | {"message": content}, agent(call(1), results=[result(1, content)])))
    assert [(part.text, part.extra_tokens) for part in session.parts if part.extra_tokens] == [("see", 1000)] * 2


def test_results_that_name_no_call_answer_the_last_ones(tmp_path: Path) -> None:
    session = read(tmp_path, trajectory(USER, agent(call(1), call(2), results=[{"content": "the screen"}])))
    assert [(p.call_id, p.text) for p in session.parts if p.kind == "result"] == [("c1", ""), ("c2", "the screen")]
    session = read(tmp_path, trajectory(USER, agent(call(1), call(2), results=[{"content": "a"}, {"content": "b"}])))
    assert [(p.call_id, p.text) for p in session.parts if p.kind == "result"] == [("c1", "a"), ("c2", "b")]


def test_what_an_action_without_a_call_gave_is_the_next_turn(tmp_path: Path) -> None:
    session = read(tmp_path, trajectory(USER, agent(results=[{"content": "done"}]), agent()))
    assert kinds(session) == ["user", "text", "user", "text"]


def test_a_call_without_a_result_gets_an_empty_one(tmp_path: Path) -> None:
    session = read(tmp_path, trajectory(USER, agent(call(1)), agent()))
    assert kinds(session) == ["user", "text", "call", "result", "text"]
    assert "'c1'" in session.problems[0].what


def test_a_compaction_is_told_apart_from_what_happened(tmp_path: Path) -> None:
    boundary = {
        "source": "system",
        "message": "Context compaction performed",
        "timestamp": "2025-10-11T10:31:00Z",
        "observation": {"results": [{"content": "so far: a lot"}]},
        "extra": {"context_management": {"type": "compaction", "boundary": "replace", "tokens_before": 9000}},
    }
    session = read(tmp_path, trajectory(USER, agent(), boundary, agent()))
    assert kinds(session) == ["user", "text", "text"]
    (compaction,) = session.compactions
    assert (compaction.position, compaction.first_kept, compaction.summary) == (2, 2, "so far: a lot")
    assert (compaction.tokens_before, compaction.at) == (9000, 1760178660.0)


def test_events_and_what_a_program_did_are_no_calls_of_the_model(tmp_path: Path) -> None:
    event = {"source": "system", "message": "environment reset", "observation": {"results": [{"content": "ok"}]}}
    dispatched = agent(call(1), results=[result(1)], llm_call_count=0)
    session = read(tmp_path, trajectory(USER, event, dispatched, agent()))
    assert kinds(session) == ["user", "system", "system", "text"]
    assert texts(session)[1:3] == ["environment reset\nok", 'I search\nsearch{"n": 1}\nfound']
    assert len(session.calls) == 1


def test_a_sum_over_several_calls_is_no_usage_of_one(tmp_path: Path) -> None:
    session = read(tmp_path, trajectory(USER, agent(llm_call_count=2, metrics={"prompt_tokens": 9})))
    assert session.calls[0].usage is None


def test_embedded_trajectories_are_sidechains(tmp_path: Path) -> None:
    sub = trajectory(USER, agent(), trajectory_id="child")
    ref = [{"trajectory_id": "child"}]
    handed = {"source_call_id": "c1", "subagent_trajectory_ref": ref}
    session = read(tmp_path, trajectory(USER, agent(call(1), results=[handed]), subagent_trajectories=[sub]))
    assert [(sidechain.name, kinds(sidechain)) for sidechain in session.sidechains] == [("child", ["user", "text"])]
    assert texts(session)[-1] == ""


def test_tool_definitions_are_overhead(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "search"}}]
    session = read(tmp_path, trajectory(USER, agent={"name": "a", "version": "1", "tool_definitions": tools}))
    assert session.system_tokens == chars(json.dumps(tools, separators=(",", ":")))


def test_broken_steps_are_named(tmp_path: Path) -> None:
    nameless = {"tool_call_id": "c9", "arguments": {}}
    steps: list[Any] = [USER, {"source": "ghost"}, 7, {"source": []}, agent(nameless, results=[result(8)])]
    session = read(tmp_path, trajectory(*steps))
    assert kinds(session) == ["user", "text"]
    assert problems(session) == [
        "None: step 2: the unknown source 'ghost'; known: agent, system, user",
        "None: step 3: the unknown source None; known: agent, system, user",
        "None: step 4: the unknown source []; known: agent, system, user",
        "None: step 5: a tool call without a name: {'tool_call_id': 'c9', 'arguments': {}}",
        "None: a result of the unknown call 'c8'",
    ]


def test_a_list_of_trajectories_and_one_a_line_give_several_sessions(tmp_path: Path) -> None:
    several = [trajectory(USER, agent()), trajectory(USER)]
    (tmp_path / "list.json").write_text(json.dumps(several))
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, several)))
    assert [len(session.calls) for session in read_session(tmp_path)] == [1, 0, 1, 0]


def test_steps_copied_from_an_earlier_trajectory_are_in_the_context_and_count_there(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.5}
    first = [USER, agent(call(1), results=[result(1)], metrics=usage, timestamp="2025-10-11T10:30:02Z")]
    copied = [step | {"is_copied_context": True} for step in first]
    handoff = {"source": "user", "message": "go on"}
    own = agent(call(2), results=[result(2)], metrics=usage, timestamp="2025-10-11T10:40:02Z")
    for name, steps in (("trajectory", first), ("trajectory.cont-1", [*copied, handoff, own])):
        (tmp_path / f"{name}.json").write_text(json.dumps(trajectory(*steps)), encoding="utf-8")

    continued = gather([tmp_path / "trajectory.cont-1.json"]).recordings[0].session
    assert kinds(check(continued)) == ["user", "text", "call", "result", "user", "text", "call", "result"]
    assert [(call.inherited, call.first) for call in continued.calls] == [(True, 1), (False, 5)]

    (tmp_path / "both").mkdir()
    for file in tmp_path.glob("*.json"):
        file.rename(tmp_path / "both" / file.name)
    sessions = [recording.session for recording in gather([tmp_path / "both"]).recordings]
    assert [call.cost for session in sessions for call in session.own_calls] == [0.5, 0.5]
