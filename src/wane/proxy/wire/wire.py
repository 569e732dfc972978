"""The interface of a protocol: how the proxy reads requests, builds replies, and completes a history.

A client sends its whole history with every request. The proxy adds tools of its own (`delimiter`), answers their calls
itself, and never shows them to the client. So the provider's history holds more than the client's: one assistant
message of the client stands for one or more *rounds*, each an assistant message of the provider followed by the results
of its own calls. `Wire.expand` puts these back.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, overload

from wane.conversation.request import Tool
from wane.core import Kind
from wane.core.errors import FormatError, WaneError
from wane.formats.message_format import Part, WritingFormat
from wane.prices import Bill, TokenUsage, bill_of, billed_at

Message = dict[str, Any]
"""A message of the wire's format."""

Body = dict[str, Any]
"""A request's body, parsed. It is never changed in place, because bodies derived from it share its contents."""

Correction = Callable[[Body, Body], Body]
"""Corrects a request that the provider would refuse. Takes its body and the client's body; returns a new body, or the
same if it needs no correction."""


@dataclass(frozen=True, slots=True)
class Equipped:
    """A client's body with the proxy's own tools, and guidance about them.

    Attributes:
        body: the body.
        guidance: the guidance, if it is in the messages, so that those in place of them get it too; else empty.
    """

    body: Body
    guidance: str = ""


class ViewMessage(NamedTuple):  # made for each message of each request, which takes a dataclass three times as long
    """A message of a view.

    Attributes:
        message: the message as the view shows it.
        number: its number in the history, or for a text that is not in the history, of the message that it precedes;
            None for a message after the history.
        positions: positions of the parts that it shows of that message; None for all.
        sent: whether it is as the client sent it.
        ends_head: whether it is the last of the leading messages that no pass may ever take.
    """

    message: Message
    number: int | None = None
    positions: Sequence[int] | None = None
    sent: bool = False
    ends_head: bool = False

    def was_sent_behind(self, before: ViewMessage | None) -> bool:
        """Whether the client sent this message, right behind another one."""
        if before is None or before.number is None or self.number is None:
            return False
        return before.sent and self.sent and self.number == before.number + 1


class SentHistory(Sequence[ViewMessage]):
    """The client's own history as a view, which most views are. Its messages are made when they are asked for.

    It keeps the order of roles that it has, whatever that is. So there is nothing to join in it (R12b), unless a format
    joins neighbouring answers.

    Args:
        history: the messages as the client sent them.
    """

    def __init__(self, history: Sequence[Message]) -> None:
        self._history = history

    def __len__(self) -> int:
        return len(self._history)

    @overload
    def __getitem__(self, number: int) -> ViewMessage: ...
    @overload
    def __getitem__(self, number: slice) -> list[ViewMessage]: ...
    def __getitem__(self, number: int | slice) -> ViewMessage | list[ViewMessage]:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        return ViewMessage(self._history[number], range(len(self))[number], None, True)


def has_neighbours(entries: Iterable[object], entry: object) -> bool:
    """Return whether an entry stands twice in a row."""
    return (entry, entry) in pairwise(entries)


MAX_ROUNDS: Final = 8
"""The most rounds of one reply, for a model that keeps calling only own tools; the last is without these tools."""


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A call of one of the proxy's own tools.

    Attributes:
        id: the provider's id, which its result repeats.
        tool: the tool's name.
        arguments: the raw JSON arguments, as the model wrote them.
    """

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one request to the provider.

    Attributes:
        message: the assistant's message in the format, including own calls, as the provider accepts it in later
            requests: with unchanged signatures, encrypted reasoning and ids.
        own: complete calls of the proxy's own tools, in order.
        calls: number of calls that the client must answer.
        complete: whether the model ended by itself, and was not cut off by a limit, a pause or a refusal.
        usage: its usage; None if the provider did not report it.
        cache_miss: why the provider could not read its cache, in its own word; empty if it did not say.
        bill: what it costs, once that is computed (`with_bill`); None before, or without a usage.
    """

    message: Message
    own: tuple[OwnCall, ...] = ()
    calls: int = 0
    complete: bool = True
    usage: TokenUsage | None = None
    cache_miss: str = ""
    bill: Bill | None = None

    def with_bill(self, model: str, address: str = "") -> Round:
        """Return the round with what it costs, for the model that was asked and the host of the provider that answered.

        Whoever needs the cost takes it from here.

        A later look-up of the prices would cost time, and may find others: some depend on the hour.
        """
        if self.bill is not None or self.usage is None:
            return self
        usage = billed_at(self.usage, model, address)
        return replace(self, usage=usage, bill=bill_of(usage, model))

    @property
    def alone(self) -> bool:
        """Whether the model made only own calls, so that it must be asked again."""
        return bool(self.own) and not self.calls and self.complete


class Rounds:
    """The completed rounds of one reply for the client.

    Args:
        own: names of the proxy's own tools.
        sums: whether the client is told the usage of all rounds, not of the latest that reported one.
        head: keys of a reply that the client gets from the first round; the first of them is that of its id.

    Attributes:
        done: the rounds.
        usage: their combined usage, as the provider reports it; None if it reported none.
    """

    def __init__(self, own: frozenset[str], head: tuple[str, ...], *, sums: bool) -> None:
        self.own = own
        self.done: list[Round] = []
        self.usage: Any = None
        self._keys, self._sums = head, sums
        self._head: dict[str, Any] = {}

    @property
    def id(self) -> object:
        """The reply's id, which is that of the first round; None if it is unknown."""
        return self._head.get(self._keys[0])

    def identify(self, beginning: dict[str, Any]) -> None:
        """Take the head from the beginning of a reply; the very first may have an empty one."""
        if not self._head and beginning.get(self._keys[0]):
            self._head = {key: beginning[key] for key in self._keys if key in beginning}

    def under_head(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return part of a later round's reply with the head of the first."""
        return {**part, **{key: value for key, value in self._head.items() if key in part}}

    def usage_with(self, usage: Any) -> Any:
        """Return what the client is told of the usage of the completed rounds and of one more."""
        if self._sums:
            return _sum_usages(self.usage, usage)
        return self.usage if usage is None else usage

    def add(self, round_: Round, usage: Any) -> Round:
        """Complete a round with the usage that the provider reported for it, and return it."""
        self.done.append(round_)
        self.usage = self.usage_with(usage)
        return round_


@dataclass(frozen=True, slots=True)
class AnsweredRound:
    """One round in the history that the provider sees.

    Attributes:
        message: the assistant's message of the round.
        results: messages with the results of its own calls, right after it; empty if it made none.
    """

    message: Message
    results: tuple[Message, ...] = ()


class BrokenReplyError(WaneError):
    """A provider's reply violates its protocol, or stops before its end.

    Args:
        message: what is wrong with it.
        reported: whether the provider reported an error itself, which the client gets as part of the reply.
        cut: whether it began as a reply of its protocol, and only stops before its end.
    """

    def __init__(self, message: str, *, reported: bool = False, cut: bool = False) -> None:
        super().__init__(message)
        self.reported, self.cut = reported, cut


class ClientReply(ABC):
    """Makes one reply for the client from the provider's replies of one or more rounds. Sans I/O.

    The server calls `feed` with the provider's data and `end` at the end of its body. If the round was alone, it starts
    again with `feed` for the next round; at last it calls `finish`. Events that need no change are passed on as the
    same bytes. The client sees only the content of later rounds, under the head of the first: indexes and sequence
    numbers continue, and the usage is the sum of all rounds, field by field, or that of the last one.

    Attributes:
        started: whether anything was sent, so that the reply's status can no longer change. A streamed reply holds its
            head back until the first round has something that the client may see (text, reasoning, a call of its own).
            So if the model first calls only an own tool and the next round fails, the provider's error can still be
            passed on unchanged.
        content_type: the reply's content type, if it is another than the provider's.
    """

    content_type: bytes | None = None

    def __init__(self, rounds: Rounds) -> None:
        self.started = False
        self._rounds, self._own = rounds, rounds.own
        self._over = False

    @property
    @abstractmethod
    def hides(self) -> bool:
        """Whether this round has, or may have, part of an own call, which the client must not see.

        If such a round breaks, the rest of it is useless to the client.
        """

    @abstractmethod
    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the provider's body, cut anywhere, and return what the client gets now.

        A streamed reply never delays what the client may see; only its closing events (`message_delta` and
        `message_stop`, the chunk with the `finish_reason`, `response.completed`, `[DONE]`) wait for `finish`. Unknown
        data is passed on unchanged.
        """

    @abstractmethod
    def end(self) -> Round:
        """Return the round, at the end of the provider's body.

        Raises:
            BrokenReplyError: if the body stopped before its end, was an error event, or violated the protocol. The
                server then sends `rest` to the client, if anything, and ends this reply.
        """

    @abstractmethod
    def held_back(self) -> bytes:
        """Return the data that was held back, unchanged: what the client gets if a reply breaks.

        In a stream it contains nothing of own calls, nor a cut-off event that could be part of one.
        """

    @abstractmethod
    def finish(self) -> bytes:
        """Return the end of the client's reply, after the last round."""

    @abstractmethod
    def fail(self, status: int, body: bytes) -> bytes:
        """Return the error for a client whose reply has started when a later round is refused."""

    @abstractmethod
    def _next_round(self) -> None:
        """Reset for the next round."""

    def _begin_round(self) -> None:
        """Reset for the next round if the previous one is over. Until then `finish` needs it."""
        if self._over:
            self._over = False
            self._next_round()


class Wire(ABC):
    """One protocol of a provider.

    Attributes:
        name: name of its format: `anthropic`, `openai`, `openai_responses` or `gemini`.
        provider: name of its provider in OpenTelemetry's conventions (`gen_ai.provider.name`).
        paths: how the paths of its requests to a model end; the group `counts` is in those that only count tokens.
        own_headers: headers that its clients alone send.
        system: the fields of a body that have the system prompt, beside that in messages.
        history: the field of a body that has the history.
        groups: whether a message stands for several entries of that field.
        format: the format, which reads and writes its messages.
    """

    name: str
    provider: str
    paths: re.Pattern[str]
    own_headers: frozenset[bytes] = frozenset()
    system: tuple[str, ...] = ()
    history = "messages"
    groups = False
    format: WritingFormat[Message]

    def counts_at(self, path: str) -> bool | None:
        """Return whether a request to a path only counts tokens, and asks no model; None if the path is none of its."""
        match = self.paths.search(path)
        return None if match is None else match.groupdict().get("counts") is not None

    def is_clients(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a client speaks this protocol, by a request of any kind, so that it knows its errors."""
        return self.counts_at(path) is not None or any(name in self.own_headers for name, _ in headers)

    def read_path(self, body: Body, path: str, query: bytes) -> Body:  # noqa: ARG002 - most bodies say all themselves
        """Return a client's body with what only its path says: the model, and whether the reply is streamed."""
        return body

    def outgoing(self, body: Body, path: str, *, counts: bool) -> Body:  # noqa: ARG002 - most bodies go as they are
        """Return a body as it goes upstream."""
        return body

    def target(self, body: Body, target: bytes) -> bytes:  # noqa: ARG002 - most targets stay
        """Return the path and query to which a managed request goes upstream, which a client sent to `target`."""
        return target

    @abstractmethod
    def why_unmanaged(self, body: Body) -> str | None:
        """Return why a request cannot or need not be managed; None if it can be.

        For example, it has no client tools, asks for several answers (`n`), or violates the protocol.
        """

    def refusal(self, body: Body) -> str | None:  # noqa: ARG002 - most protocols have nothing to refuse
        """Return why the proxy must refuse a request, such as one with `previous_response_id`; usually None."""
        return None

    @abstractmethod
    def tools(self, body: Body) -> frozenset[str]:
        """Return the names of the client's own function tools."""

    def messages(self, body: Body) -> list[Message]:
        """Return the history in a request, as messages of the format that share its contents.

        Raises:
            FormatError: if it violates the protocol.
        """
        messages = body.get("messages")
        if not isinstance(messages, list) or not {dict}.issuperset(map(type, messages)):
            raise FormatError("messages must be a list of objects, each with a role and a content")
        return messages

    def entries(self, message: Message) -> list[Any]:
        """Return the entries of a body's history that a message stands for: itself, unless the protocol `groups`."""
        return [message]

    @abstractmethod
    def fixed_data(self, equipped: Equipped) -> object:
        """Return what every request carries besides its messages, as JSON data: instructions, tool definitions."""

    @abstractmethod
    def canonical(self, message: Message) -> object:
        """Return JSON data that is equal for equal messages: without `cache_control`, which clients move."""

    def shape_parts(self, message: Message, parts: list[Part] | None = None) -> list[Part]:
        """Return the parts of a message by which it is recognised, whatever a client edits in it.

        Args:
            message: the message.
            parts: its parts, if they are at hand.

        Raises:
            FormatError: if it is not in the format.
        """
        return self.format.parts(message) if parts is None else parts

    def spoken(self, message: Message) -> list[str]:
        """Return the texts of a message that are a person's, without notices beside them."""
        return [part.text for part in self.format.parts(message) if part.kind is Kind.USER]

    @abstractmethod
    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Equipped:
        """Return a body with the proxy's own tools, and guidance about them.

        They come after the client's tools and instructions, so that a prefix cached without the proxy stays valid up to
        there, and they are the same in every request.
        """

    def _with_tools(self, body: Body, tools: Sequence[Tool]) -> Body:
        """Return a copy of a body with the proxy's own tools after the client's."""
        ours = [self.format.tool(tool.name, tool.description, tool.schema) for tool in tools]
        return {**body, "tools": [*(body.get("tools") or ()), *ours]} if ours else dict(body)

    @abstractmethod
    def with_messages(self, equipped: Equipped, view: Sequence[ViewMessage], history: Sequence[Message]) -> Body:
        """Return a body with the messages of a view in place of its own.

        If the provider demands alternating roles, neighbouring messages of one role are joined. A `cache_control`
        breakpoint whose block has left the view moves to the nearest block before it that may carry one. Where the
        provider caches up to breakpoints alone, one is added behind the leading messages that no pass may take. There
        are never more than the provider's limit.

        Args:
            equipped: the body.
            view: the messages.
            history: the history that they are from: the client's messages with the hidden rounds.
        """

    @abstractmethod
    def add_note(self, body: Body, text: str) -> Body:
        """Return a body that is ready to be sent with a note to the model at its end.

        No later request has the note, so it must not carry a cache breakpoint. A body that ends with the model's own
        words, which the model should continue, is returned unchanged.
        """

    @abstractmethod
    def expand(self, message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
        """Return the provider's messages that a client's assistant message stands for.

        The client's contents take precedence: its changes are sent, and what it left out (usually reasoning) stays out,
        except in rounds that it kept nothing recognisable of. If the client changed nothing, the result is exactly the
        rounds.

        Args:
            message: the client's message, known to be the reply of these rounds.
            rounds: the rounds, in order, with their own calls.
        """

    @abstractmethod
    def visible(self, rounds: Sequence[Round]) -> Message:
        """Return the client's assistant message for a reply of these rounds: without own calls."""

    @abstractmethod
    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return the messages that answer own calls."""

    def must_open_with_reasoning(self, body: Body) -> bool:  # noqa: ARG002 - most protocols accept any view
        """Whether the provider demands that the current turn of this request begins with its reasoning."""
        return False

    def correction_ahead(self, body: Body, sent: Body) -> Correction | None:  # noqa: ARG002 - any view is valid
        """Return the correction of a request that eviction made invalid; usually None."""
        return None

    @abstractmethod
    def correction(self, status: int, error: bytes, body: Body, sent: Body) -> Correction | None:
        """Return the correction of a request that was refused for its reasoning, and of later requests.

        Some models bind reasoning to the exact conversation before it, and refuse it once anything there is gone;
        some demand it at certain places.

        Returns:
            The correction; None if the refusal has another cause, or the body has no such reasoning.
        """

    def headers(self, body: Body) -> Mapping[str, str]:  # noqa: ARG002 - most protocols have none
        """Return headers that a body needs, usually after a correction; none for most bodies.

        Each is a comma-separated list, to be appended to the client's own values.
        """
        return {}

    @abstractmethod
    def reply(self, body: Body, own: frozenset[str], *, sums: bool = True) -> ClientReply:
        """Return the object that makes the client's reply.

        Args:
            body: the client's body, with its options for the reply, such as streaming.
            own: names of the proxy's own tools.
            sums: whether the client is told the usage of all rounds, not of the latest that reported one.
        """

    @abstractmethod
    def error(self, status: int, message: str) -> bytes:
        """Return the body of one of the proxy's own errors, in the provider's error format."""


def _sum_usages(before: Any, after: Any) -> Any:
    """Return the sum of two usages, field by field; other values are those of the later one.

    Args:
        before: usage of earlier rounds, as JSON data; None if none was reported.
        after: usage of a later round.
    """
    if before is None or after is None:
        return before if after is None else after
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [*before, *(key for key in after if key not in before)]
        return {key: _sum_usages(before.get(key), after.get(key)) for key in keys}
    if _is_number(before) and _is_number(after):
        return before + after
    if isinstance(before, list) and isinstance(after, list):
        return [*before, *after]  # the samplings that each sums up
    return after


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
