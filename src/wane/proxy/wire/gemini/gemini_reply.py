"""Gemini's replies, streamed and whole: all rounds as one, without own calls.

A streamed reply consists of responses, each with some parts. The one with a `finishReason` is the last. Asked without
`alt=sse`, Gemini streams an array of them: the proxy then asks for events, and makes the array itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Final

from wane.formats.fields import objects_in, raw_text
from wane.formats.gemini import is_reasoning, seal_of
from wane.formats.gemini_calls import call_ids, field
from wane.prices import TokenUsage
from wane.proxy import jsons
from wane.proxy.wire.blocks import Block
from wane.proxy.wire.reply import (
    ServerSentEvent,
    StreamedReply,
    WholeReply,
    count,
    encode,
    error_in,
    joint,
    parse_object,
)
from wane.proxy.wire.wire import BrokenReplyError, Message, OwnCall, Round, Rounds

_COMPLETE: Final = "STOP"
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class StreamedContents(StreamedReply):
    """A reply as server-sent events or, if the client asked for it, as an array.

    Args:
        rounds: has no rounds yet.
        array: whether the client gets an array.
    """

    def __init__(self, rounds: Rounds, *, array: bool = False) -> None:
        super().__init__(rounds)
        self._array, self._elements = array, 0
        self._before = self._said = ""  # the latest text of earlier rounds, and of this one
        self.content_type = b"application/json" if array else None
        self._next_round()

    def finish(self) -> bytes:
        last = super().finish()
        if self._array:
            last += b"\n]\n" if self._elements else b"[]\n"
        return last

    def fail(self, status: int, body: bytes) -> bytes:
        error = error_of(status, body)
        return self._element(error) + b"\n]\n" if self._array else encode(error)

    def _next_round(self) -> None:
        super()._next_round()
        self._before, self._said = self._said or self._before, ""
        self._parts: list[Block] = []
        self._usage: dict[str, Any] = {}
        self._finish: object = None  # its reason; empty if the prompt was blocked
        self._own_seen = False

    def _round(self) -> Round:
        if self._finish is None:
            begun = bool(self._parts or self._usage)
            raise BrokenReplyError("the provider's stream ended without a finishReason", cut=begun)
        round_ = make_round(self._parts, self._own, self._finish, self._usage)
        return self._rounds.add(round_, self._usage or None)

    def _event(self, event: ServerSentEvent, data: dict[str, Any]) -> bytes:
        if "error" in data:
            self._broken(f"the provider ended its stream with an error: {data['error']!s:.80}")
            return self._show(self._same(event))
        candidate = _candidate(data)
        parts = list_parts(_object(candidate.get("content")))
        hidden = [part for part in parts if tool_of(part) in self._own]
        self._parts += parts
        self._own_seen = self._own_seen or bool(hidden)
        if isinstance(usage := data.get("usageMetadata"), dict):
            self._usage = usage
        if not self._rounds.done:
            self._rounds.identify(data)
        finish = candidate.get("finishReason")
        if finish is None and _object(data.get("promptFeedback")).get("blockReason") and not candidate:
            finish = ""
        seen = [self._separate_text(part) for part in parts if part not in hidden]
        if finish is not None:
            self._finish = finish
            return self._last(event, data, seen)
        if hidden:
            return self._show(self._encode_changed(data, seen)) if seen else b""
        show = self._show if any(map(_is_seen, parts)) else self._pass
        return show(self._same(event) if not self._rounds.done else self._encode_changed(data, seen))

    def _separate_text(self, part: Block) -> Block:
        """Return a part that the client sees; the first text of a later round gets a separator ahead of it."""
        text = read_text(part)
        between = joint(self._before, text) if text and not self._said else ""
        self._said = text or self._said
        return {**part, "text": between + text} if between else part

    def _last(self, event: ServerSentEvent, data: dict[str, Any], seen: list[Block]) -> bytes:
        """Hold the last response back, without the parts that it shows if the round has own calls, and so may go on."""
        if not self._own_seen:
            return self._close(event.with_data(_with_parts(data, seen)) if self._rounds.done else event)
        out = self._show(self._encode_changed(data, seen, ends=False)) if seen else b""
        self._close(event.with_data(_with_parts(data, [])))
        return out

    def _closing(self) -> Iterator[bytes]:
        for event in self._tail:
            data = parse_object(event.data)
            if data is None or (len(self._rounds.done) == 1 and not self._own_seen):
                yield self._same(event)
                continue
            parts = list_parts(_object(_candidate(data).get("content")))
            usage = {"usageMetadata": self._rounds.usage} if self._rounds.usage else {}
            yield self._encode_changed({**data, **usage}, parts)

    def held_back(self) -> bytes:
        """Return the data that was held back; an array stays without its end."""
        if not self._array:
            return super().held_back()
        self._begin_round()
        return self._late + b"".join(self._waiting) + b"".join(map(self._same, self._tail))

    def _hides(self) -> bool:
        return self._own_seen

    def _may_hide(self, begun: bytes) -> bool:
        return any(b'"%b"' % name.encode() in begun for name in self._own) or (
            bool(self._own) and (b"functionCall" in begun or b"function_call" in begun)
        )

    def _same(self, event: ServerSentEvent) -> bytes:
        return self._element(event.data) if self._array else event.raw

    def _encode_changed(self, data: dict[str, Any], parts: list[Block], *, ends: bool = True) -> bytes:
        changed = self._rounds.under_head(_with_parts(data, parts, ends=ends))
        encoded = jsons.dumps(changed)
        return self._element(encoded) if self._array else encode(encoded)

    def _element(self, data: bytes) -> bytes:
        """Return an element of the array; they are given out in the order in which they are made."""
        self._elements += 1
        return (b"[" if self._elements == 1 else b",\r\n") + data

    def _strange(self, event: ServerSentEvent) -> bytes:
        self._failure = self._failure or self._lost
        return b"" if self._array else super()._strange(event)

    def _pass(self, data: bytes) -> bytes:
        # A comment of an event stream has no place in an array.
        return b"" if self._array and data.startswith(b":") else super()._pass(data)


class WholeContents(WholeReply):
    """A reply in one piece of JSON: a response, or an array of them that the proxy only watches."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._bodies: list[dict[str, Any]] = []

    def finish(self) -> bytes:
        rounds, last = self._rounds, self._bodies[-1]
        parts = [list_parts(_object(_candidate(body).get("content"))) for body in self._bodies]
        seen = [without_calls(round_, self._own) for round_ in parts]
        if len(parts) == 1 and len(seen[0]) == len(parts[0]):
            return self.held_back()
        usage = {"usageMetadata": rounds.usage} if rounds.usage else {}
        return jsons.dumps(rounds.under_head({**_with_parts(last, separate_texts(seen)), **usage}))

    def _read(self, data: bytes) -> dict[str, Any] | None:
        body = parse_object(data)
        if body is not None:
            return body
        try:
            responses = jsons.loads(data)
        except ValueError:
            return None
        return _as_one(responses) if isinstance(responses, list) else None

    def _round(self, body: dict[str, Any]) -> Round:
        if "candidates" not in body and "promptFeedback" not in body:
            raise BrokenReplyError(f"the provider's reply has no candidates: {self.held_back()[:80]!r}")
        candidate, usage = _candidate(body), body.get("usageMetadata")
        self._bodies.append(body)
        self._rounds.identify(body)
        parts = list_parts(_object(candidate.get("content")))
        return self._rounds.add(make_round(parts, self._own, candidate.get("finishReason"), usage), usage)


def tool_of(part: Block) -> str | None:
    """Return the name of the tool that a part calls; None if it is no call."""
    call = field(part, "functionCall")
    name = call.get("name") if isinstance(call, dict) else None
    return name if isinstance(name, str) else None


def without_signature(part: Block) -> Block:
    """Return a part without its signature."""
    return {name: value for name, value in part.items() if name not in ("thoughtSignature", "thought_signature")}


def list_parts(message: Message) -> list[Block]:
    """Return the parts of a content; none if it has no list of them."""
    return objects_in(message.get("parts"))


def without_calls(parts: Iterable[Block], tools: Container[str]) -> list[Block]:
    """Return parts without the calls of some tools."""
    return [part for part in parts if tool_of(part) not in tools]


def separate_texts(rounds: Sequence[Sequence[Block]]) -> list[Block]:
    """Return the parts of several rounds as the client gets them, with a separator between the texts of two rounds."""
    parts, before = list[Block](), ""
    for round_ in rounds:
        texts = [number for number, part in enumerate(round_) if read_text(part)]
        for number, part in enumerate(round_):
            first = texts[:1] == [number]
            parts.append({**part, "text": joint(before, part["text"]) + part["text"]} if first else part)
        before = round_[texts[-1]]["text"] if texts else before
    return parts


def read_text(part: Block) -> str:
    """Return what the model says in a part; empty for reasoning and other parts."""
    text = part.get("text")
    return text if isinstance(text, str) and not is_reasoning(part) else ""


def make_round(parts: Sequence[Block], own: frozenset[str], finish: object, usage: object) -> Round:
    """Return the round of a reply.

    Args:
        parts: its parts, in order; texts may be cut into pieces.
        own: names of the proxy's own tools.
        finish: its `finishReason`.
        usage: its usage, as the provider reported it.
    """
    message: Message = {"role": "model", "parts": _join_texts(parts)}
    id_of = call_ids()
    calls: list[OwnCall] = []
    client_calls = 0
    for part in message["parts"]:
        tool = tool_of(part)
        if tool is None:
            continue
        call = field(part, "functionCall")
        call_id = id_of(call, tool)
        if tool in own:
            calls.append(OwnCall(call_id, tool, raw_text(call.get("args")) or "{}"))
        else:
            client_calls += 1
    return Round(message, tuple(calls), client_calls, finish == _COMPLETE, tokens_of(usage))


def tokens_of(usage: object) -> TokenUsage | None:
    """Return a reported usage, whose input includes cached tokens; None if nothing was reported.

    Results of Gemini's own tools are input, too, but no part of the request.
    """
    prompt, results = count(usage, "promptTokenCount"), count(usage, "toolUsePromptTokenCount")
    output = count(usage, "candidatesTokenCount") + count(usage, "thoughtsTokenCount")
    read = min(prompt + results, count(usage, "cachedContentTokenCount"))
    if not prompt + results + output:
        return None
    first = TokenUsage(prompt, output, min(read, prompt)) if results else None
    return TokenUsage(prompt + results, output, read, first=first)


def error_body(status: int, message: str) -> bytes:
    """Return an error body in Gemini's format."""
    name = _STATUSES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return jsons.dumps({"error": {"code": status, "message": message, "status": name}})


def error_of(status: int, body: bytes) -> bytes:
    """Return a provider's error body as one line of JSON in Gemini's format, whatever format it has."""
    error = error_in(status, body)
    return error_body(status, error) if isinstance(error, str) else jsons.dumps(parse_object(body))


def _join_texts(parts: Sequence[Block]) -> list[Block]:
    """Join the pieces of a text. A part with a signature is never joined, as Gemini's guide asks."""
    whole: list[Block] = []
    for part in parts:
        before = whole[-1] if whole else {}
        if _is_piece(part) and _is_piece(before) and part.keys() == before.keys():
            whole[-1] = {**before, "text": before["text"] + part["text"]}
        else:
            whole.append(part)
    return [part for part in whole if part != {"text": ""}]


def _is_piece(part: Block) -> bool:
    return isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"} and not seal_of(part)


def _is_seen(part: Block) -> bool:
    return bool(part.get("text")) or not (is_reasoning(part) or part == {"text": ""})


def _with_parts(data: dict[str, Any], parts: list[Block], *, ends: bool = True) -> dict[str, Any]:
    """Return a response with other parts; not the last one if it does not end."""
    candidate = _candidate(data)
    content = {"role": "model", **_object(candidate.get("content")), "parts": parts}
    if not parts:
        del content["parts"]
    changed = {**candidate, "content": content}
    if not ends:
        changed.pop("finishReason", None)
    return {**data, "candidates": [changed]} if candidate else data


def _as_one(responses: list[Any]) -> dict[str, Any] | None:
    """Return the responses of a stream as one; None if there are none, or they are no objects."""
    if not responses or not all(isinstance(response, dict) for response in responses):
        return None
    parts, last = list[Block](), dict[str, Any]()
    for response in responses:
        parts += list_parts(_object(_candidate(response).get("content")))
        last |= response
    return _with_parts(last, parts)


def _candidate(data: dict[str, Any]) -> dict[str, Any]:
    candidates = data.get("candidates")
    return _object(candidates[0]) if isinstance(candidates, list) and candidates else {}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
