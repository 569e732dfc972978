"""Input items of the Responses API, and the rules on which belong together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from wane.core.items import Kind
from wane.formats.vocabulary import RESPONSES
from wane.testing.openai.base import check_contents, invalid_value, kind_of, require, unknown_parameter
from wane.testing.openai.tools import qualified
from wane.testing.request import Message, Part, compact
from wane.testing.wire import Refused, check_fields, content_parts, content_text

_OUTPUT_OF: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_CALL_OF: Final = {output: call for call, output in _OUTPUT_OF.items()}

STEMS: Final = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "tool_search_call": "tsc"}
"""Prefixes of the ids of items that may follow reasoning, by type."""

_FOLLOWER: Final = re.compile(rf"(?:{'|'.join(STEMS.values())})_(r[0-9a-f]+)_0")

_EVERY: Final = frozenset({"type", "id", "status", "internal_chat_message_metadata_passthrough"})
_FIELDS: Final = {
    "message": _EVERY | {"role", "content", "phase"},
    "function_call": _EVERY | {"call_id", "name", "arguments", "namespace", "caller", "async"},
    "function_call_output": _EVERY | {"call_id", "output", "caller", "name", "namespace"},
    "reasoning": _EVERY | {"summary", "content", "encrypted_content"},
}
"""The fields of items, by type; those of other types are not checked."""


def message_of(index: int, item: Mapping[str, Any]) -> Message:
    """Return an input item, the one at `index`, as a message.

    Raises:
        Refused: for an item that OpenAI or this server does not know.
    """
    kind = item.get("type") or "message"
    check_fields(item, _FIELDS.get(kind, item), unknown_parameter, f"input[{index}].")
    if kind == "message":
        role = str(item.get("role"))
        part_kind = kind_of(role, f"input[{index}].role")
        kinds = RESPONSES.contents[role] - {"output_image"}
        require(item, "content", (str, list), f"input[{index}].")
        check_contents(item["content"], f"input[{index}].content", kinds)
        parts = tuple(content_parts(part_kind, item.get("content"), id=item.get("id")))
        return Message("system" if part_kind is Kind.SYSTEM else role, parts)
    if kind in ("additional_tools", "configuration_update", "compaction_trigger"):
        if kind == "additional_tools" and item.get("role") != "developer":
            raise invalid_value(str(item.get("role")), f"input[{index}].role")
        return Message("system", ())
    if kind == "agent_message":
        return Message("user", tuple(content_parts(Kind.USER, item.get("content"), id=item.get("id"))))
    if kind in _OUTPUT_OF:
        return Message("assistant", (_call(kind, item),))
    if kind in _CALL_OF:
        text = content_text(item.get("output"))
        return Message("tool", (Part(Kind.RESULT, text, call_id=item.get("call_id"), id=item.get("id"), wire=item),))
    if kind == "reasoning":
        text = "".join(str(summary.get("text") or "") for summary in item.get("summary") or ())
        signature = item.get("encrypted_content")
        return Message("assistant", (Part(Kind.REASONING, text, id=item.get("id"), signature=signature, wire=item),))
    if kind == "compaction":
        sealed = str(item.get("encrypted_content") or "")
        return Message("assistant", (Part(Kind.TEXT, sealed, id=item.get("id"), signature=sealed, wire=item),))
    if kind == "web_search_call":
        # A tool that the provider ran: call and result in one.
        return Message("assistant", (Part(Kind.TEXT, compact(item.get("action")), id=item.get("id"), wire=item),))
    raise Refused(f"The scripted server knows no input item of type '{kind}'.", param=f"input[{index}].type")


def _call(kind: str, item: Mapping[str, Any]) -> Part:
    name = "tool_search" if kind == "tool_search_call" else qualified(item)
    value = item.get("input") if kind == "custom_tool_call" else item.get("arguments")
    arguments = value if isinstance(value, str) else compact(value if value is not None else "")
    return Part(Kind.CALL, arguments, call_id=item.get("call_id"), tool=name, id=item.get("id"), wire=item)


def check_pairs(parts: tuple[Part, ...]) -> None:
    """Refuse an output without its call before it, and a call without its output; other items may stand between."""
    unanswered: list[tuple[str, str | None]] = []
    for part in parts:
        kind = str(part.wire.get("type"))
        if part.kind is Kind.CALL:
            unanswered.append((kind, part.call_id))
        elif part.kind is Kind.RESULT:
            pair = (_CALL_OF[kind], part.call_id)
            if pair not in unanswered:
                words = kind.replace("_", " ")
                raise Refused(f"No tool call found for {words} with call_id {part.call_id}.", param="input")
            unanswered.remove(pair)
    if unanswered:
        kind, call_id = unanswered[0]
        raise Refused(f"No tool output found for {kind.replace('_', ' ')} {call_id}.", param="input")


def check_reasoning(parts: tuple[Part, ...]) -> None:
    """Refuse reasoning without the item that followed it, and the reverse, as far as their ids tell (R12)."""
    for part, following in zip(parts, (*parts[1:], None), strict=False):
        if part.kind is not Kind.REASONING:
            continue
        follows = following is not None and following.kind in (Kind.TEXT, Kind.CALL)
        if follows and following and following.id and str(part.id).startswith("rs_r"):
            match = _FOLLOWER.fullmatch(following.id)
            follows = match is not None and part.id == f"rs_{match[1]}"
        if not follows:
            raise Refused(
                f"Item '{part.id}' of type 'reasoning' was provided without its required following item.",
                param="input",
            )
    present = {part.id for part in parts if part.kind is Kind.REASONING}
    for part in parts:
        match = _FOLLOWER.fullmatch(part.id or "")
        if match and f"rs_{match[1]}" not in present:
            kind = part.wire.get("type") if part.kind is Kind.CALL else "message"
            raise Refused(
                f"Item '{part.id}' of type '{kind}' was provided without its required 'reasoning' item:"
                f" 'rs_{match[1]}'.",
                param="input",
            )
