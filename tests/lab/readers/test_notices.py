"""What recorded sessions hold of a person and of the harness, by the line and in whole recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import SESSIONS, check, kinds, needs_sessions
from tests.lab.readers.test_claude_code import Transcript, read, text_block, tool
from wane import Kind, chars
from wane.formats.notices import is_notice
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession

HUMAN = {"origin": {"kind": "human"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}


def input_texts(session: RecordedSession) -> list[tuple[str, str]]:
    """Kind and text of all that no model said, and no tool."""
    kinds_ = (Kind.USER, Kind.NOTICE, Kind.SYSTEM)
    return [(part.kind.value, part.text) for part in session.parts if part.kind in kinds_]


@pytest.mark.parametrize(
    ("content", "fields", "kind"),
    [
        ("go", HUMAN, "user"),
        ("go", {}, "user"),
        ("look at it", {"origin": {"kind": "task-notification"}}, "notice"),
        ("from elsewhere", {"origin": {"kind": "peer", "from": "x"}}, "notice"),
        ("<task-notification>done</task-notification>", {}, "notice"),
        ("<task-notification>done</task-notification>\nFull transcript available at: /tmp/a", {}, "notice"),
        ("<bash-input>ls</bash-input>", {}, "user"),
        ("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", {}, "notice"),
        ("<command-name>/model</command-name>\n<command-args>x</command-args>", {}, "user"),
        ("<local-command-stdout>Set model</local-command-stdout>", {}, "notice"),
        ("[Request interrupted by user]", {}, "notice"),
        ("Please tidy up.", {"isMeta": True, "sourceToolUseID": "t"}, "notice"),
        ("Base directory for this skill: /x\n\n# X", {"isMeta": True}, "notice"),
        ("Continue from where you left off.", {"isMeta": True}, "notice"),
        ("Something new that the harness says.", {"isMeta": True}, "notice"),
    ],
)
def test_lines_of_claude_code(tmp_path: Path, content: str, fields: dict[str, Any], kind: str) -> None:
    script = Transcript("begin")
    script.answer("m", text_block("a"))
    script.user(content, **fields)
    script.answer("n", text_block("b"))
    assert input_texts(read(tmp_path, script.lines)) == [("user", "begin"), (kind, content)]


@pytest.mark.parametrize(
    ("attachment", "kind", "told_model"),
    [
        ({"type": "queued_command", "prompt": "x"}, "user", "x"),
        ({"type": "queued_command", "prompt": "x", "commandMode": "prompt", **HUMAN}, "user", "x"),
        ({"type": "queued_command", "prompt": "x", "commandMode": "task-notification"}, "notice", "x"),
        ({"type": "queued_command", "prompt": "x", "origin": {"kind": "coordinator"}}, "notice", "x"),
        ({"type": "queued_command", "prompt": "x", "isMeta": True}, "notice", "x"),
        ({"type": "hook_additional_context", "content": ["x"], "hookEvent": "PostToolUse"}, "notice", "x"),
        ({"type": "hook_success", "hookEvent": "SessionStart", "content": "hello"}, "notice", "hello"),
        ({"type": "hook_success", "hookEvent": "PostToolUse", "content": "hello"}, None, ""),
        ({"type": "skill_listing", "content": "x"}, "notice", "x"),
        ({"type": "edited_text_file", "filename": "a", "snippet": "1 x"}, "notice", "1 x"),
        (
            {"type": "file", "content": {"type": "text", "file": {"filePath": "a", "content": "x = 1"}}},
            "notice",
            "x = 1",
        ),
        ({"type": "file", "content": {"type": "image", "file": {"base64": "x"}}}, "user", ""),
        (
            {"type": "nested_memory", "path": "/w/M", "content": {"path": "/w/M", "content": "be good"}},
            "notice",
            "be good",
        ),
        (
            {"type": "todo_reminder", "content": [{"content": "a", "status": "done"}, {"content": "b"}]},
            "notice",
            "a\nb",
        ),
        ({"type": "command_permissions", "content": "x"}, None, ""),
        ({"type": "date_change", "newDate": "2026-01-02"}, None, ""),
    ],
)
def test_attachments_of_claude_code(
    tmp_path: Path, attachment: dict[str, Any], kind: str | None, told_model: str
) -> None:
    script = Transcript("begin")
    script.answer("m", text_block("a"))
    script.add("attachment", attachment=attachment)
    script.answer("n", text_block("b"))
    assert input_texts(read(tmp_path, script.lines))[1:] == ([] if kind is None else [(kind, told_model)])


def test_the_prompt_of_a_command_that_a_person_gave_is_theirs_and_that_of_a_skill_is_not(tmp_path: Path) -> None:
    command = "<command-message>greet</command-message>\n<command-name>/greet</command-name>"
    skill = "Base directory for this skill: /x\n\n# X"
    script = Transcript("begin")
    script.answer("m", text_block("a"))
    script.user(command, **HUMAN)
    script.user("Greet Tom.", isMeta=True, turnCompanion=True)
    script.answer("n", text_block("b"))
    script.user(command)
    script.user([text_block(skill)], isMeta=True)
    script.answer("o", tool("t"))
    script.result("t", "Launching skill: greet")
    script.user([text_block("Greet Ann.")], isMeta=True, sourceToolUseID="t")
    script.answer("p", text_block("c"))
    session = read(tmp_path, script.lines)
    assert input_texts(session)[1:] == [
        ("user", command),
        ("user", "Greet Tom."),
        ("user", command),
        ("notice", skill),
        ("notice", "Greet Ann."),
    ]
    assert session.title == "begin"


def test_the_blocks_of_a_turn_are_judged_each_by_itself(tmp_path: Path) -> None:
    script = Transcript()
    opened = "<ide_opened_file>The user opened a.py</ide_opened_file>"
    script.user(
        [text_block(opened), text_block("see"), IMAGE, text_block("there"), text_block(opened), text_block(opened)]
    )
    script.answer("m", text_block("a"))
    session = read(tmp_path, script.lines)
    assert input_texts(session) == [("notice", opened), ("user", "see\nthere"), ("notice", opened), ("notice", opened)]
    assert session.parts[1].extra_tokens > 0
    assert session.messages[:4] == [0, 1, 2, 3]


def test_lines_that_only_the_client_needs_are_known(tmp_path: Path) -> None:
    script = Transcript("go")
    for kind in ("api-request", "api-request-blob", "api-request-shape", "atis-latch", "cost-state", "tools-used"):
        script.note(type=kind, sessionId="s")
    script.answer("m", text_block("a"))
    session = read(tmp_path, script.lines)
    assert (kinds(session), session.problems) == (["user", "text"], [])


# Recorded sessions


TOKENS = {
    "claude-code/entireio-43_2b48f6b6e6_0": (4_485, 41, 3_673, 7),
    "claude-code/entireio-5e_5207b424e2_0": (370, 14, 113, 1),
    "claude-code/entireio-bc_cb77bb88fa_1": (1_383, 22, 8_076, 5),
    "claude-code/entireio-cd_95adddad32_0": (1_850, 43, 126, 8),
    "claude-code/ohmyposh-d3_cfdfe7f72d_0": (1_094, 13, 74_149, 77),
    "claude-code/packmind-16_b343528434_0": (2_574, 5, 89, 3),
    "claude-code/packmind-8f_2ac5b863c7_0": (2_183, 2, 0, 0),
    "codex/agentv-00_34f597b72d_1": (246, 10, 1_953, 1),
    "codex/agentv-0b_9f2ac6f3aa_1": (9_700, 36, 3_681, 3),
    "codex/agentv-33_5841c2d678_0": (390, 13, 1_901, 2),
    "codex/agentv-79_6eaddfe2f9_0": (181, 9, 8_299, 1),
    "pi/before-compaction": (2_609, 55, 12_921, 3),
    "pi/large-session": (3_157, 88, 0, 0),
}
"""By recording, tokens and number of a person's turns, and of notices. All of them were read."""


def weigh_kind(session: RecordedSession, kind: Kind) -> tuple[int, int]:
    weights = [part.item(chars, 0).tokens for part in session.parts if part.kind is kind]
    return sum(weights), len(weights)


@pytest.mark.full
@needs_sessions
@pytest.mark.parametrize("name", TOKENS)
def test_what_a_person_and_what_the_harness_said(name: str) -> None:
    (session,) = read_session(SESSIONS / f"{name}.jsonl")
    check(session)
    assert (*weigh_kind(session, Kind.USER), *weigh_kind(session, Kind.NOTICE)) == TOKENS[name]
    for whole in (session, *session.sidechains):
        assert not any(is_notice(part.text) for part in whole.parts if part.kind is Kind.USER)
    # A sub-agent's task is what it works on.
    assert all(side.parts[0].kind is Kind.USER for side in session.sidechains if side.parts)


@needs_sessions
def test_every_word_that_a_person_typed_is_theirs() -> None:
    """In the one recording that says of each turn who it is of, which is the hard case: 97 % of the text is not."""
    path = SESSIONS / "claude-code" / "ohmyposh-d3_cfdfe7f72d_0.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    turns = [(line.get("origin"), line["message"]["content"]) for line in lines if line.get("type") == "user"]
    attached = [line["attachment"] for line in lines if line.get("type") == "attachment"]
    turns += [(each.get("origin"), each.get("prompt")) for each in attached]
    typed = [content for origin, content in turns if (origin or {}).get("kind") == "human"]
    (session,) = read_session(path)
    persons = {part.text for part in session.parts if part.kind is Kind.USER}
    assert len(typed) == 12
    assert sum(map(len, typed)) == 4_080
    # Besides only the command that compacted the session, with what it was to keep.
    (rest,) = persons.difference(typed)
    assert "only keep the relevant parts" in rest
    assert persons.issuperset(typed)
