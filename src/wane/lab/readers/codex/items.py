"""Items of OpenAI's Responses, as Codex records them, taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wane.core import Kind
from wane.formats.base import Part
from wane.formats.response_items import SEAL, is_harness_made, part_of
from wane.formats.values import compact, raw_text, sealed_tokens
from wane.lab.readers.building.blocks import content
from wane.lab.readers.building.images import image_tokens
from wane.lab.readers.building.values import text

KNOWN: Final = frozenset(
    {
        "additional_tools",
        "agent_message",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "context_compaction",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
        "ghost_snapshot",
        "image_generation_call",
        "local_shell_call",
        "message",
        "other",
        "reasoning",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""Known item types. Those of a compaction repeat what its own line says; snapshots are Codex's own."""


@dataclass(frozen=True, slots=True)
class Message:
    """What this session's model did not write.

    Attributes:
        part: a turn of the user or developer, or a notice.
        is_turn: whether a person wrote it to the agent, or another agent set the task.
    """

    part: Part
    is_turn: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """What a model gave, with its result if the provider ran the call itself."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call, with the call's id and the output as recorded."""

    call_id: str
    output: object


def take(item: Mapping[str, Any]) -> Message | Output | Result | None:
    """Take an item apart; None if it is no part of the history."""
    match item.get("type"):
        case "message":
            return _message(item)
        case "agent_message":
            told = part_of({**item, "content": content(item.get("content")).text})
            return None if told is None else Message(told, is_turn=told.kind is Kind.USER)
        case "additional_tools":
            return Message(Part(Kind.SYSTEM, compact(item.get("tools"))))
        case "reasoning":
            return _reasoning(item)
        case "function_call" | "custom_tool_call":
            space, name = text(item.get("namespace")), text(item.get("name"))
            written = raw_text(item.get("arguments", item.get("input")))
            return _call(item, f"{space}.{name}" if space else name, written)
        case "tool_search_call":
            return _call(item, "tool_search", raw_text(item.get("arguments")))
        case "local_shell_call":
            return _call(item, "local_shell", raw_text(item.get("action")))
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            if isinstance(output, dict):  # older versions wrap the output in an object with its success
                output = output.get("content_items") or output.get("content", output)
            return Result(text(item.get("call_id")), output)
        case "tool_search_output":
            return _tools_found(item)
        case "web_search_call":
            return _run_by_provider(item, "web_search", raw_text(item.get("action")), 0)
        case "image_generation_call":
            made = image_tokens(item.get("result")) if item.get("result") else 0
            return _run_by_provider(item, "image_generation", text(item.get("revised_prompt")), made)
    return None


def _message(item: Mapping[str, Any]) -> Message | Output:
    written, extra = content(item.get("content"))
    role = item.get("role")
    if role == "assistant":
        return Output((Part(Kind.TEXT, written, extra_tokens=extra),) if written or extra else ())
    if is_harness_made(item):
        return Message(Part(Kind.NOTICE, written, extra_tokens=extra, system=role != "user"))
    kind = Kind.USER if role == "user" else Kind.SYSTEM
    return Message(Part(kind, written, extra_tokens=extra), is_turn=kind is Kind.USER)


def _reasoning(item: Mapping[str, Any]) -> Output:
    told = [content(item.get(key)).text for key in ("summary", "content")]
    extra = sealed_tokens(item.get("encrypted_content"), SEAL)
    return Output((Part(Kind.REASONING, "\n".join(filter(None, told)), extra_tokens=extra),))


def _call(item: Mapping[str, Any], tool: str, written: str) -> Output:
    call_id = text(item.get("call_id")) or text(item.get("id"))
    return Output((Part(Kind.CALL, call_id=call_id, tool=tool, arguments=written),))


def _tools_found(item: Mapping[str, Any]) -> Output | Result:
    call_id = text(item.get("call_id"))
    found = compact(item.get("tools"))
    if item.get("execution") == "server":
        return Output((Part(Kind.RESULT, found, call_id=call_id),))
    return Result(call_id, found)


def _run_by_provider(item: Mapping[str, Any], tool: str, written: str, extra: int) -> Output:
    """Return a call that the provider ran itself; its output is not recorded."""
    call_id = text(item.get("id")) or tool
    call = Part(Kind.CALL, call_id=call_id, tool=tool, arguments=written)
    return Output((call, Part(Kind.RESULT, call_id=call_id, extra_tokens=extra)))
