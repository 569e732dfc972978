"""Anthropic's whole replies: all rounds as one, without own calls."""

from __future__ import annotations

from typing import Any

from wane.proxy import jsons
from wane.proxy.wire.anthropic.blocks import Block, Made, arguments_of, given_arguments, is_own, make_round
from wane.proxy.wire.anthropic.errors import clip, error_body
from wane.proxy.wire.base import BrokenReplyError, Round, may_name
from wane.proxy.wire.usage import Tally, summed


class WholeReply:
    """A reply in one piece of JSON; see `Reply`. Nothing is sent before its end.

    Args:
        own: names of the proxy's own tools.
    """

    def __init__(self, own: frozenset[str], tally: Tally = summed) -> None:
        self._own = own
        self._tally = tally
        self._data = bytearray()
        self._raw = b""
        self._started = False
        self._messages: list[dict[str, Any]] = []
        self._rounds: list[Round] = []
        self._usage: Any = None

    @property
    def started(self) -> bool:
        """Whether anything was sent to the client."""
        return self._started

    @property
    def hides(self) -> bool:
        """Whether this round may have part of an own call."""
        return may_name(bytes(self._data), self._own)

    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the reply."""
        self._data += data
        return b""

    def end(self) -> Round:
        """Return the completed round.

        Raises:
            BrokenReplyError: as `Reply.end` says.
        """
        message = _message(bytes(self._data))
        made = [_made(block) for block in message["content"]]
        round_ = make_round(made, self._own, message.get("stop_reason"), message.get("usage"))
        self._raw = bytes(self._data)
        self._data.clear()
        self._messages.append(message)
        self._rounds.append(round_)
        self._usage = self._tally(self._usage, message.get("usage"))
        return round_

    def rest(self) -> bytes:
        """Return the received data unchanged."""
        return bytes(self._data)

    def finish(self) -> bytes:
        """Return the client's reply; for a single round that needs no change, the same bytes."""
        self._started = True
        first, last = self._messages[0], self._messages[-1]
        hides = any(is_own(block, self._own) for block in last["content"])
        if len(self._messages) == 1 and not hides:
            return self._raw
        blocks = (block for message in self._messages for block in message["content"])
        reply: dict[str, Any] = {
            **first,
            **last,
            **{key: first[key] for key in ("id", "model") if key in first},
            "content": [block for block in blocks if not is_own(block, self._own)],
            "usage": self._usage,
        }
        if hides and last.get("stop_reason") == "tool_use" and not self._rounds[-1].calls:
            reply["stop_reason"] = "end_turn"
        return jsons.dumps(reply)

    def fail(self, status: int, body: bytes) -> bytes:
        """Return the provider's error unchanged, because nothing was sent before it."""
        return body or error_body(status, f"the provider answered with HTTP {status}")


def _message(data: bytes) -> dict[str, Any]:
    try:
        message = jsons.loads(data)
    except ValueError as error:
        raise BrokenReplyError(f"the provider's reply is not JSON: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        raise BrokenReplyError(f"the provider's reply is not a message: {clip(data)}")
    if not all(isinstance(block, dict) for block in message["content"]):
        raise BrokenReplyError("the content of the provider's reply is not a list of blocks")
    return message


def _made(block: Block) -> Made:
    if not str(block.get("type")).endswith("tool_use"):
        return Made(block)
    raw = given_arguments(block.get("input"))
    return Made(block if isinstance(block.get("input"), dict) else {**block, "input": arguments_of(raw)}, raw)
