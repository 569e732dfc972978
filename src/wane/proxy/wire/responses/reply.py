"""Replies of the Responses API, streamed and whole: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from wane.proxy import jsons
from wane.proxy.wire.base import Body, BrokenReplyError
from wane.proxy.wire.openai import error_of, token_usage
from wane.proxy.wire.reply import Event, StreamedReply, WholeReply, encode, parsed
from wane.proxy.wire.responses.messages import Item, call_id_of, client_calls, is_own, own_calls, returnable
from wane.proxy.wire.rounds import Round, Tally

Data: TypeAlias = dict[str, Any]

_BEGIN: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
_END: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_HEAD: Final = ("id", "created_at")


class _Rounds:
    """The rounds of a reply.

    Args:
        body: the client's request.
        own: names of the proxy's own tools.

    Attributes:
        count: number of completed rounds.
        output: their output items that the client sees.
        usage: their combined usage, as the provider reports it.
        head: id and time of the response for the client, from the first round.
    """

    def __init__(self, body: Body, own: frozenset[str], tally: Tally) -> None:
        self.tally = tally
        self.count = 0
        self.output: list[Item] = []
        self.usage: Any = None
        self.head: Data = {}
        self._own = own
        self._instructions = body.get("instructions")
        self._stored = body.get("store") is not False

    def echo(self, response: Data) -> Data:
        """Return a response that repeats the client's own tools and instructions, not those sent upstream."""
        echoed: Data = {}
        tools = response.get("tools")
        if isinstance(tools, list) and any(is_own(_as_call(tool), self._own) for tool in tools):
            echoed["tools"] = [tool for tool in tools if not is_own(_as_call(tool), self._own)]
        if response.get("instructions") != self._instructions and "instructions" in response:
            echoed["instructions"] = self._instructions
        return {**response, **echoed} if echoed else response

    def identify(self, response: Data) -> None:
        """Take the head from a response."""
        if not self.head:
            self.head = {key: response[key] for key in _HEAD if key in response}

    def merged(self, response: Data) -> Data:
        """Return the last round's response as that of all rounds; the same object if nothing changes."""
        output = response.get("output")
        seen = [item for item in output if not is_own(item, self._own)] if isinstance(output, list) else []
        echoed = self.echo(response)
        if not self.count:
            hidden = isinstance(output, list) and len(seen) < len(output)
            return {**echoed, "output": seen} if hidden else echoed
        usage = {"usage": self.tally(self.usage, echoed.get("usage"))} if "usage" in echoed or self.usage else {}
        head = {key: value for key, value in self.head.items() if key in echoed}
        return {**echoed, **head, "output": [*self.output, *seen], **usage}

    def close(self, response: Data, items: list[Item]) -> Round:
        """Complete a round, and return it.

        Args:
            response: the final response.
            items: its output, in case the response has none.
        """
        given = response.get("output")
        output = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        items = output or items
        complete = response.get("status", "completed") == "completed"
        own = own_calls(items, self._own, complete=complete)
        ids = {call.id for call in own}
        whole = [item for item in items if not is_own(item, self._own) or call_id_of(item) in ids]
        self.count += 1
        self.output += [item for item in output if not is_own(item, self._own)]
        usage = response.get("usage")
        self.usage = self.tally(self.usage, usage)
        message = {"items": returnable(whole, stored=self._stored)}
        return Round(message, own, client_calls(items, self._own), complete, token_usage(usage, "input", "output"))


class StreamedResponse(StreamedReply):
    """A streamed reply; see `Reply`.

    Args:
        body: the client's request.
        own: names of the proxy's own tools.
    """

    def __init__(self, body: Body, own: frozenset[str], tally: Tally) -> None:
        super().__init__()
        self._own = own
        self._rounds = _Rounds(body, own, tally)
        self._opening: Data = {}
        self._top = 0  # the next output index for the client
        self._last: int | None = None  # the last sequence number sent to the client
        self._shift = 0
        self._next_round()

    def finish(self) -> bytes:
        """Return the end of the client's stream."""
        return self._late + b"".join(self._held) + b"".join(self._tail)

    def fail(self, status: int, body: bytes) -> bytes:
        """Return the event of a failed response."""
        error = error_of(status, body)
        code = error.get("code") or ("rate_limit_exceeded" if status == 429 else "server_error")
        shown = {"code": str(code), "message": str(error.get("message") or f"HTTP {status}")}
        ended = {"status": "failed", "error": shown, "output": self._rounds.output, "usage": self._rounds.usage}
        number = {} if self._last is None else {"sequence_number": self._last + 1}
        data = {"type": "response.failed", **number, "response": {**self._opening, **ended}}
        return encode(jsons.dumps(data), "response.failed")

    def _next_round(self) -> None:
        self._base = self._top
        self._hidden: set[int] = set()
        self._begun: set[int] = set()
        self._items: dict[int, Item] = {}
        self._terminal: Data | None = None
        self._tail: list[bytes] = []
        self._gap = self._rounds.count > 0

    def _round(self) -> Round:
        if self._terminal is None:
            raise BrokenReplyError("the provider's stream stopped before its end")
        return self._rounds.close(self._terminal, [self._items[index] for index in sorted(self._items)])

    def _closing_held(self) -> bytes:
        return b"".join(self._tail)

    def _hides(self) -> bool:
        return bool(self._hidden)

    def _may_hide(self, begun: bytes) -> bool:
        # Items, arguments of calls, and whole responses, which repeat the tools and instructions sent upstream.
        return b"data:" in begun and any(it in begun for it in (b"function_call", b"output_item", b'"response"'))

    # Events

    def _take(self, event: Event) -> bytes:
        if not event.data:
            return self._pass(event.raw)
        data = parsed(event.data)
        if data is None:
            if event.data.strip() != b"[DONE]":
                return self._strange(event)
            self._tail.append(event.raw)
            return b""
        kind = str(data.get("type") or event.name)
        response = data.get("response")
        if kind in _BEGIN and isinstance(response, dict):
            return self._begin(event, data, response)
        if kind in _END and isinstance(response, dict):
            return self._end(event, data, response)
        if kind == "error" or (kind == "" and data.get("error")):
            self._failure = f"the provider's stream holds an error: {data.get('error') or data.get('message')!r:.500}"
            self._reported = True
            return self._pass(self._encoded(event, data))
        index = data.get("output_index")
        if not isinstance(index, int):
            return self._pass(self._encoded(event, data))
        return self._take_item(event, data, index)

    def _begin(self, event: Event, data: Data, response: Data) -> bytes:
        """Take in an event that starts a response; the client gets only those of the first round."""
        if self._rounds.count:
            self._gap = True
            return b""
        self._rounds.identify(response)
        echoed = self._rounds.echo(response)
        self._opening = echoed
        return self._pass(self._encoded(event, data, {} if echoed is response else {"response": echoed}))

    def _end(self, event: Event, data: Data, response: Data) -> bytes:
        """Take in the event that ends a response, and hold it back."""
        self._terminal = response
        self._rounds.identify(response)
        if response.get("status") == "failed" or data.get("type") == "response.failed":
            self._failure = f"the provider's response failed: {response.get('error')!r:.500}"
            self._reported = True
        merged = self._rounds.merged(response)
        last, shift, gap = self._last, self._shift, self._gap
        self._tail.append(self._encoded(event, data, {} if merged is response else {"response": merged}))
        # If the model is asked again, the client does not get this event.
        self._last, self._shift, self._gap = last, shift, gap
        return b""

    def _take_item(self, event: Event, data: Data, index: int) -> bytes:
        """Take in an event about an item of the output."""
        item = data.get("item")
        if isinstance(item, dict):
            self._begun.add(index)
            if is_own(item, self._own):
                self._hidden.add(index)
            if data.get("type") == "response.output_item.done":
                self._items[index] = item
        if index in self._hidden:
            self._gap = True
            return b""
        if self._lost and index not in self._begun:
            return self._obscure()
        place = self._base + index - sum(other < index for other in self._hidden)
        self._top = max(self._top, place + 1)
        return self._show(self._encoded(event, data, {} if place == index else {"output_index": place}))

    def _encoded(self, event: Event, data: Data, changes: Mapping[str, Any] | None = None) -> bytes:
        """Return an event's bytes with changes to its data and sequence number; unchanged if there are none.

        Sequence numbers are the provider's, without gaps for events that the client does not get.
        """
        changed = dict(changes or {})
        number = data.get("sequence_number")
        if isinstance(number, int):
            if self._gap:
                self._shift = 0 if self._last is None else self._last + 1 - number
                self._gap = False
            self._last = number + self._shift
            if self._shift:
                changed["sequence_number"] = self._last
        return event.with_data(jsons.dumps({**data, **changed})) if changed else event.raw


class WholeResponse(WholeReply):
    """A reply in one piece; see `Reply`.

    Args:
        body: the client's request.
        own: names of the proxy's own tools.
    """

    def __init__(self, body: Body, own: frozenset[str], tally: Tally) -> None:
        super().__init__(own)
        self._rounds = _Rounds(body, own, tally)
        self._reply: bytes | None = None

    def finish(self) -> bytes:
        """Return the client's reply."""
        return self.rest() if self._reply is None else self._reply

    def _round(self, body: Data) -> Round:
        if not isinstance(body.get("output"), list):
            raise BrokenReplyError(f"the provider's reply has no output: {self.rest()[:200]!r}")
        if body.get("status") == "failed":
            raise BrokenReplyError("the provider's response failed")
        self._rounds.identify(body)
        merged = self._rounds.merged(body)
        self._reply = None if merged is body else jsons.dumps(merged)
        return self._rounds.close(body, [])


def _as_call(tool: object) -> object:
    """A function's definition in the form of a call, for `is_own`."""
    return {**tool, "type": "function_call"} if isinstance(tool, Mapping) and tool.get("type") == "function" else None
