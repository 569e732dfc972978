"""Sessions of Codex: which items are one call, reasoning that is sealed, compactions, turns that were rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.lab.readers.promises import SESSIONS, check, kinds, needs_sessions, problems, texts, title_of
from tests.lab.readers.writing import Line, write_lines
from wane import FormatError, JournalError, Kind
from wane.lab.readers import codex, gather, read_session
from wane.lab.recorded_session import CallUsage, RecordedSession

META: Line = {
    "timestamp": "2026-01-01T00:00:00Z",
    "type": "session_meta",
    "payload": {"id": "s", "cwd": "/w", "base_instructions": {"text": "You are a coding agent."}},
}
CONTEXT: Line = {
    "timestamp": "2026-01-01T00:00:00Z",
    "type": "turn_context",
    "payload": {"model": "gpt-x", "cwd": "/w"},
}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "x"}


def item(**payload: Any) -> Line:
    return {"timestamp": "2026-01-01T00:00:01Z", "type": "response_item", "payload": payload}


def message(role: str, text: str) -> Line:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}])


def call(call_id: str, name: str = "exec_command") -> Line:
    return item(type="function_call", name=name, arguments='{"cmd":"ls"}', call_id=call_id)


def output(call_id: str, text: object = "ok") -> Line:
    return item(type="function_call_output", call_id=call_id, output=text)


def event(kind: str, **payload: Any) -> Line:
    return {"timestamp": "2026-01-01T00:00:02Z", "type": "event_msg", "payload": {"type": kind, **payload}}


def cost(total: int, fresh: int = 100, cached: int = 80, out: int = 10, reasoning: int = 0, **more: int) -> Line:
    last = {"input_tokens": fresh, "cached_input_tokens": cached, "output_tokens": out, **more}
    info = {
        "total_token_usage": {"total_tokens": total},
        "last_token_usage": {**last, "reasoning_output_tokens": reasoning},
    }
    return event("token_count", info=info)


def read(folder: Path, *lines: Line) -> RecordedSession:
    path = write_lines(folder / "s.jsonl", *lines)
    assert title_of(path) == "Codex"
    (session,) = codex.read(path)
    return check(session)


MISSING = "1: the beginning of this session, in the rollout 'p', is missing:"
DAY = "sessions/2026/01/0"


def rollout(folder: Path, day: int, thread: str, first: int, *lines: Line, base: Line | None = None) -> Path:
    """A file in Codex's folders by date, of a version that numbers its lines."""
    payload = {"id": thread, "base_instructions": {"text": "You are a coding agent."}, "history_base": base}
    meta = {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": payload}
    numbered = [{**line, "ordinal": number} for number, line in enumerate((meta, *lines), first)]
    return write_lines(folder / f"{DAY}{day}/rollout-2026-01-01T00-00-00-{thread}.jsonl", *numbered)


def turn(name: str, number: int) -> list[Line]:
    context = {"timestamp": "2026-01-01T00:00:00Z", "type": "turn_context", "payload": {"turn_id": name}}
    return [context, message("user", f"say {name}"), message("assistant", name), cost(number, fresh=100 * number)]


def answer_texts(session: RecordedSession) -> list[str]:
    """The model's words."""
    return [part.text for part in session.parts if part.kind is Kind.TEXT]


def test_a_fork_begins_with_the_history_that_its_file_refers_to(tmp_path: Path) -> None:
    rollout(tmp_path, 1, "p", 0, *turn("one", 1), *turn("two", 2))
    one = {"thread_id": "p", "end_ordinal_exclusive": 5}
    rollout(tmp_path, 2, "f", 5, *turn("three", 2), *turn("four", 3), base=one)
    fork = rollout(tmp_path, 3, "g", 10, *turn("five", 3), base={"thread_id": "f", "end_ordinal_exclusive": 10})
    (session,) = codex.read(fork)
    assert answer_texts(check(session)) == ["one", "three", "five"]
    assert [call.inherited for call in session.calls] == [True, True, False]
    assert kinds(session).count("system") == 1
    assert session.problems == []
    # The calls that they share count once.
    together = gather([tmp_path])
    assert [len(recording.session.own_calls) for recording in together.recordings] == [2, 2, 1]
    # Codex compresses files that it has not used for long.
    packed = tmp_path / f"{DAY}1/rollout-2026-01-01T00-00-00-p.jsonl"
    packed.with_name(f"{packed.name}.zst").write_bytes(zstandard.compress(packed.read_bytes()))
    packed.unlink()
    assert codex.read(fork)[0].parts == session.parts
    itself = fork.with_name(f"{fork.name}.zst")
    itself.write_bytes(zstandard.compress(fork.read_bytes()))
    assert [(s.name, s.parts) for s in read_session(itself)] == [(session.name, session.parts)]
    itself.write_bytes(itself.read_bytes()[:-9])
    with pytest.raises((FormatError, JournalError)):
        read_session(itself)
    itself.unlink()
    whole = packed.with_name(f"{packed.name}.zst").read_bytes()
    packed.with_name(f"{packed.name}.zst").write_bytes(whole[:-9])
    (cut,) = read_session(fork)
    assert problems(cut) == [f"{MISSING} it breaks off"]
    next(tmp_path.glob(f"{DAY}1/*")).unlink()
    (rest,) = codex.read(fork)
    assert answer_texts(rest) == ["three", "five"]
    assert problems(rest) == [f"{MISSING} the rollout was not found"]


@pytest.mark.parametrize("end", [None, "40", -1, []])
def test_a_beginning_that_ends_at_no_line_is_missing(tmp_path: Path, end: Any) -> None:
    rollout(tmp_path, 1, "p", 0, *turn("one", 1))
    fork = rollout(tmp_path, 2, "f", 5, *turn("two", 2), base={"thread_id": "p", "end_ordinal_exclusive": end})
    (session,) = codex.read(fork)
    assert problems(session) == [f"{MISSING} it ends before line {end!r}, which is not a line number"]


def test_rollouts_that_refer_to_each_other_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"thread_id": "p", "end_ordinal_exclusive": 9}
    fork = rollout(tmp_path, 1, "p", 0, *turn("one", 1), base=base)
    monkeypatch.chdir(fork.parent)
    (session,) = codex.read(Path(fork.name))
    assert answer_texts(session) == ["one"]
    assert problems(session) == [f"{MISSING} the rollouts refer to each other"]


def test_a_fork_that_holds_a_copy_shares_its_calls_with_the_session_that_it_left(tmp_path: Path) -> None:
    origin = rollout(tmp_path, 1, "p", 0, *turn("one", 1), *turn("two", 2))
    copy = rollout(tmp_path, 2, "q", 0, META, *turn("one", 1), *turn("three", 2))
    recordings = gather([origin, copy]).recordings
    calls = [recording.session.calls for recording in recordings]
    assert [call.inherited for call in calls[0]] == [False, False]
    assert [call.inherited for call in calls[1]] == [True, False]


def test_items_up_to_their_cost_are_one_model_call(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        META,
        message("developer", "<permissions instructions>"),
        message("user", "# AGENTS.md instructions for /w"),
        CONTEXT,
        message("user", "fix it"),
        event("user_message", message="fix it"),
        item(**REASONING),
        message("assistant", "on it"),
        event("agent_message", message="on it"),
        call("a"),
        call("b"),
        output("a"),
        output("b"),
        cost(1, fresh=100, cached=80, out=50, reasoning=30),
        cost(1),
        event("token_count", info=None, rate_limits={}),
        message("assistant", "done"),
        cost(2, fresh=200, cached=100, out=5, cache_write_input_tokens=90),
    )
    assert kinds(session) == [
        "system",
        "system",
        "user",
        "user",
        "reasoning",
        "text",
        "call",
        "call",
        "result",
        "result",
        "text",
    ]
    first, second = session.calls
    assert (first.first, first.stop, first.usage) == (4, 8, CallUsage(20, 80, 0, 50))
    assert (second.first, second.stop, second.usage) == (10, 11, CallUsage(10, 100, 90, 5))
    assert (first.model, first.at, session.title, session.cwd) == ("gpt-x", 1_767_225_601.0, "fix it", "/w")
    assert session.parts[4].extra_tokens == 30
    assert session.problems == []


def test_output_after_results_is_another_call_even_where_no_cost_was_recorded(tmp_path: Path) -> None:
    session = read(
        tmp_path, META, call("a"), output("a"), message("assistant", "x"), message("user", "hi"), call("b"), cost(1)
    )
    assert [(c.first, c.stop, c.usage is None) for c in session.calls] == [(1, 2, True), (3, 4, True), (5, 6, False)]


def test_a_turn_between_output_and_cost_comes_after_the_output(tmp_path: Path) -> None:
    session = read(tmp_path, META, call("a"), message("user", "and that too"), output("a"), cost(1))
    assert kinds(session) == ["system", "call", "user", "result"]
    assert session.calls[0].usage is not None


def test_reasoning_is_coupled_to_what_follows_and_goes_with_the_next_turn(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        META,
        message("user", "one"),
        item(**REASONING),
        item(**REASONING),
        call("a"),
        output("a"),
        cost(1, out=50, reasoning=31),
        message("user", "<turn_aborted>x</turn_aborted>"),
        message("user", "two"),
        item(**REASONING, content=[{"type": "reasoning_text", "text": "hmmm" * 5}]),
        message("assistant", "x"),
        cost(2, out=20, reasoning=3),
        item(**REASONING),
        message("assistant", "y"),
    )
    assert [part.needs for part in session.parts[2:5]] == [(1,), (-1, 1), (-2, -1)]
    assert [part.extra_tokens for part in session.parts if part.kind is Kind.REASONING] == [16, 15, 0]
    assert session.reasoning_cleared == [7]
    assert kinds(session)[-1] == "text"  # its reasoning is of unknown size


def test_calls_of_every_kind_have_a_tool_and_a_result(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        META,
        item(type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="p"),
        item(type="custom_tool_call_output", call_id="p", output="Done"),
        item(type="local_shell_call", call_id="l", status="completed", action={"type": "exec", "command": ["ls"]}),
        output("l", {"content": "a b", "success": True}),
        item(type="tool_search_call", call_id="t", execution="client", arguments={"query": "git"}),
        item(type="tool_search_output", call_id="t", execution="client", tools=[{"name": "gh"}]),
        item(type="function_call", name="list", namespace="mcp.gh", arguments="{}", call_id="m"),
        output(
            "m", [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "data:image/png;base64,"}]
        ),
        item(type="web_search_call", id="w", status="completed", action={"type": "search", "query": "q"}),
        message("assistant", "found"),
        cost(1),
    )
    assert [part.tool for part in session.parts if part.tool] == [
        "apply_patch",
        "local_shell",
        "tool_search",
        "mcp.gh.list",
        "web_search",
    ]
    assert [part.text for part in session.parts if part.kind is Kind.RESULT] == [
        "Done",
        "a b",
        '[{"name":"gh"}]',
        "x",
        "",
    ]
    assert session.parts[1].arguments == "*** Begin Patch"
    assert session.parts[8].extra_tokens > 0


def test_a_call_that_was_interrupted_has_the_result_that_codex_sends(tmp_path: Path) -> None:
    session = read(
        tmp_path, META, call("a"), call("b"), event("turn_aborted"), message("user", "go on"), output("b", "late")
    )
    assert kinds(session) == ["system", "call", "call", "result", "user", "result"]
    assert texts(session)[3:] == ["aborted", "go on", "late"]


def test_a_compaction_keeps_no_part_and_its_estimates_are_no_call(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        META,
        message("user", "one"),
        message("assistant", "two"),
        cost(1, fresh=100, out=10),
        cost(2, fresh=120, out=40),  # the summarising call
        {
            "timestamp": "2026-01-01T00:00:03Z",
            "type": "compacted",
            "payload": {"message": "what was done", "replacement_history": [{}]},
        },
        event("token_count", info={"total_token_usage": {"t": 9}, "last_token_usage": {"input_tokens": 0}}),
        item(type="compaction", encrypted_content="x"),
        message("assistant", "three"),
    )
    (compaction,) = session.compactions
    assert (compaction.position, compaction.first_kept, compaction.tokens_before) == (3, 3, 160)
    assert (compaction.summary, compaction.at) == ("what was done", 1_767_225_603.0)
    assert len(session.calls) == 2
    (summarising,) = session.asides
    assert summarising.usage == CallUsage(40, 80, output=40)


def test_the_window_that_codex_counts_with_is_known(tmp_path: Path) -> None:
    counted = event("token_count", info={"model_context_window": 121_600})
    session = read(tmp_path, META, message("user", "one"), message("assistant", "two"), counted, cost(1))
    assert session.window == 121_600


def test_turns_that_were_rolled_back_are_left_out_and_named(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        META,
        message("user", "one"),
        message("assistant", "a"),
        cost(1),
        message("user", "two"),
        message("assistant", "b"),
        cost(2),
        message("user", "three"),
        event("thread_rolled_back", num_turns=2),
        message("user", "four"),
        message("assistant", "c"),
    )
    assert texts(session)[1:] == ["one", "a", "four", "c"]
    assert problems(session) == ["5: lines 5 to 8: on an abandoned branch (a turn that was edited or tried again)"]
    assert (len(session.abandoned), session.unread) == (1, 0)


def test_a_fork_repeats_a_header_and_what_is_unknown_is_named(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        META,
        {**META, "payload": {"cwd": "/elsewhere", "base_instructions": {"text": "again"}}},
        {"type": "novel", "payload": {"x": 1}},
        item(type="novel_item"),
        {"type": "world_state", "payload": {}},
        "{broken",
        message("user", "hi"),
    )
    assert texts(session) == ["You are a coding agent.", "hi"]
    assert session.cwd == "/w"
    assert [problem.split("(")[0] for problem in problems(session)] == [
        "3: a line of the unknown type 'novel'",
        "4: an item of the unknown type 'novel_item'",
        "6: not JSON ",
    ]


def test_the_first_form_had_the_items_bare(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        {"id": "s", "timestamp": "2025-05-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "a"},
        {"type": "function_call_output", "call_id": "a", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    )
    assert kinds(session) == ["user", "call", "result", "text"]
    assert (len(session.calls), session.title, session.problems) == (2, "hi", [])


def test_a_command_of_the_client_is_no_title(tmp_path: Path) -> None:
    def turn(words: str) -> list[dict[str, Any]]:
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
        told = {"type": "user_message", "message": words}
        return [{"type": "response_item", "payload": message}, {"type": "event_msg", "payload": told}]

    assert read(tmp_path, *turn("/mode"), *turn("fix it"), *turn("more")).title == "fix it"


@pytest.mark.full
@needs_sessions
@pytest.mark.parametrize(
    ("name", "calls", "parts", "turns", "compactions", "total"),
    [
        ("agentv-00_34f597b72d_1", 180, 582, 10, [175, 378], 11_070_182),
        ("agentv-0b_9f2ac6f3aa_1", 172, 1035, 36, [713], 19_615_319),
        ("agentv-33_5841c2d678_0", 173, 943, 13, [647], 19_562_425),
        ("agentv-79_6eaddfe2f9_0", 327, 1622, 9, [486, 845, 1248], 42_223_125),
    ],
)
def test_the_shared_sessions(name: str, calls: int, parts: int, turns: int, compactions: list[int], total: int) -> None:
    (session,) = read_session(SESSIONS / "codex" / f"{name}.jsonl")
    check(session)
    assert (len(session.calls), len(session.parts), len(session.user_turns)) == (calls, parts, turns)
    assert [compaction.position for compaction in session.compactions] == compactions
    # What Codex itself added up, to the token: no call is missing, and none is counted twice.
    assert sum(call.usage.total_input for call in session.calls if call.usage) == total
    assert session.problems == []
    assert all(part.needs for part in session.parts if part.kind is Kind.REASONING)


def test_copies_at_the_head_of_a_fork_count_in_their_origin_without_ids_of_turns(tmp_path: Path) -> None:
    head = [META, message("user", "go"), call("a"), cost(1), output("a", "x"), message("assistant", "ok"), cost(2)]
    write_lines(tmp_path / "rollout-1.jsonl", *head)
    dated = [{**line, "timestamp": "2026-02-02T00:00:00Z"} for line in head]
    own = [message("user", "on"), message("assistant", "yes"), cost(3)]
    write_lines(
        tmp_path / "rollout-2.jsonl", {**dated[0], "payload": {**META["payload"], "id": "other"}}, *dated[1:], *own
    )
    first, second = (recording.session for recording in gather([tmp_path]).recordings)
    assert [made.inherited for made in first.calls] == [False, False]
    assert [made.inherited for made in second.calls] == [True, True, False]
    # Whatever the order of their folders, the origin is the one that began first.
    for number, folder in ((1, "z"), (2, "a")):
        (tmp_path / folder).mkdir()
        (tmp_path / f"rollout-{number}.jsonl").rename(tmp_path / folder / f"rollout-{number}.jsonl")
    second, first = (recording.session for recording in gather([tmp_path]).recordings)
    assert (len(first.own_calls), len(second.own_calls)) == (2, 1)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_persons_messages_stand_behind_a_compaction_again(tmp_path: Path, recorded: bool) -> None:
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "first words"}]}]
    payload = {"message": "A summary.", **({"replacement_history": kept} if recorded else {})}
    compacted = {"timestamp": "2026-01-01T00:00:00Z", "type": "compacted", "payload": payload}
    turns = [message("user", "first words"), message("assistant", "ok"), message("user", "second words"), cost(1)]
    path = write_lines(tmp_path / "rollout-1.jsonl", META, *turns, compacted, message("assistant", "on"), cost(2))
    (session,) = read_session(path)
    (compaction,) = session.compactions
    assert compaction.holds("first words")
    # Older versions record none of the messages that they send again.
    assert compaction.holds("second words") is not recorded
