"""What Anthropic Messages says: POST /v1/messages, and /v1/messages/count_tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from wane.core.items import Kind
from wane.testing.anthropic.anthropic_rules import THINKING, Block, begins_turn, blocks_of, check_request, extra_input
from wane.testing.preserved import Prefix
from wane.testing.sent_request import Message, Part, Request, compact
from wane.testing.served_calls import write_blocks
from wane.testing.wire import Provider, Refused, ScriptedEvent, content_parts, content_text, pieces, token_of

if TYPE_CHECKING:
    from wane.testing.script import Reply, Usage

UNSCRIPTED: Final = "Let me see."
"""The thinking of a model with a thinking budget at the start of a turn, if the script gives none."""

_KINDS: Final = {"system": Kind.SYSTEM, "user": Kind.USER, "assistant": Kind.TEXT}
_ERRORS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Anthropic(Provider):
    """The Messages protocol."""

    api = "anthropic"
    serves = ("web_search", "code_execution")
    pauses = True
    needed = ("max_tokens",)
    fields = frozenset(
        {"model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "stream", "metadata"}
        | {"temperature", "top_k", "top_p", "thinking", "output_config", "output_format", "cache_control", "speed"}
        | {"service_tier", "container", "context_management", "compaction", "diagnostics", "inference_geo", "thread"}
        | {"mcp_servers", "fallbacks", "fallback_credit_token", "billing_policy", "user_profile_id", "workspace_id"}
        | {"safeguards"}  # no SDK has it; Claude Code sends it for some models
    )

    def messages(self, body: Mapping[str, Any]) -> Iterator[Message]:
        for name, kind in (("model", str), ("messages", list)):
            if not isinstance(body.get(name), kind):
                raise Refused(f"{name}: Field required")
        if system := body.get("system"):
            yield Message("system", tuple(content_parts(Kind.SYSTEM, system)))
        for index, message in enumerate(body["messages"]):
            role = str(message.get("role"))
            if role not in _KINDS:
                raise Refused(f"messages.{index}.role: Input should be 'user' or 'assistant'")
            yield Message(role, tuple(_part(_KINDS[role], block) for block in blocks_of(message.get("content"))))

    def unknown(self, name: str) -> Refused:
        return extra_input(name)

    def check(self, request: Request) -> None:
        check_request(request.body)

    def dropped_reasoning(self, request: Request) -> tuple[str, ...]:
        """Return the paths of thinking with a broken seal; raise `Refused` unless the request lets it be dropped."""
        broken = _prefix(request)[1]
        binding = (request.body.get("thinking") or {}).get("block_binding") or {}
        if broken and binding.get("prefix_mismatch_behavior") != "drop_block":
            raise Refused(
                f"{broken[0]}: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
                ' Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            )
        return broken

    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        reply = _add_thinking(request, reply)
        content = [_with_parsed_input(block) for block in _content(request, reply)]
        return {**_head(request, reply, usage, usage.output), "content": content, "stop_reason": _stop(reply)}

    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[ScriptedEvent]:
        reply = _add_thinking(request, reply)
        start = {**_head(request, reply, usage, output=1), "content": [], "stop_reason": None}
        yield _event("message_start", message=start)
        yield _event("ping")
        for index, block in enumerate(_content(request, reply)):
            begin, deltas = _split_block(block)
            yield _event("content_block_start", index=index, content_block=begin)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        stop = {"stop_reason": _stop(reply), "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage=_usage(usage, usage.output))
        yield _event("message_stop")

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}

    def error_event(self, status: int, message: str) -> ScriptedEvent:
        return ScriptedEvent(self.error(status, message), "error")

    def too_long(self, tokens: int, limit: int) -> Refused:
        return Refused(f"prompt is too long: {tokens} tokens > {limit} maximum")


def _part(kind: Kind, block: Block) -> Part:
    match block.get("type"):
        case "tool_use":
            value = block.get("input")
            arguments = value if isinstance(value, str) else compact(value)
            return Part(Kind.CALL, arguments, call_id=str(block.get("id")), tool=str(block.get("name")), wire=block)
        case "tool_result":
            text = content_text(block.get("content"))
            return Part(Kind.RESULT, text, call_id=str(block.get("tool_use_id")), wire=block)
        case "thinking" | "redacted_thinking":
            text = str(block.get("thinking") or "")
            return Part(Kind.REASONING, text, signature=block.get("signature") or block.get("data"), wire=block)
        case "server_tool_use" | "mcp_tool_use":
            return Part(kind, str(block.get("name")) + compact(block.get("input")), wire=block)
        case str(name) if name.endswith("_tool_result"):
            return Part(kind, compact(block.get("content")), wire=block)
        case _:
            return Part(kind, str(block.get("text") or ""), wire=block)


def _prefix(request: Request) -> tuple[Prefix, tuple[str, ...]]:
    """Return the digest of the conversation, and the paths of thinking with a broken seal."""
    body = request.body
    system = [{**block, "cache_control": None} for block in blocks_of(body.get("system"))]
    tools = [{**tool, "cache_control": None} for tool in body.get("tools") or ()]
    prefix = Prefix([system, tools], chained=True)
    broken: list[str] = []
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") not in THINKING:
                prefix.add(message["role"], block)
            elif not prefix.holds(str(block.get("signature")), str(block.get("thinking") or "")):
                broken.append(f"messages.{index}.content.{position}")
    return prefix, tuple(broken)


def _add_thinking(request: Request, reply: Reply) -> Reply:
    """Return the reply, with thinking if it begins a turn without: a model with a thinking budget always thinks."""
    enabled = (request.body.get("thinking") or {}).get("type") == "enabled"
    begins = enabled and not reply.reasoning and begins_turn(request.body["messages"])
    return replace(reply, reasoning=UNSCRIPTED) if begins else reply


def _content(request: Request, reply: Reply) -> list[dict[str, Any]]:
    """Return the blocks of the answer; inputs of calls are still raw text."""
    waiting = {part.wire.get("id") for part in request.parts if part.wire.get("type") == "server_tool_use"}
    blocks, served = list[dict[str, Any]](), list[dict[str, Any]]()
    for index, ran in enumerate(reply.served):
        use, result = write_blocks(ran, ran.id or f"srvtoolu_{token_of(request, reply)}_{index}")
        if use["id"] in waiting:
            blocks.append(result)  # ahead of all else, as the turn paused for it
        else:
            served += [use] if ran.result is None else [use, result]
    if reply.reasoning:
        signature = _prefix(request)[0].seal(reply.reasoning)
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": signature})
    blocks += served
    if reply.text is not None:
        blocks.append({"type": "text", "text": reply.text})
    for index, call in enumerate(reply.calls):
        call_id = call.id or f"toolu_{token_of(request, reply)}_{index}"
        blocks.append({"type": "tool_use", "id": call_id, "name": call.tool, "input": call.raw_arguments})
    return blocks


def _with_parsed_input(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block with its input parsed; input that is not a JSON object stays a string."""
    if block["type"] not in ("tool_use", "server_tool_use"):
        return block
    try:
        parsed = json.loads(block["input"])
    except ValueError:
        return block
    return {**block, "input": parsed} if isinstance(parsed, dict) else block


def _split_block(block: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the block as it starts, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            thinking = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            sealed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, iter([*thinking, sealed])
        case "text":
            return {**block, "text": ""}, ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        case str(name) if name.endswith("_tool_result"):
            return block, iter(())
        case _:
            deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(block["input"]))
            return {**block, "input": {}}, deltas


def _event(kind: str, **data: Any) -> ScriptedEvent:
    return ScriptedEvent({"type": kind, **data}, kind)


def _stop(reply: Reply) -> str:
    if reply.calls:
        return "tool_use"
    return "pause_turn" if reply.pauses else "end_turn"


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
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_hour,
            "ephemeral_1h_input_tokens": usage.cache_write_hour,
        },
        "output_tokens": output,
    }
