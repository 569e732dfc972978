"""Any text of a recording is in what was read of it, or a problem names it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.journal.support import begin
from tests.lab.readers import test_atif, test_copilot, test_kindred
from tests.lab.readers.test_damage import claude_lines, codex_lines, pi_lines
from tests.lab.readers.test_recordings import RECORDINGS, load_recording
from tests.lab.readers.writing import write_lines
from wane.core.errors import WaneError
from wane.journal import MessageRecord, StrategyRecord
from wane.lab.readers import read_file
from wane.lab.recorded_session import Problem, RecordedSession

MARK = "xyzzy-4711"

# Ids, links, times, kinds, settings, and what a client shows to the person alone: no request carries them.
# fmt: off
NAMES = frozenset(
    {
        "_meta", "action", "agent", "agentId", "agentName", "api", "apiCallId", "callID", "callId", "call_id",
        "cli_version", "commandMode", "content_type", "costSource", "created_at", "cwd", "description",
        "display", "displayName", "encrypted_content", "entrypoint", "event.name", "execution", "filediff",
        "files", "finish", "finishReason", "finish_reason", "firstKeptEntryId", "fullOutputPath", "gitBranch",
        "goose_mode", "hash", "headUuid", "hookEvent", "hookType", "id", "kind", "lastUpdated",
        "last_message_at", "leafUuid", "logicalParentUuid", "messageID", "messageId", "message_id", "metadata", "mime",
        "mode", "model", "modelAlias", "modelID", "modelId", "model_name", "name", "namespace", "operation",
        "originator", "parentID", "parentId", "parentToolCallId", "parentUuid", "parent_session_id", "path",
        "producer", "projectHash", "projectID", "promptId", "protocol_version", "provider", "providerID",
        "provider_name", "reason", "reasoningOpaque", "renderedRole", "requestId", "requestedModel",
        "resultDisplay", "resultType", "role", "schema_version", "sessionID", "sessionId", "session_id",
        "session_type", "signature", "slug", "snapshot", "source", "source_call_id", "startTime", "status",
        "stopReason", "stop_reason", "structuredContent", "subtype", "thinkingEffort", "thinkingSignature",
        "timestamp", "title", "toolCallId", "toolName", "toolUseID", "toolUseResult", "tool_call_id",
        "tool_use_id", "turnId", "turn_id", "type", "updated_at", "uuid", "uuids", "variant", "version",
    }
)
# fmt: on


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all texts in a value."""
    if isinstance(value, str):
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield from leaves(child, (*path, key))


def words(session: RecordedSession) -> str:
    """All that was read of a session."""
    texts = [session.title, session.cwd or "", session.name]
    for part in session.parts:
        texts += [part.text, part.tool or "", part.arguments or ""]
    texts += [compaction.summary for compaction in session.compactions]
    texts += [problem.what for problem in session.problems]
    return "\n".join([*texts, *map(words, session.sidechains)])


def mark_text(lines: list[Any], path: tuple[Any, ...]) -> list[Any]:
    copied: list[Any] = json.loads(json.dumps(lines))
    owner: Any = copied
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = f"{owner[path[-1]]} {MARK}"
    return copied


GEMINI = [json.loads(line) for line in (RECORDINGS / "gemini-cli.jsonl").read_text("utf-8").splitlines()]
QWEN = [
    test_kindred.qwen(0, "user", [{"text": "Never touch the migrations."}]),
    test_kindred.qwen(1, "assistant", [test_kindred.THOUGHT, test_kindred.READ], **test_kindred.usage_fields(900, 40)),
    test_kindred.qwen(2, "tool_result", [test_kindred.SEEN]),
    test_kindred.qwen(3, "assistant", [{"text": "Done."}], **test_kindred.usage_fields(950, 12)),
]
TRAJECTORY = test_atif.trajectory(test_atif.USER, test_atif.agent(test_atif.call(1), results=[test_atif.result(1)]))
CHAT: list[Any] = [
    {"role": "user", "content": "Go."},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"p": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x = 1"}]},
]
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"p": "q"}'}}
SAMPLES: dict[str, list[Any]] = {
    "claude-code": claude_lines(),
    "codex": codex_lines(),
    "pi": pi_lines(),
    "copilot-cli": test_copilot.lines(),
    "kimi-code": test_kindred.kimi_lines(),
    "qwen-code": QWEN,
    "gemini-cli": GEMINI,
    "opencode": [load_recording("opencode.json")],
    "goose": [load_recording("goose.json")],
    "atif": [TRAJECTORY],
    "cline": [test_kindred.CLINE],
    "mistral-vibe": test_kindred.vibe_lines(),
    "openai": CHAT,
}


def is_copy(text: str, counts: Counter[str], read: str) -> bool:
    """Whether a text stands in the recording more than once, and was read where it stands else."""
    return counts[text] > 1 and text in read


# A command and its outcome, which the person alone saw, and Goose's own sentence behind a summary.
OWN = {("goose", 10), ("goose", 11), ("goose", 12)}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_text_is_read_or_named(tmp_path: Path, name: str) -> None:
    lines = SAMPLES[name]
    counts = Counter(at(lines, path) for path in leaves(lines))
    sessions = read_file(write_lines(tmp_path / "s.jsonl", *lines))
    before = [len(session.problems) for session in sessions]
    abandoned = {line for session in sessions for problem in session.problems for line in span(problem)}
    lost = []
    for path in leaves(lines):
        if path[0] + 1 in abandoned or not NAMES.isdisjoint(path) or (name, *path[2:3]) in OWN:
            continue
        try:
            sessions = read_file(write_lines(tmp_path / "s.jsonl", *mark_text(lines, path)))
        except WaneError:
            continue  # refused
        read = "\n".join(map(words, sessions))
        named = [len(session.problems) for session in sessions] != before
        if not named and MARK not in read and not is_copy(at(lines, path), counts, read):
            lost.append(path)
    assert not lost, "\n".join(map(str, lost))


NOVEL = {"type": "novel", "body": f"A kind that nobody knows yet. {MARK}"}
PLACES: dict[str, tuple[Any, ...]] = {
    "claude-code": (1, "message", "content"),
    "pi": (1, "message", "content"),
    "qwen-code": (0, "message", "parts"),
    "opencode": (0, "messages", 1, "parts"),
    "goose": (0, "conversation", 1, "content"),
    "cline": (0, "messages", 1, "content"),
    "openai": (2, "content"),
}


@pytest.mark.parametrize("name", PLACES)
def test_content_of_a_kind_that_nobody_knows_is_read_or_named(tmp_path: Path, name: str) -> None:
    lines = json.loads(json.dumps(SAMPLES[name]))
    content = lines
    for key in PLACES[name]:
        content = content[key]
    content.append(NOVEL)
    sessions = read_file(write_lines(tmp_path / "s.jsonl", *lines))
    named = [problem.what for session in sessions for problem in session.problems]
    assert MARK in "\n".join(map(words, sessions)) or any("novel" in what or "body" in what for what in named)


def at(lines: list[Any], path: tuple[Any, ...]) -> str:
    value: Any = lines
    for key in path:
        value = value[key]
    return str(value)


def span(problem: Problem) -> Iterator[int]:
    """The lines that a problem names: one, or the run of an abandoned branch."""
    if problem.line is not None:
        run = re.match(r"lines (\d+) to (\d+)", problem.what)
        yield from range(int(run[1]), int(run[2]) + 1) if run else [problem.line]


RETRY = ToolReturnPart("read", "Field required: path", "c1", outcome="retried")
PYDANTIC_AI: list[ModelMessage] = [
    ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Fix it.")], instructions="And be kind."),
    ModelResponse(parts=[ThinkingPart("First a look."), TextPart("I look."), ToolCallPart("read", {"a": "b"}, "c1")]),
    ModelRequest(parts=[RETRY]),
    ModelResponse(parts=[ToolCallPart("read", '{"path": "a.py"}', "c2"), ToolCallPart("list", {"in": ["src"]}, "c3")]),
    ModelRequest(parts=[ToolReturnPart("read", {"text": "x = 1"}, "c2"), ToolReturnPart("list", "a.py", "c3")]),
    ModelResponse(parts=[NativeToolCallPart("web_search", {"query": "x"}, "c4")]),
    ModelRequest(parts=[UserPromptPart(["See", TextContent("this"), "please."])]),
    ModelResponse(parts=[TextPart("Done.")], finish_reason="stop"),
]
PYDANTIC_AI_NAMES = frozenset({"part_kind", "tool_name", "run_id", "conversation_id", "tool_kind"})


def test_every_text_of_pydantic_ai_is_read_or_named(tmp_path: Path) -> None:
    messages = ModelMessagesTypeAdapter.dump_python(PYDANTIC_AI, mode="json")
    (whole,) = read_file(write_lines(tmp_path / "s.jsonl", *messages))
    lost, looked = [], 0
    for path in leaves(messages):
        if not (NAMES | PYDANTIC_AI_NAMES).isdisjoint(path):
            continue
        looked += 1
        (session,) = read_file(write_lines(tmp_path / "s.jsonl", *mark_text(messages, path)))
        # Instructions are the overhead, of which the tokens alone are kept.
        counted = session.system_tokens != whole.system_tokens
        if MARK not in words(session) and not session.problems and not counted:
            lost.append(path)
    assert looked > 15
    assert not lost, "\n".join(map(str, lost))


def test_every_line_of_aider_is_read_or_printed_by_aider(tmp_path: Path) -> None:
    lines = (RECORDINGS / "aider.chat.history.md").read_text("utf-8").splitlines()
    lost, looked, printed = [], 0, False
    for number, line in enumerate(lines):
        # What aider prints begins so and ends with two spaces; the model gets none of it, but what begins with `> # `.
        began = line.startswith("> ")
        printed = (printed or began) and not (began and line.startswith("> # "))
        own = printed or line.startswith(("# aider chat started at ", "#### /"))
        printed = printed and not line.endswith("  ")
        if own or not line.strip():
            continue
        looked += 1
        spaces = len(line) - len(line.rstrip(" "))
        changed = [*lines[:number], f"{line.rstrip(' ')} {MARK}{' ' * spaces}", *lines[number + 1 :]]
        history = tmp_path / ".aider.chat.history.md"
        history.write_text("\n".join(changed) + "\n", encoding="utf-8")
        if MARK not in "\n".join(map(words, read_file(history))):
            lost.append((number + 1, line))
    assert looked > 20
    assert not lost, "\n".join(map(str, lost))


JOURNALS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "assistant", "content": "I look.", "reasoning_content": "First a look.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ],
    "anthropic": [
        {"role": "user", "content": "Fix it."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "First a look.", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py", "lines": ["1", "9"]}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x = 1"}]},
                {"type": "text", "text": "And then?"},
            ],
        },
        {"role": "assistant", "content": "Done."},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Fix it."}]},
        {
            "role": "model",
            "parts": [{"text": "Look.", "thought": True}, {"functionCall": {"name": "a", "args": {"p": "q"}}}],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {"output": "x = 1"}}}]},
        {"role": "model", "parts": [{"text": "Done."}]},
    ],
}


@pytest.mark.parametrize("name", JOURNALS)
def test_every_text_of_a_journal_is_read_or_named(tmp_path: Path, name: str) -> None:
    messages = JOURNALS[name]
    lost, looked = [], 0
    for number, path in enumerate(leaves(messages)):
        if not (NAMES - {"path"}).isdisjoint(path):
            continue
        looked += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        records = [MessageRecord(message=message) for message in mark_text(messages, path)]
        (session,) = read_file(begin(folder, records, message_format=name))
        if MARK not in words(session) and not session.problems:
            lost.append(path)
    assert looked >= 5
    assert not lost, "\n".join(map(str, lost))


def test_a_summary_in_a_journal_is_read(tmp_path: Path) -> None:
    records = [MessageRecord(message=message) for message in JOURNALS["openai"]]
    acted = StrategyRecord(7, "compact", {"from": 6, "summary": MARK, "tokens": 9})
    (session,) = read_file(begin(tmp_path, [*records, acted]))
    assert MARK in words(session)
