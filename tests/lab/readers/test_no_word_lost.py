"""Any text of a recording is in what was read of it, or a problem names it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers import test_atif, test_copilot, test_kindred
from tests.lab.readers.test_damage import claude_lines, codex_lines, pi_lines
from tests.lab.readers.test_recordings import RECORDINGS, loaded
from tests.lab.readers.writing import write_lines
from wane.core.errors import WaneError
from wane.lab.readers import read_file
from wane.lab.session import Problem, RecordedSession

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


def marked(lines: list[Any], path: tuple[Any, ...]) -> list[Any]:
    copied: list[Any] = json.loads(json.dumps(lines))
    owner: Any = copied
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = f"{owner[path[-1]]} {MARK}"
    return copied


GEMINI = [json.loads(line) for line in (RECORDINGS / "gemini-cli.jsonl").read_text("utf-8").splitlines()]
QWEN = [
    test_kindred.qwen(0, "user", [{"text": "Never touch the migrations."}]),
    test_kindred.qwen(1, "assistant", [test_kindred.THOUGHT, test_kindred.READ], **test_kindred.used(900, 40)),
    test_kindred.qwen(2, "tool_result", [test_kindred.SEEN]),
    test_kindred.qwen(3, "assistant", [{"text": "Done."}], **test_kindred.used(950, 12)),
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
SAMPLES: dict[str, list[Any]] = {
    "claude-code": claude_lines(),
    "codex": codex_lines(),
    "pi": pi_lines(),
    "copilot-cli": test_copilot.lines(),
    "kimi-code": test_kindred.kimi_lines(),
    "qwen-code": QWEN,
    "gemini-cli": GEMINI,
    "opencode": [loaded("opencode.json")],
    "goose": [loaded("goose.json")],
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
            sessions = read_file(write_lines(tmp_path / "s.jsonl", *marked(lines, path)))
        except WaneError:
            continue  # refused
        read = "\n".join(map(words, sessions))
        named = [len(session.problems) for session in sessions] != before
        if not named and MARK not in read and not is_copy(at(lines, path), counts, read):
            lost.append(path)
    assert not lost, "\n".join(map(str, lost))


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
