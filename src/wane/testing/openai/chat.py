"""OpenAI Chat Completions: POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from wane.core.items import Kind
from wane.formats.vocabulary import CHAT
from wane.testing.openai.openai_errors import (
    SHARED,
    OpenAI,
    check_contents,
    empty_array,
    invalid_value,
    kind_of,
    require,
)
from wane.testing.sent_request import Message, Part, Request
from wane.testing.wire import CREATED, Refused, ScriptedEvent, content_parts, content_text, pieces, token_of

if TYPE_CHECKING:
    from wane.testing.script import Call, Reply, Usage


_CALLS: Final = {"function": "arguments", "custom": "input"}
"""By type of a call, the field with what the model wrote."""


class OpenAIChat(OpenAI):
    """The Chat Completions protocol, with the `reasoning_content` and `thinking` that many compatible services add."""

    api = "openai-chat"
    holds = "messages"
    fields = SHARED | {
        *("messages", "max_tokens", "max_completion_tokens", "n", "stop", "seed", "logit_bias", "logprobs"),
        *("frequency_penalty", "presence_penalty", "response_format", "reasoning_effort", "verbosity", "prediction"),
        *("modalities", "audio", "web_search_options", "functions", "function_call", "thinking"),
    }

    def messages(self, body: Mapping[str, Any]) -> Iterator[Message]:
        require(body, "model", str)
        for index, message in enumerate(require(body, "messages", list)):
            yield _message(index, message)

    def check(self, request: Request) -> None:
        if not request.messages:
            raise empty_array("messages")
        unanswered: list[str] = []
        for index, message in enumerate(request.messages):
            if message.role == "tool":
                call_id = message.parts[0].call_id
                if call_id not in unanswered:
                    raise Refused(
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
                        f" 'tool_calls' (no call '{call_id}' is open).",
                        param=f"messages.[{index}].role",
                    )
                unanswered.remove(call_id)
                continue
            _check_answered(index, unanswered)
            _check_not_empty(index, request.body["messages"][index])
            unanswered = [part.call_id or "" for part in message.parts if part.kind is Kind.CALL]
        _check_answered(len(request.messages), unanswered)

    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [_call(request, reply, index, call) for index, call in enumerate(reply.calls)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return {**_head(request, reply, "chat.completion"), "choices": [choice], "usage": _usage(reply, usage)}

    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[ScriptedEvent]:
        head = _head(request, reply, "chat.completion.chunk")
        wants_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
        blank = {"usage": None} if wants_usage else {}
        for delta in _deltas(request, reply):
            yield ScriptedEvent({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], **blank})
        yield ScriptedEvent({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}], **blank})
        if wants_usage:
            yield ScriptedEvent({**head, "choices": [], "usage": _usage(reply, usage)})
        yield ScriptedEvent("[DONE]")


def _message(index: int, message: Mapping[str, Any]) -> Message:
    role = str(message.get("role"))
    content = message.get("content")
    if role in CHAT.contents:
        check_contents(content, f"messages[{index}].content", CHAT.contents[role])
    if role == "tool":
        require(message, "content", (str, list), f"messages[{index}].")
        require(message, "tool_call_id", str, f"messages[{index}].")
        result = Part(Kind.RESULT, content_text(content), call_id=str(message.get("tool_call_id")), wire=message)
        return Message("tool", (result,))
    kind = kind_of(role, f"messages[{index}].role")
    parts: list[Part] = []
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if role == "assistant" and reasoning:
        parts.append(Part(Kind.REASONING, str(reasoning), wire=message))
    parts.extend(content_parts(kind, content))
    for number, call in enumerate(message.get("tool_calls") or ()):
        where = f"messages[{index}].tool_calls[{number}]."
        if require(call, "type", str, where) not in _CALLS:
            raise invalid_value(call["type"], f"{where}type", _CALLS)
        require(call, "id", str, where)
        function = require(call, call["type"], dict, where)
        body = _CALLS[call["type"]]
        arguments = require(function, body, str, f"{where}{call['type']}.")
        parts.append(Part(Kind.CALL, arguments, call_id=str(call.get("id")), tool=str(function.get("name")), wire=call))
    return Message("system" if kind is Kind.SYSTEM else role, tuple(parts))


def _check_answered(index: int, unanswered: list[str]) -> None:
    if unanswered:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(unanswered)}",
            param=f"messages.[{index}].role",
        )


def _check_not_empty(index: int, message: Mapping[str, Any]) -> None:
    """Refuse messages without content, and assistant messages with nothing but reasoning."""
    calls, content = message.get("tool_calls"), message.get("content")
    if calls == []:
        raise empty_array(f"messages[{index}].tool_calls")
    # A user can send an empty string, but a model's answer cannot be one.
    empty = not content if message["role"] == "assistant" else content in (None, [])
    if empty and not calls and not message.get("refusal"):
        what = "null" if content is None else "an empty one"
        raise Refused(
            f"Invalid value for 'content': expected a string, got {what}.", param=f"messages.[{index}].content"
        )


def _head(request: Request, reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{token_of(request, reply)}", "object": kind, "created": CREATED, "model": request.model}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _call(request: Request, reply: Reply, index: int, call: Call) -> dict[str, Any]:
    call_id = call.id or f"call_{token_of(request, reply)}_{index}"
    return {"id": call_id, "type": "function", "function": {"name": call.tool, "arguments": call.raw_arguments}}


def _deltas(request: Request, reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if reply.text is None else ""}
    for piece in pieces(reply.reasoning or ""):
        yield {"reasoning_content": piece}
    for piece in pieces(reply.text or ""):
        yield {"content": piece}
    for index, call in enumerate(reply.calls):
        start = _call(request, reply, index, call)
        start["function"]["arguments"] = ""
        yield {"tool_calls": [{"index": index, **start}]}
        for piece in pieces(call.raw_arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _usage(reply: Reply, usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": min(reply.reasoning_tokens, usage.output)},
    }
