"""OpenAI Responses: POST /v1/responses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wane.conversation.request import Tool
from wane.core.errors import FormatError
from wane.formats.message_format import WritingFormat, order_of
from wane.formats.openai_responses import OpenAIResponsesFormat, group, is_model_made, part_of, persons_texts
from wane.formats.roles import mend_own_items
from wane.proxy import jsons
from wane.proxy.wire.blocks import Block, BlockReader, expand_message
from wane.proxy.wire.openai_shared import OpenAIWire, without_markers
from wane.proxy.wire.responses.responses_reply import (
    Item,
    ResponseRounds,
    StreamedResponse,
    WholeResponse,
    call_id_of,
    is_call,
    without_id,
    without_reasoning,
)
from wane.proxy.wire.wire import (
    AnsweredRound,
    Body,
    ClientReply,
    Equipped,
    Message,
    OwnCall,
    Round,
    SentHistory,
    ViewMessage,
    has_neighbours,
)

_STORED: Final = ("previous_response_id", "conversation")
_SEND_ALL: Final = (
    "Wane must see the whole conversation to keep it within its budget. Make the client send its whole input with "
    'every request, with "store": false and, for reasoning models, "include": ["reasoning.encrypted_content"].'
)
_FIXED: Final = ("instructions", "tools", "text")
# Tools that the provider runs.
_HOSTED: Final = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")
_ITEM_OF_TOOLS: Final = "additional_tools"


class _LoneReasoningFormat(OpenAIResponsesFormat):
    """The format of a client that shows that its server takes reasoning alone."""

    def divide(self, message: Message, *, thoughts: bool = True) -> tuple[Message, Message | None] | None:
        return super().divide(message, thoughts=thoughts)


class OpenAIResponsesWire(OpenAIWire):
    """The Responses protocol, for clients that send their whole input with every request."""

    name = "openai_responses"
    provider = "openai"
    paths = re.compile(r"/responses(?P<counts>/input_tokens)?/*\Z")
    system = ("instructions",)
    format: WritingFormat[Message] = OpenAIResponsesFormat()
    history = "input"
    groups = True

    def why_unmanaged(self, body: Body) -> str | None:
        tools = _find_tools(body)
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
        # Those in a namespace cannot conflict with others.
        tools = [tool for tool in _find_tools(body) if isinstance(tool, Mapping)]
        names = (tool.get("name") for tool in tools if tool.get("type") in ("function", "custom"))
        return frozenset(name for name in names if isinstance(name, str))

    def messages(self, body: Body) -> list[Message]:
        """Return the history in a request; consecutive items of the model are one message."""
        return group(_items(body))

    def entries(self, message: Message) -> list[Any]:
        """Return the items of a message."""
        items: list[Any] = message["items"]
        return items

    def fixed_data(self, equipped: Equipped) -> object:
        body = equipped.body
        return {key: body[key] for key in _FIXED if body.get(key)}

    def canonical(self, message: Message) -> object:
        return {"items": [_strip_marker(item) for item in message["items"]]}

    def spoken(self, message: Message) -> list[str]:
        """Return the texts of a message that are a person's: an item of several texts is one part, notices included."""
        texts: list[str] = []
        for item in message["items"]:
            texts += persons_texts(item)
        return texts

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Equipped:
        """Return a body with own tools after the client's, and guidance after its instructions.

        If the client sends its tools as the first item of the input, the own ones are added there.

        A request without instructions gets the guidance as its instructions: they come before all input and stay the
        same in every request, whatever is evicted.
        """
        item = _tools_item(body)
        if item is None or body.get("tools") is not None:
            equipped = self._with_tools(body, tools)
        else:
            equipped = {**body, "input": _with_tools_item(body["input"], self._with_tools(item, tools))}
        if guidance:
            instructions = body.get("instructions")
            equipped["instructions"] = f"{instructions}\n\n{guidance}" if instructions else guidance
        return Equipped(equipped)

    def with_messages(
        self,
        equipped: Equipped,
        view: Sequence[ViewMessage],
        history: Sequence[Message],
    ) -> Body:
        body = equipped.body
        answers = (is_model_made(item) for message in history for item in message["items"][:1])
        if isinstance(view, SentHistory) and not has_neighbours(answers, True):
            messages = [*history]
        else:
            messages = [shown.message if shown.sent else mend_own_items(shown.message) for shown in view]
            sent = group(_items(body))
            if order := order_of(sent, self.format.speaker):
                format_ = self.format
                for message in sent:
                    if {item.get("type") for item in message["items"]} == {"reasoning"}:
                        format_ = _LoneReasoningFormat()
                messages = format_.join_roles(messages, order)
        # Tools never leave a view.
        items = _with_tools_item(_ungroup_items(messages), _tools_item(body))
        same = isinstance(body.get("input"), str) and items == _items(body)
        return dict(body) if same else {**body, "input": items}

    def add_note(self, body: Body, text: str) -> Body:
        """Return a body with a note in its last item, or as a user's message of its own where turns take no order."""
        messages = group(_items(body))
        noted = self.format.with_note(messages, text, order=order_of(messages, self.format.speaker))
        if len(noted) == len(messages):
            return {**body, "input": _ungroup_items(noted)}
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        return {**body, "input": [*_items(body), item]}

    def expand(self, message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
        return expand_message(message, rounds, _ITEMS)

    def visible(self, rounds: Sequence[Round]) -> Message:
        own: set[str | None] = {call.id for round_ in rounds for call in round_.own}
        items = [item for round_ in rounds for item in round_.message["items"]]
        return {"items": [item for item in items if call_id_of(item) not in own]}

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        return tuple(
            {"items": [{"type": "function_call_output", "call_id": call.id, "output": text}]} for call, text in answers
        )

    def reply(self, body: Body, own: frozenset[str], *, sums: bool = True) -> ClientReply:
        rounds = ResponseRounds(body, own, sums=sums)
        return StreamedResponse(rounds) if body.get("stream") else WholeResponse(rounds)

    def _seal(self, entry: object) -> int | None:
        if not isinstance(entry, Mapping) or entry.get("type") != "reasoning":
            return None
        return hash((str(entry.get("id")), str(entry.get("encrypted_content"))))

    def _without(self, body: Body, seals: set[int]) -> Body:
        return {**body, "input": without_reasoning(body["input"], lambda item: self._seal(item) in seals)}


def _ungroup_items(messages: Sequence[Message]) -> list[Any]:
    """Return the items of messages; `Format.wire` would change calls of a client's own tool named `delimiter`, too."""
    return [item for message in messages for item in message["items"]]


class _Items(BlockReader):
    """Items, as hidden rounds are put back among them."""

    keeps_unseen = True

    def blocks(self, message: Message) -> list[Block]:
        items: list[Block] = message["items"]
        return items

    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        # An own call keeps its id only if the reasoning before it is present under its own id: OpenAI checks that.
        present = {item.get("id") for item in blocks if self.is_reasoning(item)}
        orphans, named = set[int](), True
        for item in message["items"]:
            if self.is_reasoning(item):
                named = item.get("id") in present
            elif not named:
                orphans.add(id(item))
        return {**message, "items": [without_id(item) if id(item) in orphans else item for item in blocks]}

    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        results = (item for round_ in rounds for result in round_.results for item in result["items"])
        return frozenset(filter(None, map(call_id_of, results)))

    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        return call_id_of(block) in own

    def is_call(self, block: Block) -> bool:
        return is_call(block)

    def is_reasoning(self, block: Block) -> bool:
        return block.get("type") == "reasoning"

    def text(self, block: Block) -> str:
        part = part_of(block) if _kind(block) == "message" else None
        return "" if part is None else part.text.strip()

    def keys(self, block: Block) -> Sequence[object]:
        kind, call_id = _kind(block), call_id_of(block)
        if call_id is not None:
            return [(kind, call_id)]
        keys: list[object] = [(kind, name, block[name]) for name in ("id", "encrypted_content") if block.get(name)]
        if kind == "reasoning" and (part := part_of(block)) is not None and part.text.strip():
            keys.append((kind, part.text.strip()))
        elif kind not in ("message", "reasoning"):
            keys.append(jsons.dumps({name: value for name, value in block.items() if name not in ("id", "status")}))
        return keys


def _kind(item: Block) -> str:
    return str(item.get("type") or "message")


_ITEMS: Final = _Items()


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


def _strip_marker(item: dict[str, Any]) -> dict[str, Any]:
    plain = without_markers(item)
    return without_markers(plain, content="output") if isinstance(plain.get("output"), list) else plain


def _is_clients(tool: object) -> bool:
    """Whether the client runs a tool."""
    return isinstance(tool, Mapping) and not str(tool.get("type")).startswith(_HOSTED)


def _find_tools(body: Body) -> list[Any]:
    """Return the tools of a request, wherever they are."""
    tools = body.get("tools")
    item = _tools_item(body)
    return [*(tools if isinstance(tools, list) else ()), *(item["tools"] if item else ())]


def _tools_item(body: Body) -> Item | None:
    """Return the first item of the input that contains tools; None if there is none."""
    items = body.get("input")
    return next(filter(_has_tools, items), None) if isinstance(items, list) else None


def _with_tools_item(items: list[Item], item: Item | None) -> list[Item]:
    """Return a view's items with an item in place of the first that contains tools."""
    if item is None:
        return items
    index = next((index for index, entry in enumerate(items) if _has_tools(entry)), None)
    return items if index is None else [*items[:index], item, *items[index + 1 :]]


def _has_tools(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == _ITEM_OF_TOOLS and isinstance(item.get("tools"), list)


def _is_reference(item: object) -> bool:
    if not isinstance(item, Mapping):
        return False
    return item.get("type") == "item_reference" or (item.get("type") is None and "role" not in item and "id" in item)
