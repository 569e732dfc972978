"""Rules of servers that are stricter than the API that they imitate, for `ScriptedServer(rules=…)`.

A rule is a function from a request to the server's words of refusal, or None if it accepts it. `docs/servers.md` says
which server has which rule, and where that is known from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias

from wane.testing.request import Request

Rule: TypeAlias = Callable[[Request], str | None]
"""What a server demands of a request: the words of its refusal, or None."""


def calls_need_reasoning(request: Request) -> str | None:
    """DeepSeek and Kimi in thinking mode: each answer with calls has its reasoning, and an empty one counts as none."""
    for index, message in enumerate(_messages(request)):
        content = message.get("content")
        blocks: list[Any] = content if isinstance(content, list) else []
        types = [block.get("type") for block in blocks]
        called = bool(message.get("tool_calls")) or "tool_use" in types
        if called and not message.get("reasoning_content") and "thinking" not in types:
            return f"reasoning_content is missing in assistant tool call message at index {index}"
    return None


def details_sign_calls(request: Request) -> str | None:
    """Gemini 3 behind OpenRouter: an entry of `reasoning_details` signs the call of its id, and neither comes alone."""
    for index, message in enumerate(_messages(request)):
        signed = [entry.get("id") for entry in message.get("reasoning_details") or ()]
        if signed != [call.get("id") for call in message.get("tool_calls") or ()]:
            return f"messages[{index}]: reasoning_details do not match its tool calls"
    return None


def first_call_is_signed(request: Request) -> str | None:
    """Gemini 3 behind a Chat endpoint: the first of an answer's calls carries the signature."""
    for message in _messages(request):
        for call in (message.get("tool_calls") or ())[:1]:
            google = (call.get("extra_content") or {}).get("google") or {}
            if not google.get("thought_signature"):
                return f"Function call `{call['function']['name']}` is missing a thought_signature"
    return None


def roles_alternate(request: Request) -> str | None:
    """Templates of Mistral and Devstral: turns of the user and answers without calls alternate, system prompt aside."""
    messages = _messages(request)
    if messages and messages[0].get("role") in ("system", "developer"):
        messages = messages[1:]
    if any(message.get("role") in ("system", "developer") for message in messages):
        return "Only user, assistant and tool roles are supported after the system message"
    turns = [
        m["role"] for m in messages if m["role"] == "user" or (m["role"] == "assistant" and not m.get("tool_calls"))
    ]
    if turns[:1] == ["assistant"] or any(role == following for role, following in pairwise(turns)):
        return "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
    return None


def arguments_are_objects(request: Request) -> str | None:
    """Templates that take a call's arguments apart, such as Qwen3's in llama.cpp, and gateways to other protocols."""
    calls = [call["function"] for message in _messages(request) for call in message.get("tool_calls") or ()]
    calls += [item for item in _items(request) if item.get("type") == "function_call"]
    for call in calls:
        try:
            arguments = json.loads(call["arguments"])
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return "Failed to parse tool call arguments as JSON"
    return None


def _messages(request: Request) -> list[Mapping[str, Any]]:
    messages = request.body.get("messages")
    return messages if isinstance(messages, list) else []


def _items(request: Request) -> list[Mapping[str, Any]]:
    items = request.body.get("input")
    return items if isinstance(items, list) else []


DEEPSEEK: Final[tuple[Rule, ...]] = (calls_need_reasoning,)
"""DeepSeek's and Kimi's servers, Chat Completions and Anthropic Messages."""

OPENROUTER: Final[tuple[Rule, ...]] = (details_sign_calls,)
GEMINI_CHAT: Final[tuple[Rule, ...]] = (first_call_is_signed,)
TEMPLATE: Final[tuple[Rule, ...]] = (roles_alternate, arguments_are_objects)
"""llama.cpp, LM Studio and vLLM with the strictest of the templates."""
