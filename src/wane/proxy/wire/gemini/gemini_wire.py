"""Gemini: `:generateContent`, `:streamGenerateContent` and `:countTokens`, below `v1beta`, `v1` or Vertex AI's paths.

Model and verb stand in the path. In a body here they are the fields `model` and `stream`, which never go upstream.
Signatures stay with their parts. A client sees no own call, so a call that Gemini signed by an own one before it comes
back without a signature; expansion puts the own call back with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from wane.conversation.request import Tool
from wane.core.errors import FormatError
from wane.formats.fields import objects_in
from wane.formats.gemini import UNCHECKED, GeminiFormat, is_reasoning, merge_contents, seal_of
from wane.formats.gemini_calls import as_called, field, name_results
from wane.formats.message_format import Part, WritingFormat
from wane.proxy import jsons
from wane.proxy.wire.blocks import Block, BlockReader, expand_message
from wane.proxy.wire.gemini.gemini_reply import (
    StreamedContents,
    WholeContents,
    error_body,
    list_parts,
    read_text,
    separate_texts,
    tool_of,
    without_calls,
    without_signature,
)
from wane.proxy.wire.wire import (
    AnsweredRound,
    Body,
    ClientReply,
    Correction,
    Equipped,
    Message,
    OwnCall,
    Round,
    Rounds,
    ViewMessage,
    Wire,
)

_TOLD: Final = ("model", "stream", "array")
"""Fields of a body that tell what its path says."""

_FORMAT: Final = GeminiFormat()
_FIXED: Final = ("systemInstruction", "tools", "toolConfig")
_SIGNATURE: Final = re.compile(rb"thought.?signature", re.IGNORECASE)
_EVENTS: Final = b"alt=sse"


class GeminiWire(Wire):
    """The protocol of Gemini's models."""

    name = "gemini"
    provider = "gcp.gemini"
    paths = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent|(?P<counts>countTokens))/?$")
    own_headers = frozenset({b"x-goog-api-key"})
    system = ("systemInstruction", "system_instruction")
    history = "contents"
    format: WritingFormat[Message] = _FORMAT

    def read_path(self, body: Body, path: str, query: bytes) -> Body:
        """Return a client's body with the model and the form of the reply, and its results with the ids of calls."""
        match = self.paths.search(path)
        model, verb = (match[1], match[2]) if match else ("", "")
        inner = body.get("generateContentRequest")
        if verb == "countTokens" and isinstance(inner, dict):
            body = inner
        streams = verb.startswith("stream")
        told = {"model": model, "stream": streams, "array": streams and _EVENTS not in query.split(b"&")}
        contents = body.get("contents")
        return {**body, **told, **({"contents": name_results(contents)} if isinstance(contents, list) else {})}

    def outgoing(self, body: Body, path: str, *, counts: bool) -> Body:
        """Return a body as it goes upstream; to count tokens, the whole request, with tools and instructions."""
        sent = {name: value for name, value in body.items() if name not in _TOLD}
        if not counts or sent.keys() <= {"contents"} or "/publishers/" in path:
            return sent
        return {"generateContentRequest": {"model": f"models/{body.get('model')}", **sent}}

    def target(self, body: Body, target: bytes) -> bytes:
        """Return the target of a request: the proxy reads events, whatever form the client asked for."""
        if not body.get("array"):
            return target
        path, _, query = target.partition(b"?")
        others = [part for part in query.split(b"&") if part and not part.startswith(b"alt=")]
        return path + b"?" + b"&".join([*others, _EVENTS])

    def why_unmanaged(self, body: Body) -> str | None:
        contents, config = body.get("contents"), field(body, "generationConfig")
        if not isinstance(contents, list) or not contents:
            return "its contents are not a list of contents"
        if not isinstance(body.get("tools") or [], list):
            return "its tools are not a list"
        if not isinstance(field(body, "systemInstruction") or {}, dict):
            return "its systemInstruction is no content"
        if not self.tools(body):
            return "it has no tools that the client runs"
        if field(body, "cachedContent"):
            return "it uses a cache with instructions and tools of its own"
        config = config if isinstance(config, dict) else {}
        if (config.get("candidateCount") or config.get("candidate_count") or 1) != 1:
            return "it asks for several answers"
        modalities = config.get("responseModalities") or config.get("response_modalities") or ["TEXT"]
        return None if modalities == ["TEXT"] else "it asks for more than text"

    def tools(self, body: Body) -> frozenset[str]:
        names = (declared.get("name") for tool in _tools(body) for declared in _declarations(tool))
        return frozenset(name for name in names if isinstance(name, str))

    def messages(self, body: Body) -> list[Message]:
        contents = body.get("contents")
        if not isinstance(contents, list) or not all(isinstance(content, dict) for content in contents):
            raise FormatError("contents must be a list of objects, each with parts")
        return contents

    def fixed_data(self, equipped: Equipped) -> object:
        return {name: value for name in _FIXED if (value := field(equipped.body, name))}

    def canonical(self, message: Message) -> object:
        """Return a content without signatures, which some clients set and remove."""
        parts = message.get("parts")
        if not isinstance(parts, list) or not any(isinstance(part, dict) and seal_of(part) for part in parts):
            return message
        return {**message, "parts": [without_signature(part) if isinstance(part, dict) else part for part in parts]}

    def shape_parts(self, message: Message, parts: list[Part] | None = None) -> list[Part]:  # noqa: ARG002 - those have ids
        """Return the parts of a content, without ids of calls, because clients give ids to calls that have none."""
        nameless = [_nameless(part) for part in list_parts(message)]
        return self.format.parts({**message, "parts": nameless})

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Equipped:
        """Return a body with own functions behind the client's, and the guidance as the last part of the instruction.

        They stand in the client's list of functions: Vertex AI takes several such lists only for searches.
        """
        equipped = dict(body)
        if tools:
            listed_tools = _tools(body)
            last = max(number for number, tool in enumerate(listed_tools) if _declarations(tool))
            theirs = listed_tools[last]
            name = "functionDeclarations" if "functionDeclarations" in theirs else "function_declarations"
            declared = _declarations(theirs)
            for own in tools:
                declared += _FORMAT.tool(own.name, own.description, own.schema)["functionDeclarations"]
            listed_tools[last] = {**theirs, name: declared}
            equipped["tools"] = listed_tools
        if guidance:
            name = "system_instruction" if "system_instruction" in body else "systemInstruction"
            instruction = body.get(name) or {}
            parts = instruction.get("parts") or []
            given = parts if isinstance(parts, list) else [parts]
            equipped[name] = {**instruction, "parts": [*given, {"text": guidance}]}
        return Equipped(equipped)

    def with_messages(self, equipped: Equipped, view: Sequence[ViewMessage], history: Sequence[Message]) -> Body:  # noqa: ARG002
        """Return a body with the contents of a view in place of its own; neighbours of one role are joined.

        Those that the client sent itself stay as they are.
        """
        placed: list[Message] = []
        unchanged: list[bool] = []
        before: ViewMessage | None = None
        for shown in view:
            as_sent, before = shown.was_sent_behind(before), shown
            if placed and not as_sent and _is_model(placed[-1]) == _is_model(shown.message):
                placed[-1], unchanged[-1] = merge_contents(placed[-1], shown.message), False
            else:
                placed.append(shown.message)
                unchanged.append(shown.sent and shown.positions is None)
        called = [content if _is_model(content) else None for content in placed]
        contents = [
            content if is_same else as_called(content, previous)
            for content, is_same, previous in zip(placed, unchanged, [None, *called], strict=False)
        ]
        return {**equipped.body, "contents": contents}

    def add_note(self, body: Body, text: str) -> Body:
        """Return a body with a note as the last part of its last content, unless that is the model's."""
        *before, last = body["contents"]
        if _is_model(last):
            return body
        return {**body, "contents": [*before, {**last, "parts": [*list_parts(last), {"text": text}]}]}

    def expand(self, message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
        return expand_message(message, rounds, _PARTS)

    def visible(self, rounds: Sequence[Round]) -> Message:
        own = {call.tool for round_ in rounds for call in round_.own}
        return {
            "role": "model",
            "parts": separate_texts([without_calls(list_parts(round_.message), own) for round_ in rounds]),
        }

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return one content with a response for each call; none if there are none."""
        parts = [
            {"functionResponse": {"id": call.id, "name": call.tool, "response": {"output": text}}}
            for call, text in answers
        ]
        return ({"role": "user", "parts": parts},) if parts else ()

    def correction(self, status: int, error: bytes, body: Body, sent: Body) -> Correction | None:  # noqa: ARG002
        """Return the correction of a request that was refused for its signatures.

        Some are refused after a change of model or key, and clients lose some. Google's guide has a signature for
        calls without a valid one.
        """
        if status != 400 or not _SIGNATURE.search(error):
            return None
        refused = frozenset(
            seal for content in body["contents"] for part in list_parts(content) if (seal := seal_of(part))
        )
        return partial(_skip_signatures, refused)

    def reply(self, body: Body, own: frozenset[str], *, sums: bool = True) -> ClientReply:
        rounds = Rounds(own, ("responseId", "modelVersion"), sums=sums)
        if not body.get("stream"):
            return WholeContents(rounds)
        return StreamedContents(rounds, array=bool(body.get("array")))

    def error(self, status: int, message: str) -> bytes:
        return error_body(status, message)


class _Parts(BlockReader):
    """Parts, as hidden rounds are put back into contents."""

    # The signature of a text may be a part of its own, behind it.
    ends_in_reasoning = True

    def blocks(self, message: Message) -> list[Block]:
        return list_parts(message)

    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        return message if blocks == message.get("parts") else {**message, "parts": blocks}

    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        results = (part for round_ in rounds for result in round_.results for part in list_parts(result))
        answers = (field(part, "functionResponse") for part in results)
        return frozenset(str(answer.get("name")) for answer in answers if isinstance(answer, dict))

    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        return tool_of(block) in own

    def is_call(self, block: Block) -> bool:
        return field(block, "functionCall") is not None

    def is_reasoning(self, block: Block) -> bool:
        return is_reasoning(block)

    def text(self, block: Block) -> str:
        return read_text(block).strip()

    def keys(self, block: Block) -> Sequence[object]:
        if is_reasoning(block):
            return [("thought", str(block.get("text") or seal_of(block)))]
        if (call := field(block, "functionCall")) is not None:
            # Some clients give calls ids of their own.
            return [("call", str(call.get("name")), jsons.dumps(call.get("args") or {}, canonical=True))]
        if block.get("text") is not None:
            return ()
        return [jsons.dumps(without_signature(block), canonical=True)]

    def restore_block(self, block: Block, original: Block) -> Block:
        if (text := self.text(block)) and text == self.text(original):
            # The text of a round may have got a separator ahead of it.
            block = {**block, "text": original["text"]}
        elif block.get("text") is not None and not is_reasoning(block):
            return block
        # Some clients sign calls themselves that seem to have lost their signature, and later no longer do.
        plain, seal = without_signature(block), seal_of(original)
        restored = {**plain, "thoughtSignature": seal} if seal else plain
        return block if restored == block else restored


_PARTS: Final = _Parts()


def _skip_signatures(refused: frozenset[str], body: Body, sent: Body) -> Body:  # noqa: ARG001 - the signature of corrections
    """Return a body whose first calls have a signature that is not checked in place of refused ones, or of none."""
    contents = [_with_unchecked(content, refused) if _is_model(content) else content for content in body["contents"]]
    changed = any(one is not other for one, other in zip(contents, body["contents"], strict=True))
    return {**body, "contents": contents} if changed else body


def _with_unchecked(content: Message, refused: frozenset[str]) -> Message:
    parts, first = list[Block](), True
    for part in list_parts(content):
        calls = field(part, "functionCall") is not None
        lost = not seal_of(part) or seal_of(part) in refused
        plain = without_signature(part) if seal_of(part) in refused else part
        if calls and first and lost:
            plain = {**plain, "thoughtSignature": UNCHECKED[0]}
        first = first and not calls
        if plain not in ({"text": ""}, {}):
            parts.append(plain)
    return content if parts == content.get("parts") or not parts else {**content, "parts": parts}


def _is_model(content: Message) -> bool:
    return content.get("role") == "model"


def _tools(body: Body) -> list[dict[str, Any]]:
    return objects_in(body.get("tools"))


def _declarations(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return objects_in(field(tool, "functionDeclarations"))


def _nameless(part: Block) -> Block:
    for name in ("functionCall", "function_call", "functionResponse", "function_response"):
        if isinstance(part.get(name), dict):
            return {**part, name: {key: value for key, value in part[name].items() if key != "id"}}
    return part
