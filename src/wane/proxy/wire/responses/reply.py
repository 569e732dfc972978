"""Replies of the Responses API, streamed and whole, without own calls and as one over all rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from wane.proxy import jsons
from wane.proxy.wire import sse
from wane.proxy.wire.base import Body, BrokenReplyError, Round, TokenUsage
from wane.proxy.wire.openai.errors import error_of
from wane.proxy.wire.openai.stream import StreamedReply, WholeReply, parsed
from wane.proxy.wire.responses.items import Item, call_id_of, client_calls, is_own, own_calls, returnable
from wane.proxy.wire.usage import Tally, count, summed

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
        count: how many are over.
        output: what the client sees of their output.
        usage: the sum of their usages, as the provider reports them.
        head: what the client knows the response by, from the first round.
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
        """Return a response that says of the request what the client sent, not what the provider was sent."""
        told: Data = {}
        tools = response.get("tools")
        if isinstance(tools, list) and any(is_own(_as_call(tool), self._own) for tool in tools):
            told["tools"] = [tool for tool in tools if not is_own(_as_call(tool), self._own)]
        if response.get("instructions") != self._instructions and "instructions" in response:
            told["instructions"] = self._instructions
        return {**response, **told} if told else response

    def identify(self, response: Data) -> None:
        """Take the head from a response."""
        if not self.head:
            self.head = {key: response[key] for key in _HEAD if key in response}

    def merged(self, response: Data) -> Data:
        """Return the last round's response as that of all rounds; the same if nothing in it is another's."""
        output = response.get("output")
        seen = [item for item in output if not is_own(item, self._own)] if isinstance(output, list) else []
        told = self.echo(response)
        if not self.count:
            hidden = isinstance(output, list) and len(seen) < len(output)
            return {**told, "output": seen} if hidden else told
        usage = {"usage": self.tally(self.usage, told.get("usage"))} if "usage" in told or self.usage else {}
        head = {key: value for key, value in self.head.items() if key in told}
        return {**told, **head, "output": [*self.output, *seen], **usage}

    def close(self, response: Data, items: list[Item]) -> Round:
        """Take a round in, and return it.

        Args:
            response: as it ended.
            items: its output, if that is not in it.
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
        return Round(message, own, client_calls(items, self._own), complete, _token_usage(usage))


class StreamedResponse(StreamedReply):
    """A streamed reply; see `Reply`.

    Args:
        body: the client's request.
        own: names of the proxy's own tools.
    """

    def __init__(self, body: Body, own: frozenset[str], tally: Tally = summed) -> None:
        super().__init__()
        self._own = own
        self._rounds = _Rounds(body, own, tally)
        self._opening: Data = {}
        self._top = 0  # the next output index that the client has not seen
        self._last: int | None = None  # the last sequence number that it was given
        self._shift = 0
        self._next_round()

    def finish(self) -> bytes:
        """Return what closes the client's stream."""
        return self._late + b"".join(self._held) + b"".join(self._tail)

    def fail(self, status: int, body: bytes) -> bytes:
        """Return the event that tells of a response that failed."""
        error = error_of(status, body)
        code = error.get("code") or ("rate_limit_exceeded" if status == 429 else "server_error")
        told = {"code": str(code), "message": str(error.get("message") or f"HTTP {status}")}
        ended = {"status": "failed", "error": told, "output": self._rounds.output, "usage": self._rounds.usage}
        number = {} if self._last is None else {"sequence_number": self._last + 1}
        data = {"type": "response.failed", **number, "response": {**self._opening, **ended}}
        return sse.encode(jsons.dumps(data), "response.failed")

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
        # Items, arguments of calls, and whole responses with the tools and instructions that the model was given.
        return b"data:" in begun and any(it in begun for it in (b"function_call", b"output_item", b'"response"'))

    # Events

    def _take(self, event: sse.Event) -> bytes:
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
            self._told = True
            return self._pass(self._encoded(event, data))
        index = data.get("output_index")
        if not isinstance(index, int):
            return self._pass(self._encoded(event, data))
        return self._take_item(event, data, index)

    def _begin(self, event: sse.Event, data: Data, response: Data) -> bytes:
        """Take in an event that opens a response; the client gets those of the first round."""
        if self._rounds.count:
            self._gap = True
            return b""
        self._rounds.identify(response)
        told = self._rounds.echo(response)
        self._opening = told
        return self._pass(self._encoded(event, data, {} if told is response else {"response": told}))

    def _end(self, event: sse.Event, data: Data, response: Data) -> bytes:
        """Take in the event that closes a response, and hold it."""
        self._terminal = response
        self._rounds.identify(response)
        if response.get("status") == "failed" or data.get("type") == "response.failed":
            self._failure = f"the provider's response failed: {response.get('error')!r:.500}"
            self._told = True
        merged = self._rounds.merged(response)
        last, shift, gap = self._last, self._shift, self._gap
        self._tail.append(self._encoded(event, data, {} if merged is response else {"response": merged}))
        # If the model is asked again, the client does not get it.
        self._last, self._shift, self._gap = last, shift, gap
        return b""

    def _take_item(self, event: sse.Event, data: Data, index: int) -> bytes:
        """Take in an event on an item of the output."""
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

    def _encoded(self, event: sse.Event, data: Data, changes: Mapping[str, Any] | None = None) -> bytes:
        """Return an event's bytes with changes to its data, and numbered: as they came if there is nothing to change.

        Numbers go on as the provider has them, but for those of events that the client does not get.
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

    def __init__(self, body: Body, own: frozenset[str], tally: Tally = summed) -> None:
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
    """A definition of a function as a call of it, for telling whose it is."""
    return {**tool, "type": "function_call"} if isinstance(tool, Mapping) and tool.get("type") == "function" else None


def _token_usage(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    details = "input_tokens_details"
    read, write = count(usage, details, "cached_tokens"), count(usage, details, "cache_write_tokens")
    return TokenUsage(count(usage, "input_tokens"), count(usage, "output_tokens"), read, write)
