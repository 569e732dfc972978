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

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.coupling import NAMED, PLACED, UNTIED, Tie, couple
from wane.formats.fields import check_each, compact, expect_list, objects_in, raw_text, sealed_tokens, string, type_name
from wane.formats.message_format import Located, Lone, NativeFormat, Part, speaker_of
from wane.formats.notices import CODEX_PERSON, CODEX_TASK, CODEX_UNTOLD, introduces_media, is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import RESULTS, join_texts, mend_own_items
from wane.formats.vocabulary import OUTPUTS, RESPONSES, as_data

Message = dict[str, Any]

ResponseItem: TypeAlias = dict[str, Any]

REFERENCE_TOKENS: Final = 100
"""Flat estimate, in tokens, for an item known only by its id: about the mean of recorded calls and texts."""

SEAL: Final = 867
"""Base64 characters of an empty reasoning item: 650 bytes, by Codex's own estimate."""

_CHARACTERS_PER_TOKEN: Final = 4

# Types that the client adds, other than messages and outputs.
_CLIENTS: Final = frozenset(
    {"additional_tools", "agent_message", "compaction_trigger", "configuration_update", "mcp_approval_response"}
)
_ROLES: Final = {
    "user": Kind.USER,
    "assistant": Kind.TEXT,
    "system": Kind.SYSTEM,
    "developer": Kind.SYSTEM,
}
# Fields of calls that hold what the model wrote.
_ARGUMENTS: Final = ("arguments", "input", "action", "actions", "operation", "code")
# Fields of outputs that hold the call's result.
_RESULTS: Final = ("output", "result", "tools", "status")
# Calls that OpenAI runs, with the fields of the call and of its result.
_HOSTED: Final = {
    "web_search_call": ("action",),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt",),
    "mcp_call": ("name", "arguments", "output", "error"),
}
_PLAIN_OUTPUTS: Final = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""The kinds of calls whose output is text, each with the kind of its output."""

_OUTCOME: Final = '{"stdout": "…", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}'
_DEMANDS: Final = {
    "shell_call": ("shell_call_output", "call_id", "output", f"{_OUTCOME}, or a list with one for each command"),
    "apply_patch_call": ("apply_patch_call_output", "call_id", "status", '{"status": "completed", "output": "…"}'),
    "computer_call": (
        *("computer_call_output", "call_id", "output"),
        '{"output": {"type": "computer_screenshot", "image_url": "data:…"}}, and `acknowledged_safety_checks` if any',
    ),
    "tool_search_call": ("tool_search_output", "call_id", "tools", '{"tools": […]}, the definitions to load'),
    "mcp_approval_request": (
        *("mcp_approval_response", "approval_request_id", "approve"),
        '{"approve": false, "reason": "…"}, or true or false',
    ),
}
"""Other kinds of calls: the kind of the output, the field with the call's id, the field it demands, and an example."""

_TEXTS: Final = ("text", "refusal", "logs")
_MEDIA: Final = frozenset({"input_image", "input_file", "input_audio", "image", "computer_screenshot", "output_image"})


def is_model_made(item: object) -> bool:
    """Whether an item is part of a model's answer, and not a turn, a tool's output or a setting."""
    if not isinstance(item, dict):
        return False
    kind, role = item.get("type"), item.get("role")
    if role is not None:
        return bool(role == "assistant")
    if kind is None:
        return "id" in item
    if not isinstance(kind, str) or kind in _CLIENTS:
        return False
    return not kind.endswith("_output") or _is_served_search(item)


def is_known(item: Mapping[str, Any]) -> bool:
    """Whether an object has the type of an item of this API, or is a call or an output by its type's name and id."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "message":
        return item.get("role") in _ROLES
    paired = kind.endswith(("_call", "_output")) and bool(item.get("call_id"))
    return paired or kind in _TAKERS or kind in _HOSTED or kind == "local_shell_call_output"


def part_of(item: ResponseItem) -> Part | None:
    """Return the part that an item becomes; None if it is empty.

    An item with an id is never empty: the item before it may need it.

    Raises:
        FormatError: for an item of the wrong shape.
    """
    if not isinstance(item, dict):
        raise FormatError(f"an item must be an object, found {type_name(item)}")
    kind = item.get("type")
    if kind is None:
        if "role" not in item and "id" in item:
            return _reference(item)
        kind = "message"
    if not isinstance(kind, str):
        raise FormatError(f"the type of an item must be a string, found {kind!r}")
    take = _TAKERS.get(kind)
    if take is not None:
        return take(item)
    if kind.endswith("_output"):
        return _output(item)
    if kind in _HOSTED:
        return _read_hosted(item)
    if kind.endswith("_call") and item.get("call_id"):
        return _call(item)
    return Part(Kind.TEXT if is_model_made(item) else Kind.SYSTEM, extra_tokens=NON_TEXT_TOKENS)


def _message(item: ResponseItem) -> Part | None:
    role = item.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise RESPONSES.role_error(item, _ROLES)
    text, extra = _content(item.get("content"))
    if kind is Kind.TEXT:
        return Part(kind, text, extra_tokens=extra) if text or extra or item.get("id") else None
    if is_harness_made(item):
        return Part(Kind.NOTICE, text, extra_tokens=extra, system=kind is Kind.SYSTEM)
    return Part(kind, text, extra_tokens=extra)


def is_harness_made(item: Mapping[str, Any]) -> bool:
    """Whether a message of the user, system or developer is a notice: all of its contents must be.

    Codex gives the kind of each content, and never puts its own contents into a message with a person's.
    """
    marked = _marked_contents(item)
    return bool(marked) and all(notice for _, notice in marked)


def persons_texts(item: Mapping[str, Any]) -> list[str]:
    """Return the texts of a user's message that are no notices; none for any other item."""
    if item.get("role") != "user":
        return []
    return [_content([content])[0] for content, notice in _marked_contents(item) if not notice]


def _marked_contents(item: Mapping[str, Any]) -> list[tuple[object, bool]]:
    """Return the contents of a message of the user, system or developer, each with whether it is a notice."""
    content, about = item.get("content"), item.get("internal_chat_message_metadata_passthrough")
    contents = content if isinstance(content, list) else [content]
    kinds = about.get("content_item_kinds") if isinstance(about, Mapping) else None
    if not isinstance(kinds, list) or len(kinds) != len(contents):
        kinds = [CODEX_UNTOLD] * len(contents)
    system = item.get("role") != "user"
    marked = list[tuple[object, bool]]()
    introduced = False
    for part, kind in zip(contents, kinds, strict=True):
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(kind, str) and kind != CODEX_UNTOLD:
            notice = not kind.startswith(CODEX_PERSON)
        else:
            notice = is_notice(text, system=system) if isinstance(text, str) else introduced
        introduced |= isinstance(text, str) and introduces_media(text)
        marked.append((part, notice))
    return marked


def _reasoning(item: ResponseItem) -> Part | None:
    texts = (_content(item.get(key))[0] for key in ("summary", "content"))
    text = "\n".join(filter(None, texts))
    seal = item.get("encrypted_content")
    # The model reads the reasoning itself, which is longer than its summary.
    extra = max(0, sealed_tokens(seal, SEAL) - math.ceil(len(text) / _CHARACTERS_PER_TOKEN))
    return Part(Kind.REASONING, text, extra_tokens=extra) if text or seal or item.get("id") else None


def _reference(item: ResponseItem) -> Part:
    kind = Kind.REASONING if string(item, "id").startswith("rs_") else Kind.TEXT
    return Part(kind, extra_tokens=REFERENCE_TOKENS)


def _call(item: ResponseItem) -> Part:
    kind = string(item, "type")
    tool = string(item, "name") if kind in ("function_call", "custom_tool_call") else kind.removesuffix("_call")
    written = next((item[key] for key in _ARGUMENTS if item.get(key) is not None), None)
    return Part(Kind.CALL, call_id=string(item, "call_id"), tool=tool, arguments=raw_text(written))


def _output(item: ResponseItem) -> Part:
    output = next((item[key] for key in _RESULTS if item.get(key) is not None), None)
    text, extra = _content(output, "\n")
    # By OpenAI's types the output of a local shell has the id of its call as `id`, by its examples as `call_id`.
    call_id = item.get("call_id") or (item.get("id") if item["type"] == "local_shell_call_output" else None)
    if not call_id:
        # Its call is not known, so they could not leave together.
        return Part(Kind.SYSTEM, text, extra_tokens=extra)
    return Part(Kind.RESULT, text, call_id=string({"call_id": call_id}, "call_id"), extra_tokens=extra)


def _search(item: ResponseItem) -> Part:
    """A tool search. One that OpenAI ran has no id to pair it by, and it shows tools to the model."""
    if _is_served_search(item):
        return Part(Kind.SYSTEM, raw_text(item.get("arguments", item.get("tools"))))
    if item["type"] == "tool_search_call":
        return _call(item)
    return replace(_output(item), loads=tuple(_names_in(item.get("tools"))))


def _names_in(tools: object) -> Iterator[str]:
    """Yield the names of the tools that a search loaded, with those of a namespace."""
    for tool in objects_in(tools):
        if isinstance(name := tool.get("name"), str):
            yield name
        yield from _names_in(tool.get("tools"))


def _is_served_search(item: ResponseItem) -> bool:
    kind = item.get("type")
    return kind in ("tool_search_call", "tool_search_output") and not item.get("call_id")


def _approval(item: ResponseItem) -> Part:
    arguments = raw_text(item.get("arguments"))
    return Part(Kind.CALL, call_id=string(item, "id"), tool=string(item, "name"), arguments=arguments)


def _read_approval(item: ResponseItem) -> Part:
    text = compact({key: item[key] for key in ("approve", "reason") if item.get(key) is not None})
    # Its reason is a person's (R21).
    return Part(Kind.RESULT, text, call_id=string(item, "approval_request_id"), person=bool(item.get("reason")))


def _read_hosted(item: ResponseItem) -> Part:
    texts, extra = [], NON_TEXT_TOKENS if item.get("result") else 0
    for key in _HOSTED[item["type"]]:
        value = item.get(key)
        text, tokens = _content(value) if key in ("results", "outputs") else (raw_text(value), 0)
        texts.append(text)
        extra += tokens
    return Part(Kind.TEXT, "\n".join(filter(None, texts)), extra_tokens=extra)


def _setting(item: ResponseItem) -> Part:
    """A compaction, tools, or a setting, each with its own field."""
    return Part(Kind.SYSTEM, raw_text(item.get("tools")), extra_tokens=sealed_tokens(item.get("encrypted_content"), 0))


def _agent(item: ResponseItem) -> Part:
    """A message from one agent to another: a task, or news."""
    text, extra = _content(item.get("content"))
    return Part(Kind.USER if text.startswith(CODEX_TASK) else Kind.NOTICE, text, extra_tokens=extra)


_TAKERS: Final[Mapping[str, Callable[[ResponseItem], Part | None]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "program": _call,
    "item_reference": _reference,
    "tool_search_call": _search,
    "tool_search_output": _search,
    "mcp_approval_request": _approval,
    "mcp_approval_response": _read_approval,
    "mcp_list_tools": _setting,
    "additional_tools": _setting,
    "agent_message": _agent,
    "compaction": _setting,
    "compaction_summary": _setting,
    "context_compaction": _setting,
    "compaction_trigger": _setting,
    "configuration_update": _setting,
}


def _content(content: object, separator: str = "") -> tuple[str, int]:
    """The text of a content, and an estimate for the rest of it; parts of unknown kinds count as their JSON.

    The parts of a result are outputs of their own, such as one for each file, so that a `separator` must keep their
    last and first words apart.
    """
    if content is None:
        return "", 0
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        content = [content]
    texts, extra = [], 0
    for part in content:
        text, tokens = _piece(part)
        texts.append(text)
        extra += tokens
    return separator.join(filter(None, texts)), extra


def _piece(part: object) -> tuple[str, int]:
    if isinstance(part, str):
        return part, 0
    if not isinstance(part, dict):
        raise FormatError(f"a part of a content must be an object or a string, found {type_name(part)}")
    for key in _TEXTS:
        if isinstance(part.get(key), str):
            return part[key], 0
    kind = part.get("type")
    return ("", NON_TEXT_TOKENS) if isinstance(kind, str) and kind in _MEDIA else (compact(part), 0)


class OpenAIResponsesFormat(NativeFormat[Message]):
    """Input items of OpenAI's Responses API, grouped into messages."""

    name = "openai_responses"
    results_first = False
    lone_reasoning = Lone.EITHER
    notes_behind_results = True

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
        return [item for message in messages for item in message["items"]]

    def locate_parts(self, message: Message) -> list[Located[int]]:
        """Return the parts of a message, each with the position of its item in `items`.

        Raises:
            FormatError: if it is not a message, or holds an item of the wrong shape.
        """
        if not _is_message(message):
            raise FormatError(f"a message must be an object with a list of items, found {type_name(message)}")
        items: list[Any] = message["items"]
        located = [(location, part) for location, item in enumerate(items) if (part := part_of(item)) is not None]
        ties: list[Tie] = []
        for position, (location, part) in enumerate(located):
            following = located[position + 1][0] if position + 1 < len(located) else None
            ties.append(_tie(items, location, part, following))
        return couple(located, ties)

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        items, located = message["items"], self.locate_parts(message)
        return {**message, "items": [items[located[position][0]] for position in positions]}

    def read(self, data: Sequence[Any]) -> Sequence[Message]:
        """Return the messages of a flat list of items; a list that begins and ends with messages stays as it is.

        A whole answer stands for its items. It, and each item, may be an object of OpenAI's SDK.
        """
        return data if not data or (_is_message(data[0]) and _is_message(data[-1])) else group(_items_in(data))

    def check(self, message: Message, *, adds_fields: bool = False) -> None:
        for item in message["items"]:
            kind = item.get("type")
            if kind == "message" or (kind is None and "role" in item):
                RESPONSES.check(item, adds_fields=adds_fields)
            elif kind is None and item.keys() != {"id"}:
                raise RESPONSES.role_error(item, RESPONSES.fields)
            elif kind is not None and not (adds_fields and is_known(item)):
                RESPONSES.check_block(item, RESPONSES.items, "an item", adds_fields)
                if kind in ("function_call_output", "custom_tool_call_output"):
                    RESPONSES.check_contents(item.get("output"), OUTPUTS, "a content of an output", adds_fields)

    def sendable(self, message: Message) -> Message:
        """Return a message in which own calls whose arguments are no object have an empty one."""
        return mend_own_items(message)

    def arrange(self, messages: Sequence[Message]) -> list[Any]:
        """Return the items of a request."""
        return self.dump(messages)

    def speaker(self, message: Message) -> str | None:
        first = message["items"][0] if message["items"] else {}
        if is_model_made(first):
            # What must stay together does not matter here, and takes most of the time to find.
            parts = [part for item in message["items"] if (part := part_of(item)) is not None]
            return speaker_of(parts, lone=Lone.ANSWER) if parts else "assistant"
        if str(first.get("type")).endswith("_output"):
            return RESULTS
        return "user" if first.get("role") == "user" else None

    def merge(self, first: Message, second: Message) -> Message:
        """Return two turns as one message: a user's as one item, but answers keep their items, whose ids OpenAI knows.

        What else serves this API makes one message of a model's neighbouring items.
        """
        *before, last = first["items"]
        following, *behind = second["items"]
        if last.get("role") != "user" or following.get("role") != "user":
            return {**first, "items": [*first["items"], *second["items"]]}
        content = [*_as_contents(last.get("content")), *_as_contents(following.get("content"))]
        return {**first, "items": [*before, {**following, **last, "content": content}, *behind]}

    def may_divide(self, message: Message, words: Sequence[Part]) -> bool:  # noqa: ARG002 - the text has its place, too
        """Return whether what an answer says may stand apart from its calls: not where OpenAI sealed its reasoning."""
        return not any(item.get("encrypted_content") for item in message["items"])

    def note_result(self, message: Message, text: str) -> Message | None:
        """Return a message with a note behind the output of its last call, if that may be text."""
        *before, last = message["items"]
        if last.get("type") not in _PLAIN_OUTPUTS.values():
            return None
        output = last.get("output")
        if isinstance(output, str):
            noted: Any = join_texts(output, text)
        else:
            noted = [*_as_contents(output), {"type": "input_text", "text": text}]
        return {**message, "items": [*before, {**last, "output": noted}]}

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
        return {"items": [{"role": "user", "content": text}]}

    def awaits(self, message: Message, position: int) -> bool:
        """Whether the application answers a call: OpenAI itself runs a `program`."""
        return bool(message["items"][self.locate_parts(message)[position][0]]["type"] != "program")

    def read_contents(self, output: object) -> list[Any] | None:
        return RESPONSES.read_contents(output)

    def result(self, message: Message, position: int, output: str | list[Any]) -> Message:
        """Return the item that answers a call, as its kind demands.

        Args:
            message: the answer with the call.
            position: which of its parts is the call.
            output: the output. For a kind whose output is no text, the JSON of its fields, or of the one that it
                demands.

        Raises:
            FormatError: for an output that does not have the field that its kind demands; it names kind and field.
        """
        location, part = self.locate_parts(message)[position]
        kind = message["items"][location]["type"]
        if kind in _PLAIN_OUTPUTS:
            return {"items": [{"type": _PLAIN_OUTPUTS[kind], "call_id": part.call_id, "output": output}]}
        text = output if isinstance(output, str) else compact(output)
        if kind == "local_shell_call":
            # By OpenAI's types it has no `call_id`.
            return {"items": [{"type": "local_shell_call_output", "id": part.call_id, "output": text}]}
        if kind not in _DEMANDS:
            raise FormatError(f"how a {kind!r} is answered is not known; append the item that answers it yourself")
        answering, id_key, demanded, example = _DEMANDS[kind]
        fields = _fields_of(text, demanded)
        if fields is None:
            raise FormatError(
                f"the output of a {kind!r} is an item {answering!r} with the field {demanded!r}, so text alone does not"
                f" do: give {example}"
            )
        return {"items": [{"type": answering, id_key: part.call_id, **fields}]}

    def clear_result(self, message: Message, position: int, text: str) -> Message:
        """Return a message with one output replaced by a text.

        Outputs that cannot be text stay: a screenshot, loaded tools, an approval.
        """
        location = self.locate_parts(message)[position][0]
        items, item = list(message["items"]), message["items"][location]
        kind = item.get("type")
        if kind in ("computer_call_output", "tool_search_output", "mcp_approval_response"):
            return message
        if kind == "shell_call_output":
            contents = objects_in(item.get("output")) or [{"outcome": {"type": "exit", "exit_code": 0}}]
            outcome = contents[-1].get("outcome")
            items[location] = {**item, "output": [{"stdout": text, "stderr": "", "outcome": outcome}]}
            return {**message, "items": items}
        key = next((key for key in _RESULTS if key in item and key != "status"), "output")
        items[location] = {**item, key: text}
        return {**message, "items": items}


def _as_contents(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}] if content else []
    return list(content or ())


def _fields_of(text: str, demanded: str) -> dict[str, Any] | None:
    """The fields of an item that answers a call, from the JSON of an output; None if the demanded one is missing."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and demanded in value:
        return value
    if demanded == "approve":
        return {demanded: value} if isinstance(value, bool) else None
    if demanded == "output" and isinstance(value, dict):
        # One screenshot, or one command's output.
        if value.get("type") == "computer_screenshot":
            return {demanded: value}
        return {demanded: [value]} if "outcome" in value else None
    return {demanded: value} if isinstance(value, list) and demanded in ("output", "tools") else None


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


def _tie(items: Sequence[ResponseItem], location: int, part: Part, following: int | None) -> Tie:
    """What ties an item to others of its message (R12).

    OpenAI refuses sealed reasoning without the item that follows it, and if both have ids, that item without its
    reasoning. A call made by a program and the program need each other.

    Args:
        items: the message's items.
        location: that of the item.
        part: what it is.
        following: location of the next item that is a part; None if there is none.
    """
    item = items[location]
    if part.kind is Kind.REASONING:
        if item.get("id") and following is not None and items[following].get("id"):
            return NAMED
        return PLACED if item.get("id") or item.get("encrypted_content") else UNTIED
    if part.kind is Kind.CALL:
        program = part.call_id if item.get("type") == "program" else None
        return Tie(bonds=tuple(filter(None, (program, _caller(item)))))
    return UNTIED


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
