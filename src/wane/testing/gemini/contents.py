"""What Gemini says: `:generateContent`, `:streamGenerateContent` and `:countTokens`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import FormatError
from wane.core.items import Kind
from wane.formats.gemini import is_reasoning, parts_of, seal_of
from wane.formats.gemini_calls import call_ids, completed, field
from wane.testing.gemini.rules import check_request, joined, signature, signs, unknown
from wane.testing.request import Message, Part, Request, compact, count_chars
from wane.testing.wire import Provider, Refused, ServerSentEvent, canonical, pieces, token_of

if TYPE_CHECKING:
    from wane.testing.script import Reply, Usage

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_CAMEL: Final = frozenset(
    {"contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent"}
    | {"store", "serviceTier"}
)


class Gemini(Provider):
    """The protocol of Gemini's models. Model and kind of request stand in the path."""

    api = "gemini"
    fields = _CAMEL | {"tool_config", "safety_settings", "system_instruction", "generation_config", "cached_content"}

    def unwrapped(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body; of one that counts tokens, the request that it holds."""
        inner = body.get("generateContentRequest")
        if not isinstance(inner, dict):
            return body
        return {name: value for name, value in inner.items() if name != "model"}

    def messages(self, body: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the instruction and the contents; raise `Refused` if one does not follow this protocol."""
        contents = body.get("contents")
        if not isinstance(contents, list):
            raise Refused("* GenerateContentRequest.contents: contents is not specified\n")
        if (instruction := field(body, "systemInstruction")) is not None:
            yield Message("system", tuple(_part(Kind.SYSTEM, part, "") for part in _parts_of(instruction)))
        turn = 0  # counts the contents with calls, so that calls without ids have one each
        for content in completed(_readable(contents)):
            is_model = content.get("role") == "model"
            kind = Kind.TEXT if is_model else Kind.USER
            turn += is_model
            yield Message("assistant" if is_model else "user", tuple(_parts(kind, _parts_of(content), turn)))

    def tools(self, body: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        """Return the names of the functions in a body, and the tokens of their definitions."""
        tools: Sequence[Mapping[str, Any]] = body.get("tools") or ()
        declared = [each for tool in tools for each in field(tool, "functionDeclarations") or ()]
        return tuple(str(each.get("name")) for each in declared), sum(count_chars(canonical(tool)) for tool in tools)

    def unknown(self, name: str) -> Refused:
        """Return Gemini's refusal."""
        return unknown(name)

    def check(self, request: Request) -> None:
        """Raise `Refused` if Gemini would not take the contents of a request."""
        check_request(request.body, request.model)

    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        """Return a `GenerateContentResponse`."""
        parts, finish = _content(request, reply)
        return {**_head(request, reply), **_candidate(parts, finish), "usageMetadata": _usage(reply, usage)}

    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[ServerSentEvent]:
        """Yield a response for each piece of a text and for each call; the last one has the reason of the end."""
        parts, finish = _content(request, reply)
        head = _head(request, reply)
        begun = {"promptTokenCount": usage.input, "totalTokenCount": usage.input}
        seal = seal_of(parts[-1]) if parts and parts[-1].get("text") else ""
        for part in parts:
            for piece in _streamed(part):
                yield ServerSentEvent({**head, **_candidate([piece]), "usageMetadata": begun})
        # The signature of a text comes by itself, behind it.
        last = [{"text": "", **({"thoughtSignature": seal} if seal else {})}] if finish == "STOP" else []
        yield ServerSentEvent({**head, **_candidate(last, finish), "usageMetadata": _usage(reply, usage)})

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return Gemini's error shape."""
        name = _STATUSES.get(status) or ("UNAVAILABLE" if status > 500 else "FAILED_PRECONDITION")
        return {"error": {"code": status, "message": message, "status": name}}

    def too_long(self, tokens: int, limit: int) -> Refused:
        """Return Gemini's refusal of a request that exceeds the context window."""
        return Refused(f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).")

    def count(self, request: Request) -> dict[str, Any]:
        """Return the answer of `:countTokens`."""
        return {"totalTokens": request.tokens}


def _readable(contents: Sequence[Any]) -> list[Mapping[str, Any]]:
    return joined({"role": content.get("role"), "parts": _parts_of(content)} for content in contents)


def _parts_of(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, dict):
        return [{"text": str(content)}]
    try:
        return parts_of({"parts": content.get("parts") or []})
    except FormatError as error:
        raise Refused(str(error)) from None


def _parts(kind: Kind, parts: Sequence[Mapping[str, Any]], turn: int) -> Iterator[Part]:
    id_of = call_ids()
    for part in parts:
        called = field(part, "functionCall") or field(part, "functionResponse") or {}
        call_id = id_of(called, str(called.get("name"))) if called else ""
        yield _part(kind, part, call_id if called.get("id") else f"{call_id} of {turn}")


def _part(kind: Kind, part: Mapping[str, Any], call_id: str) -> Part:
    if (call := field(part, "functionCall")) is not None:
        seal = seal_of(part) or None
        tool = str(call.get("name"))
        return Part(Kind.CALL, compact(call.get("args") or {}), call_id=call_id, tool=tool, signature=seal, wire=part)
    if (response := field(part, "functionResponse")) is not None:
        return Part(Kind.RESULT, _told(response.get("response")), call_id=call_id, wire=part)
    if kind is Kind.TEXT and is_reasoning(part):
        return Part(Kind.REASONING, str(part.get("text") or ""), signature=seal_of(part) or None, wire=part)
    return Part(kind, str(part.get("text") or ""), signature=seal_of(part) or None, wire=part)


def _told(response: Any) -> str:
    """The text of a response: that of its only field, or its JSON."""
    only = next(iter(response.values())) if isinstance(response, dict) and len(response) == 1 else None
    return only if isinstance(only, str) else compact(response)


def _content(request: Request, reply: Reply) -> tuple[list[dict[str, Any]], str]:
    """Return the parts of an answer, and the reason of its end."""
    parts: list[dict[str, Any]] = []
    thinking = field(field(request.body, "generationConfig") or {}, "thinkingConfig") or {}
    if reply.reasoning and field(thinking, "includeThoughts"):
        parts.append({"text": reply.reasoning, "thought": True})
    if reply.text is not None:
        parts.append({"text": reply.text})
    first = len(parts)
    for index, call in enumerate(reply.calls):
        try:
            args = json.loads(call.raw_arguments)
        except ValueError:
            args = None
        if not isinstance(args, dict):
            # What a model has written and Gemini cannot read never leaves it.
            return [], "MALFORMED_FUNCTION_CALL"
        call_id = call.id or f"call_{token_of(request, reply)}_{index}"
        parts.append({"functionCall": {"id": call_id, "name": call.tool, "args": args}})
    if not signs(request.model):
        for part in parts[first:]:
            del part["functionCall"]["id"]
    elif parts:
        sealed = parts[first] if reply.calls else parts[-1]
        sealed["thoughtSignature"] = signature(sealed)
    return parts, "STOP"


def _streamed(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if part.get("text") is None:
        yield dict(part)
        return
    for piece in pieces(part["text"]):
        yield {"text": piece, **({"thought": True} if part.get("thought") else {})}


def _candidate(parts: Sequence[Mapping[str, Any]], finish: str = "") -> dict[str, Any]:
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content = {"parts": list(parts), **content}
    return {"candidates": [{"content": content, **({"finishReason": finish} if finish else {}), "index": 0}]}


def _head(request: Request, reply: Reply) -> dict[str, Any]:
    return {"modelVersion": request.model, "responseId": token_of(request, reply)}


def _usage(reply: Reply, usage: Usage) -> dict[str, Any]:
    """Return Gemini's counts, in which the thoughts are no part of the candidates'."""
    thoughts = min(reply.reasoning_tokens, usage.output)
    counts = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage.input + usage.output,
    }
    return {name: count for name, count in counts.items() if count}
