"""Sessions of Gemini CLI (google-gemini/gemini-cli): its `chats/session-*.jsonl`, or one JSON object in older versions.

The records are those of `chatRecordingService.ts`: a header, messages (a message that is written again replaces the
earlier one), `$set` with new metadata, and `$rewindTo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.formats.fields import compact
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, Content, content
from wane.lab.readers.building.json_lines import Problems, count_abandoned
from wane.lab.readers.building.values import mapping, objects, seconds, text, usage_of
from wane.lab.readers.documents import Value
from wane.lab.readers.places import Place
from wane.lab.recorded_session import ModelCall, RecordedSession

NAME: Final = "gemini-cli"
TITLE: Final = "Gemini CLI"
PLACES: Final = (Place("GEMINI_CLI_HOME", "", (".gemini/tmp/*/chats/session-*.json*",)),)

_CONTEXT: Final = "<session_context>"
_SHOWN_ONLY: Final = frozenset({"info", "error", "warning"})


def recognises(head: Sequence[object]) -> bool:
    """Return whether JSON values are records of Gemini CLI."""
    return any(_is_header(mapping(value)) for value in head)


def _is_header(record: Mapping[str, Any]) -> bool:
    return {"sessionId", "projectHash"} <= record.keys()


def sessions(values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
    """Return the session that the records of a file make; see `DocumentReader`."""
    builder = SessionBuilder(name, NAME, problems)
    log = _Log(problems)
    for line, record in values:
        log.take(line, mapping(record))
    _Assembly(builder).run(log.messages)
    return [builder.build()] if log.messages else []


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn; the working directory is recorded only as a hash."""
    for record in lines:
        for message in (
            record,
            *objects(record.get("messages")),
            *objects(mapping(record.get("$set")).get("messages")),
        ):
            if message.get("type") == "user" and (turn := _text_of(message)) and not turn.startswith(_CONTEXT):
                return turn, None
    return "", None


def _text_of(message: Mapping[str, Any]) -> str:
    return content(_blocks(message.get("content"))).text.strip()


@dataclass(slots=True, eq=False)
class _Message:
    """A message with its line, and the compression right before it, if there was one."""

    line: int | None
    data: Mapping[str, Any]
    summary: list[_Message] | None = None  # what the compression put in place of earlier messages
    first_kept: _Message | None = None  # the first message that it kept


class _Log:
    """Replays the log. Messages that a compression removed stay: the history is all that happened."""

    def __init__(self, problems: Problems) -> None:
        self.messages: list[_Message] = []
        self._problems = problems
        self._context: dict[str, _Message] = {}  # by id, the messages that Gemini CLI itself still holds
        self._pending: tuple[list[_Message], _Message | None] | None = None
        self._resumed: dict[str, _Message] = {}  # by id, all messages before the session was resumed, until it goes on

    def take(self, line: int | None, record: Mapping[str, Any]) -> None:
        back, change = text(record.get("$rewindTo")), mapping(record.get("$set"))
        if _is_header(record) and self._context:
            # Version 0.61 writes the whole history again, in another form, when it resumes a session.
            self._resumed, self._context = self._context, {}
        if back:
            self._rewind(back)
        elif text(record.get("id")):
            self._message(line, record)
        elif isinstance(change.get("messages"), list):
            self._checkpoint(line, objects(change["messages"]))
        for message in objects(record.get("messages")):  # older versions write one object
            self._message(line, message)

    def _message(self, line: int | None, data: Mapping[str, Any]) -> None:
        name = text(data.get("id"))
        if not name:
            self._problems.add(line, "a message without an id")
        elif name in self._context:
            self._context[name].data = data
        elif name in self._resumed:
            self._context[name] = self._resumed[name]
        else:
            self._resumed = {}
            message = self._context[name] = _Message(line, data)
            if self._pending is not None:
                message.summary, message.first_kept = self._pending
                self._pending = None
            self.messages.append(message)

    def _rewind(self, back: str) -> None:
        names = list(self._context)
        gone = names[names.index(back) :] if back in names else names
        undone = [self._context.pop(name) for name in gone]
        self.messages = [message for message in self.messages if message not in undone]
        if undone:
            calls = [_call(message.data) for message in undone if message.data.get("type") == "gemini"]
            count_abandoned(len(undone), self._problems, calls, undone[0].line)

    def _checkpoint(self, line: int | None, context: Sequence[Mapping[str, Any]]) -> None:
        names = {text(data.get("id")) for data in context}
        if self._resumed:
            self._resume(line, context)
            return
        if names.issuperset(self._context):
            for data in context:
                if text(data.get("id")) not in self._context:
                    self._message(line, data)
            return
        new = [_Message(line, data) for data in context if text(data.get("id")) not in self._context]
        gone = [name not in names for name in self._context]
        if not new and gone == sorted(gone):
            # Only the end is missing: the turn failed, and Gemini CLI took it back.
            self._rewind(list(self._context)[gone.index(True)])
            return
        # Messages are missing, so this is a compression, and the new ones are its summary.
        self._context = {name: message for name, message in self._context.items() if name in names}
        self._context |= {text(message.data.get("id")): message for message in new}
        context_messages = set(self._context.values())
        first_kept = next((message for message in self.messages if message in context_messages), None)
        self._pending = (new, first_kept)

    def _resume(self, line: int | None, context: Sequence[Mapping[str, Any]]) -> None:
        """Take the history as a resumed session writes it: known messages, and their results once more."""
        self._context = {}
        for data in context:
            name = text(data.get("id"))
            known = self._resumed.get(name)
            if known is None:
                known = _Message(line, data)
                if any("functionResponse" not in block for block in _blocks(data.get("content"))):
                    self.messages.append(known)
            self._context[name] = known


class _Assembly:
    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self._positions: dict[_Message | None, int] = {}  # by message, its first part
        self._answered: set[str] = set()

    def run(self, messages: Iterable[_Message]) -> None:
        for message in messages:
            if message.summary is not None:
                self._builder.settle()
                summary = Content.join_contents(Content(_text_of(new.data)) for new in message.summary).text
                first_kept = self._positions.get(message.first_kept)
                self._builder.compaction(summary, first_kept=first_kept, at=seconds(message.data.get("timestamp")))
            self._positions[message] = self._builder.position
            kind = text(message.data.get("type"))
            if kind == "user":
                blocks = _blocks(message.data.get("content"))
                for block in blocks:
                    self._respond(mapping(block.get("functionResponse")), message.line)
                if turn := content([block for block in blocks if "functionResponse" not in block]):
                    self._builder.settle()
                    self._builder.user(turn, notice=turn.text.lstrip().startswith(_CONTEXT))
            elif kind == "gemini":
                self._answer(message)
            elif kind not in _SHOWN_ONLY:
                self._builder.problems.add(message.line, f"a message of the unknown type {kind!r}")

    def _answer(self, message: _Message) -> None:
        data = message.data
        calls = objects(data.get("toolCalls"))
        thoughts = objects(data.get("thoughts"))
        texts = [f"{text(thought.get('subject'))}\n{text(thought.get('description'))}" for thought in thoughts]
        reasoning = "\n".join(words.strip() for words in texts)
        answer = Answer()
        answer.reasoning(reasoning)
        answer.text(content(_blocks(data.get("content"))))
        for call in calls:
            answer.call(call.get("id"), call.get("name"), call.get("args"))
        made = _call(data)
        if not answer.parts and made.usage is None:
            return
        self._builder.settle()
        self._builder.answer(answer.parts, usage=made.usage, at=made.at, model=made.model, line=message.line)
        if reasoning:
            self._builder.clear_reasoning()  # Gemini CLI sends no thoughts back
        for call in calls:
            for block in _blocks(call.get("result")):
                self._respond(mapping(block.get("functionResponse")), message.line)

    def _respond(self, response: Mapping[str, Any], line: int | None) -> None:
        call_id = text(response.get("id"))
        if not call_id or call_id in self._answered:
            return  # newer versions record each result with its call and as a message
        self._answered.add(call_id)
        result = response.get("response")
        output = mapping(result).get("output")
        output_text = output if isinstance(output, str) else compact(result)
        self._builder.result(call_id, Content(output_text), failed="error" in mapping(result), line=line)


def _call(data: Mapping[str, Any]) -> ModelCall:
    """Return the model call of an answer, without its parts."""
    tokens = mapping(data.get("tokens"))
    usage = usage_of(
        tokens.get("input"),
        read=tokens.get("cached"),
        output=tokens.get("output"),
        reasoning=tokens.get("thoughts"),
    )
    return ModelCall(0, 0, usage, seconds(data.get("timestamp")), text(data.get("model")) or None)


def _blocks(value: object) -> list[dict[str, Any]]:
    """Return parts of Gemini's API, given as text, a part or a list of parts, as blocks that `content` takes."""
    blocks: list[dict[str, Any]] = []
    for block in value if isinstance(value, list) else [value]:
        if isinstance(block, str):
            blocks.append({"text": block})
        elif isinstance(block, dict) and isinstance(data := block.get("inlineData"), dict):
            blocks.append({"type": "image", "data": data.get("data")})
        elif isinstance(block, dict) and "thought" not in block:
            blocks.append(block)
    return blocks
