"""Input items of OpenAI's Responses API, as plain dicts.

A request has one flat list of items and does not say which of them came from one answer. A message here is
`{"items": [...]}`: a run of items that the model made, which is one assistant message, or one item of any other kind.
`load` groups a flat list into messages; `dump` returns the flat list.

What each item becomes:

| item | item of Wane |
|---|---|
| `message` of the assistant | text |
| `message` of the user, an `agent_message` that sets a task | user |
| `message` of user, system or developer whose contents are all notices, any other `agent_message` | notice |
| other `message` of system or developer, `additional_tools`, `configuration_update`, `compaction_trigger` | system |
| `reasoning` | reasoning |
| `function_call`, `custom_tool_call`, others with a `call_id` (shell, patch, computer, `program`, …) | call |
| their outputs | result |
| `mcp_approval_request`, `mcp_approval_response` | call and result |
| `web_search_call`, `mcp_call` and others that hold their own result | text: they go with their episode |
| `compaction`, `mcp_list_tools`, a tool search that OpenAI ran and its result | system |
| `item_reference` | reasoning or text by its id, with a flat estimate |
| anything else that the model made | text, with a flat estimate |

System items are never evicted (R13): a compaction stands for all that came before it, and the model needs the
descriptions of its tools. The `instructions` of a request are not an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.base import Couplings, Located, NativeFormat
from wane.formats.response_items import ResponseItem, is_known, is_model_made, part_of
from wane.formats.values import check_each, expect_list, type_name
from wane.formats.vocabulary import OUTPUTS, RESPONSES, as_data

Message = dict[str, Any]

_OUTPUT: Final = "function_call_output"
# Fields of outputs that hold the call's result.
_RESULTS: Final = ("output", "result", "tools")


class OpenAIResponsesFormat(NativeFormat[Message]):
    """Input items of OpenAI's Responses API, grouped into messages."""

    name = "openai_responses"
    results_first = False

    def load(self, data: object) -> list[Message]:
        """Return the messages of a flat list of items, of a request body's `input`, or of a list of messages.

        An `input` that is a string is one message of the user. Messages are taken as they are, not grouped again.

        Raises:
            FormatError: if a message is not in this format; it names the first such message.
        """
        entries = expect_list(_entries_in(data), "Responses items")
        messages = entries if entries and all(map(_is_message, entries)) else group(entries)
        check_each(messages, self.parts)
        return messages

    def dump(self, messages: Sequence[Message]) -> list[Any]:
        """Return the flat list of the messages' items."""
        return [item for message in messages for item in message["items"]]

    def located(self, message: Message) -> list[Located[int]]:
        """Return the parts of a message, each with the position of its item in `items`.

        Raises:
            FormatError: if it is not a message, or holds an item of the wrong shape.
        """
        if not _is_message(message):
            raise FormatError(f"a message must be an object with a list of items, found {type_name(message)}")
        items: list[Any] = message["items"]
        located = [(location, part) for location, item in enumerate(items) if (part := part_of(item)) is not None]
        return _couple(items, located) if len(located) > 1 else located

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        """Return the message with only some of its items, which are the same objects."""
        items, located = message["items"], self.located(message)
        return {**message, "items": [items[located[position][0]] for position in positions]}

    def read(self, data: Sequence[Any]) -> Sequence[Message]:
        """Return the messages of a flat list of items; a list that begins and ends with messages stays as it is.

        A whole answer stands for its items. It, and each item, may be an object of OpenAI's SDK.
        """
        return data if not data or (_is_message(data[0]) and _is_message(data[-1])) else group(_items_in(data))

    def check(self, message: Message, *, adds_fields: bool = False) -> None:
        """Check that nothing in a message is unknown; see `wane.formats.base.check_message`."""
        for item in message["items"]:
            kind = item.get("type")
            if kind == "message" or "role" in item:
                RESPONSES.check(item, adds_fields=adds_fields)
            elif kind is None and item.keys() != {"id"}:
                raise RESPONSES.role_error(item, RESPONSES.fields)
            elif kind is not None and not (adds_fields and is_known(item)):
                RESPONSES.check_block(item, RESPONSES.items, "an item", adds_fields)
                if kind in ("function_call_output", "custom_tool_call_output"):
                    RESPONSES.check_contents(item.get("output"), OUTPUTS, "a content of an output", adds_fields)

    def wire(self, messages: Sequence[Message]) -> list[Any]:
        """Return the flat list of the messages' items, which is the `input` of a request."""
        return self.dump(messages)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the definition of a function tool; it is not strict, so its schema may have optional fields."""
        return {
            "type": "function",
            "name": name,
            "description": description,
            "parameters": dict(schema),
            "strict": False,
        }

    def turn(self, text: str) -> Message:
        """Return a message of the user."""
        return {"items": [{"role": "user", "content": text}]}

    def awaits(self, message: Message, position: int) -> bool:
        """Whether the application answers a call: OpenAI itself runs a `program`."""
        return bool(message["items"][self.located(message)[position][0]]["type"] != "program")

    def result(self, message: Message, position: int, text: str) -> Message:
        """Return the output that answers a call."""
        location, part = self.located(message)[position]
        kind = "custom_tool_call_output" if message["items"][location]["type"] == "custom_tool_call" else _OUTPUT
        return {"items": [{"type": kind, "call_id": part.call_id, "output": text}]}

    def cleared(self, message: Message, position: int, text: str) -> Message:
        """Return a message of one output with its content replaced by a text."""
        location = self.located(message)[position][0]
        items = list(message["items"])
        key = next((key for key in _RESULTS if key in items[location]), "output")
        items[location] = {**items[location], key: text}
        return {**message, "items": items}


def group(items: Iterable[Any]) -> list[Message]:
    """Return the messages of a flat list of items, without checking them.

    Args:
        items: the input of a request. Neighbouring items that a model made become one message.
    """
    messages: list[Message] = []
    run: list[Any] | None = None
    for item in items:
        if not is_model_made(item):
            run = None
            messages.append({"items": [item]})
        elif run is None:
            run = [item]
            messages.append({"items": run})
        else:
            run.append(item)
    return messages


def _items_in(data: Iterable[Any]) -> Iterator[Any]:
    for entry in map(as_data, data):
        if isinstance(entry, dict) and isinstance(entry.get("output"), list) and "type" not in entry:
            yield from map(as_data, entry["output"])
        else:
            yield entry


def _couple(items: Sequence[ResponseItem], located: list[Located[int]]) -> list[Located[int]]:
    """Add what must stay together (R12).

    - OpenAI refuses sealed reasoning without the item that follows it.
    - If both have ids, OpenAI refuses that item without its reasoning. It may also refuse later calls that came from
      the same reasoning.
    - A call made by a program and the program need each other.
    """
    couplings = Couplings()
    reasoning: int | None = None
    named = False  # whether that reasoning has an id
    programs: dict[str | None, int] = {}
    for position, (location, part) in enumerate(located):
        item = items[location]
        if reasoning is not None and (position == reasoning + 1 or part.kind is Kind.CALL) and named and item.get("id"):
            couplings.add(position, reasoning)
        if part.kind is Kind.REASONING:
            reasoning = position if _is_sealed(item) else None
            named = bool(item.get("id"))
            if reasoning is not None and position + 1 < len(located):
                couplings.add(position, position + 1)
        elif part.kind is Kind.CALL:
            if (caller := _caller(item)) in programs:
                couplings.mutual(position, programs[caller])
            if item.get("type") == "program":
                programs[part.call_id] = position
    return couplings.applied(located)


def _is_sealed(item: ResponseItem) -> bool:
    """Whether OpenAI recognises a reasoning item; reasoning of other servers is plain text and may go."""
    return bool(item.get("id") or item.get("encrypted_content"))


def _caller(item: ResponseItem) -> str:
    """The id of the program that made a call; empty if the model made it."""
    caller = item.get("caller")
    called_by = caller.get("caller_id") if isinstance(caller, Mapping) else None
    return called_by if isinstance(called_by, str) else ""


def _is_message(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("items"), list)


def _entries_in(data: object) -> object:
    # A custom tool's call has an input too, but it is an item and has a type.
    if not isinstance(data, dict) or "input" not in data or "type" in data:
        return data
    entries = data["input"]
    return [{"role": "user", "content": entries}] if isinstance(entries, str) else entries
