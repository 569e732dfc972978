"""Anthropic's replies, streamed and whole: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from wane.core.items import INVALID_JSON
from wane.formats.anthropic import Block, is_blank
from wane.prices import SEARCH_FEE, TokenUsage, tier_in
from wane.proxy import jsons
from wane.proxy.wire.reply import (
    ServerSentEvent,
    Splitter,
    StreamedReply,
    WholeReply,
    anthropic_counts,
    count,
    encode,
    error_in,
    parse_object,
    usage_of_iterations,
)
from wane.proxy.wire.wire import BrokenReplyError, OwnCall, Round, Rounds

THINKING: Final = ("thinking", "redacted_thinking")
"""Types of blocks with reasoning."""

# Stop reasons of a model that ended by itself; others are a limit, a pause, a refusal, or unknown.
_COMPLETE: Final = ("end_turn", "tool_use", "stop_sequence")
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
    """A reply as server-sent events."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._block_count = 0  # number of blocks sent to the client
        self._counts: dict[str, int] = {}  # counts that the client has from the beginning of the first round, as 0
        self._next_round()

    def fail(self, status: int, body: bytes) -> bytes:
        return encode(as_error(status, body), "error")

    def _next_round(self) -> None:
        super()._next_round()
        self._received: dict[int, ReceivedBlock] = {}  # by the provider's index
        self._usage: dict[str, Any] = {}
        self._begun: dict[str, Any] = {}  # the usage at the reply's beginning
        self._diagnostics: object = None
        self._ending: dict[str, Any] = {}  # the `message_delta`; several are merged
        self._stopped = False  # whether `message_stop` was received

    def _round(self) -> Round:
        if not self._ending or not self._stopped:
            why = f"the provider's stream ended without message_{'stop' if self._ending else 'delta'}"
            raise BrokenReplyError(why, cut=bool(self._usage or self._received))
        stop = self._ending["delta"].get("stop_reason")
        round_ = make_round(list(self._received.values()), self._own, stop, self._usage, self._diagnostics, self._begun)
        return self._rounds.add(round_, self._usage)

    def _take_last(self) -> None:
        # Anything else than the message's end was cut off.
        begun = b"" if self._stopped else self._splitter.unfinished
        last = Splitter().feed(begun + b"\n\n") if begun.strip() else []
        if len(last) == 1 and _kind(last[0]) == "message_stop":
            self._splitter = Splitter()
            self._take(last[0])

    def _closing(self) -> Iterator[bytes]:
        rounds, ending, delta = self._rounds, self._ending, self._ending["delta"]
        stops_for_own_calls = delta.get("stop_reason") == "tool_use" and self._hides() and not rounds.done[-1].calls
        if len(rounds.done) == 1 and not stops_for_own_calls:
            yield from super()._closing()
            return
        if stops_for_own_calls:
            ending = {**ending, "delta": {**delta, "stop_reason": "end_turn"}}
        if len(rounds.done) > 1:
            # A client keeps each count of the first round that the end does not replace.
            ending = {**ending, "usage": {**self._counts, **(rounds.usage or {})}}
        deltas = [event for event in self._tail if _kind(event) == "message_delta"]
        yield deltas[0].with_data(ending).raw
        yield from (event.raw for event in self._tail if event not in deltas)

    def _hides(self) -> bool:
        return any(received.index is None for received in self._received.values())

    def _may_hide(self, begun: bytes) -> bool:
        if any(received.index is None and not received.ended for received in self._received.values()):
            return True
        return b"content_block" in begun and any(
            marker in begun for marker in (b"tool_use", *map(str.encode, self._own))
        )

    def _event(self, event: ServerSentEvent, data: dict[str, Any]) -> bytes:
        match data.get("type") or event.name:
            case "content_block_delta":
                return self._go_on(event, data)
            case "content_block_start":
                return self._start(event, data)
            case "content_block_stop":
                return self._go_on(event, data, ends=True)
            case "message_start":
                beginning = _object(data.get("message"))
                usage, self._diagnostics = _object(beginning.get("usage")), beginning.get("diagnostics")
                self._begun = usage
                self._report(usage)
                if self._rounds.done:
                    return b""
                self._counts = {key: 0 for key, value in usage.items() if type(value) is int}
                return self._pass(event.raw)
            case "message_delta":
                delta = {**_object(self._ending.get("delta")), **_object(data.get("delta"))}
                self._ending = {**self._ending, **data, "delta": delta}
                self._report(data.get("usage"))
                return self._close(event)
            case "message_stop":
                self._stopped = True
                return self._close(event)
            case "ping":
                return self._pass(event.raw)
            case "error":
                self._broken(f"the provider ended its stream with an error: {data.get('error')!s:.80}")
        return self._show(event.raw)

    def _start(self, event: ServerSentEvent, data: dict[str, Any]) -> bytes:
        index, block = data.get("index"), data.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            return self._show(event.raw)
        received = self._received[index] = ReceivedBlock(block, None if is_own(block, self._own) else self._block_count)
        self._block_count += received.index is not None
        return self._of_block(event, data, received)

    def _go_on(self, event: ServerSentEvent, data: dict[str, Any], *, ends: bool = False) -> bytes:
        """Take in a delta of a block, or its end."""
        index = data.get("index")
        received = self._received.get(index) if isinstance(index, int) else None
        if received is None:
            # If its start was not understood, the block may be an own call.
            return self._obscure() if self._failure else self._show(event.raw)
        received.ended = received.ended or ends
        if isinstance(delta := data.get("delta"), dict):
            received.add(delta)
        return self._of_block(event, data, received)

    def _of_block(self, event: ServerSentEvent, data: dict[str, Any], received: ReceivedBlock) -> bytes:
        """Return an event of a block with the client's index; nothing if the block is hidden."""
        if received.index is None:
            return b""
        same = received.index == data["index"]
        return self._show(event.raw if same else event.with_data({**data, "index": received.index}).raw)

    def _strange(self, event: ServerSentEvent) -> bytes:
        self._failure = self._failure or self._lost
        return super()._strange(event)

    def _report(self, usage: object) -> None:
        # Counts are totals, not increments; values that a later event omits stay.
        self._usage.update({key: value for key, value in _object(usage).items() if value is not None})


class WholeMessage(WholeReply):
    """A reply in one piece of JSON."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(rounds)
        self._messages: list[dict[str, Any]] = []

    def finish(self) -> bytes:
        rounds, first, last = self._rounds, self._messages[0], self._messages[-1]
        hides = any(is_own(block, self._own) for block in last["content"])
        if len(self._messages) == 1 and not hides:
            return self.held_back()
        blocks = (block for message in self._messages for block in message["content"])
        content = [block for block in blocks if not is_own(block, self._own)]
        reply = rounds.under_head({**first, **last, "content": content, "usage": rounds.usage})
        if hides and last.get("stop_reason") == "tool_use" and not rounds.done[-1].calls:
            reply["stop_reason"] = "end_turn"
        return jsons.dumps(reply)

    def _round(self, body: dict[str, Any]) -> Round:
        content = body.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise BrokenReplyError(f"the provider's reply is not a message with blocks: {self.held_back()[:80]!r}")
        blocks = [ReceivedBlock(block, 0, ended=True) for block in content]
        said = body.get("usage"), body.get("diagnostics")
        round_ = make_round(blocks, self._own, body.get("stop_reason"), *said)
        self._messages.append(body)
        self._rounds.identify(body)
        return self._rounds.add(round_, body.get("usage"))


class ReceivedBlock:
    """A block that is being received.

    Args:
        start: the block in its first event.
        index: its index for the client; None if it is hidden.
        ended: whether the provider marked it as complete.
    """

    __slots__ = ("_block", "_grown", "ended", "index")

    def __init__(self, start: Block, index: int | None, *, ended: bool = False) -> None:
        self._block = dict(start)
        self._grown: dict[str, list[str]] = {}
        self.index = index
        self.ended = ended

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take in a delta; one of an unknown type leaves the block as it is."""
        kind = delta.get("type")
        field = _GROWING.get(kind) if isinstance(kind, str) else None
        if field is not None:
            if isinstance(piece := delta.get(field), str):
                self._grown.setdefault(field, []).append(piece)
        elif kind == "citations_delta":
            cited = self._block.get("citations")
            self._block["citations"] = [*(cited if isinstance(cited, list) else ()), delta.get("citation")]
        elif kind in ("signature_delta", "compaction_delta"):
            self._block.update({key: value for key, value in delta.items() if key != "type" and value is not None})

    def complete_block(self) -> tuple[Block, str]:
        """Return the received block and, for a call, its JSON arguments as the model wrote them."""
        block, raw = dict(self._block), "".join(self._grown.get(_ARGUMENTS, ()))
        for field, pieces in self._grown.items():
            if field != _ARGUMENTS:
                block[field] = str(block.get(field) or "") + "".join(pieces)
        if not str(block.get("type")).endswith("tool_use"):
            return block, ""
        input_ = block.get("input")
        if input_ and not raw:
            raw = input_ if isinstance(input_, str) else jsons.dumps(input_).decode("utf-8", "surrogatepass")
        arguments = parse_object(raw) if raw.strip() else {}
        # Requests must have an object. Anthropic recommends to wrap anything else in one.
        block["input"] = {INVALID_JSON: raw} if arguments is None else arguments
        return block, raw


def plain(block: Block) -> Block:
    """Return a block without its cache breakpoint."""
    if "cache_control" not in block:
        return block
    return {key: value for key, value in block.items() if key != "cache_control"}


def is_own(block: Block, own: frozenset[str]) -> bool:
    """Whether a block is a call of one of the proxy's own tools."""
    return block.get("type") == "tool_use" and block.get("name") in own and isinstance(block.get("id"), str)


def is_call_of(block: Block, ids: Container[str]) -> bool:
    """Whether a block is a call with one of these ids."""
    return block.get("type") == "tool_use" and block.get("id") in ids


def make_round(
    blocks: Sequence[ReceivedBlock],
    own: frozenset[str],
    stop: object,
    usage: object,
    diagnostics: object,
    begun: object = None,
) -> Round:
    """Return the round of a reply.

    Args:
        blocks: its blocks, in order.
        own: names of the proxy's own tools.
        stop: its `stop_reason`.
        usage: its usage, as the provider reported it.
        diagnostics: what it said of its cache; None if it said nothing.
        begun: the usage at the beginning of a streamed reply.
    """
    complete = stop in _COMPLETE
    content: list[Block] = []
    calls: list[OwnCall] = []
    client_calls = 0
    for number, received in enumerate(blocks):
        block, raw = received.complete_block()
        if is_own(block, own):
            # A limit that cuts off a block still ends it like any other.
            cut = not complete and number + 1 == len(blocks) and parse_object(raw) is None
            if cut or not received.ended:
                continue
            calls.append(OwnCall(block["id"], block["name"], raw if raw.strip() else "{}"))
        elif is_blank(block):
            continue
        else:
            client_calls += block.get("type") == "tool_use"
        content.append(block)
    miss = str(_object(_object(diagnostics).get("cache_miss_reason")).get("type") or "")
    message = {"role": "assistant", "content": content}
    served = any(str(block.get("type")).endswith("_tool_result") for block in content)
    tokens = tokens_of(usage, begun=begun, served=served)
    return Round(message, tuple(calls), client_calls, complete, tokens, miss)


def tokens_of(usage: object, *, begun: object = None, served: bool = False) -> TokenUsage | None:
    """Return a reported usage, whose `input_tokens` exclude cached ones; None if nothing was reported.

    A loop of Anthropic's own tools reads the request several times. The top level then adds up what each pass read, but
    leaves out an advisor and a compaction; `iterations` has all of them.

    Args:
        usage: the usage, as JSON data.
        begun: the usage at the beginning of a streamed reply, which is that of the first pass.
        served: whether the reply holds results of tools that Anthropic ran.
    """
    data, reported = _object(usage), anthropic_counts(usage)
    tier = tier_in(data)
    if (summed := usage_of_iterations(data, tier)) is not None:
        reported = summed
    elif served:
        # Without `iterations` a whole reply does not tell what the first pass read.
        reported = replace(reported, first=anthropic_counts(begun))
    if not reported.input and not reported.output:
        return None
    fees = count(usage, "server_tool_use", "web_search_requests") * SEARCH_FEE
    return replace(reported, tier=tier, fees=fees)


def error_body(status: int, message: str) -> bytes:
    """Return an error body in Anthropic's format."""
    kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return jsons.dumps({"type": "error", "error": {"type": kind, "message": message}})


def as_error(status: int, body: bytes) -> bytes:
    """Return a provider's error body as one line of JSON in Anthropic's format, whatever format it has."""
    error = error_in(status, body)
    return error_body(status, error) if isinstance(error, str) else jsons.dumps(parse_object(body))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _kind(event: ServerSentEvent) -> object:
    data = parse_object(event.data)
    return None if data is None else data.get("type") or event.name
