"""Lines of agents with anything in the place of anything: a session comes of it all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.readers import test_atif, test_codex, test_copilot, test_kindred, test_pi
from tests.lab.readers.promises import check
from tests.lab.readers.test_claude_code import Transcript, sub_agent, text_block, thinking_block, tool
from tests.lab.readers.test_recordings import RECORDINGS, load_recording
from tests.lab.readers.writing import Line, write_lines
from wane import FormatError
from wane.lab.readers import (
    atif,
    claude_code,
    codex,
    copilot_cli,
    gemini_cli,
    goose,
    kimi_code,
    opencode,
    pi,
    read_session,
)
from wane.lab.readers.building.json_lines import head
from wane.lab.readers.reading import line_reader_of


def claude_lines() -> list[Line]:
    script = Transcript("go")
    script.answer("m", thinking_block("hm"), text_block("on it"), tool("a", path="x"))
    script.result("a", [text_block("ok")])
    script.add(
        "attachment", attachment={"type": "file", "content": {"file": {"content": "x"}}}, rendered=[{"content": "x"}]
    )
    script.note(type="queue-operation", operation="enqueue", sessionId="s", content="and that")
    script.note(type="queue-operation", operation="remove", sessionId="s")
    about = {"preTokens": 5, "preservedSegment": {"headUuid": "u0"}, "preservedMessages": {"uuids": ["u0"]}}
    script.add("system", subtype="compact_boundary", logicalParentUuid="u2", compactMetadata=about)
    script.user([text_block("summary")], isCompactSummary=True)
    inner = {"type": "user", "uuid": "p", "message": {"role": "user", "content": [text_block("look")]}}
    script.add("progress", data={"type": "agent_progress", "agentId": "b", "message": inner})
    script.answer("n", text_block("done"), stop="end_turn")
    return script.lines + sub_agent("c", "look").lines


def codex_lines() -> list[Line]:
    return [
        test_codex.META,
        test_codex.CONTEXT,
        test_codex.message("user", "go"),
        test_codex.item(**test_codex.REASONING),
        test_codex.call("a"),
        test_codex.output("a", {"content": "x"}),
        test_codex.cost(1),
        test_codex.item(type="tool_search_call", call_id="t", arguments={"q": 1}),
        test_codex.item(type="tool_search_output", call_id="t", execution="server", tools=[{}]),
        test_codex.item(type="web_search_call", action={"query": "q"}),
        {"type": "compacted", "payload": {"message": "all", "replacement_history": [{}]}},
        test_codex.message("assistant", "done"),
        test_codex.message("user", "more"),
        test_codex.event("thread_rolled_back", num_turns=1),
    ]


def pi_lines() -> list[Line]:
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    run = {
        "role": "bashExecution",
        "command": "ls",
        "output": "a",
        "exitCode": 1,
        "fullOutputPath": "/x",
        "truncated": True,
    }
    messages = test_pi.chain(
        test_pi.user("go"),
        test_pi.answer(thinking, test_pi.text_block("x"), test_pi.tool("c")),
        test_pi.result("c", "y"),
        run,
    )
    compaction = test_pi.entry("k", "e3", type="compaction", summary="s", firstKeptEntryId="e1", tokensBefore=5)
    branch = test_pi.entry("b", "k", type="branch_summary", summary="s")
    return [test_pi.HEADER, *messages, compaction, branch]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in a value."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, child in value.items():
            yield (*path, key)
            yield from places(child, (*path, key))


def set_value(lines: list[Any], path: tuple[Any, ...], to: Any) -> None:
    owner: Any = lines
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = to


SOURCES = [
    (claude_code, claude_lines()),
    (codex, codex_lines()),
    (pi, pi_lines()),
    (copilot_cli, test_copilot.lines()),
    (kimi_code, test_kindred.kimi_lines()),
]
ANYTHING = st.sampled_from(
    [None, True, -1, 1e99, "", "x\ud800", "rollout", [], [None], [[]], {}, {"type": "text"}, [{"type": 1}]]
)


@pytest.mark.parametrize("reader", [reader for reader, _ in SOURCES], ids=lambda reader: reader.NAME)
@pytest.mark.parametrize(
    "lines",
    [[], ["garbage", b"\x00\xff\xfe"], [{"type": "other"}], [{"type": "attachment", "attachment": 1}], [[1, 2]]],
)
def test_a_file_of_nothing_gives_nothing(tmp_path: Path, reader: ModuleType, lines: list[Line]) -> None:
    path = write_lines(tmp_path / "s.jsonl", *lines)
    assert line_reader_of(head(path)) is None
    assert reader.read(path) == []


DOCUMENTS: list[tuple[ModuleType, list[Any]]] = [
    (gemini_cli, [json.loads(line) for line in (RECORDINGS / "gemini-cli.jsonl").read_text("utf-8").splitlines()]),
    (opencode, [load_recording("opencode.json")]),
    (goose, [load_recording("goose.json")]),
    (atif, [test_atif.trajectory(test_atif.USER, test_atif.agent(test_atif.call(1), results=[test_atif.result(1)]))]),
]


@pytest.mark.parametrize(
    ("reader", "lines"), [*SOURCES, *DOCUMENTS], ids=[reader.NAME for reader, _ in [*SOURCES, *DOCUMENTS]]
)
@given(data=st.data())
def test_a_session_comes_of_it_all_the_same(reader: ModuleType, lines: list[Line], data: st.DataObject) -> None:
    damaged = json.loads(json.dumps(lines))
    where = data.draw(st.lists(st.sampled_from(sorted(places(damaged), key=repr)), min_size=1, max_size=4))
    # The longest first: a path may lead through what a shorter one changes.
    for path in sorted(where, key=len, reverse=True):
        set_value(damaged, path, data.draw(ANYTHING))
    with TemporaryDirectory() as folder:
        path = write_lines(Path(folder) / "s.jsonl", *[json.dumps(line) for line in damaged])
        if (reader, lines) in SOURCES:
            beginning = head(path)
            line_reader_of(beginning)
            reader.about(value for value in beginning if isinstance(value, dict))
            sessions = reader.read(path)
        else:
            sessions = []
            with suppress(FormatError):  # it may be unknown what it is
                sessions = read_session(path)
        for session in sessions:
            check(session)
            "".join(part.text for part in session.parts).encode()


@pytest.mark.parametrize(("reader", "lines"), SOURCES, ids=[reader.NAME for reader, _ in SOURCES])
@given(data=st.data())
def test_lines_may_be_lost_doubled_or_cut(reader: ModuleType, lines: list[Line], data: st.DataObject) -> None:
    kept = [json.dumps(line) for line in data.draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))]
    if kept and data.draw(st.booleans()):
        kept[-1] = kept[-1][: data.draw(st.integers(0, len(kept[-1])))]
    with TemporaryDirectory() as folder:
        for session in reader.read(write_lines(Path(folder) / "s.jsonl", *kept)):
            check(session)
