"""Sessions of OpenCode: its database `opencode.db`, and the output of `opencode export`.

Messages become requests as in `session/message-v2.ts`. A compaction is a message of the user without text, followed by
the model's summary. Version 2 of OpenCode keeps its messages in another form, in a table of their own
(`packages/schema/src/session-message.ts`). The reader turns them into the form of version 1.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wane.formats.fields import compact
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, Content, content
from wane.lab.readers.building.json_lines import Problems, count_abandoned
from wane.lab.readers.building.values import amount, decode_json, mapping, objects, seconds, text, usage_of
from wane.lab.readers.databases import Listed
from wane.lab.readers.documents import Value
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

NAME: Final = "opencode"
TITLE: Final = "OpenCode"
PLACES: Final = (Place("XDG_DATA_HOME", ".local/share", ("opencode/opencode.db",)),)
TABLES: Final = frozenset({"session", "message", "part"})

_INTERRUPTED: Final = "[Tool execution was interrupted]"
"""The result that OpenCode sends for a call without one."""
# Types of files whose text is in a part of its own.
_AS_TEXT: Final = ("text/plain", "application/x-directory")
_NOT_SENT: Final = frozenset({"agent-switched", "compaction", "idle", "location-switched", "model-switched"})
_ASIDE: Final = frozenset({"step-start", "snapshot", "patch", "agent", "retry"})
_PARTS: Final = _ASIDE | {"compaction", "file", "reasoning", "step-finish", "subtask", "text", "tool"}

_Data = Mapping[str, Any]


def recognises(head: Sequence[object]) -> bool:
    """Return whether JSON values are exports of OpenCode."""
    return any(_is_export(value) for value in head)


def sessions(values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
    """Return the exported sessions among JSON values; see `DocumentReader`."""
    recorded: list[RecordedSession] = []
    for _, value in values:
        if _is_export(value):
            export = mapping(value)
            recorded.append(session(export, _id_of(export) or name, Problems() if recorded else problems))
    return recorded


def session(exported: _Data, name: str, problems: Problems) -> RecordedSession:
    """Return the session that an export holds; see `DatabaseReader`."""
    builder = SessionBuilder(name, NAME, problems)
    info = mapping(exported.get("info"))
    builder.cwd = text(info.get("directory")) or None
    messages = objects(exported.get("messages"))
    back = text(mapping(info.get("revert")).get("messageID"))
    ids = [_id_of(message) for message in messages]
    if back in ids:
        undone = messages[ids.index(back) :]
        calls: list[ModelCall] = []
        for message in undone:
            if mapping(message.get("info")).get("role") == "assistant" and not _is_own(message):
                calls += [call for _, call in _steps(message)]
        count_abandoned(len(undone), problems, calls)
        messages = messages[: ids.index(back)]
    _Assembly(builder).run(messages)
    recorded = builder.build()
    recorded.id, recorded.parent = _id_of(exported), text(info.get("parentID"))
    for child in objects(exported.get("children")):
        recorded.sidechains.append(session(child, _id_of(child), Problems()))
    return recorded


def _id_of(data: _Data) -> str:
    return text(mapping(data.get("info")).get("id"))


def list_sessions(database: sqlite3.Connection) -> Iterator[Listed]:
    """Yield the sessions, without those of sub-agents; see `DatabaseReader`."""
    sizes: Counter[str] = Counter()
    for table in ("part", "session_message") if _has_second(database) else ("part",):
        query = f"SELECT session_id, sum(length(data)) FROM {table} GROUP BY session_id"  # noqa: S608 - our own words
        for name, size in database.execute(query):
            sizes[name] += size or 0
    rows = database.execute(
        "SELECT id, title, directory, time_updated FROM session WHERE parent_id IS NULL ORDER BY time_updated, id"
    )
    for name, title, cwd, modified in rows:
        yield Listed(str(name), str(title or ""), cwd or None, seconds(modified) or 0.0, sizes[name])


def export_session(database: sqlite3.Connection, session: str) -> _Data | None:
    """Return a session with those of its sub-agents as `children`; see `DatabaseReader`."""
    row = database.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchone()
    if row is None:
        return None
    info = dict(row)
    parts: dict[str, list[Any]] = {}
    for message, data in database.execute(
        "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id", (session,)
    ):
        parts.setdefault(message, []).append(decode_json(data))
    rows = database.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,))
    messages = [
        {"info": {**mapping(decode_json(data)), "id": name}, "parts": parts.get(name, [])} for name, data in rows
    ]
    children = database.execute("SELECT id FROM session WHERE parent_id = ? ORDER BY time_created, id", (session,))
    return {
        "info": {**info, "revert": decode_json(info.get("revert"))},
        "messages": _of_second(database, session) or messages,
        "children": [export_session(database, name) for (name,) in children.fetchall() if name != session],
    }


def _has_second(database: sqlite3.Connection) -> bool:
    """Whether the database has the table of version 2."""
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'session_message'").fetchone())


def _of_second(database: sqlite3.Connection, session: str) -> list[_Data]:
    """Return the messages that version 2 wrote, in the form of version 1; none if version 1 wrote the session."""
    messages: list[_Data] = []
    if _has_second(database):
        query = "SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY seq"
        for name, kind, data in database.execute(query, (session,)):
            messages += _as_first(name, kind, mapping(decode_json(data)))
    return messages


def _as_first(name: str, kind: str, data: _Data) -> list[_Data]:
    """Return a message of version 2 as one or two of version 1; none if no request carries it."""
    info = {"id": name, "role": "user", "time": data.get("time")}
    words = {"type": "text", "text": data.get("text")}
    match kind:
        case "user":
            files = objects(data.get("files"))
            parts: list[_Data] = [{"type": "file", **file, "url": file.get("uri", file.get("data"))} for file in files]
            return [{"info": info, "parts": [words, *parts]}]
        case "synthetic" | "system" | "skill":
            return [{"info": info, "parts": [{**words, "synthetic": True}]}]
        case "shell":
            output = text(data.get("output")) or text(mapping(data.get("output")).get("text"))
            run = {"type": "text", "text": f"{text(data.get('command'))}\n{output}", "synthetic": True}
            return [{"info": info, "parts": [run]}]
        case "compaction" if data.get("status") == "completed":
            summary = "\n\n".join(filter(None, (text(data.get("summary")), text(data.get("recent")))))
            summarised = {**info, "id": f"{name}-summary", "role": "assistant", "summary": True}
            return [
                {"info": info, "parts": [{"type": "compaction"}]},
                {"info": summarised, "parts": [{"type": "text", "text": summary}]},
            ]
        case "assistant":
            model = mapping(data.get("model"))
            info |= {"role": "assistant", "modelID": model.get("id"), "providerID": model.get("providerID")}
            info |= {"cost": data.get("cost"), "error": data.get("error")}
            parts = [_part_of_first(part) for part in objects(data.get("content"))]
            return [{"info": info, "parts": [*parts, {"type": "step-finish", "tokens": data.get("tokens")}]}]
    return [] if kind in _NOT_SENT else [{"info": {**info, "role": kind}, "parts": []}]


def _part_of_first(part: _Data) -> _Data:
    if part.get("type") != "tool":
        return {**part, "metadata": part.get("native", part.get("state"))}
    state = mapping(part.get("state"))
    blocks = objects(state.get("content"))
    texts = [text(block.get("text")) for block in blocks if block.get("type") == "text"]
    files = [{**block, "url": block.get("uri")} for block in blocks if block.get("type") == "file"]
    error = text(mapping(state.get("error")).get("message"))
    state = {**state, "output": "\n".join(texts), "attachments": files, "error": error}
    return {"type": "tool", "callID": part.get("id"), "tool": part.get("name"), "state": state}


def _is_export(value: object) -> bool:
    info = mapping(mapping(value).get("info"))
    return isinstance(mapping(value).get("messages"), list) and {"id", "directory", "time"} <= info.keys()


def _steps(message: _Data) -> Iterator[tuple[Sequence[_Data], ModelCall]]:
    """Yield the parts of each model call of an assistant's message, with the call.

    A message is one model call, or in older versions several, each up to its `step-finish`.
    """
    info = mapping(message.get("info"))
    parts = objects(message.get("parts"))
    ends = [index for index, part in enumerate(parts) if part.get("type") == "step-finish"]
    time = mapping(info.get("time"))
    at = seconds(time.get("completed")) or seconds(time.get("created"))
    model, provider = text(info.get("modelID")) or None, text(info.get("providerID"))
    start = 0
    # A fork (`opencode run --fork`) gives its copies other ids, but leaves the moments in milliseconds.
    moments = " ".join(str(time[name]) for name in ("created", "completed") if time.get(name))
    for end in ends:
        finish = parts[end]
        # The message has the cost of all of its steps.
        cost = amount(info.get("cost") if len(ends) == 1 and "cost" in info else finish.get("cost"))
        usage, copied = _usage(mapping(finish.get("tokens"))), f"{moments} {end}" if moments else ""
        yield parts[start:end], ModelCall(0, 0, usage, at, model, provider, cost=cost, id=copied)
        start = end + 1
    if any(part.get("type") not in _ASIDE for part in parts[start:]):
        yield parts[start:], ModelCall(0, 0, None, at, model, provider)


def _is_own(message: _Data) -> bool:
    """Whether OpenCode wrote an assistant's message: a command's sub-task, or a shell command that the user typed.

    It holds a call and its result alone, without the beginning and the end of a model's step, and counts no tokens.
    """
    kinds = [part.get("type") for part in objects(message.get("parts"))]
    tokens = mapping(message.get("info")).get("tokens")
    return kinds == ["tool"] and isinstance(tokens, dict) and _usage(tokens) is None and not tokens.get("output")


def _usage(tokens: _Data) -> CallUsage | None:
    cache = mapping(tokens.get("cache"))
    return usage_of(
        tokens.get("input"),
        read=cache.get("read"),
        written=cache.get("write"),
        output=tokens.get("output"),
        reasoning=tokens.get("reasoning"),
        apart=True,
    )


class _Assembly:
    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self._positions: dict[str, int] = {}  # by message, its first part
        self._tail = ""  # the first message that the coming summary leaves in view
        self._cleared: dict[float, list[int]] = {}  # by time, the results that OpenCode cleared then

    def run(self, messages: Sequence[_Data]) -> None:
        for message in messages:
            info = mapping(message.get("info"))
            parts = objects(message.get("parts"))
            self._positions[_id_of(message)] = self._builder.position
            for part in parts:
                if part.get("type") not in _PARTS:
                    self._builder.problems.add(None, f"a part of the unknown type {part.get('type')!r}")
            if info.get("role") == "user":
                self._user(parts)
            elif info.get("role") != "assistant":
                self._builder.problems.add(None, f"a message of the unknown role {info.get('role')!r}")
            elif info.get("summary") is True:
                self._summary(message)
            elif _is_own(message):
                self._own(parts[0])
            elif not info.get("error") or any(part.get("type") in ("text", "tool") for part in parts):
                # With an error and no content, the request failed before there was an answer.
                self._answers(message)

    def _user(self, parts: Sequence[_Data]) -> None:
        for part in parts:
            if part.get("type") == "compaction":
                self._tail = text(part.get("tail_start_id"))
                if len(parts) == 1:
                    return
        self._builder.settle()
        for own in (False, True):
            sent = [part for part in parts if _is_sentence(part) is own and not part.get("ignored")]
            if turn := content(_blocks(sent)):
                self._builder.user(turn, notice=own)

    def _own(self, part: _Data) -> None:
        """Take a call that OpenCode wrote as if the model had made it: no model did."""
        state = mapping(part.get("state"))
        call = Content(f"{text(part.get('tool'))} {compact(state.get('input'))}")
        self._builder.settle()
        self._builder.user(Content.join_contents([call, _output(state)]), notice=True)

    def _summary(self, message: _Data) -> None:
        info, parts = mapping(message.get("info")), objects(message.get("parts"))
        summary = "\n".join(text(part.get("text")) for part in parts if part.get("type") == "text")
        at = seconds(mapping(info.get("time")).get("created"))
        if not summary:
            return
        self._builder.settle()
        first_kept = self._positions.get(self._tail) if self._tail else None
        self._builder.compaction(summary, first_kept=first_kept, tokens_before=self._builder.context, at=at)
        for _, call in _steps(message):
            if call.usage is not None:
                self._builder.aside(call)

    def _answers(self, message: _Data) -> None:
        created = seconds(mapping(mapping(message.get("info")).get("time")).get("created")) or 0.0
        # OpenCode had cleared these results when the message began.
        for moment in sorted(moment for moment in self._cleared if moment <= created):
            self._builder.eviction(self._cleared.pop(moment), "OpenCode", at=moment)
        for step, call in _steps(message):
            self._answer(step, call)

    def _answer(self, step: Sequence[_Data], call: ModelCall) -> None:
        self._builder.settle()
        answer = Answer()
        for part in step:
            kind, words = part.get("type"), text(part.get("text"))
            if kind == "tool":
                answer.call(part.get("callID"), part.get("tool"), mapping(part.get("state")).get("input"))
            elif kind == "reasoning":
                answer.reasoning(words, signed="signature" in str(part.get("metadata")))
            elif kind == "text":
                answer.text(Content(words))
        self._builder.answer(
            answer.couple_parts(),
            usage=call.usage,
            at=call.at,
            model=call.model,
            provider=call.provider,
            cost=call.cost,
            id=call.id,
        )
        for part in step:
            if part.get("type") == "tool":
                state, position = mapping(part.get("state")), self._builder.position
                cleared = seconds(mapping(state.get("time")).get("compacted"))
                failed = state.get("status") == "error"
                taken = self._builder.result(text(part.get("callID")), _output(state), failed=failed)
                if taken and cleared is not None:
                    self._cleared.setdefault(cleared, []).append(position)


def _is_sentence(part: _Data) -> bool:
    """Whether OpenCode wrote a part of the user's message."""
    return bool(part.get("synthetic")) or part.get("type") == "subtask"


def _output(state: _Data) -> Content:
    if state.get("status") == "completed":
        return content([text(state.get("output")), *_blocks(objects(state.get("attachments")))])
    if state.get("status") == "error":
        # An interrupted tool has the output so far.
        output = mapping(state.get("metadata")).get("output")
        return content(output if isinstance(output, str) else text(state.get("error")))
    return content(_INTERRUPTED)


def _blocks(parts: Iterable[_Data]) -> list[_Data]:
    """Return the parts of a message that requests carry, as blocks that `content` takes."""
    blocks: list[_Data] = []
    for part in parts:
        kind, media_type = part.get("type"), text(part.get("mime"))
        if kind == "text":
            blocks.append({"text": text(part.get("text"))})
        elif kind == "subtask":
            blocks.append({"text": "The following tool was executed by the user"})
        elif kind == "file" and media_type.startswith("image/"):
            blocks.append({"type": "image", "data": text(part.get("url"))})
        elif kind == "file" and media_type not in _AS_TEXT:
            blocks.append({"type": "file"})
    return blocks
