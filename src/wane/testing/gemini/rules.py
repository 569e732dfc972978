"""What Gemini refuses, in its words: unknown fields, empty parts, calls and results out of place, lost signatures.

The words were taken from reports of users; the rules on signatures are those of Google's guide to them. Since
Gemini 3 the first call of each content of the current turn must have its signature. That turn begins at the latest
content of the user that has no results.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from wane.formats.gemini import ROLES, parts_of, seal_of
from wane.formats.gemini_calls import field
from wane.formats.vocabulary import GEMINI
from wane.testing.wire import Refused, canonical, check_fields

Body = Mapping[str, Any]

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
_DATA: Final = sorted(name for name in GEMINI.blocks["data"] if "_" not in name)


def signs(model: str) -> bool:
    """Whether a model signs its calls, and refuses them without."""
    return _SIGNS.search(model) is not None


def signature(part: Mapping[str, Any]) -> str:
    """Return this server's signature for a part."""
    plain = {name: value for name, value in part.items() if name not in ("thoughtSignature", "thought_signature")}
    digest = blake2b(canonical(plain).encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
    return b64encode(_MARK + digest.encode()).decode()


def check_request(body: Body, model: str) -> None:
    """Raise `Refused` if Gemini would not take a request."""
    contents = body["contents"]
    if not contents:
        raise Refused("* GenerateContentRequest.contents: contents is not specified\n")
    _check_tools(body)
    for index, content in enumerate(contents):
        _check_content(f"contents[{index}]", content)
    turns = joined(contents)
    _check_turns(turns)
    _check_signatures(turns, model)


def unknown(name: str, where: str = "") -> Refused:
    """Return the refusal of a field that Gemini does not know."""
    place = f" at '{where}'" if where else ""
    return Refused(f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.')


def _check_fields(owner: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    check_fields(owner, known, lambda name: unknown(name, where))


def _check_tools(body: Body) -> None:
    names: list[str] = []
    for index, tool in enumerate(body.get("tools") or ()):
        _check_fields(tool, _TOOLS, f"tools[{index}]")
        for number, declared in enumerate(field(tool, "functionDeclarations") or ()):
            _check_fields(declared, _DECLARATION, f"tools[{index}].function_declarations[{number}]")
            names.append(str(declared.get("name")))
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"Duplicate function declaration found: {name}")


def _check_content(where: str, content: Mapping[str, Any]) -> None:
    _check_fields(content, _FIELDS["content"], where)
    if content.get("role", "user") not in ROLES:
        raise Refused("Please use a valid role: user, model.")
    if not content.get("parts"):
        raise Refused(f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.\n")
    for position, part in enumerate(parts_of(content)):
        _check_part(f"{where}.parts[{position}]", part)


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


def joined(contents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
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
    if not signs(model):
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
