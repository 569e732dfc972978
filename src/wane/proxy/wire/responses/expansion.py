"""Hidden rounds put back into items of the Responses API: each of a client's goes into the round that it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from wane.formats.response_items import part_of
from wane.proxy.wire.base import AnsweredRound, Message
from wane.proxy.wire.responses.reply import Item, call_id_of, without_id

_MESSAGE: Final = "message"


def expanded(message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
    """Return the provider's messages that a client's assistant message stands for, as `Wire.expand` does.

    Clients send items with or without their ids and states, drop reasoning, trim texts and rewrite arguments. So
    items are recognised one by one: by the call's id, by their own id, by their encrypted content, or by their
    text.
    """
    if not rounds:
        return [message]
    own = [{call_id_of(item) for result in round_.results for item in result["items"]} - {None} for round_ in rounds]
    seen_items = [
        _ClientItem(number, position, item)
        for number, round_ in enumerate(rounds)
        for position, item in enumerate(round_.message["items"])
        if call_id_of(item) not in own[number]
    ]
    sent = _placed(message["items"], seen_items, len(rounds) - 1)
    history: list[Message] = []
    for number, round_ in enumerate(rounds):
        client_items = sent[number]
        items = round_.message["items"]
        if client_items:
            items = _kept_items(items, client_items, own[number])
        # The provider would refuse reasoning alone, whose own call was cut off.
        if client_items or any(_kind(item) != "reasoning" for item in items):
            history += [{**round_.message, "items": items}, *round_.results]
    return history or [message]


class _ClientItem(NamedTuple):
    """An item that the client has seen: its round, and its position among the round's items."""

    round: int
    position: int
    item: Item


def _placed(items: Sequence[Item], client_items: Sequence[_ClientItem], last: int) -> list[dict[int, list[Item]]]:
    """Return the client's items by round and position; unknown items go with the next known one.

    Args:
        items: the client's items.
        client_items: the items that it has seen.
        last: the last round, which gets unknown items at the end, at position -1.
    """
    sent: list[dict[int, list[Item]]] = [{} for _ in range(last + 1)]
    waiting: list[Item] = []
    start = 0
    for item in items:
        match = next((n for n in range(start, len(client_items)) if _same(item, client_items[n].item)), None)
        if match is None:
            waiting.append(item)
            continue
        ahead = _settle(waiting, client_items[start:match], sent)
        sent[client_items[match].round][client_items[match].position] = [*ahead, item]
        waiting, start = [], match + 1
    if ahead := _settle(waiting, client_items[start:], sent):
        sent[last][-1] = ahead
    return sent


def _settle(
    items: Sequence[Item], client_items: Sequence[_ClientItem], sent: list[dict[int, list[Item]]]
) -> list[Item]:
    """Put edited items in the places of their originals, and return the items that are left.

    Between two known items, items of one kind match the originals of that kind if there are as many.
    """
    unmatched: list[Item] = []
    for kind in dict.fromkeys(map(_kind, items)):
        edited = [item for item in items if _kind(item) == kind]
        free = [client_item for client_item in client_items if _kind(client_item.item) == kind]
        if len(edited) != len(free) or kind not in (_MESSAGE, "reasoning"):
            unmatched += edited
            continue
        for item, client_item in zip(edited, free, strict=True):
            sent[client_item.round][client_item.position] = [item]
    return [item for item in items if any(item is edited_item for edited_item in unmatched)]


def _kept_items(recorded: Sequence[Item], client_items: dict[int, list[Item]], own: set[Any]) -> list[Item]:
    """Return a round's items as the client has kept them.

    An own call keeps its id only if the reasoning before it is present under its own id, because OpenAI checks that.
    """
    items: list[Item] = []
    reasoning: str | None = None
    named = True
    for position, item in enumerate(recorded):
        is_reasoning = _kind(item) == "reasoning"
        if is_reasoning:
            reasoning, named = item.get("id"), False
        if position in client_items:
            items += client_items[position]
            named = named or (is_reasoning and client_items[position][-1].get("id") == reasoning)
        elif call_id_of(item) in own:
            items.append(item if named else without_id(item))
    return [*items, *client_items.get(-1, ())]


def _same(item: Item, original: Item) -> bool:
    """Whether a client's item is one that it has seen, apart from some edits."""
    kind = _kind(item)
    if kind != _kind(original):
        return False
    if original.get("call_id") is not None:
        return bool(item.get("call_id") == original["call_id"])
    if item.get("id") and original.get("id"):
        return bool(item["id"] == original["id"])
    if item.get("encrypted_content") and original.get("encrypted_content"):
        return bool(item["encrypted_content"] == original["encrypted_content"])
    part, original_part = part_of(item), part_of(original)
    return part is not None and original_part is not None and part.text.strip() == original_part.text.strip() != ""


def _kind(item: Item) -> str:
    return str(item.get("type") or _MESSAGE)
