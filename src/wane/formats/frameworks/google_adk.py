"""Contents of Google's Agent Development Kit, which are those of Gemini: `google.genai.types.Content`.

The kit sends calls and results without the ids that it made itself. The results of one answer stand in the content
behind it, in the order of the calls, so that a tool's first call and its first result belong together. Needs the
`google-adk` extra.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError, MissingExtraError
from wane.formats.base import Couplings, Located, NativeFormat, Part
from wane.formats.notices import is_notice
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import compact

try:
    from google.genai import types
except ImportError as error:
    raise MissingExtraError("wane.formats.frameworks.google_adk", "google-adk") from error

_ANOTHER_AGENT: Final = ("For context: below is a transcript of what another agent did", "For context:\n")
"""How the kit begins what it tells an agent of another one's work, in the user's place."""

_AUTHOR: Final = re.compile(r"^\[([^\]\n]+)\] (?:said: |called tool `|`)", re.MULTILINE)
"""How it names the agent, in each part."""

_BYTES_PER_TOKEN: Final = 4


class GoogleADKFormat(NativeFormat[types.Content]):
    """Contents of Google's Agent Development Kit."""

    name = "google_adk"

    def located(self, content: types.Content) -> list[Located[int]]:
        """The parts of a content, each with its location.

        Raises:
            FormatError: for anything that is no content.
        """
        if not isinstance(content, types.Content):
            raise FormatError(f"a message must be a content of google.genai, found {type(content).__name__}")
        if content.role == "model":
            return _couple(content, list(_answer_parts(content)))
        parts = content.parts or []
        kind = Kind.USER
        if all(part.text is not None for part in parts) and (
            is_of_another_agent(content) or is_notice("\n".join(part.text or "" for part in parts))
        ):
            kind = Kind.NOTICE
        return list(_turn_parts(parts, kind)) or [(0, Part(kind))]

    def keep(self, message: types.Content, positions: Sequence[int]) -> types.Content:
        """Return the content with only some of its parts."""
        located, parts = self.located(message), message.parts or []
        return message.model_copy(update={"parts": [parts[located[position][0]] for position in positions]})

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> types.FunctionDeclaration:
        """Return the declaration of a tool."""
        return types.FunctionDeclaration(name=name, description=description, parameters_json_schema=dict(schema))

    def turn(self, text: str) -> types.Content:
        """Return a content of the user."""
        return types.Content(role="user", parts=[types.Part(text=text)])

    def result(self, message: types.Content, position: int, text: str) -> types.Content:
        """Return the content that answers a call."""
        call = (message.parts or [])[self.located(message)[position][0]].function_call
        assert call is not None
        answer = types.FunctionResponse(id=call.id, name=call.name, response={"result": text})
        return types.Content(role="user", parts=[types.Part(function_response=answer)])

    def cleared(self, message: types.Content, position: int, text: str) -> types.Content:
        """Return a content with a text in place of one result's response."""
        location, parts = self.located(message)[position][0], list(message.parts or [])
        response = parts[location].function_response
        assert response is not None
        update = {"response": {"result": text}, "parts": None}
        parts[location] = parts[location].model_copy(update={"function_response": response.model_copy(update=update)})
        return message.model_copy(update={"parts": parts})


def is_of_another_agent(content: types.Content) -> bool:
    """Whether a content tells an agent what another one did."""
    first = content.parts[0].text if content.parts else None
    return bool(first) and (first == "For context:" or str(first).startswith(_ANOTHER_AGENT))


def author_of(content: types.Content) -> str | None:
    """The agent whose work a content tells; None if it tells of none, or does not say of which."""
    texts = (part.text or "" for part in content.parts or ()) if is_of_another_agent(content) else ()
    names = (_AUTHOR.search(text) for text in texts)
    return next((name[1] for name in names if name), None)


def _turn_parts(parts: Sequence[types.Part], kind: Kind) -> Iterator[Located[int]]:
    """What a user or a tool says."""
    counts: Counter[str] = Counter()
    for location, part in enumerate(parts):
        if (response := part.function_response) is not None:
            media = NON_TEXT_TOKENS * len(response.parts or ())
            call_id = _call_id(response, counts)
            yield location, Part(Kind.RESULT, _result_text(response.response), call_id=call_id, extra_tokens=media)
        elif part.text is not None:
            yield location, Part(kind, part.text)
        else:
            yield location, _other_part(part, kind)


def _answer_parts(content: types.Content) -> Iterator[Located[int]]:
    """What a model says."""
    counts: Counter[str] = Counter()
    for location, part in enumerate(content.parts or []):
        seal = len(part.thought_signature or b"") // _BYTES_PER_TOKEN
        if (call := part.function_call) is not None:
            raw = compact(call.args or {})
            yield location, Part(Kind.CALL, call_id=_call_id(call, counts), tool=call.name or "", arguments=raw)
        elif part.thought or (seal and not part.text):
            text = part.text or ""
            yield location, Part(Kind.REASONING, text, extra_tokens=0 if text else seal)
        elif part.text:
            yield location, Part(Kind.TEXT, part.text)
        elif part.text is None and (text_part := _other_part(part, Kind.TEXT)) != Part(Kind.TEXT):
            yield location, text_part


def _couple(content: types.Content, located: list[Located[int]]) -> list[Located[int]]:
    """Add what must stay together (R12).

    A call is refused without the signature of the thought that led to it. It stands on the thought, or on the first of
    several parallel calls. A signed thought is refused without what follows. A provider's call goes with its result.
    """
    if len(located) < 2:
        return located
    parts = [(content.parts or [])[location] for location, _ in located]
    couplings, signed, ran = Couplings(), None, dict[str | None, int]()
    for position, (raw, (_, part)) in enumerate(zip(parts, located, strict=True)):
        if raw.thought_signature:
            if part.kind is Kind.REASONING and position + 1 < len(located):
                couplings.add(position, position + 1)
            if part.kind is Kind.CALL and signed is not None and located[signed][1].kind is Kind.REASONING:
                couplings.add(position, signed)
            signed = position if part.kind in (Kind.REASONING, Kind.CALL) else signed
        elif part.kind is Kind.CALL and signed is not None:
            couplings.add(position, signed)
        if raw.tool_call is not None:
            ran[raw.tool_call.id] = position
        elif raw.tool_response is not None and raw.tool_response.id in ran:
            couplings.mutual(ran[raw.tool_response.id], position)
        elif raw.code_execution_result is not None and position and parts[position - 1].executable_code is not None:
            couplings.mutual(position - 1, position)
    return couplings.applied(located)


def _call_id(call: types.FunctionCall | types.FunctionResponse, counts: Counter[str]) -> str:
    """The id of a call or its result; where it has none, which of the tool's calls it is within its content."""
    name = call.name or ""
    number = counts[name]
    counts[name] += 1
    return call.id or f"{name}#{number}"


def _result_text(response: Mapping[str, Any] | None) -> str:
    """A result as text: what the kit puts around a plain one is left out."""
    if response and response.keys() == {"result"} and isinstance(response["result"], str):
        return str(response["result"])
    try:
        return compact(response or {})
    except FormatError:
        return str(response)


def _other_part(part: types.Part, kind: Kind) -> Part:
    """A part that is no text, call, result or thought."""
    if part.inline_data is not None or part.file_data is not None:
        return Part(kind, extra_tokens=NON_TEXT_TOKENS)
    data = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature", "part_metadata"})
    return Part(kind, compact(data) if data else "")
