"""Sessions of Mistral Vibe (mistralai/mistral-vibe): `messages.jsonl`, with `meta.json` beside it.

The lines are its own messages, in the form of OpenAI's; `injected` ones are the harness's. The system prompt, the tools
and the sums of the usage of all calls are in `meta.json` (seen in the programs of versions 2.2.1 and 3.0.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from wane.core import Kind, chars
from wane.formats.fields import compact
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, content
from wane.lab.readers.building.json_lines import records
from wane.lab.readers.building.values import mapping, objects, seconds, text, usage_of
from wane.lab.readers.places import Place
from wane.lab.recorded_session import ModelCall, RecordedSession

NAME: Final = "mistral-vibe"
TITLE: Final = "Mistral Vibe"
PLACES: Final = (Place("VIBE_HOME", ".vibe", ("logs/session/session_*/messages.jsonl",)),)

_META: Final = "meta.json"
_ROLES: Final = ("user", "assistant")


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are messages of Mistral Vibe."""
    return any(_is_message(mapping(value)) for value in head)


def _is_message(line: Mapping[str, Any]) -> bool:
    return line.get("role") in _ROLES and "message_id" in line and "content" in line and "type" not in line


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a file (see `LineReader`); none if the file holds nothing of Mistral Vibe."""
    builder = SessionBuilder(path.parent.name if path.name == "messages.jsonl" else path.stem, NAME)
    meta = _meta_beside(path)
    model = _model_in(meta)
    builder.cwd = text(mapping(meta.get("environment")).get("working_directory")) or None
    if tools := meta.get("tools_available"):
        builder.system_tokens = chars(compact(tools))
    if prompt := _words(mapping(meta.get("system_prompt"))):
        builder.add(Part(Kind.SYSTEM, prompt))
    recognised = False
    for line, message in records(path, builder.problems):
        recognised = recognised or _is_message(message)
        _take(builder, line, message, model)
    if not recognised:
        return []
    session = builder.build()
    calls = len(session.calls)
    # The sums of the usage of all calls, which do not say what the cache did.
    stats = mapping(meta.get("stats"))
    usage = usage_of(stats.get("session_prompt_tokens"), output=stats.get("session_completion_tokens"))
    if calls and usage is not None:
        session.totals = [(ModelCall(0, 0, usage, seconds(meta.get("end_time")), model, "mistral"), calls)]
    session.id = text(meta.get("session_id"))
    return [session]


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn; the working directory stands in another file."""
    for line in lines:
        if line.get("role") == "user" and not line.get("injected") and (words := _words(line).strip()):
            return words, None
    return "", None


def _meta_beside(path: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        return mapping(json.loads((path.parent / _META).read_bytes()))
    return {}


def _model_in(meta: Mapping[str, Any]) -> str | None:
    """Return the active model; the configuration may name it by an alias."""
    config = mapping(meta.get("config"))
    active = text(config.get("active_model"))
    named = [text(model.get("name")) for model in objects(config.get("models")) if model.get("alias") == active]
    return next(iter(named), active) or None


def _words(message: Mapping[str, Any]) -> str:
    return content(message.get("content")).text


def _take(builder: SessionBuilder, line: int, message: Mapping[str, Any], model: str | None) -> None:
    role = text(message.get("role"))
    if message.get("context_boundary") == "compaction":
        builder.settle(line=line)
        builder.compaction(_words(message))
    elif role == "assistant":
        _add_answer(builder, line, message, model)
    elif role == "tool":
        builder.result(text(message.get("tool_call_id")), content(message.get("content")), line=line)
    elif role == "user":
        builder.settle(line=line)
        builder.user(content(message.get("content")), notice=bool(message.get("injected")))
    elif role == "system":
        builder.add(Part(Kind.SYSTEM, _words(message)))
    else:
        builder.problems.add(line, f"a message of the unknown role {role!r}")


def _add_answer(builder: SessionBuilder, line: int, message: Mapping[str, Any], model: str | None) -> None:
    answer = Answer()
    if reasoning := content(message.get("reasoning_content")).text:
        answer.reasoning(reasoning)
    answer.text(content(message.get("content")))
    for call in objects(message.get("tool_calls")):
        function = mapping(call.get("function"))
        answer.call(call.get("id"), function.get("name"), function.get("arguments"))
    builder.settle(line=line)
    builder.answer(answer.couple_parts(), model=model, line=line)
