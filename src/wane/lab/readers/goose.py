"""Sessions of Goose (block/goose): its database `sessions.db`, and the output of `goose session export --format json`.

Goose marks each message as visible to the model, the person, or both. A compaction hides all messages from the model
and puts a summary after them that the person does not see.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wane.formats.fields import compact
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, Content, content
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import amount, count, decode_json, mapping, objects, seconds, text, usage_of
from wane.lab.readers.databases import Listed
from wane.lab.readers.documents import Value
from wane.lab.readers.places import Place
from wane.lab.recorded_session import RecordedSession

NAME: Final = "goose"
TITLE: Final = "Goose"
PLACES: Final = (Place("XDG_DATA_HOME", ".local/share", ("goose/sessions/sessions.db",)),)
TABLES: Final = frozenset({"sessions", "messages"})

_CALL_INDEX: Final = "goose.toolCall.providerIndex"
"""The index of a call in its answer: Goose writes the calls of one answer as messages of their own."""
_SHOWN_ONLY: Final = frozenset({"systemNotification", "toolConfirmationRequest", "actionRequired"})
_NOT_WRITTEN: Final = _SHOWN_ONLY | {"toolResponse", "toolRequest", "frontendToolRequest"}
"""Types of blocks that the sender of a message did not write."""

_Data = Mapping[str, Any]


def recognises(head: Sequence[object]) -> bool:
    """Return whether JSON values are exports of Goose."""
    return any(_is_export(value) for value in head)


def sessions(values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
    """Return the exported sessions among JSON values; see `DocumentReader`."""
    recorded: list[RecordedSession] = []
    for _, value in values:
        if _is_export(value):
            export = mapping(value)
            recorded.append(session(export, text(export.get("id")) or name, Problems() if recorded else problems))
    return recorded


def session(exported: _Data, name: str, problems: Problems) -> RecordedSession:
    """Return the session that an export holds; see `DatabaseReader`."""
    builder = SessionBuilder(name, NAME, problems)
    builder.cwd = text(exported.get("working_dir")) or None
    model = text(mapping(exported.get("model_config")).get("model_name")) or None
    _Assembly(builder, model, text(exported.get("provider_name"))).run(objects(exported.get("conversation")))
    for child in objects(exported.get("children")):
        builder.sidechain(session(child, text(child.get("id")), Problems()))
    return builder.build()


def list_sessions(database: sqlite3.Connection) -> Iterator[Listed]:
    """Yield the sessions, without those of sub-agents; see `DatabaseReader`."""
    columns = {name for _, name, *_ in database.execute("PRAGMA table_info(sessions)")}
    title = "name" if "name" in columns else "description"
    condition = "WHERE parent_session_id IS NULL" if "parent_session_id" in columns else ""
    rows = database.execute(
        f"SELECT id, {title}, working_dir, strftime('%s', updated_at),"  # noqa: S608 - our own words
        " (SELECT sum(length(content_json)) FROM messages WHERE session_id = sessions.id)"
        f" FROM sessions {condition} ORDER BY updated_at, id"
    )
    for name, called, cwd, modified, size in rows:
        if size:
            yield Listed(str(name), str(called or ""), cwd or None, float(modified or 0), size)


def export_session(database: sqlite3.Connection, session: str) -> _Data | None:
    """Return a session with those of its sub-agents as `children`; see `DatabaseReader`."""
    row = database.execute("SELECT * FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        return None
    info = dict(row)
    rows = database.execute(
        "SELECT role, content_json, created_timestamp, metadata_json FROM messages WHERE session_id = ? ORDER BY id",
        (session,),
    )
    messages: list[_Data] = []
    for role, blocks, created, metadata in rows:
        messages.append(
            {"role": role, "content": decode_json(blocks), "created": created, "metadata": decode_json(metadata)}
        )
    children: list[sqlite3.Row] = []
    if "parent_session_id" in info:
        children = database.execute(
            "SELECT id FROM sessions WHERE parent_session_id = ? ORDER BY created_at, id", (session,)
        ).fetchall()
    return {
        "id": session,
        "working_dir": info.get("working_dir"),
        "model_config": decode_json(info.get("model_config_json")),
        "provider_name": info.get("provider_name"),
        "conversation": messages,
        "children": [export_session(database, name) for (name,) in children if name != session],
    }


def _is_export(value: object) -> bool:
    return isinstance(mapping(value).get("conversation"), list) and "working_dir" in mapping(value)


class _Assembly:
    def __init__(self, builder: SessionBuilder, model: str | None, provider: str) -> None:
        self._builder = builder
        self._model = model
        self._provider = provider
        self._answer: list[_Data] = []  # the messages of one answer
        self._results: list[_Data] = []  # messages between and after them

    def run(self, messages: Sequence[_Data]) -> None:
        summaries = {number for number in range(1, len(messages)) if _is_summary(messages, number)}
        last = max(summaries, default=0)
        for number, message in enumerate(messages):
            if number in summaries:
                self._flush()
                self._builder.settle()
                before, at = self._builder.context, seconds(message.get("created"))
                self._builder.compaction(content(_blocks(message)).text, tokens_before=before, at=at)
            elif number - 1 in summaries and message.get("role") == "assistant" and not _visible(message, "user"):
                continue  # Goose's own request to the model to go on
            elif number >= last and not _visible(message, "agent"):
                continue  # shown to the person only, such as a command and its outcome
            elif message.get("role") == "assistant":
                self._add(message)
            else:
                self._add_turn(message)
        self._flush()

    def _add(self, message: _Data) -> None:
        blocks = _contents(message)
        position = count(mapping(blocks[0].get("_meta")).get(_CALL_INDEX)) if blocks else None
        if not (self._answer and position):
            self._flush()
        self._answer.append(message)

    def _add_turn(self, message: _Data) -> None:
        self._results += [block for block in _contents(message) if block.get("type") == "toolResponse"]
        if turn := content(_blocks(message)):
            self._flush()
            self._builder.settle()
            self._builder.user(turn, notice=not _visible(message, "user"))

    def _flush(self) -> None:
        if self._answer:
            self._builder.settle()
            first = self._answer[0]
            answer = Answer()
            for message in self._answer:
                for block in _contents(message):
                    _add(answer, block)
            about = mapping(first.get("metadata"))
            tokens = mapping(about.get("usage"))
            usage = usage_of(
                tokens.get("inputTokens"),
                read=tokens.get("cacheReadTokens"),
                written=tokens.get("cacheWriteTokens"),
                output=tokens.get("outputTokens"),
            )
            inference = mapping(about.get("inference"))
            self._builder.answer(
                answer.couple_parts(),
                usage=usage,
                at=seconds(first.get("created")),
                model=text(inference.get("requestedModel")) or self._model,
                provider=text(inference.get("provider")) or self._provider,
                cost=amount(tokens.get("cost")),
            )
        for block in self._results:
            result = mapping(block.get("toolResult"))
            failed = result.get("status") == "error" or mapping(result.get("value")).get("isError")
            self._builder.result(text(block.get("id")), _output(result), failed=failed)
        self._answer.clear()
        self._results.clear()


def _visible(message: _Data, to: str) -> bool:
    """Whether the `agent` or the `user` sees a message; in older versions both see all of them."""
    return mapping(message.get("metadata")).get(f"{to}Visible") is not False


def _is_summary(messages: Sequence[_Data], number: int) -> bool:
    """Whether a message is the summary of all before it: those are hidden from the model, and it from the person."""
    message = messages[number]
    if message.get("role") != "user" or mapping(message.get("metadata")).get("turnContext") is True:
        return False
    hidden = not _visible(message, "user") and not _visible(messages[number - 1], "agent")
    return hidden and bool(_blocks(message))


def _contents(message: _Data) -> list[_Data]:
    """Return all blocks of a message; words alone are one."""
    value = message.get("content")
    return [{"type": "text", "text": value}] if isinstance(value, str) else objects(value)


def _blocks(message: _Data) -> list[_Data]:
    """Return the blocks of a message that its sender wrote."""
    blocks = _contents(message)
    return [block for block in blocks if block and text(block.get("type")) not in _NOT_WRITTEN]


def _add(answer: Answer, block: _Data) -> None:
    kind = text(block.get("type"))
    if kind in ("toolRequest", "frontendToolRequest"):
        call = mapping(mapping(block.get("toolCall")).get("value"))
        answer.call(block.get("id"), call.get("name"), call.get("arguments"))
    elif kind in ("thinking", "reasoning"):
        answer.reasoning(text(block.get("thinking")) or text(block.get("text")), signed="signature" in block)
    elif kind != "redactedThinking" and kind not in _SHOWN_ONLY:
        answer.text(content([block]))


def _output(result: _Data) -> Content:
    value = result.get("value")
    if result.get("status") == "error" or value is None:
        return content(text(result.get("error")) or compact(result))
    return content(value.get("content") if isinstance(value, dict) else value)
