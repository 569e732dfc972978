"""Sessions of Claude Code: JSON Lines, one per block of a message, in a tree by `parentUuid`.

- Lines that share `message.id` are one model call, even with other lines between them: tools run while the answer
  still streams.
- A person's words are a user turn, also those queued while the agent worked. Text of the harness (skills, output
  of commands, reminders) is a notice; fields of the line and marks in the text tell the two apart (R15).
- The path to the last line is read, with the results and blocks of its calls; abandoned branches are named.
- Sub-agents are sessions of their own: from lines of the same file, files beside it, or progress lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from wane.core import Kind
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Content, content
from wane.lab.readers.building.json_lines import Problems, records
from wane.lab.readers.building.values import mapping, text
from wane.lab.readers.claude_code.entries import (
    SIDECHAIN,
    TranscriptLine,
    UsageReader,
    What,
    entry_of,
    fill,
    is_prompt_command,
    read_queued,
)
from wane.lab.readers.claude_code.requests import RequestLog, unlisted_calls
from wane.lab.readers.claude_code.transcript import assemble, command_of
from wane.lab.readers.kin import first_record
from wane.lab.readers.places import Place
from wane.lab.recorded_session import RecordedSession

NAME: Final = "claude-code"
TITLE: Final = "Claude Code"
PLACES: Final = (Place("CLAUDE_CONFIG_DIR", ".claude", ("projects/*/*.jsonl",)),)

SUB_AGENT: Final = "agent-"
"""Prefix of the names of sub-agents' files."""

_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
# Claude Code's own notes: backups of files, titles, modes, links.
_ASIDE: Final = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "api-request-blob",
        "api-request-resumed",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "atis-latch",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "continued-in",
        "custom-title",
        "data-flow-incomplete",
        "data-flow-records",
        "derived-from",
        "dev-mods",
        "ended-by-model",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "frame-link",
        "history-suppression",
        "isolation-latch",
        "last-prompt",
        "memory-mode",
        "mode",
        "observer-ref",
        "permission-mode",
        "pr-link",
        "relocated",
        "resume-head-vouch",
        "session-owner",
        "speculation-accept",
        "started",
        "summary",
        "tag",
        "task-summary",
        "tools-used",
        "worktree-state",
    }
)


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are lines of a transcript."""
    return any(_is_line(mapping(value)) for value in head)


def _is_line(line: Mapping[str, Any]) -> bool:
    """Whether an object is recognisably a line: Qwen Code's have the same outer keys, and other messages in them."""
    kind, message = line.get("type"), mapping(line.get("message"))
    if kind in ("user", "assistant"):
        return isinstance(message.get("content"), str | list) and ("uuid" in line or "sessionId" in line)
    if kind in ("file-history-snapshot", "summary"):
        return "messageId" in line or "leafUuid" in line
    # A tuple, because the type may be any JSON.
    telling = {"system": "systemPayload" not in line, "attachment": "attachment" in line, "progress": "data" in line}
    return isinstance(kind, str) and "sessionId" in line and telling.get(kind, kind.startswith(("queue-op", "api-req")))


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a transcript with those of its sub-agents (see `LineReader`); none if it holds none."""
    transcript = _Transcript(path)
    if not transcript.recognised:
        return []
    session = transcript.session(path.stem, transcript.entries, transcript.problems)
    files = _agent_files(path, transcript.session_ids)
    for _, file in files:
        for side in read(file):
            side.path = str(file)
            session.sidechains.append(side)
    session.sidechains += transcript.sub_sessions(without={agent for agent, _ in files})
    if transcript.state is not None:
        session.asides += unlisted_calls(session, *transcript.state)
    return [session]


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the first turn that a person typed, or else their first command, and the working directory."""
    cwd: str | None = None
    command = ""
    for number, data in enumerate(lines):
        cwd = cwd or text(data.get("cwd")) or None
        if data.get("type") != "user" or data.get("isSidechain"):
            continue
        entry = entry_of(number, data, None)
        fill(entry, data)
        if entry.typed and entry.turn is not None:
            return entry.turn.text, cwd
        command = command or command_of(entry)
    return command, cwd


class _Transcript:
    """The entries of a file: the session's own, and its sub-agents' by agent."""

    def __init__(self, path: Path) -> None:
        self.problems = Problems()
        self.entries: list[TranscriptLine] = []
        self.sides: dict[str, list[TranscriptLine]] = {}
        self.progress: dict[str, list[TranscriptLine]] = {}  # by agent, its progress lines
        self.session_ids: set[str] = set()
        self._session_id: str | None = None  # of the latest line
        self.cwd: str | None = None
        self.recognised = False
        self.requests = RequestLog()
        # The latest sum of all usage, with the ids of the calls ahead of it, and its time.
        self.state: tuple[Mapping[str, Any], set[str], float | None] | None = None
        self._path = path
        self._usages = UsageReader()
        self._seen: set[str] = set()
        self._last: dict[str | None, str] = {}
        self._side_of: dict[str, str] = {}  # the sub-agent of a line, for versions that do not name it
        self._waiting: list[str] = []
        self._commands: set[str] = set()  # entries whose prompt is the next entry
        self._attached: set[str] = set()  # queued messages that an attachment holds
        for line, data in records(path, self.problems):
            self._take(line, data)
        if self._attached:
            self.entries = [entry for entry in self.entries if not self._is_attached(entry)]
        if not self.entries and self.sides:
            # In a sub-agent's own file its lines are the session.
            self.entries = self.sides.pop(next(iter(self.sides)))

    def _is_attached(self, entry: TranscriptLine) -> bool:
        """Whether an attachment holds a queued message too, as in newer versions."""
        if entry.what is not What.QUEUED or entry.turn is None:
            return False
        return entry.turn.text.strip() in self._attached

    def session(
        self, name: str, entries: Sequence[TranscriptLine], problems: Problems | None = None
    ) -> RecordedSession:
        builder = SessionBuilder(name, NAME, problems)
        builder.cwd = self.cwd
        return assemble(builder, entries, self.requests)

    def sub_sessions(self, without: Collection[str]) -> list[RecordedSession]:
        """Return the sessions of sub-agents in this file; progress lines of the agents in `without` add nothing."""
        chains = {agent: entries for agent, entries in self.progress.items() if agent not in without}
        chains.update(self.sides)
        named = sorted(chains.items(), key=lambda pair: pair[1][0].line)
        return [self.session(f"{self._path.stem}/{name}", chain) for name, chain in named]

    def _take(self, line: int, data: Mapping[str, Any]) -> None:
        kind = text(data.get("type"))
        if kind in _TYPES:
            self._entry(line, kind, data)
        elif kind == "queue-operation":
            self._queue(line, data)
        elif kind in ("api-request", "api-request-shape"):
            self.requests.take(data)
        elif kind == "cost-state":
            latest = self.entries[-1].at if self.entries else None
            self.state = data, {entry.message_id for entry in self.entries}, latest
        elif kind not in _ASIDE:
            self.problems.add(line, f"a line of the unknown type {kind!r}")
        self.recognised = self.recognised or _is_line(data)

    def _entry(self, line: int, kind: str, data: Mapping[str, Any]) -> None:
        entry = entry_of(line, data, None)
        if entry.id in self._seen:
            return  # a resumed session repeats its beginning
        self._seen.add(entry.id)
        self.cwd = self.cwd or text(data.get("cwd")) or None
        if (session_id := data.get("sessionId")) != self._session_id:
            self._session_id = text(session_id)
            self.session_ids.update([self._session_id] if self._session_id else ())
        if entry.side == SIDECHAIN:
            entry.side = self._side_of.setdefault(entry.id, self._side_of.get(entry.parent or "", f"agent-{line}"))
        if entry.parent is None and "parentUuid" not in data:
            entry.parent = self._last.get(entry.side)
        self._last[entry.side] = entry.id
        if entry.side is None:
            self.entries.append(entry)
        else:
            self.sides.setdefault(entry.side, []).append(entry)
        if kind == "progress":
            self._progress(line, mapping(data.get("data")))
            return
        fill(entry, data, self._usages, prompted=entry.parent in self._commands)
        if entry.turn is not None and is_prompt_command(entry.turn):
            self._commands.add(entry.id)
        if kind == "attachment":
            attached = mapping(data.get("attachment"))
            if attached.get("type") == "prompt_snapshot":
                self.requests.take_snapshot(attached)
            elif attached.get("type") == "queued_command":
                self._attached.add(content(attached.get("prompt")).text.strip())

    def _progress(self, line: int, data: Mapping[str, Any]) -> None:
        """Take a sub-agent's words and calls from a progress line, as in versions without files for sub-agents."""
        if data.get("type") != "agent_progress":
            return
        message = mapping(data.get("message"))
        agent = text(data.get("agentId"))
        if not agent or text(message.get("uuid")) in self._seen:
            return
        self._seen.add(text(message.get("uuid")))
        chain = self.progress.setdefault(agent, [])
        entry = entry_of(line, message, chain[-1].id if chain else None)
        fill(entry, message, self._usages)
        chain.append(entry)

    def _queue(self, line: int, data: Mapping[str, Any]) -> None:
        """Follow messages queued while the agent worked; a removed one was given to it between two calls."""
        operation = text(data.get("operation"))
        message = read_queued(data)
        if operation == "enqueue":
            if message:
                self._waiting.append(message)
        elif operation == "popAll":
            self._waiting.clear()  # back into the editor
        elif operation in ("dequeue", "remove") and self._waiting:
            # Lines that do not repeat the message are about the oldest one.
            if message not in self._waiting:
                message = self._waiting[0]
            self._waiting.remove(message)
            if operation == "remove":
                entry = entry_of(line, data, self._last.get(None))
                entry.what = What.QUEUED
                entry.turn = Content(message)
                entry.typed = True
                entry.parts = [Part(Kind.USER, message)]
                self.entries.append(entry)


def _agent_files(path: Path, session_ids: set[str]) -> list[tuple[str, Path]]:
    """Return the files of a session's sub-agents, each with its agent: those in its own folder, and those beside it."""
    if path.name.startswith(SUB_AGENT):
        return []
    files: list[Path] = []
    own = path.with_suffix("")
    if own.is_dir():
        files += sorted(own.glob(f"subagents/**/{SUB_AGENT}*.jsonl"))
    beside = _files_beside(path.parent, path.parent.stat().st_mtime_ns)
    for session_id in sorted(session_ids):
        files += beside.get(session_id, ())
    return [(file.stem.removeprefix(SUB_AGENT), file) for file in files]


@lru_cache(maxsize=4)
def _files_beside(folder: Path, _changed: int) -> dict[str, list[Path]]:
    """Return the files of sub-agents in a folder by session, as older versions left them; all are opened once.

    The time of the folder's last change is an argument, so that files that are added later are seen.
    """
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.glob(f"{SUB_AGENT}*.jsonl")):
        files.setdefault(text(first_record(file).get("sessionId")), []).append(file)
    return files
