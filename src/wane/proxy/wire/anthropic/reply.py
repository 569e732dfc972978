"""Anthropic's streamed replies: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wane.proxy import jsons
from wane.proxy.wire.anthropic.errors import as_error, clip
from wane.proxy.wire.anthropic.stream import Slot, StreamedRound
from wane.proxy.wire.base import BrokenReplyError, Round
from wane.proxy.wire.sse import Event, Splitter, encode
from wane.proxy.wire.usage import Tally, summed


class StreamedReply:
    """A reply as server-sent events; see `Reply`.

    Args:
        own: names of the proxy's own tools.
    """

    def __init__(self, own: frozenset[str], tally: Tally = summed) -> None:
        self._own = own
        self._tally = tally
        self._started = False
        self._held: list[bytes] = []  # the head and pings, until there is something to see
        self._received: list[bytes] = []  # everything of this round, until then
        self._shown = 0  # number of blocks sent to the client
        self._round = self._last = StreamedRound(own)
        self._rounds: list[Round] = []
        self._usage: Any = None  # of the completed rounds
        self._splitter = Splitter()
        self._unsplit = False
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

    @property
    def started(self) -> bool:
        """Whether anything was sent to the client."""
        return self._started

    @property
    def hides(self) -> bool:
        """Whether this round may have part of an own call."""
        return self._round.hides or self._round.may_hide(self._splitter.rest)

    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the stream and return what the client gets now."""
        if self._unsplit:
            return data
        try:
            events = self._splitter.feed(data)
        except BrokenReplyError as error:
            return self._give_up(str(error))
        return b"".join(map(self._take, events))

    def end(self) -> Round:
        """Return the completed round.

        Raises:
            BrokenReplyError: as `Reply.end` says.
        """
        if not self._round.ended:
            self._take_unterminated()
        result = self._round.result()
        self._usage = self._tally(self._usage, self._round.usage)
        self._rounds.append(result)
        self._last, self._round = self._round, StreamedRound(self._own)
        self._splitter = Splitter()
        self._received.clear()
        return result

    def rest(self) -> bytes:
        """Return the data that was held back, unchanged."""
        if self._unsplit:
            return b""
        begun = self._splitter.rest
        return self._waiting() + (b"" if self._round.may_hide(begun) else begun)

    def finish(self) -> bytes:
        """Return the end of the client's reply."""
        closing = [self._ending(), *(event.raw for event in self._last.closing if not _is_delta(event))]
        return self._show(b"".join(closing) if self._ends_otherwise() else _raw(self._last.closing))

    def fail(self, status: int, body: bytes) -> bytes:
        """Return the event with the provider's error."""
        return encode(as_error(status, body), "error")

    # Events

    def _take(self, event: Event) -> bytes:
        if not self._started:
            self._received.append(event.raw)
        if not event.data:
            return self._aside(event.raw)
        try:
            said = jsons.loads(event.data)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            return self._strange(event)
        kind = said.get("type") or event.name
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        return handler(event, said) if handler is not None else self._show(event.raw)

    def _head(self, event: Event, said: dict[str, Any]) -> bytes:
        self._round.begin(said)
        return b"" if self._rounds else self._aside(event.raw)

    def _start(self, event: Event, said: dict[str, Any]) -> bytes:
        index, block = said.get("index"), said.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            return self._show(event.raw)
        slot = self._round.open(index, block, self._shown)
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
        self._round.close(event, said)
        return b""

    def _ping(self, event: Event, said: dict[str, Any]) -> bytes:  # noqa: ARG002 - the signature of handlers
        return self._aside(event.raw)

    def _error(self, event: Event, said: dict[str, Any]) -> bytes:
        self._fault(f"the provider ended its stream with an error: {clip(said.get('error'))}")
        self._round.reported = True
        return self._show(event.raw)

    def _strange(self, event: Event) -> bytes:
        if event.data == b"[DONE]":
            # Some gateways end their streams like OpenAI.
            self._round.closing.append(event)
            return b""
        self._fault(f"an event of the provider's stream is not a JSON object: {clip(event.data)}")
        if not self._round.may_hide(event.raw):
            return self._aside(event.raw)
        self._round.obscured = True
        return self._hide()

    # What the client gets

    def _of_block(self, event: Event, said: dict[str, Any], slot: Slot | None) -> bytes:
        """Return an event of a block with the client's index; nothing if the block is hidden."""
        if slot is None and self._round.fault:
            # The start of the block was not understood, so it may be an own call.
            self._round.obscured = True
            return self._hide()
        if slot is None or slot.index == said["index"]:
            return self._show(event.raw)
        if slot.index is not None:
            return self._show(event.with_data(jsons.dumps({**said, "index": slot.index})))
        return self._hide()

    def _show(self, data: bytes) -> bytes:
        """Return data that the client may see, after the head."""
        if self._started:
            return data
        self._started = True
        self._received.clear()
        return b"".join([*self._held, data])

    def _hide(self) -> bytes:
        """Hide an event from the client."""
        if not self._started:
            self._received.pop()
        return b""

    def _aside(self, data: bytes) -> bytes:
        """Return data without visible content, or hold it until something visible follows."""
        if self._started:
            return data
        self._held.append(data)
        return b""

    def _waiting(self) -> bytes:
        """The events that were held back."""
        return _raw(self._round.closing) if self._started else b"".join(self._received)

    def _give_up(self, fault: str) -> bytes:
        """Pass on everything unchanged from here on."""
        given = self._waiting() + self._splitter.rest
        self._fault(fault)
        self._unsplit = self._started = True
        return given

    def _ends_otherwise(self) -> bool:
        return len(self._rounds) > 1 or self._stops_for_own_calls()

    def _stops_for_own_calls(self) -> bool:
        """Whether the last round stopped for calls of which the client sees none."""
        stop = self._last.ending["delta"].get("stop_reason")
        return stop == "tool_use" and self._last.hides and not self._rounds[-1].calls

    def _ending(self) -> bytes:
        """The `message_delta` of all rounds."""
        said = self._last.ending
        if self._stops_for_own_calls():
            said["delta"]["stop_reason"] = "end_turn"
        if len(self._rounds) > 1:
            said["usage"] = self._usage
        name = next(event.name for event in self._last.closing if _is_delta(event))
        return encode(jsons.dumps(said), name)

    def _slot(self, said: dict[str, Any]) -> Slot | None:
        index = said.get("index")
        return self._round.slots.get(index) if isinstance(index, int) else None

    def _fault(self, fault: str) -> None:
        self._round.fault = self._round.fault or fault

    def _take_unterminated(self) -> None:
        """Take in a last event without the blank line after it, which some servers omit."""
        last = Splitter().feed(self._splitter.rest + b"\n\n") if self._splitter.rest.strip() else []
        if len(last) == 1 and _kind(last[0]) == "message_stop":
            self._splitter = Splitter()
            self._take(last[0])


def _kind(event: Event) -> object:
    try:
        said = jsons.loads(event.data)
    except ValueError:
        return None
    return (said.get("type") or event.name) if isinstance(said, dict) else None


def _is_delta(event: Event) -> bool:
    return _kind(event) == "message_delta"


def _raw(events: list[Event]) -> bytes:
    return b"".join(event.raw for event in events)
