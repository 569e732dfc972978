"""The order of roles in a Chat Completions request (R12b), and calls whose arguments servers cannot read.

Chat templates of Mistral, Devstral and Gemma, as llama.cpp, vLLM and LM Studio run them, refuse a conversation unless
messages of the user and answers without calls alternate. Answers with calls and results stand between them and are not
counted. If a history kept that order and a view of it does not, what follows a message of its own role joins that
message. The view's last message never moves ahead of a call: the latest answer stands before it, and is never evicted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from wane.formats.vocabulary import REASONING_TEXTS


def join_neighbours(messages: Sequence[dict[str, Any]], history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a request with roles that alternate as they did in the history; contents are unchanged.

    Args:
        messages: those of the request.
        history: the whole history. If it had neighbours of one role itself, the messages are returned as they are.
    """
    if alternates(messages) or not alternates(history):
        return list(messages)
    joined: list[dict[str, Any]] = []
    last: int | None = None
    for message in messages:
        if not _takes_turns(message):
            joined.append(message)
        elif last is not None and joined[last]["role"] == message["role"]:
            joined[last] = _join(joined[last], message)
        else:
            last = len(joined)
            joined.append(message)
    return joined


def alternates(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether messages of the user and answers without calls take turns."""
    roles = [message["role"] for message in messages if _takes_turns(message)]
    return all(role != following for role, following in pairwise(roles))


def _takes_turns(message: Mapping[str, Any]) -> bool:
    role = message.get("role")
    return role == "user" or (role == "assistant" and not message.get("tool_calls"))


def _join(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    merged = {**second, **first, "content": join_contents(first.get("content"), second.get("content"))}
    for key in REASONING_TEXTS:
        texts = [message[key] for message in (first, second) if isinstance(message.get(key), str)]
        if texts:
            merged[key] = "\n\n".join(texts)
    return merged


def join_contents(first: Any, second: Any) -> Any:
    """Return two contents as one: texts by a blank line, anything else as a list of parts."""
    if isinstance(first, str) and isinstance(second, str):
        return "\n\n".join(filter(None, (first, second)))
    parts: list[Any] = []
    for content in (first, second):
        if isinstance(content, str):
            parts += [{"type": "text", "text": content}] if content else []
        else:
            parts += content or []
    return parts


def mend_own_calls(message: dict[str, Any], own: Collection[str]) -> dict[str, Any]:
    """Return an answer whose own calls have arguments that servers can read; the same object if all have.

    Templates, and gateways to other protocols, parse the arguments of earlier calls: llama-server refuses the whole
    request if they are no JSON. The call's result says what was wrong.

    Args:
        message: an assistant's message.
        own: names of the tools whose calls Wane answers. Other calls go as their client or loop has them.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    mended = [_mend_call(call, own) for call in calls]
    same = all(before is after for before, after in zip(calls, mended, strict=True))
    return message if same else {**message, "tool_calls": mended}


def _mend_call(call: Any, own: Collection[str]) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or function.get("name") not in own or is_object(function.get("arguments")):
        return call
    return {**call, "function": {**function, "arguments": "{}"}}


def is_object(arguments: object) -> bool:
    """Whether arguments are a JSON object, as data or as text."""
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
