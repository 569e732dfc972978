"""Sessions of Qwen Code (QwenLM/qwen-code): JSON Lines, a tree by `uuid` with contents of Gemini's API.

The outer keys are those of Claude Code; the messages are not. `candidatesTokenCount` has the tokens of thoughts, which
Gemini counts apart. The system prompt and the tools are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.gemini import GeminiFormat
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.json_lines import name_abandoned, path_to, records
from wane.lab.readers.building.values import count, drop_latest, mapping, objects, seconds, text, usage_of
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

NAME: Final = "qwen-code"
TITLE: Final = "Qwen Code"
PLACES: Final = (Place("QWEN_HOME", ".qwen", ("projects/*/chats/*.jsonl",)),)

_MESSAGES: Final = ("user", "assistant", "tool_result")
_OWN: Final = ("cron", "goal_runtime", "notification")
"""Subtypes of messages in the user's place that Qwen Code wrote."""
_FORMAT: Final = GeminiFormat()


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    id: str
    parent: str | None
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return text(self.data.get("type"))


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are records of Qwen Code."""
    for line in map(mapping, head):
        if line.get("type") in _MESSAGES and isinstance(mapping(line.get("message")).get("parts"), list):
            return "sessionId" in line
    return False


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn and the working directory."""
    cwd: str | None = None
    for line in lines:
        cwd = cwd or text(line.get("cwd")) or None
        if line.get("type") == "user" and line.get("subtype") not in _OWN:
            words = [text(part.get("text")) for part in objects(mapping(line.get("message")).get("parts"))]
            if title := "\n".join(filter(None, words)):
                return title, cwd
    return "", cwd


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a file (see `LineReader`); none if it holds nothing of Qwen Code."""
    builder = SessionBuilder(path.stem, NAME)
    entries: list[_Record] = []
    for line, data in records(path, builder.problems):
        name, parent = text(data.get("uuid")) or f"line {line}", text(data.get("parentUuid")) or None
        entry = _Record(line, name, parent, data)
        entries.append(entry)
        if entry.kind not in (*_MESSAGES, "system"):
            builder.problems.add(line, f"a line of the unknown type {entry.kind!r}")
        builder.cwd = builder.cwd or text(data.get("cwd")) or None
    if not recognises([entry.data for entry in entries]):
        return []
    active = path_to(entries[-1], entries)
    undone = [entry for entry in entries if entry.id not in active and entry.kind in _MESSAGES]
    calls = [_call(entry.data) for entry in undone if entry.kind == "assistant"]
    name_abandoned((entry.line for entry in undone), builder.problems, calls)
    assembly = _Assembly(builder)
    for entry in sorted(active.values(), key=lambda entry: entry.line):
        assembly.take(entry)
    assembly.name_asides()
    return [builder.build()]


def _call(data: Mapping[str, Any]) -> ModelCall:
    used = mapping(data.get("usageMetadata"))
    prompt, total = count(used.get("promptTokenCount")) or 0, count(used.get("totalTokenCount"))
    # The total tells whether the thoughts are in the candidates, as with providers of OpenAI's API.
    output = count(used.get("candidatesTokenCount")) if total is None else max(0, total - prompt)
    usage: CallUsage | None = usage_of(prompt, read=used.get("cachedContentTokenCount"), output=output)
    return ModelCall(0, 0, usage, seconds(data.get("timestamp")), text(data.get("model")) or None)


class _Assembly:
    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self._contents: list[tuple[object, int]] = []  # with the position of the first part of each
        self._responses: list[ModelCall] = []  # responses that are no answer so far

    def take(self, entry: _Record) -> None:
        if entry.kind in _MESSAGES:
            self._message(entry)
        elif entry.kind == "system" and entry.data.get("subtype") == "chat_compression":
            self._compress(entry)
        elif entry.kind == "system":
            event = mapping(mapping(entry.data.get("systemPayload")).get("uiEvent"))
            if event.get("event.name") == "qwen-code.api_response":
                prompt, total = count(event.get("input_token_count")) or 0, count(event.get("total_token_count")) or 0
                usage = usage_of(prompt, read=event.get("cached_content_token_count"), output=max(0, total - prompt))
                at, model = seconds(event.get("event.timestamp")), text(event.get("model")) or None
                self._responses.append(ModelCall(0, 0, usage, at, model, id=entry.id))

    def _message(self, entry: _Record) -> None:
        message, builder = entry.data.get("message"), self._builder
        try:
            parts = _FORMAT.parts(message) if isinstance(message, dict) else []
        except FormatError as error:
            builder.problems.add(entry.line, str(error), "a message that cannot be read", unread=True)
            return
        if not parts:
            builder.problems.add(entry.line, "a message without content", "a message without content")
            return
        builder.name_unknown(message, _FORMAT, entry.line)
        self._contents.append((message, builder.position))
        builder.version = text(entry.data.get("version")) or builder.version
        builder.window = count(entry.data.get("contextWindowSize")) or builder.window
        if entry.kind == "assistant":
            call = _call(entry.data)
            drop_latest(self._responses, call.usage)
            builder.settle(line=entry.line)
            builder.answer(
                parts, usage=call.usage, at=call.at, model=call.model, line=entry.line, id=text(entry.data.get("uuid"))
            )
        elif entry.data.get("subtype") in _OWN:
            notices = [replace(part, kind=Kind.NOTICE) if part.kind is Kind.USER else part for part in parts]
            builder.message(notices, line=entry.line)
        else:
            builder.message(parts, line=entry.line)

    def name_asides(self) -> None:
        """Note the responses that were no answer: summaries, titles and other questions of Qwen Code's own."""
        for response in self._responses:
            if response.usage is not None:
                self._builder.aside(response)
        self._responses.clear()

    def _compress(self, entry: _Record) -> None:
        payload = mapping(entry.data.get("systemPayload"))
        contents, info = objects(payload.get("compressedHistory")), mapping(payload.get("info"))
        kept = 0  # contents at the end that stayed as they were
        while kept < min(len(contents), len(self._contents)) and contents[-1 - kept] == self._contents[-1 - kept][0]:
            kept += 1
        words = [text(part.get("text")) for content in contents[: len(contents) - kept] for part in _texts(content)]
        self._builder.settle(line=entry.line)
        self._builder.compaction(
            "\n".join(filter(None, words)),
            first_kept=self._contents[-kept][1] if kept else None,
            tokens_before=count(info.get("originalTokenCount")),
            tokens_after=count(info.get("newTokenCount")),
            at=seconds(entry.data.get("timestamp")),
        )
        self.name_asides()


def _texts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return objects(content.get("parts"))
