"""OpenAI Responses: POST /v1/responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any, Final

from wane.conversation.tools import Tool
from wane.core.errors import FormatError
from wane.formats.openai_responses import OpenAIResponsesFormat, group
from wane.formats.writing import WritingFormat
from wane.proxy.wire.base import Body, Correction, Message, OwnCall, Reply, Round, WovenRound
from wane.proxy.wire.openai.errors import is_about_reasoning
from wane.proxy.wire.openai.texts import without_markers
from wane.proxy.wire.openai.wire import OpenAIWire
from wane.proxy.wire.responses.brought import offered, tools_item, with_tools, with_tools_item
from wane.proxy.wire.responses.items import call_id_of, seal_of, without_reasoning
from wane.proxy.wire.responses.reply import StreamedResponse, WholeResponse
from wane.proxy.wire.responses.weave import weave
from wane.proxy.wire.usage import Tally, summed

_STORED: Final = ("previous_response_id", "conversation")
_SEND_ALL: Final = (
    "Wane must see the whole conversation to keep it within its budget. Make the client send its whole input with "
    'every request, with "store": false and, for reasoning models, "include": ["reasoning.encrypted_content"].'
)
_FIXED: Final = ("instructions", "tools", "text")
# Tools that the provider runs.
_HOSTED: Final = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")


class OpenAIResponsesWire(OpenAIWire):
    """The Responses protocol, for clients that send their whole input with every request."""

    name = "openai_responses"

    def __init__(self) -> None:
        self.format: WritingFormat[Message] = OpenAIResponsesFormat()

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
        return frozenset(_names(offered(body)))

    def messages(self, body: Body) -> list[Message]:
        """Return the history in a request; consecutive items of the model are one message.

        Raises:
            FormatError: if the input is not a list of items.
        """
        return group(_items(body))

    def fixed(self, body: Body) -> object:
        """Return what every request carries besides its items, as JSON data."""
        return {key: body[key] for key in _FIXED if body.get(key)}

    def canonical(self, message: Message) -> object:
        """Return a message without cache markers."""
        items = message["items"]
        plain = [_unmarked(item) for item in items]
        return message if all(map(is_, plain, items)) else {"items": plain}

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Body:
        """Return a body with own tools after the client's, and guidance after its instructions.

        If the client sends its tools as the first item of the input, the own ones are added there.

        A request without instructions gets the guidance as its instructions: they come before all input and stay the
        same in every request, whatever is evicted.
        """
        equipped = dict(body)
        definitions = [self.format.tool(it.name, it.description, it.schema) for it in tools]
        if tools and body.get("tools") is None and tools_item(body) is not None:
            equipped["input"] = with_tools(body["input"], definitions)
        elif tools:
            equipped["tools"] = [*(body.get("tools") or ()), *definitions]
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
        """Return the provider's messages that a client's message stands for."""
        return weave(message, rounds)

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

    def correction(
        self,
        status: int,
        error: bytes,
        body: Body,
        sent: Body,  # noqa: ARG002 - the refused body is enough
    ) -> Correction | None:
        """Return the correction that leaves out refused reasoning; later reasoning is valid."""
        items = body.get("input")
        if not is_about_reasoning(status, error) or not isinstance(items, list):
            return None
        seals = frozenset(seal for item in items if (seal := seal_of(item)) is not None)
        return partial(_omitting, seals) if seals else None

    def reply(self, body: Body, own: frozenset[str], tally: Tally = summed) -> Reply:
        """Return the object that makes the client's reply."""
        return StreamedResponse(body, own, tally) if body.get("stream") else WholeResponse(body, own, tally)


def _omitting(seals: frozenset[int], body: Body, sent: Body) -> Body:  # noqa: ARG001 - the signature of corrections
    items = body["input"] if isinstance(body["input"], list) else []
    kept = without_reasoning(items, seals)
    return {**body, "input": kept} if len(kept) < len(items) else body


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


def _names(tools: Iterable[Any]) -> Iterable[str]:
    """Yield the names of tools; those in a namespace cannot conflict with others."""
    for tool in tools:
        if isinstance(tool, Mapping) and tool.get("type") in ("function", "custom"):
            name = tool.get("name")
            if isinstance(name, str):
                yield name


def _is_reference(item: object) -> bool:
    if not isinstance(item, Mapping):
        return False
    return item.get("type") == "item_reference" or (item.get("type") is None and "role" not in item and "id" in item)
