"""The endpoints of a llama-server: requests of each API for the same history."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.servers.llama import TOOLS, Message

READ = TOOLS[0]["function"]


@dataclass(frozen=True)
class Endpoint:
    """An endpoint.

    Attributes:
        path: its path.
        counts: the path that counts a request's tokens, and refuses what this one would.
        format: the name of its messages' format.
        body: makes a request of messages of Chat Completions.
    """

    path: str
    counts: str
    format: str
    body: Callable[[Sequence[Message]], dict[str, Any]]


def _chat(messages: Sequence[Message]) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), "tools": TOOLS, "max_tokens": 1}


def _messages(messages: Sequence[Message]) -> dict[str, Any]:
    written: list[Message] = []
    for message in messages[1:]:
        role, content = message["role"], message["content"]
        blocks: list[Message] = []
        if role == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
            if isinstance(written[-1]["content"], list) and written[-1]["role"] == "user":
                written[-1]["content"].append(result)
                continue
            blocks, role = [result], "user"
        elif role == "assistant":
            if thought := message.get("reasoning_content"):
                blocks.append({"type": "thinking", "thinking": thought, "signature": ""})
            if content:
                blocks.append({"type": "text", "text": content})
            for call in message.get("tool_calls", ()):
                function = call["function"]
                use = {"type": "tool_use", "id": call["id"], "name": function["name"]}
                blocks.append({**use, "input": json.loads(function["arguments"])})
        written.append({"role": role, "content": blocks or content})
    tool = {"name": READ["name"], "description": READ["description"], "input_schema": READ["parameters"]}
    system = [{"type": "text", "text": messages[0]["content"]}]
    return {"model": "m", "max_tokens": 1, "system": system, "messages": written, "tools": [tool]}


def _responses(messages: Sequence[Message]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for number, message in enumerate(messages[1:]):
        role, content = message["role"], message["content"]
        if role == "tool":
            output = {"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}
            items.append(output)
            continue
        if role == "assistant" and content:
            text = [{"type": "output_text", "text": content, "annotations": []}]
            said = {"type": "message", "role": role, "id": f"msg_{number}", "status": "completed", "content": text}
            items.append(said)
        elif role != "assistant":
            items.append({"type": "message", "role": role, "content": [{"type": "input_text", "text": content}]})
        for call in message.get("tool_calls", ()):
            function = call["function"]
            named = {"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], "status": "completed"}
            items.append({**named, "name": function["name"], "arguments": function["arguments"]})
    tool = {"type": "function", **READ}
    body = {"model": "m", "max_output_tokens": 1, "instructions": messages[0]["content"], "store": False}
    return {**body, "input": items, "tools": [tool]}


ENDPOINTS = {
    "chat": Endpoint("/v1/chat/completions", "/v1/chat/completions/input_tokens", "openai", _chat),
    "messages": Endpoint("/v1/messages", "/v1/messages/count_tokens", "anthropic", _messages),
    "responses": Endpoint("/v1/responses", "/v1/responses/input_tokens", "openai_responses", _responses),
}
