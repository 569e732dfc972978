"""What a client sent, in one form for all providers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from wane.core.items import Kind

Api: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
"""The protocols that the server speaks."""


def compact(value: object) -> str:
    """Return JSON text without spaces, as models write arguments."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_chars(text: str) -> int:
    """Return `ceil(characters / 4)`, Wane's `chars` count of a text."""
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a message, of the same kinds as Wane's items (R1).

    Attributes:
        kind: its kind.
        text: its text. For a call, the raw JSON arguments; empty for an image or another medium.
        call_id: for a call and its result, the id that pairs them.
        tool: for a call, the tool's name.
        id: the provider's id of the item, if it has one (Responses).
        signature: for reasoning, its signature or encrypted content.
        wire: the object that was sent for it.
    """

    kind: Kind
    text: str
    call_id: str | None = None
    tool: str | None = None
    id: str | None = None
    signature: str | None = None
    wire: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def tokens(self) -> int:
        """`ceil(characters / 4)` of the text, where a call's text is its name followed by its arguments."""
        return count_chars((self.tool or "") + self.text)


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or one input item of the Responses API, as it was sent.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`; Anthropic's and Gemini's tool results stand in `user`
            messages.
        parts: its pieces, in order.
    """

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model, parsed.

    Attributes:
        number: number of requests that the script had answered before.
        api: its protocol.
        model: name of the model asked for.
        messages: the conversation. A system prompt that the protocol keeps separate is the first message.
        tools: names of the tools offered, in order.
        tool_tokens: tokens of their definitions, as `ceil(characters / 4)` of their JSON.
        stream: whether a streamed answer was asked for.
        body: the JSON body.
        raw: the bytes of the body.
        headers: the HTTP headers, names in lower case, without those that carry secrets.
        dropped_reasoning: with `preserved_reasoning`, the reasoning that the provider would have dropped because the
            conversation before it has changed: ids of reasoning items (Responses) or paths such as
            `messages.1.content.0` (Anthropic).
    """

    number: int
    api: Api
    model: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    tool_tokens: int
    stream: bool
    body: Mapping[str, Any] = field(repr=False)
    raw: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    dropped_reasoning: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pieces of all messages, in order."""
        return tuple(part for message in self.messages for part in message.parts)

    @property
    def tokens(self) -> int:
        """Tokens of all parts and of the tool definitions."""
        return self.tool_tokens + sum(part.tokens for part in self.parts)

    @property
    def system(self) -> str:
        """All system text, joined by blank lines."""
        return "\n\n".join(self.texts(Kind.SYSTEM))

    @property
    def results(self) -> dict[str, str]:
        """Text of each tool result by the id of its call."""
        return {part.call_id or "": part.text for part in self.parts if part.kind is Kind.RESULT}

    def texts(self, kind: Kind) -> tuple[str, ...]:
        """Return the texts of the parts of one kind, in order."""
        return tuple(part.text for part in self.parts if part.kind is kind)
