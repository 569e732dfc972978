"""Sessions of Cline's CLI (cline/cline): `sessions/ID/ID.messages.json`, an object with the system prompt and messages.

The messages have Anthropic's blocks, but results in a form of Cline's own (`{query, result, success}`), and the usage
of each call in `metrics`. The tools are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wane.core import Kind
from wane.formats.message_format import Part
from wane.formats.notices import is_notice
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, content
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import amount, count, items, mapping, objects, seconds, text, usage_of
from wane.lab.readers.documents import Value
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, RecordedSession

NAME: Final = "cline"
TITLE: Final = "Cline"
PLACES: Final = (Place("CLINE_DATA_DIR", ".cline/data", ("sessions/*/*.messages.json",)),)

_HELD: Final = frozenset({"messages", "origin", "sessionId"})


def recognises(head: Sequence[object]) -> bool:
    """Return whether JSON values are sessions of Cline."""
    return any(mapping(value).keys() >= _HELD for value in head)


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn, if the file is short; the working directory stands in another file."""
    for line in lines:
        for message in objects(line.get("messages")):
            if message.get("role") == "user" and (title := content(message.get("content")).text.strip()):
                return title, None
    return "", None


def sessions(values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
    """Return the sessions among JSON values; see `DocumentReader`."""
    recorded: list[RecordedSession] = []
    for _, value in values:
        data = mapping(value)
        if data.keys() >= _HELD:
            named = text(data.get("sessionId")) or name
            builder = SessionBuilder(named, NAME, Problems() if recorded else problems)
            recorded.append(_session(data, builder))
    return recorded


def _session(data: Mapping[str, Any], builder: SessionBuilder) -> RecordedSession:
    builder.version = text(mapping(data.get("origin")).get("version"))
    if prompt := text(data.get("system_prompt")):
        builder.add(Part(Kind.SYSTEM, prompt))
    for number, message in enumerate(objects(data.get("messages")), start=1):
        role, value = message.get("role"), message.get("content")
        blocks = [{"type": "text", "text": value}] if isinstance(value, str) else items(value)
        if role == "assistant":
            _add_answer(message, blocks, builder)
        elif role == "user":
            _add_turn(blocks, builder)
        else:
            builder.problems.add(None, f"message {number}: of the unknown role {role!r}", "a message of no known role")
    return builder.build()


def _add_turn(blocks: Sequence[object], builder: SessionBuilder) -> None:
    parts: list[Part] = []
    for block in blocks:
        data = mapping(block)
        if data.get("type") == "tool_result":
            result = content(data.get("content"))
            parts.append(result.part(Kind.RESULT, call_id=text(data.get("tool_use_id"))))
        elif turn := content([block]):
            notice = not turn.extra_tokens and is_notice(turn.text)
            parts.append(turn.part(Kind.NOTICE if notice else Kind.USER))
    builder.message(parts)


def _add_answer(message: Mapping[str, Any], blocks: Sequence[object], builder: SessionBuilder) -> None:
    answer = Answer()
    for block in blocks:
        data = mapping(block)
        if data.get("type") == "tool_use":
            answer.call(data.get("id"), data.get("name"), data.get("input"))
        elif data.get("type") in ("thinking", "redacted_thinking"):
            seal = text(data.get("signature")) or text(data.get("data"))
            answer.reasoning(text(data.get("thinking")), seal, signed=bool(seal))
        else:
            answer.text(content([block]))
    model, metrics = mapping(message.get("modelInfo")), mapping(message.get("metrics"))
    builder.settle()
    builder.answer(
        answer.couple_parts(),
        usage=_usage(metrics),
        at=seconds(message.get("ts")),
        model=text(model.get("id")) or None,
        provider=text(model.get("provider")),
        cost=amount(metrics.get("cost")),
    )


def _usage(metrics: Mapping[str, Any]) -> CallUsage | None:
    """Return the usage of a call. Its input has what was cached, unless it is too small for that."""
    cached = [count(metrics.get(name)) or 0 for name in ("cacheReadTokens", "cacheWriteTokens")]
    return usage_of(
        metrics.get("inputTokens"),
        read=cached[0],
        written=cached[1],
        output=metrics.get("outputTokens"),
        apart=(count(metrics.get("inputTokens")) or 0) < sum(cached),
    )
