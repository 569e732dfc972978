"""OpenAI Responses: POST /v1/responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from wane.conversation.request import Tool
from wane.core.errors import FormatError
from wane.formats.openai_responses import OpenAIResponsesFormat, group
from wane.formats.response_items import part_of
from wane.formats.writing import WritingFormat
from wane.proxy.wire.base import Body, Message, OwnCall, Reply, Round, Tally, WovenRound, summed
from wane.proxy.wire.openai import OpenAIWire, without_markers
from wane.proxy.wire.responses.messages import (
    Item,
    call_id_of,
    offered,
    seal_of,
    tools_item,
    with_tools_item,
    without_id,
    without_reasoning,
)
from wane.proxy.wire.responses.reply import ResponseRounds, StreamedResponse, WholeResponse

_STORED: Final = ("previous_response_id", "conversation")
_SEND_ALL: Final = (
    "Wane must see the whole conversation to keep it within its budget. Make the client send its whole input with "
    'every request, with "store": false and, for reasoning models, "include": ["reasoning.encrypted_content"].'
)
_FIXED: Final = ("instructions", "tools", "text")
# Tools that the provider runs.
_HOSTED: Final = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")

_MESSAGE: Final = "message"


class OpenAIResponsesWire(OpenAIWire):
    """The Responses protocol, for clients that send their whole input with every request."""

    name = "openai_responses"
    format: WritingFormat[Message] = OpenAIResponsesFormat()
    _history = "input"

    def unmanaged(self, body: Body) -> str | None:
        """Return why a request cannot or need not be managed; None if it can be."""
        tools = offered(body)
        if not any(map(_is_clients, tools)):
            return "it has no tools that the client runs"
        if not all(isinstance(tool, dict) for tool in tools):
            return "its tools are malformed"
        if body.get("prompt"):
            return "it uses a prompt template that the provider keeps"
        if body.get("background"):
            return "it runs in the background"
        if not isinstance(body.get("instructions"), str | None):
            return "its instructions are malformed"
        if self.refusal(body) is None and not (isinstance(body.get("input"), str | list) and body["input"]):
            return "it has no input"
        return None

    def refusal(self, body: Body) -> str | None:
        """Return why a request must be refused: the provider stores its history, so it cannot be managed."""
        for key in _STORED:
            if body.get(key):
                return f"{key!r} makes the provider keep the history. {_SEND_ALL}"
        items = body.get("input")
        if isinstance(items, list) and any(map(_is_reference, items)):
            return f"an 'item_reference' refers to items that the provider keeps. {_SEND_ALL}"
        return None

    def tools(self, body: Body) -> frozenset[str]:
        """Return the names of the client's own tools."""
        # Those in a namespace cannot conflict with others.
        tools = [tool for tool in offered(body) if isinstance(tool, Mapping)]
        names = (tool.get("name") for tool in tools if tool.get("type") in ("function", "custom"))
        return frozenset(name for name in names if isinstance(name, str))

    def messages(self, body: Body) -> list[Message]:
        """Return the history in a request; consecutive items of the model are one message."""
        return group(_items(body))

    def fixed(self, body: Body) -> object:
        """Return what every request carries besides its items, as JSON data."""
        return {key: body[key] for key in _FIXED if body.get(key)}

    def canonical(self, message: Message) -> object:
        """Return a message without cache markers."""
        return {"items": [_unmarked(item) for item in message["items"]]}

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Body:
        """Return a body with own tools after the client's, and guidance after its instructions.

        If the client sends its tools as the first item of the input, the own ones are added there.

        A request without instructions gets the guidance as its instructions: they come before all input and stay the
        same in every request, whatever is evicted.
        """
        item = tools_item(body)
        if item is None or body.get("tools") is not None:
            equipped = self._with_tools(body, tools)
        else:
            equipped = {**body, "input": with_tools_item(body["input"], self._with_tools(item, tools))}
        if guidance:
            instructions = body.get("instructions")
            equipped["instructions"] = f"{instructions}\n\n{guidance}" if instructions else guidance
        return equipped

    def place(self, body: Body, messages: Sequence[Message]) -> Body:
        """Return a body with the items of these messages in place of its own."""
        # Tools never leave a view.
        items = with_tools_item(self.format.dump(messages), tools_item(body))
        same = isinstance(body.get("input"), str) and items == _items(body)
        return dict(body) if same else {**body, "input": items}

    def noted(self, body: Body, text: str) -> Body:
        """Return a body with a note as the last item of its input."""
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        return {**body, "input": [*_items(body), item]}

    def weave(self, message: Message, rounds: Sequence[WovenRound]) -> list[Message]:
        """Return the provider's messages that a client's assistant message stands for; see `Wire.weave`.

        Clients send items with or without their ids and states, drop reasoning, trim texts and rewrite arguments. So
        items are recognised one by one: by the call's id, by their own id, by their encrypted content, or by their
        text.
        """
        if not rounds:
            return [message]
        own = [{call_id_of(item) for result in woven.results for item in result["items"]} - {None} for woven in rounds]
        slots = [
            _Slot(number, place, item)
            for number, woven in enumerate(rounds)
            for place, item in enumerate(woven.message["items"])
            if call_id_of(item) not in own[number]
        ]
        sent = _placed(message["items"], slots, len(rounds) - 1)
        history: list[Message] = []
        for number, woven in enumerate(rounds):
            theirs = sent[number]
            items = _made(woven.message["items"], theirs, own[number]) if theirs else woven.message["items"]
            # The provider would refuse reasoning alone, whose own call was cut off.
            if theirs or any(_kind(item) != "reasoning" for item in items):
                history += [{**woven.message, "items": items}, *woven.results]
        return history or [message]

    def visible(self, rounds: Sequence[Round]) -> Message:
        """Return the client's message for a reply of these rounds."""
        own: set[str | None] = {call.id for each in rounds for call in each.own}
        items = [item for each in rounds for item in each.message["items"]]
        return {"items": [item for item in items if call_id_of(item) not in own]}

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return the messages that answer own calls, one each."""
        return tuple(
            {"items": [{"type": "function_call_output", "call_id": call.id, "output": text}]} for call, text in answers
        )

    def reply(self, body: Body, own: frozenset[str], tally: Tally = summed) -> Reply:
        """Return the object that makes the client's reply."""
        rounds = ResponseRounds(body, own, tally)
        return StreamedResponse(rounds) if body.get("stream") else WholeResponse(rounds)

    def _seal(self, entry: object) -> int | None:
        return seal_of(entry)

    def _without(self, body: Body, seals: set[int]) -> Body:
        return {**body, "input": without_reasoning(body["input"], lambda item: seal_of(item) in seals)}


def _items(body: Body) -> list[dict[str, Any]]:
    items = body.get("input")
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise FormatError(f"input must be a string or a list of items, found {type(items).__name__}")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise FormatError(f"item {number} must be an object, found {type(item).__name__}")
    return items


def _unmarked(item: dict[str, Any]) -> dict[str, Any]:
    plain = without_markers(item)
    return without_markers(plain, content="output") if isinstance(plain.get("output"), list) else plain


def _is_clients(tool: object) -> bool:
    """Whether the client runs a tool."""
    return isinstance(tool, Mapping) and not str(tool.get("type")).startswith(_HOSTED)


def _is_reference(item: object) -> bool:
    if not isinstance(item, Mapping):
        return False
    return item.get("type") == "item_reference" or (item.get("type") is None and "role" not in item and "id" in item)


class _Slot(NamedTuple):
    """An item that the client has seen: its round, and its place among the round's items."""

    round: int
    place: int
    item: Item


def _placed(items: Sequence[Item], slots: Sequence[_Slot], last: int) -> list[dict[int, list[Item]]]:
    """Return the client's items by round and place; unknown items go with the next known one.

    Args:
        items: the client's items.
        slots: the items that it has seen.
        last: the last round, which gets unknown items at the end, at place -1.
    """
    sent: list[dict[int, list[Item]]] = [{} for _ in range(last + 1)]
    waiting: list[Item] = []
    start = 0
    for item in items:
        found = next((n for n in range(start, len(slots)) if _same(item, slots[n].item)), None)
        if found is None:
            waiting.append(item)
            continue
        ahead = _settle(waiting, slots[start:found], sent)
        sent[slots[found].round][slots[found].place] = [*ahead, item]
        waiting, start = [], found + 1
    if ahead := _settle(waiting, slots[start:], sent):
        sent[last][-1] = ahead
    return sent


def _settle(items: Sequence[Item], slots: Sequence[_Slot], sent: list[dict[int, list[Item]]]) -> list[Item]:
    """Put edited items in the places of their originals, and return the items that are left.

    Between two known items, items of one kind match the originals of that kind if there are as many.
    """
    others: list[Item] = []
    for kind in dict.fromkeys(map(_kind, items)):
        mine = [item for item in items if _kind(item) == kind]
        free = [slot for slot in slots if _kind(slot.item) == kind]
        if len(mine) != len(free) or kind not in (_MESSAGE, "reasoning"):
            others += mine
            continue
        for item, slot in zip(mine, free, strict=True):
            sent[slot.round][slot.place] = [item]
    return [item for item in items if any(item is other for other in others)]


def _made(recorded: Sequence[Item], theirs: dict[int, list[Item]], own: set[Any]) -> list[Item]:
    """Return a round's items as the client has kept them.

    An own call keeps its id only if the reasoning before it is present under its own id, because OpenAI checks that.
    """
    items: list[Item] = []
    reasoning: str | None = None
    named = True
    for place, item in enumerate(recorded):
        is_reasoning = _kind(item) == "reasoning"
        if is_reasoning:
            reasoning, named = item.get("id"), False
        if place in theirs:
            items += theirs[place]
            named = named or (is_reasoning and theirs[place][-1].get("id") == reasoning)
        elif call_id_of(item) in own:
            items.append(item if named else without_id(item))
    return [*items, *theirs.get(-1, ())]


def _same(item: Item, shown: Item) -> bool:
    """Whether a client's item is one that it has seen, apart from some edits."""
    kind = _kind(item)
    if kind != _kind(shown):
        return False
    if shown.get("call_id") is not None:
        return bool(item.get("call_id") == shown["call_id"])
    if item.get("id") and shown.get("id"):
        return bool(item["id"] == shown["id"])
    if item.get("encrypted_content") and shown.get("encrypted_content"):
        return bool(item["encrypted_content"] == shown["encrypted_content"])
    part, other = part_of(item), part_of(shown)
    return part is not None and other is not None and part.text.strip() == other.text.strip() != ""


def _kind(item: Item) -> str:
    return str(item.get("type") or _MESSAGE)
