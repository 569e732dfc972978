"""The interface of a protocol: how the proxy reads requests, builds replies, and weaves rounds into a history.

A client sends its whole history with every request. The proxy adds tools of its own (`delimiter`), answers their calls
itself, and never shows them to the client. So the provider's history holds more than the client's. *Weaving* puts that
back: one assistant message of the client stands for one or more *rounds*, each an assistant message of the provider
followed by the results of its own calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wane.conversation.request import Tool
from wane.core.errors import FormatError
from wane.formats.writing import WritingFormat
from wane.proxy.wire.reply import Reply
from wane.proxy.wire.rounds import Message, OwnCall, Round, Tally, WovenRound, summed

Body = dict[str, Any]
"""A request's body, parsed. It is never changed in place, because bodies derived from it share its contents."""

Correction = Callable[[Body, Body], Body]
"""Corrects a request that the provider would refuse. Takes its body and the client's body; returns a new body, or the
same if it needs no correction."""


MAX_ROUNDS: Final = 8
"""The most rounds of one reply, for a model that keeps calling only own tools; the last is without these tools."""


class Wire(ABC):
    """One protocol of a provider.

    Attributes:
        name: name of its format: `anthropic`, `openai` or `openai_responses`.
        format: the format, which reads and writes its messages.
    """

    name: str
    format: WritingFormat[Message]

    @abstractmethod
    def unmanaged(self, body: Body) -> str | None:
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
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise FormatError("messages must be a list of objects, each with a role and a content")
        return messages

    @abstractmethod
    def fixed(self, body: Body) -> object:
        """Return what every request carries besides its messages, as JSON data: instructions, tool definitions."""

    @abstractmethod
    def canonical(self, message: Message) -> object:
        """Return JSON data that is equal for equal messages: without `cache_control`, which clients move."""

    @abstractmethod
    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Body:
        """Return a body with the proxy's own tools, and guidance about them.

        They come after the client's tools and instructions, so that a prefix cached without the proxy stays valid up to
        there, and they are the same in every request.
        """

    def _with_tools(self, body: Body, tools: Sequence[Tool]) -> Body:
        """Return a copy of a body with the proxy's own tools after the client's."""
        ours = [self.format.tool(tool.name, tool.description, tool.schema) for tool in tools]
        return {**body, "tools": [*(body.get("tools") or ()), *ours]} if ours else dict(body)

    @abstractmethod
    def place(self, body: Body, messages: Sequence[Message]) -> Body:
        """Return a body with these messages in place of its own.

        If the provider demands alternating roles, neighbouring messages of one role are joined. A `cache_control`
        breakpoint whose block has left the view moves to the nearest block before it that may carry one; there are
        never more than the provider's limit.
        """

    @abstractmethod
    def noted(self, body: Body, text: str) -> Body:
        """Return a body that is ready to be sent with a note to the model at its end.

        No later request has the note, so it must not carry a cache breakpoint. A body that ends with the model's own
        words, which the model should continue, is returned unchanged.

        Args:
            body: the body.
            text: the note.
        """

    @abstractmethod
    def weave(self, message: Message, rounds: Sequence[WovenRound]) -> list[Message]:
        """Return the provider's messages that a client's assistant message stands for.

        The client's contents take precedence: its changes are sent, and what it left out (usually reasoning) stays out,
        except in rounds of which the client kept nothing recognisable. For an unchanged message of the client, the
        result is exactly the rounds.

        Args:
            message: the client's message, known to be the reply of these rounds.
            rounds: the rounds, in order, with their own calls.
        """

    @abstractmethod
    def visible(self, rounds: Sequence[Round]) -> Message:
        """Return the client's assistant message for a reply of these rounds: without own calls."""

    @abstractmethod
    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return the messages that answer own calls.

        Args:
            answers: each call with the text of its result.
        """

    def required(
        self,
        body: Body,  # noqa: ARG002 - most protocols accept any view
        history: Sequence[Message],  # noqa: ARG002
        shown: Sequence[tuple[int, Message]],  # noqa: ARG002
    ) -> Mapping[int, Sequence[int]]:
        """Return what a request must show besides its view so that the provider accepts it; usually nothing.

        Args:
            body: the request's body.
            history: the whole history.
            shown: the messages of the view, by their positions in the history.

        Returns:
            Positions in the parts (`format.parts`) of messages, by the message's position in the history.
        """
        return {}

    def correction_ahead(self, body: Body, sent: Body) -> Correction | None:  # noqa: ARG002 - any view is valid
        """Return the correction of a request that eviction made invalid; usually None.

        Args:
            body: the body that would go upstream.
            sent: the client's body.
        """
        return None

    @abstractmethod
    def correction(self, status: int, error: bytes, body: Body, sent: Body) -> Correction | None:
        """Return the correction of a request that was refused for its reasoning, and of later requests.

        Some models bind reasoning to the exact conversation before it, and refuse it once anything there is gone;
        some demand it at certain places.

        Args:
            status: the status of the refusal.
            error: its body.
            body: the refused body.
            sent: the client's body.

        Returns:
            The correction; None if the refusal has another cause, or the body has no such reasoning.
        """

    def headers(self, body: Body) -> Mapping[str, str]:  # noqa: ARG002 - most protocols have none
        """Return headers that a body needs, usually after a correction; none for most bodies.

        Each is a comma-separated list, to be appended to the client's own values.
        """
        return {}

    @abstractmethod
    def reply(self, body: Body, own: frozenset[str], tally: Tally = summed) -> Reply:
        """Return the object that makes the client's reply.

        Args:
            body: the client's body, with its options for the reply, such as streaming.
            own: names of the proxy's own tools.
            tally: combines the usage of several rounds: their sum, or that of the latest.
        """

    @abstractmethod
    def error(self, status: int, message: str) -> bytes:
        """Return the body of one of the proxy's own errors, in the provider's error format."""
