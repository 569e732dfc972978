"""Sessions of pi (badlogic/pi-mono): JSON Lines, a tree of entries since version 2 of its format.

The context is built as pi itself builds it (`session-manager.ts`, `messages.ts`): the path from the last entry to the
root. Commands that the user ran, with their output, and messages of extensions are sent in the user's role; both are
notices (R15).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wane.core import Kind, chars
from wane.formats.fields import compact
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, Content, content, couple_items
from wane.lab.readers.building.json_lines import name_abandoned, path_to, records
from wane.lab.readers.building.values import amount, count, items, mapping, objects, seconds, text
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

NAME: Final = "pi"
TITLE: Final = "pi"
PLACES: Final = (Place("PI_CODING_AGENT_DIR", ".pi/agent", ("sessions/*/*.jsonl",)),)

_MESSAGES: Final = frozenset({"message", "custom_message", "branch_summary"})
# Settings, names and extensions' notes, which no request carries.
_ASIDE: Final = frozenset({"session", "model_change", "thinking_level_change", "custom", "label", "session_info"})
_BROKEN_OFF: Final = frozenset({"aborted", "error"})
_NO_RESULT: Final = "No result provided"
"""The result that pi sends for a call without one (`transform-messages.ts`)."""


@dataclass(frozen=True, slots=True)
class _TreeLine:
    """A line of the file that is an entry of the tree."""

    line: int
    id: str
    parent: str | None
    data: Mapping[str, Any]


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are its header or messages of pi."""
    first = mapping(head[0]) if head else {}
    if first.get("type") == "session" and "id" in first and "cwd" in first:
        return True
    messages = [mapping(line.get("message")) for line in map(mapping, head) if line.get("parentId")]
    return any(message.get("role") in ("toolResult", "bashExecution") for message in messages)


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a file (see `LineReader`); none if the file holds nothing of pi."""
    builder = SessionBuilder(path.stem, NAME)
    entries = _entries(path, builder)
    if not entries and builder.cwd is None:
        return []
    # The path to the last entry, as pi resumes it.
    active = path_to(entries[-1] if entries else None, entries)
    abandoned: list[_TreeLine] = []
    calls: list[ModelCall] = []
    for entry in entries:
        kind, message = text(entry.data.get("type")), mapping(entry.data.get("message"))
        if entry.id in active or (kind not in _MESSAGES and kind != "compaction"):
            continue
        abandoned.append(entry)
        at = seconds(entry.data.get("timestamp"))
        if message.get("role") == "assistant":
            calls.append(_call(message, at))
        elif kind == "compaction" and (wrote := _call(entry.data, at)).usage is not None:
            calls.append(wrote)
    name_abandoned((entry.line for entry in abandoned), builder.problems, calls)
    _Assembly(builder).run(sorted(active.values(), key=lambda entry: entry.line))
    return [builder.build()]


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn and the working directory."""
    cwd: str | None = None
    for data in lines:
        if data.get("type") == "session":
            cwd = text(data.get("cwd")) or None
        message = mapping(data.get("message"))
        if message.get("role") == "user" and (written := content(message.get("content")).text.strip()):
            return written, cwd
    return "", cwd


def _entries(path: Path, builder: SessionBuilder) -> list[_TreeLine]:
    """Return the entries in the order of the file; in version 1, which had no ids, each follows the previous one."""
    entries: list[_TreeLine] = []
    names: list[str] = []  # of all lines, because version 1 refers to them by number
    last: str | None = None
    for line, data in records(path, builder.problems):
        kind = text(data.get("type"))
        if kind == "session":
            builder.cwd = builder.cwd or text(data.get("cwd")) or None
            builder.effort = builder.effort or text(data.get("thinkingLevel"))
            names.append("")
            continue
        if kind not in _MESSAGES and kind not in _ASIDE and kind != "compaction":
            builder.problems.add(line, f"a line of the unknown type {kind!r}")
            names.append("")
            continue
        name = text(data.get("id")) or f"line {line}"
        parent = (text(data.get("parentId")) or None) if "parentId" in data else last
        names.append(name)
        entries.append(_TreeLine(line, name, parent, _trim_entry(data, names)))
        last = name
    return entries


def _trim_entry(data: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return an entry without details that no request carries; a compaction names its first kept entry by id."""
    message = data.get("message")
    if isinstance(message, dict):
        message.pop("details", None)
    first = count(data.get("firstKeptEntryIndex"))
    if first is not None and first < len(names) and "firstKeptEntryId" not in data:
        return {**data, "firstKeptEntryId": names[first]}
    return data


class _Assembly:
    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self._positions: dict[str, int] = {}  # by entry, its first part
        self._tools: dict[str, int] = {}  # tokens of the tools, by name

    def run(self, entries: Sequence[_TreeLine]) -> None:
        for entry in entries:
            self._positions[entry.id] = self._builder.position
            kind = text(entry.data.get("type"))
            if kind == "message":
                self._message(entry, mapping(entry.data.get("message")))
            elif kind == "custom_message":
                self._turn(content(entry.data.get("content")), notice=True)
            elif kind == "branch_summary" and entry.data.get("summary"):
                self._turn(_branch_summary(text(entry.data["summary"])), notice=True)
            elif kind == "compaction":
                self._compaction(entry)
            elif kind == "thinking_level_change":
                self._builder.effort = text(entry.data.get("thinkingLevel"))

    def _message(self, entry: _TreeLine, message: Mapping[str, Any]) -> None:
        role = text(message.get("role"))
        if role == "system":
            self._system(message)
        elif role == "assistant":
            self._answer(entry, message)
        elif role == "toolResult":
            call_id, output = text(message.get("toolCallId")), content(message.get("content"))
            self._builder.result(call_id, output, failed=message.get("isError"), line=entry.line)
        elif role == "user":
            turn = content(message.get("content"))
            self._builder.entitle(turn.text)
            self._turn(turn)
        elif role in ("custom", "hookMessage"):
            self._turn(content(message.get("content")), notice=True)
        elif role == "bashExecution":
            if not message.get("excludeFromContext"):
                self._turn(_bash_text(message), notice=True)
        elif role == "branchSummary":
            self._turn(_branch_summary(text(message.get("summary"))), notice=True)
        elif role != "compactionSummary":  # a copy of the compaction's own entry
            self._builder.problems.add(entry.line, f"a message of the unknown role {role!r}")

    def _system(self, message: Mapping[str, Any]) -> None:
        """Take the system prompt, and the tools as overhead; pi records both again when they have changed."""
        sections = [words for words in mapping(message.get("sections")).values() if isinstance(words, str)]
        prompt = "\n\n".join(filter(None, [content(message.get("content")).text, *sections]))
        for tool in objects(message.get("toolsAdded")):
            self._tools[text(tool.get("name"))] = chars(compact(tool))
        for name in items(message.get("toolsRemoved")):
            self._tools.pop(text(name) or text(mapping(name).get("name")), None)
        if self._tools:
            # The largest set, because the session has one figure.
            self._builder.system_tokens = max(self._builder.system_tokens or 0, sum(self._tools.values()))
        if prompt:
            self._builder.add(Part(Kind.SYSTEM, prompt))

    def _turn(self, turn: Content, *, notice: bool = False) -> None:
        self._builder.settle(_NO_RESULT)
        self._builder.user(turn, notice=notice)

    def _answer(self, entry: _TreeLine, message: Mapping[str, Any]) -> None:
        broken_off = text(message.get("stopReason")) in _BROKEN_OFF
        value = message.get("content")
        if isinstance(value, str):
            value = [{"type": "text", "text": value}]
        blocks = objects(value)
        if broken_off:
            # The calls were cut off while they were written: none ran, and no later request held them.
            complete = [block for block in blocks if block.get("type") != "toolCall"]
            if cut := len(blocks) - len(complete):
                what = f"{cut} {'call' if cut == 1 else 'calls'} of an answer that broke off"
                self._builder.problems.add(entry.line, what, "calls that broke off")
            blocks = complete
        parts = _parts(blocks, text(message.get("api")))
        call = _call(message, seconds(entry.data.get("timestamp")))
        if broken_off and not parts and call.usage is None:
            return  # the request failed before there was an answer
        self._builder.settle(_NO_RESULT)
        self._builder.answer(
            parts,
            usage=call.usage,
            at=call.at,
            model=call.model,
            line=entry.line,
            provider=call.provider,
            cost=call.cost,
            id=_id_of_call(entry),
        )

    def _compaction(self, entry: _TreeLine) -> None:
        self._builder.settle(_NO_RESULT)
        data = entry.data
        summary = text(data.get("summary"))
        self._builder.compaction(
            f"{_COMPACTED}<summary>\n{summary}\n</summary>" if summary else "",
            first_kept=self._positions.get(text(data.get("firstKeptEntryId"))),
            tokens_before=count(data.get("tokensBefore")),
            at=seconds(data.get("timestamp")),
        )
        wrote = _call(data, seconds(data.get("timestamp")))
        if wrote.usage is not None:
            self._builder.aside(replace(wrote, id=_id_of_call(entry)))


_COMPACTED: Final = "The conversation history before this point was compacted into the following summary:\n\n"
_BRANCHED: Final = "The following is a summary of a branch that this conversation came back from:\n\n"


def _branch_summary(summary: str) -> Content:
    return Content(f"{_BRANCHED}<summary>\n{summary}</summary>")


def _bash_text(message: Mapping[str, Any]) -> Content:
    """Return a command that the user ran, as pi tells the model about it."""
    output = text(message.get("output"))
    report = f"Ran `{text(message.get('command'))}`\n"
    report += f"```\n{output}\n```" if output else "(no output)"
    code = message.get("exitCode")
    if message.get("cancelled"):
        report += "\n\n(command cancelled)"
    elif code:
        report += f"\n\nCommand exited with code {code}"
    if message.get("truncated") and message.get("fullOutputPath"):
        report += f"\n\n[Output truncated. Full output: {message['fullOutputPath']}]"
    return Content(report)


def _parts(blocks: Iterable[Mapping[str, Any]], api: str) -> list[Part]:
    answer = Answer()
    for block in blocks:
        kind = text(block.get("type"))
        if kind == "toolCall":
            answer.call(block.get("id"), block.get("name"), block.get("arguments"))
        elif kind == "thinking":
            seal = text(block.get("thinkingSignature"))
            answer.reasoning(text(block.get("thinking")), seal, signed=bool(seal))
        else:
            answer.text(content([block]))
    if api.startswith(("openai-responses", "openai-codex", "azure-openai")):
        return couple_items(answer.parts) if answer.signed else answer.couple_parts()
    return answer.couple_parts()


def _id_of_call(entry: _TreeLine) -> str:
    """Return what a copy in a fork (`pi --fork`) shares: entries have ids of 32 bits, and none in version 1."""
    return f"{text(entry.data.get('id'))} {text(entry.data.get('timestamp'))}".strip()


def _call(data: Mapping[str, Any], at: float | None) -> ModelCall:
    """Return the model call of an answer or a compaction: its usage, which may be unknown, and what pi says of it."""
    used = mapping(data.get("usage"))
    output = None if text(data.get("stopReason")) in _BROKEN_OFF else count(used.get("output"))
    # `input` does not include cached tokens.
    usage: CallUsage | None = CallUsage(
        count(used.get("input")) or 0,
        count(used.get("cacheRead")) or 0,
        count(used.get("cacheWrite")) or 0,
        output,
        count(used.get("cacheWrite1h")) or 0,
    )
    if usage is not None and not (usage.total_input or usage.output):
        usage = None
    return ModelCall(
        0,
        0,
        usage,
        at or seconds(data.get("timestamp")),
        text(data.get("model")) or None,
        text(data.get("provider")),
        cost=None if usage is None else amount(mapping(used.get("cost")).get("total")),
    )
