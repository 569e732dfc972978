"""Replies of Chat Completions, streamed and whole: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from wane.formats.fields import objects_in
from wane.formats.openai import REASONING_LISTS
from wane.formats.vocabulary import REASONING_TEXTS
from wane.proxy import jsons
from wane.proxy.wire.openai_shared import error_of, token_usage
from wane.proxy.wire.reply import ServerSentEvent, StreamedReply, WholeReply, encode, joint, parse_object
from wane.proxy.wire.wire import BrokenReplyError, Message, OwnCall, Round, Rounds

Chunk: TypeAlias = dict[str, Any]

Content: TypeAlias = Any
"""A message's content: text, a list of parts, or None."""

TEXTS: Final = ("content", *REASONING_TEXTS)
"""Keys of texts that continue from round to round."""

_CALLING: Final = ("tool_calls", "function_call")
# Fields of a delta without visible content.
_UNSEEN: Final = frozenset({"role", "obfuscation"})
_WORDS: Final = ("text", "summary", "data", "thinking", "signature")
_KNOWN: Final = frozenset({"index", "id", "type", "function", "custom"})
_FUNCTION: Final = "function"


class ReceivedCall:
    """A tool call that is being received."""

    __slots__ = ("arguments", "extras", "id", "index", "kind", "name", "own", "waits")

    def __init__(self, index: object) -> None:
        self.index = index if isinstance(index, int) else None  # the provider's
        self.id = ""
        self.kind = _FUNCTION
        self.name = ""
        self.arguments = ""
        self.extras: dict[str, Any] = {}  # fields that vendors add, such as signatures of reasoning
        self.own: bool | None = None  # whether it calls an own tool; None while its name is incomplete
        self.waits = False  # whether pieces of it are held back until then

    def take(self, entry: Mapping[str, Any], own: Container[str], prefixes: Container[str]) -> None:
        """Take in a piece of the call, given the names of the own tools and the prefixes of these names."""
        if not self.id and isinstance(entry.get("id"), str):
            self.id = entry["id"]
        if isinstance(entry.get("type"), str) and entry["type"]:
            self.kind = entry["type"]
        body = entry.get(self.kind)
        if isinstance(body, Mapping):
            name = body.get("name")
            # Some services repeat the name in every piece.
            if isinstance(name, str) and name != self.name:
                self.name += name
            self.arguments += _raw(body.get("arguments", body.get("input")))
        self.extras.update({key: value for key, value in entry.items() if key not in _KNOWN and value is not None})
        if self.own is None and self.kind == _FUNCTION and self.name in own:
            self.own = True
        elif self.own is None:
            certain = self.kind != _FUNCTION or (self.name and (self.arguments or self.name not in prefixes))
            self.own = False if certain else None

    def message(self) -> dict[str, Any]:
        """Return the call in the form of a message."""
        written = "arguments" if self.kind == _FUNCTION else "input"
        body = {"name": self.name, written: self.arguments}
        return {"id": self.id, "type": self.kind, self.kind: body, **self.extras}


class Draft:
    """The assistant's message of one round that is being received.

    Attributes:
        calls: the calls, in order.
        finish: the `finish_reason`; None if none was received yet.
    """

    def __init__(self, own: frozenset[str]) -> None:
        self.calls: list[ReceivedCall] = []
        self.finish: str | None = None
        self._own = own
        self._prefixes = frozenset(name[:end] for name in own for end in range(1, len(name)))
        self._fields: dict[str, Any] = {}

    def take(self, delta: Mapping[str, Any], *, is_message: bool = False) -> list[ReceivedCall]:
        """Take in a delta, or with `is_message` a message; return the call that each entry of its calls is about."""
        for key in (*TEXTS, "refusal"):
            value = delta.get(key)
            if not value or not isinstance(value, str | list):
                continue
            before = self._fields.get(key)
            if isinstance(value, str) and isinstance(before, str | None):
                self._fields[key] = (before or "") + value
            else:
                self._fields[key] = [*as_parts(before), *as_parts(value)] if before is not None else value
        for key in REASONING_LISTS:
            entries = delta.get(key)
            for entry in entries if isinstance(entries, list) else ():
                received = self._fields.setdefault(key, [])
                last = received[-1] if received and not is_message else None
                if isinstance(entry, Mapping) and isinstance(last, Mapping) and _goes_on(last, entry):
                    addition = {name: value for name, value in entry.items() if value is not None}
                    for name in _WORDS:
                        if isinstance(last.get(name), str) and isinstance(addition.get(name), str):
                            addition[name] = last[name] + addition[name]
                    received[-1] = {**last, **addition}
                else:
                    received.append(entry)
        if isinstance(delta.get("audio"), Mapping):
            self._fields["audio"] = {**self._fields.get("audio", {}), **delta["audio"]}
        calls = []
        for entry in entries_of(delta):
            call = None if is_message else self._call_of(entry)
            if call is None:
                call = ReceivedCall(entry.get("index"))
                self.calls.append(call)
            call.take(entry, self._own, self._prefixes)
            calls.append(call)
        return calls

    def settle(self) -> None:
        """Treat calls whose name stayed incomplete as the client's."""
        for call in self.calls:
            call.own = bool(call.own)

    def round(self, seed: str, reply: Mapping[str, Any]) -> Round:
        """Return the completed round of a reply that may report usage; own calls that were cut off are left out."""
        self.settle()
        complete = self.finish not in ("length", "content_filter", "error")
        for number, call in enumerate(self.calls):
            call.id = call.id or "call_" + blake2b(f"{seed}:{number}".encode(), digest_size=12).hexdigest()
        calls = [call for call in self.calls if complete or not call.own or parse_object(call.arguments) is not None]
        own = tuple(OwnCall(call.id, call.name, call.arguments) for call in calls if call.own)
        message: Message = {"role": "assistant", "content": None, **self._fields}
        if calls:
            message["tool_calls"] = [call.message() for call in calls]
        elif message["content"] is None and "refusal" not in message:
            message["content"] = ""
        return Round(message, own, len(calls) - len(own), complete, token_usage(reply, "prompt", "completion"))

    def _call_of(self, entry: Mapping[str, Any]) -> ReceivedCall | None:
        """The call that a piece continues; None if it starts a new one.

        Some services send no index, and a whole call in each piece; others give all calls the same index.
        """
        index, call_id = entry.get("index"), entry.get("id")
        candidates = [call for call in self.calls if not isinstance(index, int) or call.index == index]
        if not candidates:
            return None
        last, body = candidates[-1], entry.get("function")
        named = isinstance(body, Mapping) and bool(body.get("name"))
        if call_id and last.id and call_id != last.id and named:
            return None
        if not isinstance(index, int) and not call_id and named and last.name:
            return None
        return last


class StreamedChat(StreamedReply):
    """A streamed reply.

    Args:
        rounds: has no rounds yet.
        wants_usage: whether the client asked for usage, in a chunk without choices at the end.
    """

    def __init__(self, rounds: Rounds, *, wants_usage: bool) -> None:
        super().__init__(rounds)
        self._wants_usage = wants_usage
        self._has_role = False
        self._next_round()

    def fail(self, status: int, body: bytes) -> bytes:
        """Return an error in the form of streams: an object in place of a chunk."""
        error = error_of(status, body)
        return encode(jsons.dumps({"error": {**error, "code": error.get("code") or status}}))

    def _next_round(self) -> None:
        super()._next_round()
        self._draft = Draft(self._own)
        self._billed: dict[str, Any] = {}
        self._later = bool(self._rounds.done)
        # What the client has seen of earlier rounds, until this round adds to it.
        self._earlier = merge_rounds(self._rounds.done) if self._later else {}

    def _round(self) -> Round:
        if self._draft.finish is None and not self._done:
            raise BrokenReplyError("the provider's stream stopped before its end", cut=self._rounds.id is not None)
        return self._rounds.add(self._draft.round(_seed(self._rounds), self._billed), self._billed.get("usage"))

    def _closing(self) -> Iterator[bytes]:
        hides_all = bool(self._draft.calls) and all(call.own for call in self._draft.calls)
        for event in self._tail:
            chunk = parse_object(event.data)
            if chunk is None:
                yield event.raw  # `[DONE]`
                continue
            choice = _choice(chunk)
            if choice is None and not self._wants_usage and not chunk.get("choices"):
                continue
            changed = self._later
            if hides_all and choice and choice.get("finish_reason") in _CALLING:
                chunk, changed = _with_choice(chunk, {**choice, "finish_reason": "stop"}), True
            if self._later:
                chunk = self._rounds.under_head(chunk)
                if chunk.get("usage"):
                    chunk["usage"] = self._rounds.usage
            yield event.with_data(chunk).raw if changed else event.raw

    def _hides(self) -> bool:
        return any(call.own is not False for call in self._draft.calls)

    def _may_hide(self, begun: bytes) -> bool:
        return b"data:" in begun and b"tool_calls" in begun

    def _event(self, event: ServerSentEvent, chunk: Chunk) -> bytes:
        if chunk.get("error"):
            self._broken(f"the provider's stream holds an error: {chunk['error']!r:.500}")
            return self._pass(event.raw)
        self._rounds.identify(chunk)
        self._billed |= {key: chunk[key] for key in ("usage", "service_tier") if chunk.get(key)}
        choice = _choice(chunk)
        if self._draft.finish is not None or (choice is None and chunk.get("usage")):
            return self._close(event)
        if choice is None:
            return self._pass(self._encode_event(event, chunk, changed=False))
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        calls = self._draft.take(delta)
        reason = choice.get("finish_reason")
        if reason:
            self._draft.finish = str(reason)
            if self._lost and any(call.own is None for call in self._draft.calls):
                return self._obscure()
            self._draft.settle()
        visible = self._visible(delta, calls)
        changed = visible is not delta
        is_visible = any(value for key, value in visible.items() if key not in _UNSEEN)
        if changed:
            choice = {**choice, "delta": visible}
            chunk = _with_choice(chunk, choice)
        if reason and not is_visible:
            return self._close(event.with_data(chunk) if changed else event)
        if reason:
            # The chunk with the reason is held back; its visible content is sent at once.
            now = _with_choice(chunk, {**choice, "finish_reason": None})
            now.pop("usage", None)
            then = {key: value for key, value in choice.items() if key != "logprobs"}
            self._close(event.with_data(_with_choice(chunk, {**then, "delta": {}})))
            return self._show(self._encode_event(event, now, changed=True))
        if not is_visible and "role" not in visible and (self._later or changed):
            return b""
        self._has_role = self._has_role or "role" in visible
        encoded = self._encode_event(event, chunk, changed=changed)
        return self._show(encoded) if is_visible else self._pass(encoded)

    def _encode_event(self, event: ServerSentEvent, chunk: Chunk, *, changed: bool) -> bytes:
        """Return an event's bytes, unchanged unless its chunk was changed or belongs to a later round."""
        if self._later:
            chunk = self._rounds.under_head(chunk)
            if chunk.get("usage"):
                chunk["usage"] = self._rounds.usage_with(chunk["usage"])
        elif not changed:
            return event.raw
        return event.with_data(chunk).raw

    def _visible(self, delta: dict[str, Any], calls: Sequence[ReceivedCall]) -> dict[str, Any]:
        """Return the visible part of a delta; the delta itself if all of it is visible."""
        entries = self._visible_calls(entries_of(delta), calls)
        if not self._later and entries is None:
            return delta
        visible = dict(delta)
        if entries is not None:
            visible.pop("tool_calls", None)
            visible |= {"tool_calls": entries} if entries else {}
        if not self._later:
            return visible
        # A later round continues what the client has seen.
        if self._has_role:
            visible.pop("role", None)
        for key in TEXTS:
            piece = visible.get(key)
            if isinstance(piece, str) and piece:
                before = self._earlier.pop(key, None)
                visible[key] = joint(before, piece) + piece if isinstance(before, str) else piece
        for key in REASONING_LISTS:
            if isinstance(visible.get(key), list):
                visible[key] = shift_indexes(visible[key], next_index(self._earlier.get(key)))
        return visible

    def _visible_calls(
        self, entries: Sequence[dict[str, Any]], calls: Sequence[ReceivedCall]
    ) -> list[dict[str, Any]] | None:
        """Return the entries of calls that the client sees; None if they are as they came."""
        waiting = [call for call in self._draft.calls if call.waits and call.own is False]
        visible: list[dict[str, Any]] = []
        for entry, call in zip(entries, calls, strict=True):
            if call.own is None:
                call.waits = True
            elif not call.own and call not in waiting:
                visible.append(self._number_entry(entry, call))
        for call in waiting:
            call.waits = False
            visible.append(self._number_entry({"index": call.index, **call.message()}, call))
        same = len(visible) == len(entries) and all(
            before is after for before, after in zip(visible, entries, strict=True)
        )
        return None if same else visible

    def _number_entry(self, entry: dict[str, Any], call: ReceivedCall) -> dict[str, Any]:
        """Return an entry with the number that its call has among those that the client sees."""
        if "index" not in entry:
            return entry
        if call.index is None or not isinstance(entry["index"], int):
            return {key: value for key, value in entry.items() if key != "index"}
        hidden = sum(1 for earlier in self._draft.calls if earlier.own and (earlier.index or 0) < call.index)
        return {**entry, "index": call.index - hidden} if hidden else entry


class WholeChat(WholeReply):
    """A reply in one piece."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._last: Chunk = {}

    def finish(self) -> bytes:
        rounds, last = self._rounds, self._last
        if len(rounds.done) == 1 and not rounds.done[0].own:
            return self.held_back()
        choice = _choice(last)
        assert choice is not None
        visible = merge_rounds(rounds.done)
        keys = [key for key in ("content", "tool_calls", *REASONING_TEXTS, *REASONING_LISTS) if key in visible]
        message = {**choice["message"], **{key: visible[key] for key in keys}}
        if "tool_calls" not in visible:
            message.pop("tool_calls", None)
            if choice.get("finish_reason") in _CALLING:
                choice = {**choice, "finish_reason": "stop"}
        body = rounds.under_head(_with_choice(last, {**choice, "message": message}))
        return jsons.dumps({**body, "usage": rounds.usage} if rounds.usage is not None else body)

    def _round(self, body: dict[str, Any]) -> Round:
        choice = _choice(body)
        message = choice.get("message") if choice else None
        if choice is None or not isinstance(message, dict):
            raise BrokenReplyError(f"the provider's reply has no message: {self.held_back()[:200]!r}")
        self._rounds.identify(body)
        self._last = body
        draft = Draft(self._own)
        draft.take(message, is_message=True)
        draft.finish = choice.get("finish_reason")
        return self._rounds.add(draft.round(_seed(self._rounds), body), body.get("usage"))


def entries_of(delta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a delta or a message."""
    return objects_in(delta.get("tool_calls"))


def as_parts(content: Content) -> list[dict[str, Any]]:
    """Return a content as a list of parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def merge_rounds(rounds: Sequence[Round]) -> Message:
    """Return the client's message for the messages of several rounds: without own calls."""
    messages, own = [round_.message for round_ in rounds], {call.id for round_ in rounds for call in round_.own}
    result: Message = {"role": "assistant", "content": join_contents([message.get("content") for message in messages])}
    elsewhere = {*result, *REASONING_TEXTS, *REASONING_LISTS, "tool_calls"}
    result |= {key: value for key, value in messages[-1].items() if key not in elsewhere}
    for key in REASONING_TEXTS:
        if text := join_contents([message.get(key) for message in messages]):
            result[key] = text
    for key in REASONING_LISTS:
        chained: list[Any] = []
        for message in messages:
            if isinstance(message.get(key), list):
                chained += shift_indexes(message[key], next_index(chained))
        if chained:
            result[key] = chained
    calls = [call for message in messages for call in entries_of(message) if call.get("id") not in own]
    if calls:
        return {**result, "tool_calls": calls}
    if result["content"] is None and not result.get("refusal"):
        result["content"] = ""
    return result


def join_contents(contents: Sequence[Content]) -> Content:
    """Return the contents of all rounds as one: text, or a list of parts if one of them is a list.

    None if no round has content.
    """
    some = [content for content in contents if content]
    if all(isinstance(content, str) for content in some):
        text = ""
        for content in some:
            text += joint(text, content) + content
        return text or None
    return [part for content in some for part in as_parts(content)]


def shift_indexes(entries: Sequence[Any], by: int) -> list[Any]:
    """Return entries of a list of reasoning with their indexes shifted."""
    return [{**entry, "index": entry["index"] + by} if by and _is_indexed(entry) else entry for entry in entries]


def next_index(entries: object) -> int:
    """Return the next index after some entries; 0 if none has an index."""
    if not isinstance(entries, list):
        return 0
    return max((entry["index"] for entry in entries if _is_indexed(entry)), default=-1) + 1


def _is_indexed(entry: object) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("index"), int)


def _seed(rounds: Rounds) -> str:
    """The seed of ids in a round."""
    return f"{rounds.id}:{len(rounds.done)}"


def _choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first choice; requests ask for no more."""
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
            return choice
    return None


def _with_choice(chunk: Chunk, choice: dict[str, Any]) -> Chunk:
    """Return a chunk with another first choice."""
    first = _choice(chunk)
    return {**chunk, "choices": [choice if old is first else old for old in chunk["choices"]]}


def _goes_on(last: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether an entry is the next piece of the last one."""
    if last.get("type") != entry.get("type") or last.get("index") != entry.get("index"):
        return False
    has_other_id = last.get("id") and entry.get("id") and last["id"] != entry["id"]
    return not (has_other_id or last.get("signature"))


def _raw(value: object) -> str:
    if isinstance(value, str):
        return value
    # Some servers send the object instead of its text.
    return "" if value is None else jsons.dumps(value).decode()
