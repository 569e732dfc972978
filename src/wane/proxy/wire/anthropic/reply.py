"""Anthropic's replies, streamed and whole: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.proxy import jsons
from wane.proxy.wire.anthropic.messages import Block, is_blank
from wane.proxy.wire.base import BrokenReplyError
from wane.proxy.wire.reply import Event, Splitter, StreamedReply, WholeReply, encode, parsed
from wane.proxy.wire.rounds import OwnCall, Round, Tally, TokenUsage, count

# Stop reasons of a model that ended by itself; others are a limit, a pause, a refusal, or unknown.
_COMPLETE: Final = ("end_turn", "tool_use", "stop_sequence")
_INVALID: Final = "INVALID_JSON"
# The field that a delta extends, by its type: the same in the delta and, except for arguments, in the block.
_GROWING: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_ARGUMENTS: Final = "partial_json"
_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class StreamedMessage(StreamedReply):
    """A reply as server-sent events; see `Reply`.

    Args:
        own: names of the proxy's own tools.
        tally: combines the usage of several rounds.
    """

    def __init__(self, own: frozenset[str], tally: Tally) -> None:
        super().__init__()
        self._own, self._tally = own, tally
        self._shown = 0  # number of blocks sent to the client
        self._rounds: list[Round] = []
        self._usage: Any = None  # of the completed rounds
        self._handlers: Mapping[str, Callable[[Event, dict[str, Any]], bytes]] = {
            "content_block_delta": self._delta,
            "content_block_start": self._start,
            "content_block_stop": self._stop,
            "message_delta": self._close,
            "message_start": self._head,
            "message_stop": self._close,
            "ping": self._ping,
            "error": self._error,
        }
        self._next_round()

    def finish(self) -> bytes:
        """Return the end of the client's reply."""
        stops_for_own_calls = (
            _object(self._ending.get("delta")).get("stop_reason") == "tool_use"
            and self._hides()
            and not self._rounds[-1].calls
        )
        if len(self._rounds) == 1 and not stops_for_own_calls:
            return self._show(self._closing_held())
        ending = self._ending
        if stops_for_own_calls:
            ending["delta"]["stop_reason"] = "end_turn"
        if len(self._rounds) > 1:
            ending["usage"] = self._usage
        deltas = [event for event in self._closing if _kind(event) == "message_delta"]
        others = (event.raw for event in self._closing if event not in deltas)
        return self._show(b"".join([encode(jsons.dumps(ending), deltas[0].name), *others]))

    def fail(self, status: int, body: bytes) -> bytes:
        """Return the event with the provider's error."""
        return encode(as_error(status, body), "error")

    def _next_round(self) -> None:
        self._slots: dict[int, Slot] = {}  # by the provider's index
        self._given: dict[str, Any] = {}  # usage, as the provider reported it
        self._deltas: list[dict[str, Any]] = []  # `message_delta` events, parsed; usually one
        self._closing: list[Event] = []  # the events from these on
        self._stopped = False  # whether `message_stop` was received

    def _round(self) -> Round:
        if not self._deltas or not self._stopped:
            missing = "message_stop" if self._deltas else "message_delta"
            raise BrokenReplyError(f"the provider's stream ended without {missing}")
        stop = _object(self._ending.get("delta")).get("stop_reason")
        round_ = make_round([slot.made() for slot in self._slots.values()], self._own, stop, self._given)
        self._usage = self._tally(self._usage, self._given)
        self._rounds.append(round_)
        return round_

    def _take_last(self) -> None:
        # Anything else than the message's end was cut off.
        begun = b"" if self._stopped else self._splitter.rest
        last = Splitter().feed(begun + b"\n\n") if begun.strip() else []
        if len(last) == 1 and _kind(last[0]) == "message_stop":
            self._splitter = Splitter()
            self._take(last[0])

    def _closing_held(self) -> bytes:
        return b"".join(event.raw for event in self._closing)

    def _hides(self) -> bool:
        return any(slot.index is None for slot in self._slots.values())

    def _may_hide(self, begun: bytes) -> bool:
        if any(slot.index is None and not slot.ended for slot in self._slots.values()):
            return True
        return b"content_block" in begun and any(it in begun for it in (b"tool_use", *map(str.encode, self._own)))

    @property
    def _ending(self) -> dict[str, Any]:
        """The round's `message_delta`; several are merged."""
        ending: dict[str, Any] = {}
        for said in self._deltas:
            ending = {**ending, **said, "delta": {**_object(ending.get("delta")), **_object(said.get("delta"))}}
        return ending

    # Events

    def _take(self, event: Event) -> bytes:
        if not event.data:
            return self._pass(event.raw)
        said = parsed(event.data)
        if said is None:
            return self._strange(event)
        kind = said.get("type") or event.name
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        return handler(event, said) if handler is not None else self._show(event.raw)

    def _head(self, event: Event, said: dict[str, Any]) -> bytes:
        self._report(_object(said.get("message")).get("usage"))
        return b"" if self._rounds else self._pass(event.raw)

    def _start(self, event: Event, said: dict[str, Any]) -> bytes:
        index, block = said.get("index"), said.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            return self._show(event.raw)
        slot = self._slots[index] = Slot(block, None if is_own(block, self._own) else self._shown)
        self._shown += slot.index is not None
        return self._of_block(event, said, slot)

    def _delta(self, event: Event, said: dict[str, Any]) -> bytes:
        slot = self._slot(said)
        if slot is not None and isinstance(delta := said.get("delta"), dict):
            slot.add(delta)
        return self._of_block(event, said, slot)

    def _stop(self, event: Event, said: dict[str, Any]) -> bytes:
        slot = self._slot(said)
        if slot is not None:
            slot.ended = True
        return self._of_block(event, said, slot)

    def _close(self, event: Event, said: dict[str, Any]) -> bytes:
        self._closing.append(event)
        if (said.get("type") or event.name) == "message_stop":
            self._stopped = True
        else:
            self._deltas.append(said)
            self._report(said.get("usage"))
        return b""

    def _ping(self, event: Event, said: dict[str, Any]) -> bytes:  # noqa: ARG002 - the signature of handlers
        return self._pass(event.raw)

    def _error(self, event: Event, said: dict[str, Any]) -> bytes:
        self._failure = self._failure or f"the provider ended its stream with an error: {said.get('error')!s:.80}"
        self._reported = True
        return self._show(event.raw)

    def _strange(self, event: Event) -> bytes:
        if event.data == b"[DONE]":
            # Some gateways end their streams like OpenAI.
            self._closing.append(event)
            return b""
        shown = super()._strange(event)
        self._failure = self._failure or self._lost
        return shown

    def _of_block(self, event: Event, said: dict[str, Any], slot: Slot | None) -> bytes:
        """Return an event of a block with the client's index; nothing if the block is hidden."""
        if slot is None and self._failure:
            # The start of the block was not understood, so it may be an own call.
            return self._obscure()
        if slot is None or slot.index == said["index"]:
            return self._show(event.raw)
        return b"" if slot.index is None else self._show(event.with_data(jsons.dumps({**said, "index": slot.index})))

    def _slot(self, said: dict[str, Any]) -> Slot | None:
        index = said.get("index")
        return self._slots.get(index) if isinstance(index, int) else None

    def _report(self, usage: object) -> None:
        # Counts are totals, not increments; values that a later event omits stay.
        self._given.update({key: value for key, value in _object(usage).items() if value is not None})


class WholeMessage(WholeReply):
    """A reply in one piece of JSON; see `Reply`.

    Args:
        own: names of the proxy's own tools.
        tally: combines the usage of several rounds.
    """

    def __init__(self, own: frozenset[str], tally: Tally) -> None:
        super().__init__(own)
        self._tally = tally
        self._messages: list[dict[str, Any]] = []
        self._calls = 0  # of the last round, for the client
        self._usage: Any = None

    def finish(self) -> bytes:
        """Return the client's reply; for a single round that needs no change, the same bytes."""
        first, last = self._messages[0], self._messages[-1]
        hides = any(is_own(block, self._own) for block in last["content"])
        if len(self._messages) == 1 and not hides:
            return self.rest()
        blocks = (block for message in self._messages for block in message["content"])
        reply: dict[str, Any] = {
            **first,
            **last,
            **{key: first[key] for key in ("id", "model") if key in first},
            "content": [block for block in blocks if not is_own(block, self._own)],
            "usage": self._usage,
        }
        if hides and last.get("stop_reason") == "tool_use" and not self._calls:
            reply["stop_reason"] = "end_turn"
        return jsons.dumps(reply)

    def _round(self, body: dict[str, Any]) -> Round:
        content = body.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise BrokenReplyError(f"the provider's reply is not a message with blocks: {self.rest()[:80]!r}")
        round_ = make_round(list(map(_made, content)), self._own, body.get("stop_reason"), body.get("usage"))
        self._messages.append(body)
        self._calls = round_.calls
        self._usage = self._tally(self._usage, body.get("usage"))
        return round_


@dataclass(frozen=True, slots=True)
class Made:
    """A block that a model made.

    Attributes:
        block: the whole block.
        raw: for a call, its JSON arguments as the model wrote them.
        ended: whether the provider marked it as complete.
    """

    block: Block
    raw: str = ""
    ended: bool = True


class Slot:
    """A block that is being received.

    Args:
        start: the block in its first event.
        index: its index for the client; None if it is hidden.

    Attributes:
        index: see above.
        ended: whether the provider marked it as complete.
    """

    __slots__ = ("_grown", "_set", "_start", "ended", "index")

    def __init__(self, start: Block, index: int | None) -> None:
        self._start = start
        self._grown: dict[str, list[str]] = {}
        self._set: Block = {}
        self.index = index
        self.ended = False

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take in a delta; one of an unknown type leaves the block as it is."""
        kind = delta.get("type")
        field = _GROWING.get(kind) if isinstance(kind, str) else None
        if field is not None:
            if isinstance(piece := delta.get(field), str):
                self._grown.setdefault(field, []).append(piece)
        elif kind == "citations_delta":
            self._set["citations"] = [*self._cited(), delta.get("citation")]
        elif kind in ("signature_delta", "compaction_delta"):
            self._set.update({key: value for key, value in delta.items() if key != "type" and value is not None})

    def made(self) -> Made:
        """Return the received block, with its arguments as an object."""
        block = {**self._start, **self._set}
        for field, pieces in self._grown.items():
            if field != _ARGUMENTS:
                block[field] = str(block.get(field) or "") + "".join(pieces)
        if not str(block.get("type")).endswith("tool_use"):
            return Made(block, ended=self.ended)
        raw = "".join(self._grown.get(_ARGUMENTS, ())) or given_arguments(block.get("input"))
        return Made({**block, "input": arguments_of(raw)}, raw, self.ended)

    def _cited(self) -> list[Any]:
        cited = self._set.get("citations", self._start.get("citations"))
        return cited if isinstance(cited, list) else []


def is_own(block: Block, own: frozenset[str]) -> bool:
    """Whether a block is a call of one of the proxy's own tools."""
    return block.get("type") == "tool_use" and block.get("name") in own and isinstance(block.get("id"), str)


def arguments_of(raw: str) -> dict[str, Any]:
    """Return a call's `input`, which must be an object in requests.

    Anything else is wrapped in an object, as Anthropic recommends.
    """
    if not raw.strip():
        return {}
    given = _loaded(raw)
    return given if isinstance(given, dict) else {_INVALID: raw}


def given_arguments(given: object) -> str:
    """Return the JSON of a call's `input` in a whole reply, where a malformed one is text; empty for none."""
    if isinstance(given, str):
        return given
    return jsons.dumps(given).decode("utf-8", "surrogatepass") if given else ""


def make_round(made: Sequence[Made], own: frozenset[str], stop: object, usage: object) -> Round:
    """Return the round of a reply.

    Args:
        made: its blocks, in order.
        own: names of the proxy's own tools.
        stop: its `stop_reason`.
        usage: its usage, as the provider reported it.
    """
    complete = stop in _COMPLETE
    content: list[Block] = []
    calls: list[OwnCall] = []
    theirs = 0
    for number, one in enumerate(made):
        block = one.block
        if is_own(block, own):
            if not _is_whole(one, sure=complete or number + 1 < len(made)):
                continue
            calls.append(OwnCall(block["id"], block["name"], one.raw if one.raw.strip() else "{}"))
        elif is_blank(block):
            continue
        theirs += block.get("type") == "tool_use" and not is_own(block, own)
        content.append(block)
    return Round({"role": "assistant", "content": content}, tuple(calls), theirs, complete, tokens_of(usage))


def tokens_of(usage: object) -> TokenUsage | None:
    """Return a reported usage, whose `input_tokens` exclude cached ones; None if nothing was reported."""
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    total, output = count(usage, "input_tokens") + read + write, count(usage, "output_tokens")
    return TokenUsage(total, output, read, write) if total or output else None


def error_body(status: int, message: str) -> bytes:
    """Return an error body in Anthropic's format."""
    kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return jsons.dumps({"type": "error", "error": {"type": kind, "message": message}})


def as_error(status: int, body: bytes) -> bytes:
    """Return a provider's error body as one line of JSON in Anthropic's format, whatever format it has."""
    try:
        said = jsons.loads(body)
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("error"), dict):
        return jsons.dumps(said)
    return error_body(status, body.decode("utf-8", "replace").strip() or f"the provider answered with HTTP {status}")


def _is_whole(one: Made, *, sure: bool) -> bool:
    """Whether an own call is complete; a limit that cuts off a block still ends it like any other."""
    return one.ended and (sure or isinstance(_loaded(one.raw), dict))


def _loaded(raw: str) -> object:
    try:
        return jsons.loads(raw.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _made(block: Block) -> Made:
    """A block of a whole reply."""
    if not str(block.get("type")).endswith("tool_use"):
        return Made(block)
    raw = given_arguments(block.get("input"))
    return Made(block if isinstance(block.get("input"), dict) else {**block, "input": arguments_of(raw)}, raw)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _kind(event: Event) -> object:
    said = parsed(event.data)
    return None if said is None else said.get("type") or event.name
