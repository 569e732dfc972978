"""OpenAI chat messages written in the other formats, so that one set of sessions serves every format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)


def to_pydantic_ai(messages: Sequence[dict[str, Any]], *, joined: bool = False) -> list[ModelMessage]:
    """The same session; `joined` puts neighbouring requests into one message, as Pydantic AI does."""
    converted: list[ModelMessage] = []
    for message in messages:
        if message["role"] == "assistant":
            converted.append(ModelResponse(_response_parts(message), model_name="scripted"))
            continue
        part = _request_part(message)
        last = converted[-1] if converted else None
        if joined and isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            converted.append(ModelRequest([part]))
    return converted


def _request_part(message: dict[str, Any]) -> ModelRequestPart:
    if message["role"] == "tool":
        return ToolReturnPart("tool", message["content"], message["tool_call_id"])
    part = SystemPromptPart if message["role"] == "system" else UserPromptPart
    return part(message["content"])


def _response_parts(message: dict[str, Any]) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = []
    if reasoning := message.get("reasoning_content"):
        parts.append(ThinkingPart(reasoning))
    if text := message.get("content"):
        parts.append(TextPart(text))
    calls = message.get("tool_calls") or ()
    return parts + [ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"]) for call in calls]


# Anthropic

SIGNATURE = "c2lnbmVk" * 40


def to_anthropic(
    messages: Sequence[dict[str, Any]], *, joined: bool = False, signed: bool = False, objects: bool = False
) -> list[dict[str, Any]]:
    """The same session, with the results of neighbouring messages in one turn of the user.

    Args:
        messages: OpenAI chat messages.
        joined: put what a person says next into that turn, too, as Claude Code does.
        signed: sign the thinking.
        objects: give arguments that are JSON as objects, even where that changes how they are spaced.
    """
    converted: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant":
            converted.append({"role": "assistant", "content": _answer_blocks(message, signed, objects)})
        elif message["role"] == "system":
            converted.append(dict(message))
        else:
            _add_turn(converted, message, joined)
    return converted


def _answer_blocks(message: dict[str, Any], signed: bool, objects: bool) -> list[dict[str, Any]] | str:
    blocks: list[dict[str, Any]] = []
    if reasoning := message.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": reasoning} | ({"signature": SIGNATURE} if signed else {}))
    if text := message.get("content"):
        blocks.append({"type": "text", "text": text})
    for call in message.get("tool_calls") or ():
        name, raw = call["function"]["name"], call["function"]["arguments"]
        blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": as_input(raw, objects)})
    only = blocks[0] if len(blocks) == 1 else {}
    return str(only["text"]) if only.get("type") == "text" else blocks


def as_input(raw: str, objects: bool) -> Any:
    """The arguments of a call as Anthropic gives them; text that is no JSON object, or is spaced out, stays text."""
    try:
        value = json.loads(raw)
        same = json.dumps(value, ensure_ascii=False, separators=(",", ":")) == raw
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, dict) and (objects or same) else raw


def _add_turn(converted: list[dict[str, Any]], message: dict[str, Any], joined: bool) -> None:
    last = converted[-1] if converted else {}
    open_turn = last.get("role") == "user" and isinstance(last["content"], list)
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        if open_turn:
            last["content"].append(block)
        else:
            converted.append({"role": "user", "content": [block]})
    elif open_turn and joined:
        last["content"].append({"type": "text", "text": message["content"]})
    else:
        converted.append({"role": "user", "content": message["content"]})


# OpenAI Responses


def to_responses(messages: Sequence[dict[str, Any]], *, sealed: bool = False) -> list[dict[str, Any]]:
    """The same session in messages of items, one for each that holds anything.

    Args:
        messages: OpenAI chat messages.
        sealed: give the items of answers ids, by which OpenAI knows them again.
    """
    converted: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            converted.append({"items": [{"type": "function_call_output", **output}]})
        elif message["role"] != "assistant":
            converted.append({"items": [{"role": message["role"], "content": message["content"]}]})
        elif items := _answer_items(message):
            if sealed:
                items = [{**item, "id": f"{item['type'][:2]}_{number}_{n}"} for n, item in enumerate(items)]
            converted.append({"items": items})
    return converted


def _answer_items(message: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reasoning := message.get("reasoning_content"):
        items.append(
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": reasoning}]},
        )
    if text := message.get("content"):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
    calls = message.get("tool_calls") or ()
    return items + [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]


def joined_runs(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that a flat list can tell: neighbouring answers are one."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and _is_answer(message) and _is_answer(joined[-1]):
            joined[-1] = {"items": [*joined[-1]["items"], *message["items"]]}
        else:
            joined.append(message)
    return joined


def _is_answer(message: dict[str, Any]) -> bool:
    return all(item.get("role", "assistant") == "assistant" and "output" not in item for item in message["items"])


# Gemini


def to_gemini(
    messages: Sequence[dict[str, Any]],
    *,
    joined: bool = False,
    signed: bool = False,
    ids: bool = True,
    objects: bool = False,
) -> list[dict[str, Any]]:
    """The same session, with the results of neighbouring messages in one content of the user.

    Args:
        messages: OpenAI chat messages.
        joined: put what a person says next into that content, too, as Gemini CLI does.
        signed: sign the first call of each answer, as Gemini 3 does.
        ids: give calls and results their ids; older models give none.
        objects: give arguments that are JSON as objects, even where that changes how they are spaced.
    """
    tools: dict[str, list[str]] = {}  # of the calls with an id that have no result yet
    converted: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant":
            converted.append({"role": "model", "parts": _model_parts(message, signed, ids, objects)})
            for call in message.get("tool_calls") or ():
                tools.setdefault(call["id"], []).append(call["function"]["name"])
            continue
        if message["role"] == "tool":
            name = (tools.get(message["tool_call_id"]) or ["tool"]).pop(0)
            answer = {"name": name, "response": {"output": message["content"]}}
            part = {"functionResponse": {"id": message["tool_call_id"], **answer} if ids else answer}
        else:
            part = {"text": message["content"]}
        last = converted[-1] if converted else {}
        waits = last.get("role") == "user" and "functionResponse" in last["parts"][-1]
        if waits and (joined or message["role"] == "tool") and message["role"] != "system":
            last["parts"].append(part)
        else:
            converted.append({"role": "system" if message["role"] == "system" else "user", "parts": [part]})
    return converted


def _model_parts(message: dict[str, Any], signed: bool, ids: bool, objects: bool) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if reasoning := message.get("reasoning_content"):
        parts.append({"text": reasoning, "thought": True})
    if text := message.get("content"):
        parts.append({"text": text})
    for number, call in enumerate(message.get("tool_calls") or ()):
        made = {"name": call["function"]["name"], "args": as_input(call["function"]["arguments"], objects)}
        part: dict[str, Any] = {"functionCall": {"id": call["id"], **made} if ids else made}
        parts.append(part | ({"thoughtSignature": SIGNATURE} if signed and not number else {}))
    return parts
