"""Builds one streamed reply of Anthropic from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.proxy.wire.anthropic.blocks import Block, Made, arguments_of, given_arguments, is_own, make_round
from wane.proxy.wire.base import BrokenReplyError, Round
from wane.proxy.wire.sse import Event

# The field that a delta extends, by its type: the same in the delta and, except for arguments, in the block.
_GROWING: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_ARGUMENTS: Final = "partial_json"


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


class StreamedRound:
    """The reply to one request, event by event.

    Args:
        own: names of the proxy's own tools.

    Attributes:
        slots: its blocks by the provider's index.
        usage: its usage, as the provider reported it.
        deltas: its `message_delta` events, parsed; usually one.
        closing: the events from these on.
        fault: what is wrong with the stream; None if nothing is.
        reported: whether the provider reported an error itself.
        obscured: whether an event that was not understood may be part of a hidden block.
    """

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._stopped = False
        self.slots: dict[int, Slot] = {}
        self.usage: dict[str, Any] = {}
        self.deltas: list[dict[str, Any]] = []
        self.closing: list[Event] = []
        self.fault: str | None = None
        self.reported = False
        self.obscured = False

    @property
    def ended(self) -> bool:
        """Whether `message_stop` was received."""
        return self._stopped

    @property
    def hides(self) -> bool:
        """Whether it has, or may have, hidden blocks."""
        return self.obscured or any(slot.index is None for slot in self.slots.values())

    def may_hide(self, begun: bytes) -> bool:
        """Whether a cut-off event may be part of a hidden block.

        Args:
            begun: the beginning of the event.
        """
        if any(slot.index is None and not slot.ended for slot in self.slots.values()):
            return True
        return b"content_block" in begun and any(it in begun for it in (b"tool_use", *map(str.encode, self._own)))

    @property
    def ending(self) -> dict[str, Any]:
        """Its `message_delta`; several are merged."""
        ending: dict[str, Any] = {}
        for said in self.deltas:
            ending = {**ending, **said, "delta": {**_object(ending.get("delta")), **_object(said.get("delta"))}}
        return ending

    def begin(self, said: Mapping[str, Any]) -> None:
        """Take in a `message_start`."""
        self._report(_object(said.get("message")).get("usage"))

    def open(self, index: int, block: Block, shown: int) -> Slot:
        """Take in a `content_block_start`.

        Args:
            index: the provider's index of the block.
            block: the block in this event.
            shown: the client's index of it, unless it is hidden.
        """
        slot = Slot(block, None if is_own(block, self._own) else shown)
        self.slots[index] = slot
        return slot

    def close(self, event: Event, said: dict[str, Any]) -> None:
        """Take in a `message_delta` or a `message_stop`."""
        self.closing.append(event)
        if (said.get("type") or event.name) == "message_stop":
            self._stopped = True
        else:
            self.deltas.append(said)
            self._report(said.get("usage"))

    def result(self) -> Round:
        """Return the round.

        Raises:
            BrokenReplyError: if it is incomplete, or something is wrong with it.
        """
        if self.fault is not None:
            raise BrokenReplyError(self.fault, reported=self.reported)
        if not self.deltas or not self._stopped:
            missing = "message_stop" if self.deltas else "message_delta"
            raise BrokenReplyError(f"the provider's stream ended without {missing}")
        stop = _object(self.ending.get("delta")).get("stop_reason")
        return make_round([slot.made() for slot in self.slots.values()], self._own, stop, self.usage)

    def _report(self, usage: object) -> None:
        # Counts are totals, not increments; values that a later event omits stay.
        self.usage.update({key: value for key, value in _object(usage).items() if value is not None})


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
