"""One streamed reply of Anthropic's, put together from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.proxy.wire.anthropic.blocks import Block, Made, arguments_of, given_arguments, is_own, make_round
from wane.proxy.wire.base import BrokenReplyError, Round
from wane.proxy.wire.sse import Event

# What a delta adds to, by its type; it has the same name in the delta and, but for arguments, in the block.
_GROWING: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_ARGUMENTS: Final = "partial_json"


class Slot:
    """A block while it comes.

    Args:
        start: the block as it began.
        index: its number for the client; None if the client does not see it.

    Attributes:
        index: see above.
        ended: whether the provider has said that it is whole.
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
        """Return the block that came, with its arguments as an object."""
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
    """What one request to the provider brought, event by event.

    Args:
        own: names of the proxy's own tools.

    Attributes:
        slots: its blocks by the provider's index.
        usage: what the provider has reported of it.
        deltas: its `message_delta` events, parsed; one as a rule.
        closing: the events from these on, as they came.
        fault: what is wrong with the stream; None if nothing is.
        told: whether the provider said so itself.
        obscured: whether an event that was not understood may be of a block that the client does not see.
    """

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._stopped = False
        self.slots: dict[int, Slot] = {}
        self.usage: dict[str, Any] = {}
        self.deltas: list[dict[str, Any]] = []
        self.closing: list[Event] = []
        self.fault: str | None = None
        self.told = False
        self.obscured = False

    @property
    def ended(self) -> bool:
        """Whether `message_stop` has come."""
        return self._stopped

    @property
    def hides(self) -> bool:
        """Whether there are blocks in it that the client does not see, or may be."""
        return self.obscured or any(slot.index is None for slot in self.slots.values())

    def may_hide(self, begun: bytes) -> bool:
        """Whether an event that was cut off may be of a block that the client does not see.

        Args:
            begun: what has come of it.
        """
        if any(slot.index is None and not slot.ended for slot in self.slots.values()):
            return True
        return b"content_block" in begun and any(it in begun for it in (b"tool_use", *map(str.encode, self._own)))

    @property
    def ending(self) -> dict[str, Any]:
        """Its `message_delta`; of several, what each adds."""
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
            index: the provider's number of the block.
            block: the block as it begins.
            shown: the client's number of it, if the client is to see it.
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
        """Return what it brought.

        Raises:
            BrokenReplyError: if it has not come to its end, or something is wrong with it.
        """
        if self.fault is not None:
            raise BrokenReplyError(self.fault, told=self.told)
        if not self.deltas or not self._stopped:
            missing = "message_stop" if self.deltas else "message_delta"
            raise BrokenReplyError(f"the provider's stream is over, but no {missing} has come")
        stop = _object(self.ending.get("delta")).get("stop_reason")
        return make_round([slot.made() for slot in self.slots.values()], self._own, stop, self.usage)

    def _report(self, usage: object) -> None:
        # Counts are totals, not increments; what a later event leaves out stays.
        self.usage.update({key: value for key, value in _object(usage).items() if value is not None})


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
