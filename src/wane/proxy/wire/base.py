"""The interface of a protocol: what the proxy asks of a request, of a reply, and of what it weaves into a history.

A client sends its whole history with every request. The proxy adds tools of its own (`delimiter`), answers their
calls itself, and never shows them to the client: so the history that the provider sees has more in it than the
client's. *Weaving* is putting it back: the client's assistant message stands for one or more *rounds*, each an
assistant message as the provider made it, followed by the results of its own calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from wane.conversation.tools import Tool
from wane.core.errors import WaneError
from wane.formats.writing import WritingFormat
from wane.proxy.wire.usage import Tally, summed

Body = dict[str, Any]
"""A request's body, parsed. Never changed in place: what is derived from it shares what it keeps."""

Message = dict[str, Any]
"""A message of the wire's format."""

Mending = Callable[[Body, Body], Body]
"""Makes a request one that the provider takes, from its body and what the client sent; the same one if it is so."""


class BrokenReplyError(WaneError):
    """A provider's reply that is not of its protocol, or stops before its end.

    Args:
        message: what is wrong with it.
        told: whether the provider said so itself, by an error that the client gets as part of the reply.
    """

    def __init__(self, message: str, *, told: bool = False) -> None:
        super().__init__(message)
        self.told = told


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
class TokenUsage:
    """What a provider reported of one request, in tokens.

    Attributes:
        input: all input tokens, those read from or written to a cache included.
        output: tokens of the reply, its reasoning included.
        cache_read: how many of `input` were read from the provider's cache.
        cache_write: how many of `input` were written to it.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return what two requests took."""
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


NO_USAGE: Final = TokenUsage(0, 0)
"""What nothing took."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one request to the provider brought.

    Attributes:
        message: the assistant's message in the format, own calls included, as the provider takes it back in a
            later request: signatures, encrypted reasoning and ids unchanged.
        own: calls of the proxy's own tools that are whole, in order.
        calls: number of calls that the client is to answer.
        complete: whether the model ended by itself, and was not cut off by a limit, a pause or a refusal.
        usage: what it took; None if the provider did not say.
    """

    message: Message
    own: tuple[OwnCall, ...] = ()
    calls: int = 0
    complete: bool = True
    usage: TokenUsage | None = None

    @property
    def alone(self) -> bool:
        """Whether only own calls were made, so that the model is to be asked again."""
        return bool(self.own) and not self.calls and self.complete


@dataclass(frozen=True, slots=True)
class WovenRound:
    """One round as it stands in the history that the provider sees.

    Attributes:
        message: the assistant's message of the round.
        results: messages with the results of its own calls, which follow it at once; none if it made none.
    """

    message: Message
    results: tuple[Message, ...] = ()


class Reply(Protocol):
    """What the client gets for one request: one or several replies of the provider, as one. Sans I/O.

    The server calls `feed` with what the provider sends, `end` when the provider's body is over and, if the round
    was alone, begins again with `feed` for the next one; then `finish`. Events that need no change are given out
    as the bytes that came in. Of later rounds the client sees the content only, under the head of the first;
    indexes and sequence numbers go on, and the usage in the end is the sum of all rounds, field by field, or the last
    one's.
    """

    @property
    def started(self) -> bool:
        """Whether anything was given out, so that the answer's status can no longer be another.

        A streamed reply holds its head back until there is something of the first round that the client may see
        (text, reasoning, a call of its own): if the model begins with a call of an own tool alone and the next
        round fails, the provider's error can still be passed on unchanged.
        """
        ...

    @property
    def hides(self) -> bool:
        """Whether there is, or may be, something of an own call in this round, which the client does not see.

        Of a round that breaks then, what is left for the client means nothing.
        """
        ...

    def feed(self, data: bytes) -> bytes:
        """Take in a piece of the provider's body, cut anywhere, and return what the client gets now.

        A streamed reply never holds back what the client may see; what closes it (`message_delta` and
        `message_stop`, the chunk with the `finish_reason`, `response.completed`, `[DONE]`) waits for `finish`.
        What it does not understand is passed on as it is.
        """
        ...

    def end(self) -> Round:
        """The provider's body of this round is over: return what it said.

        Raises:
            BrokenReplyError: if it stopped before its end, was an error event, or was not of the protocol. The
                server then gives `rest` to the client, if anything, and does no more with this reply.
        """
        ...

    def rest(self) -> bytes:
        """Return what was taken in and held back, as it came: what a client gets when a reply breaks.

        In a stream nothing of own calls is in it, nor what of an event that was cut off could be of one.
        """
        ...

    def finish(self) -> bytes:
        """Return what closes the client's reply, after the last round."""
        ...

    def fail(self, status: int, body: bytes) -> bytes:
        """Return what tells the client, in a reply that has started, that a later round was refused.

        Args:
            status: the provider's HTTP status.
            body: the provider's error body.
        """
        ...


class Wire(Protocol):
    """One protocol of a provider.

    Attributes:
        name: name of its format: `anthropic`, `openai` or `openai_responses`.
        format: takes its messages apart, and writes some.
    """

    name: str
    format: WritingFormat[Message]

    def unmanaged(self, body: Body) -> str | None:
        """Return why a request cannot or need not be managed, None if it can be.

        It has no tools of the client's, asks for several answers (`n`), or is not of the protocol's shape.
        """
        ...

    def refusal(self, body: Body) -> str | None:
        """Return why the proxy must refuse a request, such as one with `previous_response_id`; None as a rule."""
        ...

    def tools(self, body: Body) -> frozenset[str]:
        """Return the names of the client's own function tools."""
        ...

    def messages(self, body: Body) -> list[Message]:
        """Return the history that a request carries, as messages of the format, sharing their contents.

        Raises:
            FormatError: if it is not of the protocol.
        """
        ...

    def fixed(self, body: Body) -> object:
        """Return the JSON data that every request carries besides its messages: instructions, tool definitions."""
        ...

    def canonical(self, message: Message) -> object:
        """Return JSON data that is equal for equal messages: without `cache_control`, which clients move about."""
        ...

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Body:
        """Return a body with the proxy's own tools, and what the model is told of them.

        They stand behind the client's tools and instructions, so that the prefix which the client has cached
        without the proxy holds up to there, and are the same in every request.
        """
        ...

    def place(self, body: Body, messages: Sequence[Message]) -> Body:
        """Return a body with these messages in place of its own.

        Neighbouring messages of one role are joined where the provider demands that roles alternate. A
        `cache_control` breakpoint whose block has left the view moves to the nearest block before it that may
        carry one; there are never more than the provider's limit.
        """
        ...

    def noted(self, body: Body, text: str) -> Body:
        """Return a body, which is ready to be sent, with a note to the model behind all else.

        It is for this request alone: no later one has it, so no cache breakpoint may stand on it. A body that ends in
        the model's own words, with which it is to go on, is returned as it is.

        Args:
            body: the body.
            text: the note.
        """
        ...

    def weave(self, message: Message, rounds: Sequence[WovenRound]) -> list[Message]:
        """Return the provider's messages that a client's assistant message stands for.

        The client's own contents count: what it changed is sent as it changed it, what it left out (reasoning,
        as a rule) stays out, but for what belongs to rounds of which the client has kept nothing to tell by.
        With the client's message as it was shown, the result is exactly the rounds.

        Args:
            message: the client's message, which tells that it is the reply to these rounds.
            rounds: the rounds, in order, own calls and all.
        """
        ...

    def visible(self, rounds: Sequence[Round]) -> Message:
        """Return the assistant message that a client makes of a reply of these rounds: without own calls."""
        ...

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return the messages that answer own calls.

        Args:
            answers: each call with the text of its result.
        """
        ...

    def required(
        self, body: Body, history: Sequence[Message], shown: Sequence[tuple[int, Message]]
    ) -> Mapping[int, Sequence[int]]:
        """Return what a request must show besides its view for the provider to take it; nothing as a rule.

        Args:
            body: the request's body.
            history: the whole history.
            shown: the messages of the view, by their positions in the history.

        Returns:
            Positions in the parts (`format.parts`) of messages, by the message's position in the history.
        """
        ...

    def foreseen(self, body: Body, sent: Body) -> Mending | None:
        """Return what makes a request valid that is known not to be, for what was evicted of it; None as a rule.

        Args:
            body: the request's body, as it would go upstream.
            sent: what the client sent.
        """
        ...

    def mending(self, status: int, error: bytes, body: Body, sent: Body) -> Mending | None:
        """Return what makes a request that was refused for its reasoning one that is taken, and later ones too.

        Some models bind reasoning to the exact conversation before it, and refuse it once anything there is gone;
        some must find it at certain places.

        Args:
            status: the status of the refusal.
            error: its body.
            body: the body that was refused.
            sent: what the client sent.

        Returns:
            None if the refusal has another cause, or nothing of the kind is in the body.
        """
        ...

    def headers(self, body: Body) -> Mapping[str, str]:
        """Return headers that a body needs, which is that a `mending` has made, as a rule; none for most.

        Each is a list to which the client's own values of that header belong too, with commas in between.
        """
        ...

    def reply(self, body: Body, own: frozenset[str], tally: Tally = summed) -> Reply:
        """Return what makes the client's reply.

        Args:
            body: the client's request, which says whether it streams and what it wants to be told.
            own: names of the proxy's own tools.
            tally: what the client is told of the usage of several rounds: their sum, or the latest one's.
        """
        ...

    def error(self, status: int, message: str) -> bytes:
        """Return an error body in the provider's shape, for errors that are the proxy's."""
        ...


def may_name(data: bytes, own: frozenset[str]) -> bool:
    """Whether data that is no whole JSON, or none that is understood, may be a reply with own calls."""
    return data.lstrip().startswith(b"{") and any(b'"%b"' % name.encode() in data for name in own)


MAX_ROUNDS: Final = 8
"""How often a model that only calls own tools is asked for one reply; the last time without these tools."""
