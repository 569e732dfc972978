"""Replies of Chat Completions, streamed and whole: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from wane.proxy import jsons
from wane.proxy.wire.base import BrokenReplyError
from wane.proxy.wire.chat.messages import (
    REASONING_LISTS,
    REASONING_TEXTS,
    TEXTS,
    Call,
    Draft,
    entries_of,
    joint,
    merged,
    next_index,
    shifted,
)
from wane.proxy.wire.openai import error_of, token_usage
from wane.proxy.wire.reply import Event, StreamedReply, WholeReply, encode, parsed
from wane.proxy.wire.rounds import Message, Round, Tally

Chunk: TypeAlias = dict[str, Any]

_DONE: Final = b"[DONE]"
_HEAD: Final = ("id", "created", "model")
_CALLING: Final = ("tool_calls", "function_call")
# Fields of a delta without visible content.
_UNSEEN: Final = frozenset({"role", "obfuscation"})


class _Rounds:
    """The completed rounds of a reply.

    Attributes:
        messages: their messages.
        own: ids of own calls in them.
        usage: their combined usage, as the provider reports it.
        head: id, time and model of the reply for the client, from the first round.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.messages: list[Message] = []
        self.own: set[str] = set()
        self.usage: Any = None
        self.head: dict[str, Any] = {}

    def identify(self, chunk: Mapping[str, Any]) -> None:
        """Take the head from a chunk; the very first may have an empty one."""
        if not self.head and chunk.get("id"):
            self.head = {key: chunk[key] for key in _HEAD if key in chunk}

    def under_head(self, chunk: Chunk) -> Chunk:
        """Return a chunk of a later round with the head of the first."""
        return {**chunk, **{key: value for key, value in self.head.items() if key in chunk}}

    def close(self, draft: Draft, usage: Any) -> Round:
        """Complete a round, and return it."""
        draft.settle()
        message = draft.message(f"{self.head.get('id')}:{len(self.messages)}")
        own = draft.own_calls()
        self.messages.append(message)
        self.own.update(call.id for call in own)
        self.usage = self.tally(self.usage, usage)
        return Round(message, own, draft.client_calls(), draft.complete, token_usage(usage, "prompt", "completion"))


class StreamedChat(StreamedReply):
    """A streamed reply; see `Reply`.

    Args:
        own: names of the proxy's own tools.
        wants_usage: whether the client asked for usage, in a chunk without choices at the end.
    """

    def __init__(self, own: frozenset[str], tally: Tally, *, wants_usage: bool) -> None:
        super().__init__()
        self._own = own
        self._wants_usage = wants_usage
        self._rounds = _Rounds(tally)
        self._has_role = False
        self._next_round()

    def finish(self) -> bytes:
        """Return the end of the client's stream."""
        return self._late + b"".join(self._held) + b"".join(map(self._closing, self._tail))

    def fail(self, status: int, body: bytes) -> bytes:
        """Return an error in the form of streams: an object in place of a chunk."""
        error = error_of(status, body)
        return encode(jsons.dumps({"error": {**error, "code": error.get("code") or status}}))

    def _next_round(self) -> None:
        self._draft = Draft(self._own)
        self._usage: Any = None
        self._done = False
        self._tail: list[_Closing] = []
        self._later = bool(self._rounds.messages)
        # What the client has seen of earlier rounds, until this round adds to it.
        self._seen = merged(self._rounds.messages, self._rounds.own) if self._later else {}

    def _round(self) -> Round:
        if self._draft.finish is None and not self._done:
            raise BrokenReplyError("the provider's stream stopped before its end")
        return self._rounds.close(self._draft, self._usage)

    def _closing_held(self) -> bytes:
        return b"".join(it.event.with_data(jsons.dumps(it.chunk)) if it.changed else it.event.raw for it in self._tail)

    def _hides(self) -> bool:
        return any(call.own is not False for call in self._draft.calls)

    def _may_hide(self, begun: bytes) -> bool:
        return b"data:" in begun and b"tool_calls" in begun

    # Events

    def _take(self, event: Event) -> bytes:
        if not event.data:
            return self._pass(event.raw)
        if event.data.strip() == _DONE:
            self._done = True
            self._tail.append(_Closing(event, None))
            return b""
        chunk = parsed(event.data)
        if chunk is None:
            return self._strange(event)
        if chunk.get("error"):
            self._failure = f"the provider's stream holds an error: {chunk['error']!r:.500}"
            self._reported = True
            return self._pass(event.raw)
        self._rounds.identify(chunk)
        self._usage = chunk.get("usage") or self._usage
        choice = _choice(chunk)
        if self._draft.finish is not None or (choice is None and chunk.get("usage")):
            self._tail.append(_Closing(event, chunk))
            return b""
        if choice is None:
            return self._pass(self._encoded(event, chunk, changed=False))
        return self._take_choice(event, chunk, choice)

    def _take_choice(self, event: Event, chunk: Chunk, choice: dict[str, Any]) -> bytes:
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        calls = self._draft.take(delta)
        reason = choice.get("finish_reason")
        if reason:
            self._draft.finish = str(reason)
            if self._lost and any(call.own is None for call in self._draft.calls):
                return self._obscure()
            self._draft.settle()
        shown = self._shown(delta, calls)
        changed = shown is not delta
        seen = any(value for key, value in shown.items() if key not in _UNSEEN)
        if reason:
            return self._end_choice(event, chunk, {**choice, "delta": shown}, seen=seen, changed=changed)
        if not seen and "role" not in shown and (self._later or changed):
            return b""
        self._has_role = self._has_role or "role" in shown
        if changed:
            chunk = _with_choice(chunk, {**choice, "delta": shown})
        encoded = self._encoded(event, chunk, changed=changed)
        return self._show(encoded) if seen else self._pass(encoded)

    def _end_choice(self, event: Event, chunk: Chunk, choice: dict[str, Any], *, seen: bool, changed: bool) -> bytes:
        """Hold back the chunk with the `finish_reason`; its visible content is sent at once."""
        if not seen:
            self._tail.append(_Closing(event, _with_choice(chunk, choice) if changed else chunk, changed))
            return b""
        now = _with_choice(chunk, {**choice, "finish_reason": None})
        now.pop("usage", None)
        then = {key: value for key, value in choice.items() if key != "logprobs"}
        self._tail.append(_Closing(event, _with_choice(chunk, {**then, "delta": {}}), changed=True))
        return self._show(self._encoded(event, now, changed=True))

    def _encoded(self, event: Event, chunk: Chunk, *, changed: bool) -> bytes:
        """Return an event's bytes, unchanged unless its chunk was changed or belongs to a later round."""
        if self._later:
            chunk = self._rounds.under_head(chunk)
            if chunk.get("usage"):
                chunk["usage"] = self._rounds.tally(self._rounds.usage, chunk["usage"])
        elif not changed:
            return event.raw
        return event.with_data(jsons.dumps(chunk))

    def _closing(self, closing: _Closing) -> bytes:
        """Return the bytes of a closing event, after the last round."""
        event, chunk, changed = closing
        if chunk is None:
            return event.raw
        choice = _choice(chunk)
        if choice is None and not self._wants_usage and not chunk.get("choices"):
            return b""
        if choice and choice.get("finish_reason") in _CALLING and self._hides_all:
            chunk, changed = _with_choice(chunk, {**choice, "finish_reason": "stop"}), True
        if self._later:
            chunk = self._rounds.under_head(chunk)
            if chunk.get("usage"):
                chunk["usage"] = self._rounds.usage
        return event.with_data(jsons.dumps(chunk)) if changed or self._later else event.raw

    @property
    def _hides_all(self) -> bool:
        """Whether the last round made calls, and none that the client sees."""
        return bool(self._draft.calls) and not self._draft.client_calls()

    # Deltas

    def _shown(self, delta: dict[str, Any], calls: Sequence[Call]) -> dict[str, Any]:
        """Return the visible part of a delta; the delta itself if all of it is visible."""
        entries = self._shown_calls(entries_of(delta), calls)
        if not self._later and entries is None:
            return delta
        shown = dict(delta)
        if entries is not None:
            shown.pop("tool_calls", None)
            shown |= {"tool_calls": entries} if entries else {}
        if self._later:
            self._go_on(shown)
        return shown

    def _go_on(self, shown: dict[str, Any]) -> None:
        """Change a delta of a later round so that it continues what the client has seen."""
        if self._has_role:
            shown.pop("role", None)
        for key in TEXTS:
            piece = shown.get(key)
            if isinstance(piece, str) and piece:
                before = self._seen.pop(key, None)
                shown[key] = joint(before, piece) + piece if isinstance(before, str) else piece
        for key in REASONING_LISTS:
            if isinstance(shown.get(key), list):
                shown[key] = shifted(shown[key], next_index(self._seen.get(key)))

    def _shown_calls(self, entries: Sequence[dict[str, Any]], calls: Sequence[Call]) -> list[dict[str, Any]] | None:
        """Return the entries of calls that the client sees; None if they are as they came."""
        waiting = [call for call in self._draft.calls if call.waits and call.own is False]
        shown: list[dict[str, Any]] = []
        for entry, call in zip(entries, calls, strict=True):
            if call.own is None:
                call.waits = True
            elif not call.own and call not in waiting:
                shown.append(self._numbered(entry, call))
        for call in waiting:
            call.waits = False
            shown.append(self._numbered({"index": call.index, **call.whole()}, call))
        same = len(shown) == len(entries) and all(one is other for one, other in zip(shown, entries, strict=True))
        return None if same else shown

    def _numbered(self, entry: dict[str, Any], call: Call) -> dict[str, Any]:
        """Return an entry with the number that its call has among those that the client sees."""
        if call.index is None or not isinstance(entry.get("index"), int):
            return {key: value for key, value in entry.items() if key != "index"} if "index" in entry else entry
        hidden = sum(1 for other in self._draft.calls if other.own and (other.index or 0) < call.index)
        return {**entry, "index": call.index - hidden} if hidden else entry


class WholeChat(WholeReply):
    """A reply in one piece; see `Reply`.

    Args:
        own: names of the proxy's own tools.
    """

    def __init__(self, own: frozenset[str], tally: Tally) -> None:
        super().__init__(own)
        self._rounds = _Rounds(tally)
        self._last: Chunk = {}

    def finish(self) -> bytes:
        """Return the client's reply."""
        rounds, last = self._rounds, self._last
        if len(rounds.messages) == 1 and not rounds.own:
            return self.rest()
        choice = _choice(last)
        assert choice is not None
        shown = merged(rounds.messages, rounds.own)
        keys = [key for key in ("content", "tool_calls", *REASONING_TEXTS, *REASONING_LISTS) if key in shown]
        message = {**choice["message"], **{key: shown[key] for key in keys}}
        if "tool_calls" not in shown:
            message.pop("tool_calls", None)
            if choice.get("finish_reason") in _CALLING:
                choice = {**choice, "finish_reason": "stop"}
        body = rounds.under_head(_with_choice(last, {**choice, "message": message}))
        return jsons.dumps({**body, "usage": rounds.usage} if rounds.usage is not None else body)

    def _round(self, body: dict[str, Any]) -> Round:
        choice = _choice(body)
        message = choice.get("message") if choice else None
        if choice is None or not isinstance(message, dict):
            raise BrokenReplyError(f"the provider's reply has no message: {self.rest()[:200]!r}")
        self._rounds.identify(body)
        self._last = body
        draft = Draft(self._own)
        draft.take(message, whole=True)
        draft.finish = choice.get("finish_reason")
        return self._rounds.close(draft, body.get("usage"))


class _Closing(NamedTuple):
    """An event that waits for the end of the reply, its chunk, and whether the chunk was changed."""

    event: Event
    chunk: Chunk | None
    changed: bool = False


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
    return {**chunk, "choices": [choice if each is first else each for each in chunk["choices"]]}
