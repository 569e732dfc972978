"""OpenAI Responses: POST /v1/responses, and /v1/responses/input_tokens.

First the protocol with its answers, then the items of an input and which of them belong together, then the tools: on
the top level, in namespaces, and in input items that add more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wane.core.items import Kind
from wane.formats.vocabulary import RESPONSES
from wane.testing.openai.openai_errors import (
    SHARED,
    OpenAI,
    check_contents,
    invalid_value,
    kind_of,
    missing,
    require,
    unknown_parameter,
)
from wane.testing.preserved import Prefix
from wane.testing.sent_request import Message, Part, Request, compact, count_chars
from wane.testing.served_calls import write_item
from wane.testing.wire import (
    CREATED,
    Refused,
    ScriptedEvent,
    canonical,
    check_fields,
    content_parts,
    content_text,
    pieces,
    token_of,
)

if TYPE_CHECKING:
    from wane.testing.script import Call, Reply, Usage

_OUTPUT_OF: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
}
_CALL_OF: Final = {output: call for call, output in _OUTPUT_OF.items()}

_SERVED: Final = {
    "web_search_call": "action",
    "file_search_call": "queries",
    "code_interpreter_call": "code",
    "image_generation_call": "result",
    "mcp_call": "output",
    "mcp_list_tools": "tools",
}
"""Items of tools that the provider runs, call and result in one, each with the field that the model reads."""

_STEMS: Final = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "tool_search_call": "tsc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
}
"""Prefixes of the ids of items that may follow reasoning, by type."""

_FOLLOWER: Final = re.compile(rf"(?:{'|'.join(_STEMS.values())})_(r[0-9a-f]+)_0")

_EVERY: Final = frozenset({"type", "id", "status", "internal_chat_message_metadata_passthrough"})
_FIELDS: Final = {
    "message": _EVERY | {"role", "content", "phase"},
    "function_call": _EVERY | {"call_id", "name", "arguments", "namespace", "caller", "async"},
    "function_call_output": _EVERY | {"call_id", "output", "caller", "name", "namespace"},
    "reasoning": _EVERY | {"summary", "content", "encrypted_content"},
}
"""The fields of items, by type; those of other types are not checked."""


class OpenAIResponses(OpenAI):
    """The Responses protocol without state on the server: every request carries its whole input."""

    api = "openai-responses"
    serves = ("web_search", "code_execution", "file_search")
    holds = "input"
    fields = SHARED | {
        *("input", "instructions", "previous_response_id", "conversation", "prompt", "include", "max_output_tokens"),
        *("max_tool_calls", "reasoning", "text", "truncation", "background", "background_options", "access_programs"),
        # The last two are Codex's.
        *("context_management", "image", "client_metadata"),
    }

    def messages(self, body: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the instructions and the items of the input as messages.

        Raises:
            Refused: if one does not follow this protocol, or the request relies on stored responses.
        """
        require(body, "model", str)
        value = require(body, "input", (str, list))
        for stored in ("previous_response_id", "conversation"):
            if body.get(stored):
                raise Refused(f"The scripted server stores no responses: send the whole input, not '{stored}'.")
        if instructions := body.get("instructions"):
            yield Message("system", tuple(content_parts(Kind.SYSTEM, instructions)))
        for index, item in enumerate(_items(value)):
            yield _message_of(index, item)

    def tools(self, body: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        """Return the names of the tools, wherever the body has them, and the tokens of their definitions."""
        tools = _catalogue(body)
        return tuple(tools.kinds), tools.tokens

    def check(self, request: Request) -> None:
        items = request.body["input"]
        if not items:
            raise Refused("Invalid 'input': it must hold at least one item.", param="input", code="empty_array")
        parts = request.parts
        _check_pairs(parts)
        _check_reasoning(parts)
        for message in request.messages:
            has_content = any(part.text or part.kind is not Kind.TEXT for part in message.parts)
            if message.role == "assistant" and not has_content:
                raise Refused("Invalid value: an assistant message has no content.", param="input")

    def dropped_reasoning(self, request: Request) -> tuple[str, ...]:
        """Return the ids of reasoning with a broken seal."""
        return _prefix(request)[1]

    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        response = {**_response(request, reply), "status": "completed", "output": _output(request, reply)}
        return response | {
            "usage": {
                "input_tokens": usage.input,
                "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": min(reply.reasoning_tokens, usage.output)},
                "total_tokens": usage.input + usage.output,
            }
        }

    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[ScriptedEvent]:
        begun = {**_response(request, reply), "status": "in_progress", "output": [], "usage": None}
        done = self.answer(request, reply, usage)
        events: list[_NamedEvent] = [
            ("response.created", {"response": begun}),
            ("response.in_progress", {"response": begun}),
            *(event for index, item in enumerate(done["output"]) for event in _item_events(index, item)),
            ("response.completed", {"response": done}),
        ]
        for number, (name, data) in enumerate(events):
            yield ScriptedEvent({"type": name, "sequence_number": number, **data}, name)

    def error_event(self, status: int, message: str) -> ScriptedEvent:
        error = self.error(status, message)["error"]
        return ScriptedEvent({"type": "error", "code": error["type"], "message": message, "param": None}, "error")

    def count(self, request: Request) -> dict[str, Any]:
        return {"object": "response.input_tokens", **super().count(request)}


_NamedEvent = tuple[str, dict[str, Any]]
"""Name and data of an event, without its number."""

_EMPTY: Final[Mapping[str, Mapping[str, Any]]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "reasoning": {"summary": [], "encrypted_content": ""},
    "file_search_call": {"results": None},
    "code_interpreter_call": {"code": "", "outputs": None},
}
"""What an item lacks as its stream begins, by type."""

_PROGRESS: Final = {
    "web_search_call": "searching",
    "file_search_call": "searching",
    "code_interpreter_call": "interpreting",
}
"""What a tool that the provider runs does while it runs, by the item's type."""


def _item_events(index: int, item: Mapping[str, Any]) -> Iterator[_NamedEvent]:
    """Yield the events of one output item, from `output_item.added` to `output_item.done`."""
    kind, where = item["type"], {"item_id": item["id"], "output_index": index}
    begun = {**item, "status": "in_progress", **_EMPTY.get(kind, {})}
    yield "response.output_item.added", {"output_index": index, "item": begun}
    if kind == "message":
        names = ("response.content_part", "response.output_text")
        yield from _part_events(names, item["content"][0], {**where, "content_index": 0}, {"logprobs": []})
    elif kind == "reasoning":
        names = ("response.reasoning_summary_part", "response.reasoning_summary_text")
        yield from _part_events(names, item["summary"][0], {**where, "summary_index": 0}, {})
    elif kind == "function_call":
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**where, "delta": piece}
        done = {**where, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    elif kind == "custom_tool_call":
        for piece in pieces(item["input"]):
            yield "response.custom_tool_call_input.delta", {**where, "delta": piece}
        yield "response.custom_tool_call_input.done", {**where, "input": item["input"]}
    elif kind in _PROGRESS:
        yield f"response.{kind}.in_progress", where
        for piece in pieces(item.get("code", "")):
            yield f"response.{kind}_code.delta", {**where, "delta": piece}
        if "code" in item:
            yield f"response.{kind}_code.done", {**where, "code": item["code"]}
        yield f"response.{kind}.{_PROGRESS[kind]}", where
        yield f"response.{kind}.completed", where
    yield "response.output_item.done", {"output_index": index, "item": dict(item)}


def _part_events(
    names: tuple[str, str], part: Mapping[str, Any], where: Mapping[str, Any], extra: Mapping[str, Any]
) -> Iterator[_NamedEvent]:
    outer, text = names
    yield f"{outer}.added", {**where, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield f"{text}.delta", {**where, "delta": piece, **extra}
    yield f"{text}.done", {**where, "text": part["text"], **extra}
    yield f"{outer}.done", {**where, "part": part}


def _items(value: str | list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


def _prefix(request: Request) -> tuple[Prefix, tuple[str, ...]]:
    """Return the digest of the whole input, and the ids of reasoning with a broken seal."""
    body = request.body
    prefix = Prefix([body.get("instructions"), body.get("tools")], chained=False)
    broken: list[str] = []
    for item in _items(body["input"]):
        if item.get("type") != "reasoning":
            prefix.add(item)
        elif signature := item.get("encrypted_content"):
            text = "".join(str(summary.get("text") or "") for summary in item.get("summary") or ())
            if not prefix.holds(signature, text):
                broken.append(str(item.get("id")))
    return prefix, tuple(broken)


def _output(request: Request, reply: Reply) -> list[dict[str, Any]]:
    token = token_of(request, reply)
    output: list[dict[str, Any]] = []
    items = _items(request.body["input"])
    if items and items[-1].get("type") == "compaction_trigger":
        # The text becomes the compacted history; nothing else can be said.
        return [{"id": f"cmp_{token}", "type": "compaction", "encrypted_content": reply.text or ""}]
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        sealed = _prefix(request)[0].seal(reply.reasoning)
        output.append({"id": f"rs_{token}", "type": "reasoning", "summary": summary, "encrypted_content": sealed})
    followers = [write_item(call) for call in reply.served]
    if reply.text is not None:
        text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        followers.append({"type": "message", "role": "assistant", "content": [text]})
    tools = _catalogue(request.body)
    for index, call in enumerate(reply.calls):
        followers.append(tools.item(call, call.id or f"call_{token}_{index}"))
    for index, item in enumerate(followers):
        output.append({"id": f"{_STEMS[item['type']]}_{token}_{index}", "status": "completed", **item})
    return output


def _response(request: Request, reply: Reply) -> dict[str, Any]:
    removed = [
        {"id": reasoning_id, "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}
        for reasoning_id in request.dropped_reasoning
    ]
    return {
        "id": f"resp_{token_of(request, reply)}",
        "object": "response",
        "created_at": CREATED,
        "model": request.model,
        "error": None,
        "incomplete_details": None,
        "input_transformations": removed,
        "instructions": request.body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": request.body.get("tool_choice", "auto"),
        "tools": [],
        "top_p": None,
    }


def _message_of(index: int, item: Mapping[str, Any]) -> Message:
    """Return an input item, the one at `index`, as a message.

    Raises:
        Refused: for an item that OpenAI or this server does not know.
    """
    kind = item.get("type") or "message"
    check_fields(item, _FIELDS.get(kind, item), unknown_parameter, f"input[{index}].")
    if kind == "message":
        role = str(item.get("role"))
        part_kind = kind_of(role, f"input[{index}].role")
        kinds = RESPONSES.contents[role] - {"output_image"}
        require(item, "content", (str, list), f"input[{index}].")
        check_contents(item["content"], f"input[{index}].content", kinds)
        parts = tuple(content_parts(part_kind, item.get("content"), id=item.get("id")))
        return Message("system" if part_kind is Kind.SYSTEM else role, parts)
    if kind in ("additional_tools", "configuration_update", "compaction_trigger"):
        if kind == "additional_tools" and item.get("role") != "developer":
            raise invalid_value(str(item.get("role")), f"input[{index}].role")
        return Message("system", ())
    if kind == "agent_message":
        return Message("user", tuple(content_parts(Kind.USER, item.get("content"), id=item.get("id"))))
    if kind in _OUTPUT_OF:
        return Message("assistant", (_call(kind, item),))
    if kind in _CALL_OF:
        text = content_text(item.get("output"))
        call_id = item.get("call_id") or item.get("approval_request_id")
        return Message("tool", (Part(Kind.RESULT, text, call_id=call_id, id=item.get("id"), wire=item),))
    if kind == "reasoning":
        text = "".join(str(summary.get("text") or "") for summary in item.get("summary") or ())
        signature = item.get("encrypted_content")
        return Message("assistant", (Part(Kind.REASONING, text, id=item.get("id"), signature=signature, wire=item),))
    if kind == "compaction":
        sealed = str(item.get("encrypted_content") or "")
        return Message("assistant", (Part(Kind.TEXT, sealed, id=item.get("id"), signature=sealed, wire=item),))
    if kind in _SERVED:
        text = compact(item.get(_SERVED[kind]))
        return Message("assistant", (Part(Kind.TEXT, text, id=item.get("id"), wire=item),))
    raise Refused(f"The scripted server knows no input item of type '{kind}'.", param=f"input[{index}].type")


def _call(kind: str, item: Mapping[str, Any]) -> Part:
    name = "tool_search" if kind == "tool_search_call" else str(item.get("name"))
    if item.get("namespace"):
        name = f"{item['namespace']}.{name}"
    value = item.get("input") if kind == "custom_tool_call" else item.get("arguments")
    if value is None:
        value = ""
        arguments = compact(value)
    else:
        arguments = value if isinstance(value, str) else compact(value)
    call_id = item.get("id") if kind == "mcp_approval_request" else item.get("call_id")
    return Part(Kind.CALL, arguments, call_id=call_id, tool=name, id=item.get("id"), wire=item)


def _check_pairs(parts: tuple[Part, ...]) -> None:
    """Refuse an output without its call before it, and a call without its output; other items may stand between."""
    unanswered: list[tuple[str, str | None]] = []
    for part in parts:
        kind = str(part.wire.get("type"))
        if part.kind is Kind.CALL:
            unanswered.append((kind, part.call_id))
        elif part.kind is Kind.RESULT:
            pair = (_CALL_OF[kind], part.call_id)
            if pair not in unanswered:
                words = kind.replace("_", " ")
                raise Refused(f"No tool call found for {words} with call_id {part.call_id}.", param="input")
            unanswered.remove(pair)
    if unanswered:
        kind, call_id = unanswered[0]
        raise Refused(f"No tool output found for {kind.replace('_', ' ')} {call_id}.", param="input")


def _check_reasoning(parts: tuple[Part, ...]) -> None:
    """Refuse reasoning without the item that followed it, and the reverse, as far as their ids tell (R12)."""
    for part, following in zip(parts, (*parts[1:], None), strict=False):
        if part.kind is not Kind.REASONING:
            continue
        follows = following is not None and following.kind in (Kind.TEXT, Kind.CALL)
        if follows and following and following.id and str(part.id).startswith("rs_r"):
            match = _FOLLOWER.fullmatch(following.id)
            follows = match is not None and part.id == f"rs_{match[1]}"
        if not follows:
            raise Refused(
                f"Item '{part.id}' of type 'reasoning' was provided without its required following item.",
                param="input",
            )
    present = {part.id for part in parts if part.kind is Kind.REASONING}
    for part in parts:
        match = _FOLLOWER.fullmatch(part.id or "")
        if match and f"rs_{match[1]}" not in present:
            kind = part.wire.get("type") if part.kind is Kind.CALL else "message"
            raise Refused(
                f"Item '{part.id}' of type '{kind}' was provided without its required 'reasoning' item:"
                f" 'rs_{match[1]}'.",
                param="input",
            )


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """The tools of a request.

    Attributes:
        kinds: type of each tool by name, in order. A tool in a namespace is named `NAMESPACE.NAME`, a built-in tool by
            its type.
        tokens: tokens of the definitions, as `ceil(characters / 4)` of their JSON.
    """

    kinds: Mapping[str, str]
    tokens: int

    def item(self, call: Call, call_id: str) -> dict[str, Any]:
        """Return the output item that calls a tool, without its own id and status.

        A tool that the request does not offer is called as a function, as models sometimes do.
        """
        kind = self.kinds.get(call.tool, "function")
        if kind == "tool_search":
            arguments = call.arguments
            return {"type": "tool_search_call", "call_id": call_id, "execution": "client", "arguments": arguments}
        namespace, _, name = call.tool.rpartition(".") if call.tool in self.kinds else ("", "", call.tool)
        where = {"namespace": namespace} if namespace else {}
        if kind == "custom":
            return {"type": "custom_tool_call", "call_id": call_id, "name": name, **where, "input": call.raw_arguments}
        arguments = call.raw_arguments
        return {"type": "function_call", "call_id": call_id, "name": name, **where, "arguments": arguments}


def _catalogue(body: Mapping[str, Any]) -> _Catalogue:
    """Return the tools of a request.

    Raises:
        Refused: for tools that OpenAI would refuse.
    """
    items = body.get("input")
    lists: list[tuple[str, Sequence[Mapping[str, Any]]]] = [("tools", body.get("tools") or ())]
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if item.get("type") not in ("additional_tools", "tool_search_output"):
            continue
        if not isinstance(item.get("tools"), list):
            raise missing(f"input[{index}].tools")
        lists.append((f"input[{index}].tools", item["tools"]))
    kinds: dict[str, str] = {}
    for where, tools in lists:
        # A later list may repeat a tool, but one list may not.
        listed: dict[str, str] = {}
        for name, kind in _flat(where, tools):
            if name in listed and kind in ("function", "custom"):
                raise Refused(f"Invalid '{where}': the tool name '{name}' is given twice.", param=where)
            listed[name] = kind
        kinds |= listed
    return _Catalogue(kinds, sum(count_chars(canonical(tool)) for _, tools in lists for tool in tools))


def _flat(where: str, tools: Sequence[Mapping[str, Any]], namespace: str = "") -> Iterator[tuple[str, str]]:
    for index, tool in enumerate(tools):
        kind = str(tool.get("type"))
        if kind in ("function", "custom", "namespace") and not tool.get("name"):
            raise missing(f"{where}[{index}].name")
        if kind == "namespace":
            yield from _flat(f"{where}[{index}].tools", tool.get("tools") or (), f"{tool['name']}.")
        else:
            yield namespace + str(tool.get("name") or kind), kind
