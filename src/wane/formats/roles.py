"""The order of roles in a request (R12b), and calls whose arguments servers cannot read.

Chat templates of Mistral, Devstral and Gemma, as llama.cpp, vLLM and LM Studio run them, refuse a conversation unless
messages of the user and answers without calls alternate. Answers with calls and results stand between them and are not
counted. If a history kept that order and a view of it does not, what follows a message of its own role joins that
message. The view's last message never moves ahead of a call: the latest answer stands before it, and is never evicted.

These servers speak Anthropic's Messages and OpenAI's Responses too, and make chat messages of them. So the rule is the
same in each format; what a turn is, and how two become one, is the format's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Joining(Protocol[T]):
    """What the order of roles needs of a format."""

    def speaker(self, message: T, /) -> str | None:
        """Return whose turn a message is; None if it is none."""
        ...

    def is_sent(self, message: T, /) -> bool:
        """Whether requests hold a message."""
        ...

    def merge(self, first: T, second: T, /) -> T | None:
        """Return two turns of one role as one message; None if the format cannot."""
        ...


def join_neighbours(messages: Sequence[T], format: Joining[T]) -> list[T]:  # noqa: A002 - the field's word
    """Return the messages of a request with roles that alternate; contents are unchanged.

    Args:
        messages: those of the request.
        format: their format.
    """
    joined: list[T] = []
    last: int | None = None
    last_speaker: str | None = None
    for message in messages:
        speaker = format.speaker(message)
        if speaker is None or not format.is_sent(message):
            joined.append(message)
            continue
        merged = format.merge(joined[last], message) if last is not None and speaker == last_speaker else None
        if last is not None and merged is not None:
            joined[last] = merged
        else:
            last, last_speaker = len(joined), speaker
            joined.append(message)
    return joined


def take_turns(messages: Iterable[T], speaker_of: Callable[[T], str | None]) -> bool:
    """Return whether messages of the user and answers without calls take turns.

    Args:
        messages: the messages.
        speaker_of: says whose turn a message is; None if it is none.
    """
    before: str | None = None
    for message in messages:
        speaker = speaker_of(message)
        if speaker is not None:
            if speaker == before:
                return False
            before = speaker
    return True


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


def mend_own_items(message: dict[str, Any], own: Collection[str]) -> dict[str, Any]:
    """Return an answer of OpenAI's Responses likewise; see `mend_own_calls`."""
    items = message["items"]
    mended = [_mend_item(item, own) for item in items]
    same = all(before is after for before, after in zip(items, mended, strict=True))
    return message if same else {**message, "items": mended}


def _mend_item(item: Any, own: Collection[str]) -> Any:
    if not isinstance(item, Mapping) or item.get("type") != "function_call" or item.get("name") not in own:
        return item
    return item if is_object(item.get("arguments")) else {**item, "arguments": "{}"}


def is_object(arguments: object) -> bool:
    """Whether arguments are a JSON object, as data or as text."""
    if not isinstance(arguments, str):
        return isinstance(arguments, Mapping)
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
