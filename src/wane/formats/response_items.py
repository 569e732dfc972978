"""Single items of OpenAI's Responses API: who made them, and which part each becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.base import Part
from wane.formats.notice_marks import CODEX_PERSON, CODEX_TASK, CODEX_UNTOLD
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import compact, raw_text, sealed_tokens, string, type_name
from wane.formats.vocabulary import RESPONSES

ResponseItem: TypeAlias = dict[str, Any]

REFERENCE_TOKENS: Final = 100
"""Flat estimate, in tokens, for an item known only by its id: about the mean of recorded calls and texts."""

SEAL: Final = 867
"""Base64 characters of an empty reasoning item: 650 bytes, by Codex's own estimate."""

_CHARACTERS_PER_TOKEN: Final = 4

# Types that the client adds, other than messages and outputs.
_CLIENTS: Final = frozenset(
    {"additional_tools", "agent_message", "compaction_trigger", "configuration_update", "mcp_approval_response"}
)
_ROLES: Final = {
    "user": Kind.USER,
    "assistant": Kind.TEXT,
    "system": Kind.SYSTEM,
    "developer": Kind.SYSTEM,
}
# Fields of calls that hold what the model wrote.
_ARGUMENTS: Final = ("arguments", "input", "action", "actions", "operation", "code")
# Fields of outputs that hold the call's result.
_RESULTS: Final = ("output", "result", "tools", "status")
# Calls that OpenAI runs, with the fields of the call and of its result.
_HOSTED: Final = {
    "web_search_call": ("action",),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt",),
    "mcp_call": ("name", "arguments", "output", "error"),
}
_TEXTS: Final = ("text", "refusal", "logs")
_MEDIA: Final = frozenset({"input_image", "input_file", "input_audio", "image", "computer_screenshot", "output_image"})


def is_model_made(item: object) -> bool:
    """Whether an item is part of a model's answer, and not a turn, a tool's output or a setting."""
    if not isinstance(item, dict):
        return False
    kind, role = item.get("type"), item.get("role")
    if role is not None:
        return bool(role == "assistant")
    if kind is None:
        return "id" in item
    if not isinstance(kind, str) or kind in _CLIENTS:
        return False
    return not kind.endswith("_output") or _is_served_search(item)


def is_known(item: Mapping[str, Any]) -> bool:
    """Whether an object has the type of an item of this API, or is a call or an output by its type's name and id."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "message":
        return item.get("role") in _ROLES
    paired = kind.endswith(("_call", "_output")) and bool(item.get("call_id"))
    return paired or kind in _TAKERS or kind in _HOSTED or kind == "local_shell_call_output"


def part_of(item: ResponseItem) -> Part | None:
    """Return the part that an item becomes; None if it is empty.

    An item with an id is never empty: the item before it may need it.

    Raises:
        FormatError: for an item of the wrong shape.
    """
    if not isinstance(item, dict):
        raise FormatError(f"an item must be an object, found {type_name(item)}")
    kind = item.get("type")
    if kind is None:
        if "role" not in item and "id" in item:
            return _reference(item)
        kind = "message"
    if not isinstance(kind, str):
        raise FormatError(f"the type of an item must be a string, found {kind!r}")
    take = _TAKERS.get(kind)
    if take is not None:
        return take(item)
    if kind.endswith("_output"):
        return _output(item)
    if kind in _HOSTED:
        return _hosted(item)
    if kind.endswith("_call") and item.get("call_id"):
        return _call(item)
    return Part(Kind.TEXT if is_model_made(item) else Kind.SYSTEM, extra_tokens=NON_TEXT_TOKENS)


def _message(item: ResponseItem) -> Part | None:
    role = item.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise RESPONSES.role_error(item, _ROLES)
    text, extra = _content(item.get("content"))
    if kind is Kind.TEXT:
        return Part(kind, text, extra_tokens=extra) if text or extra or item.get("id") else None
    if is_harness_made(item):
        return Part(Kind.NOTICE, text, extra_tokens=extra, system=kind is Kind.SYSTEM)
    return Part(kind, text, extra_tokens=extra)


def is_harness_made(item: Mapping[str, Any]) -> bool:
    """Whether a message of the user, system or developer is a notice: all of its contents must be.

    Codex gives the kind of each content, and never puts its own contents into a message with a person's.
    """
    content, about = item.get("content"), item.get("internal_chat_message_metadata_passthrough")
    contents = content if isinstance(content, list) else [content]
    kinds = about.get("content_item_kinds") if isinstance(about, Mapping) else None
    if not isinstance(kinds, list) or len(kinds) != len(contents):
        kinds = [CODEX_UNTOLD] * len(contents)
    system = item.get("role") != "user"
    return bool(contents) and all(_is_notice(*pair, system=system) for pair in zip(contents, kinds, strict=True))


def _is_notice(content: object, kind: object, *, system: bool) -> bool:
    if isinstance(kind, str) and kind != CODEX_UNTOLD:
        return not kind.startswith(CODEX_PERSON)
    text = content.get("text") if isinstance(content, Mapping) else content
    return isinstance(text, str) and is_notice(text, system=system)


def _reasoning(item: ResponseItem) -> Part | None:
    texts = (_content(item.get(key))[0] for key in ("summary", "content"))
    text = "\n".join(filter(None, texts))
    seal = item.get("encrypted_content")
    # The model reads the reasoning itself, which is longer than its summary.
    extra = max(0, sealed_tokens(seal, SEAL) - math.ceil(len(text) / _CHARACTERS_PER_TOKEN))
    return Part(Kind.REASONING, text, extra_tokens=extra) if text or seal or item.get("id") else None


def _reference(item: ResponseItem) -> Part:
    kind = Kind.REASONING if string(item, "id").startswith("rs_") else Kind.TEXT
    return Part(kind, extra_tokens=REFERENCE_TOKENS)


def _call(item: ResponseItem) -> Part:
    kind = string(item, "type")
    tool = string(item, "name") if kind in ("function_call", "custom_tool_call") else kind.removesuffix("_call")
    written = next((item[key] for key in _ARGUMENTS if item.get(key) is not None), None)
    return Part(Kind.CALL, call_id=string(item, "call_id"), tool=tool, arguments=raw_text(written))


def _output(item: ResponseItem) -> Part:
    output = next((item[key] for key in _RESULTS if item.get(key) is not None), None)
    text, extra = _content(output)
    # By OpenAI's types the output of a local shell has the id of its call as `id`, by its examples as `call_id`.
    call_id = item.get("call_id") or (item.get("id") if item["type"] == "local_shell_call_output" else None)
    if not call_id:
        # Its call is not known, so they could not leave together.
        return Part(Kind.SYSTEM, text, extra_tokens=extra)
    return Part(Kind.RESULT, text, call_id=string({"call_id": call_id}, "call_id"), extra_tokens=extra)


def _search(item: ResponseItem) -> Part:
    """A tool search. One that OpenAI ran has no id to pair it by, and it shows tools to the model."""
    if _is_served_search(item):
        return Part(Kind.SYSTEM, raw_text(item.get("arguments", item.get("tools"))))
    return _call(item) if item["type"] == "tool_search_call" else _output(item)


def _is_served_search(item: ResponseItem) -> bool:
    kind = item.get("type")
    return kind in ("tool_search_call", "tool_search_output") and not item.get("call_id")


def _approval(item: ResponseItem) -> Part:
    arguments = raw_text(item.get("arguments"))
    return Part(Kind.CALL, call_id=string(item, "id"), tool=string(item, "name"), arguments=arguments)


def _approved(item: ResponseItem) -> Part:
    text = compact({key: item[key] for key in ("approve", "reason") if item.get(key) is not None})
    return Part(Kind.RESULT, text, call_id=string(item, "approval_request_id"))


def _hosted(item: ResponseItem) -> Part:
    texts, extra = [], NON_TEXT_TOKENS if item.get("result") else 0
    for key in _HOSTED[item["type"]]:
        value = item.get(key)
        text, tokens = _content(value) if key in ("results", "outputs") else (raw_text(value), 0)
        texts.append(text)
        extra += tokens
    return Part(Kind.TEXT, "\n".join(filter(None, texts)), extra_tokens=extra)


def _compaction(item: ResponseItem) -> Part:
    return Part(Kind.SYSTEM, extra_tokens=sealed_tokens(item.get("encrypted_content"), 0))


def _tools(item: ResponseItem) -> Part:
    return Part(Kind.SYSTEM, raw_text(item.get("tools")))


def _setting(_: ResponseItem) -> Part:
    return Part(Kind.SYSTEM)


def _agent(item: ResponseItem) -> Part:
    """A message from one agent to another: a task, or news."""
    text, extra = _content(item.get("content"))
    return Part(Kind.USER if text.startswith(CODEX_TASK) else Kind.NOTICE, text, extra_tokens=extra)


_TAKERS: Final[Mapping[str, Callable[[ResponseItem], Part | None]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "program": _call,
    "item_reference": _reference,
    "tool_search_call": _search,
    "tool_search_output": _search,
    "mcp_approval_request": _approval,
    "mcp_approval_response": _approved,
    "mcp_list_tools": _tools,
    "additional_tools": _tools,
    "agent_message": _agent,
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "context_compaction": _compaction,
    "compaction_trigger": _setting,
    "configuration_update": _setting,
}


def _content(content: object) -> tuple[str, int]:
    """The text of a content, and an estimate for the rest of it; parts of unknown kinds count as their JSON."""
    if content is None:
        return "", 0
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        content = [content]
    texts, extra = [], 0
    for part in content:
        text, tokens = _piece(part)
        texts.append(text)
        extra += tokens
    return "".join(texts), extra


def _piece(part: object) -> tuple[str, int]:
    if isinstance(part, str):
        return part, 0
    if not isinstance(part, dict):
        raise FormatError(f"a part of a content must be an object or a string, found {type_name(part)}")
    for key in _TEXTS:
        if isinstance(part.get(key), str):
            return part[key], 0
    kind = part.get("type")
    return ("", NON_TEXT_TOKENS) if isinstance(kind, str) and kind in _MEDIA else (compact(part), 0)
