"""Anthropic Messages: POST /v1/messages, and /v1/messages/count_tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from wane.core.items import Kind
from wane.testing.anthropic_tools import check_breakpoints, check_tools
from wane.testing.anthropic_turn import THINKING, begins_turn, check_turn, unled
from wane.testing.preserved import Prefix, tampered
from wane.testing.request import Api, Message, Part, Request, compact
from wane.testing.wire import Checks, Event, Refused, content_parts, content_text, pieces, token_of, tools_of

if TYPE_CHECKING:
    from wane.testing.script import Reply, Usage

_KINDS: Final = {"system": Kind.SYSTEM, "user": Kind.USER, "assistant": Kind.TEXT}
UNSCRIPTED: Final = "Let me see."
"""The thinking of a model with a thinking budget at the start of a turn, if the script gives none."""

_REASONED_CALL: Final = re.compile(r"toolu_r[0-9a-f]+_\d+")
_ERRORS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

_Blocks = list[Mapping[str, Any]]


class Anthropic:
    """The Messages protocol."""

    api: Api = "anthropic"

    def parse(self, raw: bytes, body: Mapping[str, Any], headers: Mapping[str, str], number: int) -> Request:
        """Return the request; raise `Refused` if it does not follow this protocol."""
        for name, kind in (("model", str), ("messages", list)):
            if not isinstance(body.get(name), kind):
                raise Refused(f"{name}: Field required")
        messages = [_message(index, message) for index, message in enumerate(body["messages"])]
        if system := body.get("system"):
            messages.insert(0, Message("system", tuple(content_parts(Kind.SYSTEM, system))))
        tools, tool_tokens = tools_of(body)
        return Request(
            number=number,
            api=self.api,
            model=body["model"],
            messages=tuple(messages),
            tools=tools,
            tool_tokens=tool_tokens,
            stream=bool(body.get("stream")),
            body=body,
            raw=raw,
            headers=headers,
        )

    def check(self, request: Request, checks: Checks) -> Request:
        """Return the request; raise `Refused` if Anthropic would not take its messages."""
        messages = _joined(request.body["messages"])
        if not messages:
            raise Refused("messages: at least one message is required")
        if messages[0][1] == "assistant":
            raise Refused('messages: first message must use the "user" role')
        _check_system(request.body["messages"])
        check_tools(request.body)
        check_breakpoints(request.body)
        for where, (index, _, blocks) in enumerate(messages):
            _check_blocks(index, blocks)
            before = messages[where - 1][2] if where else []
            after = messages[where + 1][2] if where + 1 < len(messages) else []
            _check_results(index, blocks, before)
            _check_calls(index, blocks, after)
        calls = [call_id for _, _, blocks in messages for call_id in _ids(blocks, "tool_use")]
        if len(set(calls)) < len(calls):
            raise Refused("messages: `tool_use` ids must be unique")
        check_turn(request.body, messages)
        _check_latest(request.body, messages)
        return self._check_prefix(request) if checks.preserved_reasoning else request

    def _check_prefix(self, request: Request) -> Request:
        broken = _prefix(request)[1]
        binding = (request.body.get("thinking") or {}).get("block_binding") or {}
        if broken and binding.get("prefix_mismatch_behavior") != "drop_block":
            raise Refused(
                f"{broken[0]}: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
                ' Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            )
        return request.dropping(broken)

    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        """Return a `message`."""
        reply = _thought(request, reply)
        content = [_whole(block) for block in _content(request, reply)]
        return {**_head(request, reply, usage, usage.output), "content": content, "stop_reason": _stop(reply)}

    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[Event]:
        """Yield the events from `message_start` to `message_stop`."""
        reply = _thought(request, reply)
        start = {**_head(request, reply, usage, output=1), "content": [], "stop_reason": None}
        yield _event("message_start", message=start)
        yield _event("ping")
        for index, block in enumerate(_content(request, reply)):
            begin, deltas = _streamed(block)
            yield _event("content_block_start", index=index, content_block=begin)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        stop = {"stop_reason": _stop(reply), "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage=_usage(usage, usage.output))
        yield _event("message_stop")

    def error(
        self,
        status: int,
        message: str,
        param: str | None = None,  # noqa: ARG002 - OpenAI's
        code: str | None = None,  # noqa: ARG002 - OpenAI's
    ) -> dict[str, Any]:
        """Return Anthropic's error shape."""
        kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}

    def count(self, request: Request) -> dict[str, Any]:
        """Return the tokens of the request."""
        return {"input_tokens": request.tokens}

    def too_long(self, tokens: int, limit: int) -> Refused:
        """Return Anthropic's refusal of a request that exceeds the context window."""
        return Refused(f"prompt is too long: {tokens} tokens > {limit} maximum")


def _blocks(content: object) -> _Blocks:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def _message(index: int, message: Mapping[str, Any]) -> Message:
    role = str(message.get("role"))
    if role not in _KINDS:
        raise Refused(f"messages.{index}.role: Input should be 'user' or 'assistant'")
    return Message(role, tuple(_part(_KINDS[role], block) for block in _blocks(message.get("content"))))


def _part(kind: Kind, block: Mapping[str, Any]) -> Part:
    match block.get("type"):
        case "tool_use":
            given = block.get("input")
            arguments = given if isinstance(given, str) else compact(given)
            return Part(Kind.CALL, arguments, call_id=str(block.get("id")), tool=str(block.get("name")), wire=block)
        case "tool_result":
            text = content_text(block.get("content"))
            return Part(Kind.RESULT, text, call_id=str(block.get("tool_use_id")), wire=block)
        case "thinking" | "redacted_thinking":
            text = str(block.get("thinking") or "")
            return Part(Kind.REASONING, text, signature=block.get("signature") or block.get("data"), wire=block)
        case _:
            return Part(kind, str(block.get("text") or ""), wire=block)


def _joined(messages: _Blocks) -> list[tuple[int, str, _Blocks]]:
    """Join neighbouring messages of one role, as the provider does, under the index of the first one."""
    joined: list[tuple[int, str, _Blocks]] = []
    for index, message in enumerate(messages):
        blocks = _blocks(message.get("content"))
        if not blocks:
            raise Refused(
                f"messages.{index}: all messages must have non-empty content except for the optional final assistant"
                " message"
            )
        if joined and joined[-1][1] == message["role"]:
            joined[-1][2].extend(blocks)
        else:
            joined.append((index, message["role"], blocks))
    return joined


def _check_system(messages: _Blocks) -> None:
    """Check that system messages within the conversation follow a user turn and precede an answer."""
    roles = [message["role"] for message in messages]
    for index, role in enumerate(roles):
        if role != "system":
            continue
        if index + 1 < len(roles) and roles[index + 1] != "assistant":
            raise Refused(f"messages.{index}: role 'system' must precede an 'assistant' message or end the array")
        if index == 0 or roles[index - 1] != "user":
            raise Refused(f"messages.{index}: role 'system' must follow a 'user' message")
        if any(block.get("type") != "text" for block in _blocks(messages[index].get("content"))):
            raise Refused(f"messages.{index}.content: role 'system' takes text only")


def _ids(blocks: _Blocks, kind: str) -> list[str]:
    name = "tool_use_id" if kind == "tool_result" else "id"
    return [str(block.get(name)) for block in blocks if block.get("type") == kind]


def _check_blocks(index: int, blocks: _Blocks) -> None:
    for position, block in enumerate(blocks):
        kind, where = block.get("type"), f"messages.{index}.content.{position}"
        if kind == "text" and not block.get("text"):
            raise Refused("messages: text content blocks must be non-empty")
        if kind == "text" and not str(block["text"]).strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")
        if kind == "tool_use" and not isinstance(block.get("input"), dict):
            raise Refused(f"{where}.tool_use.input: Input should be an object")
        if kind == "thinking" and not block.get("signature"):
            raise Refused(f"{where}.thinking.signature: Field required")
        if kind == "thinking" and tampered(str(block["signature"]), str(block.get("thinking") or "")):
            raise Refused(f"{where}: Invalid `signature` in `thinking` block")


def _check_results(index: int, blocks: _Blocks, before: _Blocks) -> None:
    calls = _ids(before, "tool_use")
    for position, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            continue
        call_id = str(block.get("tool_use_id"))
        if call_id not in calls:
            raise Refused(
                f"messages.{index}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks:"
                f" {call_id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous"
                " message."
            )
        calls.remove(call_id)


def _check_calls(index: int, blocks: _Blocks, after: _Blocks) -> None:
    """Check that every call has its result in the next message, before any other content."""
    first = next((place for place, block in enumerate(after) if block.get("type") != "tool_result"), len(after))
    results = _ids(after[:first], "tool_result")
    missing = [call_id for call_id in _ids(blocks, "tool_use") if call_id not in results]
    if missing:
        raise Refused(
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next"
            " message."
        )


def _check_latest(body: Mapping[str, Any], messages: list[tuple[int, str, _Blocks]]) -> None:
    """Check that the latest calls still have the thinking that led to them, if thinking is enabled (R13)."""
    latest = next(((index, blocks) for index, role, blocks in reversed(messages) if role == "assistant"), None)
    if latest is None or (body.get("thinking") or {}).get("type") != "enabled":
        return
    index, blocks = latest
    reasoned = any(_REASONED_CALL.fullmatch(call_id) for call_id in _ids(blocks, "tool_use"))
    if reasoned and (found := blocks[0].get("type")) not in THINKING:
        raise unled(index, found)


def _prefix(request: Request) -> tuple[Prefix, tuple[str, ...]]:
    """Return the digest of the conversation, and the paths of thinking with a broken seal."""
    body = request.body
    system = [{**block, "cache_control": None} for block in _blocks(body.get("system"))]
    tools = [{**tool, "cache_control": None} for tool in body.get("tools") or ()]
    prefix = Prefix([system, tools], chained=True)
    broken: list[str] = []
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(_blocks(message.get("content"))):
            if block.get("type") not in THINKING:
                prefix.add(message["role"], block)
            elif not prefix.holds(str(block.get("signature")), str(block.get("thinking") or "")):
                broken.append(f"messages.{index}.content.{position}")
    return prefix, tuple(broken)


def _thought(request: Request, reply: Reply) -> Reply:
    """Return the reply, with thinking if it begins a turn without: a model with a thinking budget always thinks."""
    enabled = (request.body.get("thinking") or {}).get("type") == "enabled"
    begins = enabled and not reply.reasoning and begins_turn(_joined(request.body["messages"]))
    return replace(reply, reasoning=UNSCRIPTED) if begins else reply


def _content(request: Request, reply: Reply) -> list[dict[str, Any]]:
    """Return the blocks of the answer; inputs of calls are still raw text."""
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        signature = _prefix(request)[0].seal(reply.reasoning)
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": signature})
    if reply.text is not None:
        blocks.append({"type": "text", "text": reply.text})
    for index, call in enumerate(reply.calls):
        call_id = call.id or f"toolu_{token_of(request, reply)}_{index}"
        blocks.append({"type": "tool_use", "id": call_id, "name": call.tool, "input": call.raw_arguments})
    return blocks


def _whole(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block with its input parsed; input that is not a JSON object stays a string."""
    if block["type"] != "tool_use":
        return block
    try:
        given = json.loads(block["input"])
    except ValueError:
        return block
    return {**block, "input": given} if isinstance(given, dict) else block


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the block as it starts, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            thinking = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            sealed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, iter([*thinking, sealed])
        case "text":
            return {**block, "text": ""}, ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        case _:
            deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(block["input"]))
            return {**block, "input": {}}, deltas


def _event(kind: str, **data: Any) -> Event:
    return Event({"type": kind, **data}, kind)


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _head(request: Request, reply: Reply, usage: Usage, output: int) -> dict[str, Any]:
    dropped = [
        {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"}
        for path in request.dropped_reasoning
    ]
    return {
        "id": f"msg_{token_of(request, reply)}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "stop_sequence": None,
        "usage": _usage(usage, output),
        **({"input_transformations": dropped} if dropped else {}),
    }


def _usage(usage: Usage, output: int) -> dict[str, Any]:
    """Return Anthropic's counts, in which the cached tokens are not part of `input_tokens`."""
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": output,
    }
