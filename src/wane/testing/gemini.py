"""Gemini: `:generateContent`, `:streamGenerateContent` and `:countTokens`.

First the protocol with its answers, then what Gemini refuses, in its words: unknown fields, empty parts, calls and
results out of place, lost signatures. The words were taken from reports of users; the rules on signatures are those of
Google's guide to them. Since Gemini 3 the first call of each content of the current turn must have its signature. That
turn begins at the latest content of the user that has no results.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import FormatError
from wane.core.items import Kind
from wane.formats.gemini import ROLES, is_reasoning, parts_of, seal_of
from wane.formats.gemini_calls import call_ids, field, name_results
from wane.formats.vocabulary import GEMINI
from wane.testing.sent_request import Message, Part, Request, compact, count_chars
from wane.testing.served_calls import write_parts
from wane.testing.wire import Provider, Refused, ScriptedEvent, canonical, check_fields, pieces, token_of

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
_MARK: Final = b"wane--"
_OURS: Final = b64encode(_MARK).decode()
"""The beginning of this server's signatures."""

_SIGNS: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "content": frozenset({"role", "parts"}),
    "function_call": frozenset({"id", "name", "args"}),
    "function_response": frozenset({"id", "name", "response", "parts", "willContinue", "scheduling"}),
}
_TOOLS: Final = frozenset(
    {"functionDeclarations", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "computerUse"}
    | {"fileSearch", "googleMaps", "mcpServers"}
    | {"function_declarations", "google_search", "google_search_retrieval", "code_execution", "url_context"}
    | {"computer_use", "file_search", "google_maps", "mcp_servers"}
)
_DECLARATION: Final = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}
    | {"parameters_json_schema", "response_json_schema"}
)
_SERVED: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Calls that Gemini runs, and their results."""

_DATA: Final = sorted(name for name in GEMINI.blocks["data"] if "_" not in name)


class Gemini(Provider):
    """The protocol of Gemini's models. Model and kind of request stand in the path."""

    api = "gemini"
    serves = ("web_search", "code_execution")
    fields = _CAMEL | {"tool_config", "safety_settings", "system_instruction", "generation_config", "cached_content"}

    def unwrap_body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
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
        readable = ({"role": content.get("role"), "parts": _parts_of(content)} for content in contents)
        for content in name_results(_join_neighbours(readable)):
            is_model = content.get("role") == "model"
            kind = Kind.TEXT if is_model else Kind.USER
            turn += is_model
            yield Message("assistant" if is_model else "user", tuple(_parts(kind, _parts_of(content), turn)))

    def tools(self, body: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        tools: Sequence[Mapping[str, Any]] = body.get("tools") or ()
        declared = [each for tool in tools for each in field(tool, "functionDeclarations") or ()]
        return tuple(str(each.get("name")) for each in declared), sum(count_chars(canonical(tool)) for tool in tools)

    def unknown(self, name: str) -> Refused:
        return _unknown(name)

    def check(self, request: Request) -> None:
        contents = request.body["contents"]
        if not contents:
            raise Refused("* GenerateContentRequest.contents: contents is not specified\n")
        _check_tools(request.body)
        for index, content in enumerate(contents):
            where = f"contents[{index}]"
            _check_fields(content, _FIELDS["content"], where)
            if content.get("role", "user") not in ROLES:
                raise Refused("Please use a valid role: user, model.")
            if not content.get("parts"):
                raise Refused(f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.\n")
            for position, part in enumerate(parts_of(content)):
                _check_part(f"{where}.parts[{position}]", part)
        turns = _join_neighbours(contents)
        _check_turns(turns)
        _check_signatures(turns, request.model)

    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        parts, finish = _content(request, reply)
        return {**_head(request, reply), **_candidate(parts, finish), "usageMetadata": _usage(reply, usage)}

    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[ScriptedEvent]:
        """Yield a response for each piece of a text and for each call; the last one has the reason of the end."""
        parts, finish = _content(request, reply)
        head = _head(request, reply)
        begun = {"promptTokenCount": usage.input, "totalTokenCount": usage.input}
        seal = seal_of(parts[-1]) if parts and parts[-1].get("text") else ""
        for part in parts:
            for piece in _split_part(part):
                yield ScriptedEvent({**head, **_candidate([piece]), "usageMetadata": begun})
        # The signature of a text comes by itself, behind it.
        last = []
        if finish == "STOP":
            last = [{"text": "", "thoughtSignature": seal} if seal else {"text": ""}]
        yield ScriptedEvent({**head, **_candidate(last, finish), "usageMetadata": _usage(reply, usage)})

    def error(self, status: int, message: str) -> dict[str, Any]:
        name = _STATUSES.get(status) or ("UNAVAILABLE" if status > 500 else "FAILED_PRECONDITION")
        return {"error": {"code": status, "message": message, "status": name}}

    def too_long(self, tokens: int, limit: int) -> Refused:
        return Refused(f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).")

    def count(self, request: Request) -> dict[str, Any]:
        return {"totalTokens": request.tokens}


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
        return Part(Kind.RESULT, _read_response(response.get("response")), call_id=call_id, wire=part)
    for name in _SERVED:
        if (served := field(part, name)) is not None:
            return Part(kind, compact(served), signature=seal_of(part) or None, wire=part)
    if kind is Kind.TEXT and is_reasoning(part):
        return Part(Kind.REASONING, str(part.get("text") or ""), signature=seal_of(part) or None, wire=part)
    return Part(kind, str(part.get("text") or ""), signature=seal_of(part) or None, wire=part)


def _read_response(response: Any) -> str:
    """The text of a response: that of its only field, or its JSON."""
    only = next(iter(response.values())) if isinstance(response, dict) and len(response) == 1 else None
    return only if isinstance(only, str) else compact(response)


def _content(request: Request, reply: Reply) -> tuple[list[dict[str, Any]], str]:
    """Return the parts of an answer, and the reason of its end."""
    parts: list[dict[str, Any]] = []
    thinking = field(field(request.body, "generationConfig") or {}, "thinkingConfig") or {}
    if reply.reasoning and field(thinking, "includeThoughts"):
        parts.append({"text": reply.reasoning, "thought": True})
    for index, served in enumerate(reply.served):
        ran, result = write_parts(served, served.id or f"served_{token_of(request, reply)}_{index}")
        seal = {"thoughtSignature": signature(ran)} if "toolCall" in ran else {}
        parts += [{**ran, **seal}, result]
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
    if not _signs(request.model):
        for part in parts[first:]:
            del part["functionCall"]["id"]
    elif parts:
        sealed = parts[first] if reply.calls else parts[-1]
        sealed["thoughtSignature"] = signature(sealed)
    return parts, "STOP"


def _split_part(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
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


def _signs(model: str) -> bool:
    """Whether a model signs its calls, and refuses them without."""
    return _SIGNS.search(model) is not None


def signature(part: Mapping[str, Any]) -> str:
    """Return this server's signature for a part. A call's id is not signed: Gemini CLI (0.61.0) renames calls."""
    plain = {name: value for name, value in part.items() if name not in ("thoughtSignature", "thought_signature")}
    for name in ("functionCall", "function_call"):
        if isinstance(called := plain.get(name), dict):
            plain[name] = {key: value for key, value in called.items() if key != "id"}
    if isinstance(called := plain.get("toolCall"), dict):
        # Google's SDK writes this field in snake case, which the API reads, too.
        plain["toolCall"] = {name.replace("_type", "Type"): value for name, value in called.items()}
    digest = blake2b(canonical(plain).encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
    return b64encode(_MARK + digest.encode()).decode()


def _unknown(name: str, where: str = "") -> Refused:
    """Return the refusal of a field that Gemini does not know."""
    place = f" at '{where}'" if where else ""
    return Refused(f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.')


def _check_fields(owner: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    check_fields(owner, known, lambda name: _unknown(name, where))


def _check_tools(body: Mapping[str, Any]) -> None:
    names: list[str] = []
    for index, tool in enumerate(body.get("tools") or ()):
        _check_fields(tool, _TOOLS, f"tools[{index}]")
        for number, declared in enumerate(field(tool, "functionDeclarations") or ()):
            _check_fields(declared, _DECLARATION, f"tools[{index}].function_declarations[{number}]")
            names.append(str(declared.get("name")))
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"Duplicate function declaration found: {name}")


def _check_part(where: str, part: Mapping[str, Any]) -> None:
    _check_fields(part, GEMINI.blocks["part"], where)
    data = [name for name in _DATA if field(part, name) is not None]
    if not data:
        message = "required oneof field 'data' must have one initialized field"
        raise Refused(f"* GenerateContentRequest.{where}.data: {message}\n")
    if len(data) > 1:
        raise Refused(f"Invalid value at '{where}' (oneof), oneof field 'data' is already set. Cannot set '{data[1]}'")
    for name, snake in (("functionCall", "function_call"), ("functionResponse", "function_response")):
        if (called := field(part, name)) is not None:
            _check_call(f"{where}.{snake}", snake, called)
    seal = seal_of(part)
    if seal.startswith(_OURS) and part.get("text") != "" and seal != signature(part):
        raise Refused("Corrupted thought signature.")


def _check_call(where: str, kind: str, called: Mapping[str, Any]) -> None:
    _check_fields(called, _FIELDS[kind], where)
    if not called.get("name"):
        raise Refused(f"* GenerateContentRequest.{where}.name: Name cannot be empty.\n")
    name = "args" if kind == "function_call" else "response"
    if not isinstance(called.get(name, {}), dict):
        shown = canonical(called[name])
        raise Refused(f"Invalid value at '{where}.{name}' (type.googleapis.com/google.protobuf.Struct), {shown}")


def _join_neighbours(contents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return contents with neighbours of one role joined; streamed chats of Google's SDK have one for each chunk."""
    whole: list[Mapping[str, Any]] = []
    for content in contents:
        if whole and whole[-1].get("role") == content.get("role"):
            whole[-1] = {**whole[-1], "parts": [*whole[-1]["parts"], *content["parts"]]}
        else:
            whole.append(content)
    return whole


def _check_turns(contents: Sequence[Mapping[str, Any]]) -> None:
    """Check that every content with calls has the results behind it, and stands behind the user's."""
    if contents[-1].get("role") == "model":
        raise Refused("Please ensure that multiturn requests ends with a user role or a function response.")
    calls = 0
    before: Mapping[str, Any] = {}
    for content in contents:
        results = _count(content, "functionResponse")
        if results and not calls:
            raise Refused("Please ensure that function response turn comes immediately after a function call turn.")
        if results != calls:
            raise Refused(
                "Please ensure that the number of function response parts is equal to the number of function call"
                " parts of the function call turn."
            )
        calls = _count(content, "functionCall")
        if calls and (not before or before.get("role") == "model"):
            raise Refused(
                "Please ensure that function call turn comes immediately after a user turn or after a function"
                " response turn."
            )
        before = content


def _count(content: Mapping[str, Any], name: str) -> int:
    return sum(field(part, name) is not None for part in content["parts"])


def _check_signatures(contents: Sequence[Mapping[str, Any]], model: str) -> None:
    if not _signs(model):
        return
    for position, called in _first_calls(contents):
        if not seal_of(called):
            name = field(called, "functionCall")["name"]
            raise Refused(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
                " correctly, and missing thought_signature may lead to degraded model performance. Additional data,"
                f" function call `default_api:{name}` , position {position}. Please refer to"
                " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )


def _first_calls(contents: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the first call of each content of the current turn, with the content's number from 1."""
    for number in range(len(contents), 0, -1):
        content = contents[number - 1]
        if content.get("role") != "model" and not _count(content, "functionResponse"):
            return
        calls = [part for part in content["parts"] if field(part, "functionCall") is not None]
        if calls:
            yield number, calls[0]
