"""Replies of the Responses API, streamed and whole: all rounds as one, without own calls."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from wane.formats.answers import HOSTED
from wane.formats.fields import objects_in
from wane.formats.openai_responses import is_model_made
from wane.prices import NO_USAGE, SEARCH_FEE, TokenUsage
from wane.proxy import jsons
from wane.proxy.wire.openai_shared import error_of, token_usage
from wane.proxy.wire.reply import ServerSentEvent, StreamedReply, WholeReply, encode, parse_object
from wane.proxy.wire.wire import Body, BrokenReplyError, OwnCall, Round, Rounds

Data: TypeAlias = dict[str, Any]

Item: TypeAlias = dict[str, Any]

_BEGIN: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
_END: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


_CHARGED: Final = HOSTED - {"mcp_call"}
"""Those with a fee of their own, which OpenAI does not report."""


class ResponseRounds(Rounds):
    """The rounds of a reply."""

    def __init__(self, body: Body, own: frozenset[str], *, sums: bool) -> None:
        super().__init__(own, ("id", "created_at"), sums=sums)
        self.output: list[Item] = []
        self._instructions = body.get("instructions")
        self._stored = body.get("store") is not False

    def echo(self, response: Data) -> Data:
        """Return a response that repeats the client's own tools and instructions, not those sent upstream."""
        echoed: Data = {}
        tools = response.get("tools")
        if isinstance(tools, list) and any(_is_own(_as_call(tool), self.own) for tool in tools):
            echoed["tools"] = [tool for tool in tools if not _is_own(_as_call(tool), self.own)]
        if response.get("instructions") != self._instructions and "instructions" in response:
            echoed["instructions"] = self._instructions
        return {**response, **echoed} if echoed else response

    def merge_response(self, response: Data) -> Data:
        """Return the last round's response as that of all rounds; the same object if nothing changes."""
        visible, echoed = self._visible_items(response), self.echo(response)
        if not self.done:
            hidden = isinstance(response.get("output"), list) and len(visible) < len(response["output"])
            return {**echoed, "output": visible} if hidden else echoed
        usage = {"usage": self.usage_with(echoed.get("usage"))} if "usage" in echoed or self.usage else {}
        return {**self.under_head(echoed), "output": [*self.output, *visible], **usage}

    def close(self, response: Data, items: list[Item]) -> Round:
        """Complete a round, and return it.

        Args:
            response: the final response.
            items: its output, in case the response has none.
        """
        items = objects_in(response.get("output")) or items
        complete = response.get("status", "completed") == "completed"
        own: list[OwnCall] = []
        for item in items:
            if _is_own(item, self.own) and (call_id := call_id_of(item)):
                raw = str(item.get("arguments") or "")
                # Unless the model ended by itself, the call may be cut off.
                if complete or parse_object(raw) is not None:
                    own.append(OwnCall(call_id, item["name"], raw))
        ids = {call.id for call in own}
        complete_items = [item for item in items if not _is_own(item, self.own) or call_id_of(item) in ids]
        self.output += self._visible_items(response)
        message, usage = {"items": without_reasoning(complete_items, self._is_refused)}, response.get("usage")
        tokens, diagnostics = _usage_of(response, items), response.get("prompt_cache_diagnostics")
        miss = str(diagnostics.get("reason") or "") if isinstance(diagnostics, dict) else ""
        # The client must answer neither own calls nor those that the provider ran.
        answered = {call_id_of(item) for item in items if str(item.get("type")).endswith("_output")} - {None}
        calls = [item for item in items if is_call(item) and not _is_own(item, self.own)]
        client_calls = sum(call_id_of(item) not in answered for item in calls)
        return self.add(Round(message, tuple(own), client_calls, complete, tokens, miss), usage)

    def _is_refused(self, reasoning: Item) -> bool:
        """Whether later requests must leave out some reasoning: neither it nor its content was kept for them."""
        return not (self._stored or reasoning.get("encrypted_content") or reasoning.get("content"))

    def _visible_items(self, response: Data) -> list[Any]:
        output = response.get("output")
        if not isinstance(output, list):
            return []
        return [item for item in output if not _is_own(item, self.own)]


class StreamedResponse(StreamedReply):
    """A streamed reply."""

    _rounds: ResponseRounds

    def __init__(self, rounds: ResponseRounds) -> None:
        super().__init__(rounds)
        self._opening: Data = {}
        self._top = 0  # the next output index for the client
        self._last: int | None = None  # the last sequence number sent to the client
        self._shift = 0
        self._next_round()

    def fail(self, status: int, body: bytes) -> bytes:
        error = error_of(status, body)
        code = error.get("code") or ("rate_limit_exceeded" if status == 429 else "server_error")
        error_data = {"code": str(code), "message": str(error.get("message") or f"HTTP {status}")}
        ended = {"status": "failed", "error": error_data, "output": self._rounds.output, "usage": self._rounds.usage}
        number = {} if self._last is None else {"sequence_number": self._last + 1}
        data = {"type": "response.failed", **number, "response": {**self._opening, **ended}}
        return encode(jsons.dumps(data), "response.failed")

    def _next_round(self) -> None:
        super()._next_round()
        self._base = self._top
        self._hidden: set[int] = set()
        self._begun: set[int] = set()
        self._items: dict[int, Item] = {}
        self._terminal: Data | None = None
        self._gap = bool(self._rounds.done)

    def _round(self) -> Round:
        if self._terminal is None:
            raise BrokenReplyError("the provider's stream stopped before its end", cut=self._rounds.id is not None)
        return self._rounds.close(self._terminal, [self._items[index] for index in sorted(self._items)])

    def _hides(self) -> bool:
        return bool(self._hidden)

    def _may_hide(self, begun: bytes) -> bool:
        # Items, arguments of calls, and whole responses, which repeat the tools and instructions sent upstream.
        return b"data:" in begun and any(
            marker in begun for marker in (b"function_call", b"output_item", b'"response"')
        )

    # Events

    def _event(self, event: ServerSentEvent, data: Data) -> bytes:
        kind = str(data.get("type") or event.name)
        response = data.get("response")
        if kind in _BEGIN and isinstance(response, dict):
            return self._begin(event, data, response)
        if kind in _END and isinstance(response, dict):
            return self._end(event, data, response)
        if kind == "error" or (kind == "" and data.get("error")):
            self._broken(f"the provider's stream holds an error: {data.get('error') or data.get('message')!r:.500}")
        elif isinstance(index := data.get("output_index"), int):
            return self._take_item(event, data, index)
        return self._pass(self._number_event(event, data).raw)

    def _begin(self, event: ServerSentEvent, data: Data, response: Data) -> bytes:
        """Take in an event that starts a response; the client gets only those of the first round."""
        if self._rounds.done:
            self._gap = True
            return b""
        self._rounds.identify(response)
        self._opening = self._rounds.echo(response)
        return self._pass(self._number_event(event, data, response=self._opening).raw)

    def _end(self, event: ServerSentEvent, data: Data, response: Data) -> bytes:
        """Take in the event that ends a response, and hold it back."""
        self._terminal = response
        self._rounds.identify(response)
        if response.get("status") == "failed" or data.get("type") == "response.failed":
            self._broken(f"the provider's response failed: {response.get('error')!r:.500}")
        last, shift, gap = self._last, self._shift, self._gap
        self._close(self._number_event(event, data, response=self._rounds.merge_response(response)))
        # If the model is asked again, the client does not get this event.
        self._last, self._shift, self._gap = last, shift, gap
        return b""

    def _take_item(self, event: ServerSentEvent, data: Data, index: int) -> bytes:
        """Take in an event about an item of the output."""
        item = data.get("item")
        if isinstance(item, dict):
            self._begun.add(index)
            if _is_own(item, self._own):
                self._hidden.add(index)
            if data.get("type") == "response.output_item.done":
                self._items[index] = item
        if index in self._hidden:
            self._gap = True
            return b""
        if self._lost and index not in self._begun:
            return self._obscure()
        client_index = self._base + index - sum(hidden < index for hidden in self._hidden)
        self._top = max(self._top, client_index + 1)
        return self._show(self._number_event(event, data, output_index=client_index).raw)

    def _number_event(self, event: ServerSentEvent, data: Data, **changes: Any) -> ServerSentEvent:
        """Return an event with the client's sequence number and other changes; the same if nothing changes.

        Sequence numbers are the provider's, without gaps for events that the client does not get.
        """
        number = data.get("sequence_number")
        if isinstance(number, int):
            if self._gap:
                self._shift = 0 if self._last is None else self._last + 1 - number
                self._gap = False
            self._last = number + self._shift
            if self._shift:
                changes["sequence_number"] = self._last
        for key, value in changes.items():
            if value != data[key]:
                return event.with_data({**data, **changes})
        return event


class WholeResponse(WholeReply):
    """A reply in one piece."""

    _rounds: ResponseRounds

    def __init__(self, rounds: ResponseRounds) -> None:
        super().__init__(rounds)
        self._reply: bytes | None = None

    def finish(self) -> bytes:
        return self.held_back() if self._reply is None else self._reply

    def _round(self, body: Data) -> Round:
        if not isinstance(body.get("output"), list):
            raise BrokenReplyError(f"the provider's reply has no output: {self.held_back()[:200]!r}")
        if body.get("status") == "failed":
            raise BrokenReplyError("the provider's response failed")
        self._rounds.identify(body)
        merged = self._rounds.merge_response(body)
        self._reply = None if merged is body else jsons.dumps(merged)
        return self._rounds.close(body, [])


def _as_call(tool: object) -> object:
    """A function's definition in the form of a call, for `_is_own`."""
    return {**tool, "type": "function_call"} if isinstance(tool, Mapping) and tool.get("type") == "function" else None


def _is_own(item: object, own: Container[str]) -> bool:
    """Whether an item is a call of one of the proxy's own tools, which have no namespace."""
    if not isinstance(item, Mapping) or item.get("type") != "function_call" or item.get("namespace"):
        return False
    name = item.get("name")
    return isinstance(name, str) and name in own


def is_call(item: Mapping[str, Any]) -> bool:
    """Whether an item is a call that the client may have to answer: none that the provider runs."""
    kind = str(item.get("type"))
    if kind == "tool_search_call":
        return bool(item.get("call_id"))
    return kind == "mcp_approval_request" or (kind.endswith("_call") and kind not in HOSTED)


def call_id_of(item: Mapping[str, Any]) -> str | None:
    """Return the id that pairs a call and its output; None if it has none."""
    call_id = item.get("call_id")
    return call_id if isinstance(call_id, str) and call_id else None


def without_reasoning(items: Sequence[Any], gone: Callable[[Item], bool]) -> list[Any]:
    """Return items without some reasoning; the items that it led to lose their ids, which refer to it.

    Args:
        items: items of the input, or of an output.
        gone: whether to leave out an item of reasoning.
    """
    remaining: list[Any] = []
    orphaned = False
    for item in items:
        if isinstance(item, dict) and item.get("type") == "reasoning":
            orphaned = gone(item)
            if orphaned:
                continue
        orphaned = orphaned and is_model_made(item)
        remaining.append(without_id(item) if orphaned else item)
    return remaining


def without_id(item: Item) -> Item:
    """Return an item without its id, which only stored items need."""
    if "id" not in item:
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _usage_of(response: Data, items: Sequence[Item]) -> TokenUsage | None:
    """Return the usage of a response.

    OpenAI adds up what each pass of a loop over its own tools read (measured in 2026: 2.04 times the next request after
    three searches), so the figure then does not tell what the request held.
    """
    usage = token_usage(response, "input", "output")
    kinds = [item.get("type") for item in items]
    if usage is None or HOSTED.isdisjoint(kinds):
        return usage
    searches = sum(item.get("type") == "web_search_call" and _searches(item) for item in items)
    return replace(usage, first=NO_USAGE, fees=searches * SEARCH_FEE, further_fees=not _CHARGED.isdisjoint(kinds))


def _searches(item: Item) -> bool:
    """Whether a call of the web search tool searches, and does not only open or look through a page."""
    action = item.get("action")
    return not isinstance(action, Mapping) or action.get("type", "search") == "search"
