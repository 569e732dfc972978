"""Views as a session makes them, from messages of a history and parts of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wane.formats.anthropic import AnthropicFormat
from wane.proxy.wire.wire import Body, Equipped, Message, ViewMessage, Wire


def view_of(history: Sequence[Message], view: Sequence[Message]) -> list[ViewMessage]:
    """A view of what a client has sent: the same objects are whole, and others are parts that have the same blocks."""
    return [_view_message(history, message) for message in view]


def with_view(wire: Wire, body: Body | Equipped, view: Sequence[Message]) -> Body:
    """A body with a view in place of its own messages, which are the history."""
    equipped = body if isinstance(body, Equipped) else Equipped(body)
    history = wire.messages(equipped.body)
    return wire.with_messages(equipped, view_of(history, view), history)


def _view_message(history: Sequence[Message], message: Message) -> ViewMessage:
    for number, whole in enumerate(history):
        if message is whole or (message == whole and "items" in whole):
            return ViewMessage(message, number, None, True)
    blocks = set(map(_key, _blocks(message)))
    for number, whole in enumerate(history):
        locations = {location for location, block in enumerate(_blocks(whole)) if _key(block) in blocks}
        if locations:
            located = AnthropicFormat().locate_parts(whole)
            return ViewMessage(message, number, [n for n, (at, _) in enumerate(located) if at in locations])
    return ViewMessage(message)


def _key(block: Any) -> object:
    """What makes a block the same: a result may have been cleared."""
    return block.get("tool_use_id") or id(block)


def _blocks(message: Message) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []
