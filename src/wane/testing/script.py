"""What a scripted model says: replies, and the script that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wane.core.errors import ConfigError
from wane.testing.request import Request, compact, count_chars


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes.

    Attributes:
        tool: name of the tool.
        arguments: an object to send as JSON, or a string to send as it stands, which may be malformed.
        id: the provider's id of the call; the server makes one if it is None. Ids must be unique in a conversation.
    """

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def raw_arguments(self) -> str:
        """The arguments as the text that goes over the wire."""
        if isinstance(self.arguments, str):
            return self.arguments
        return compact(self.arguments)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request cost, in tokens.

    Attributes:
        input: all tokens of the request, those read from and written to the provider's cache included.
        output: tokens of the reply.
        cache_read: how many of `input` came from the cache.
        cache_write: how many of `input` were written to it.

    Raises:
        ConfigError: for a negative count, or cache counts that are more than the input.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    def __post_init__(self) -> None:
        if min(self.input, self.output, self.cache_read, self.cache_write) < 0:
            raise ConfigError(f"token counts cannot be negative: {self}")
        if self.cache_read + self.cache_write > self.input:
            raise ConfigError(f"cache_read and cache_write are parts of input and cannot be more than it: {self}")


@dataclass(frozen=True, slots=True)
class HttpError:
    """An HTTP error in place of a reply.

    Attributes:
        status: the HTTP status, 400 to 599.
        body: a mapping is sent as it stands; a string, or None for a default text, is put into the provider's own
            error shape.
        headers: further response headers, such as `{"retry-after": "1"}`.

    Raises:
        ConfigError: for a status that is no error.
    """

    status: int
    body: str | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigError(f"an HTTP error has a status from 400 to 599, not {self.status}")


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model, which stands in it in the order reasoning, text, calls.

    Attributes:
        text: what the model says.
        reasoning: what it thinks first. Sent as `reasoning_content` (Chat Completions), as a reasoning item with an
            id and encrypted content (Responses) or as a signed thinking block (Anthropic).
        calls: the tool calls, made in parallel.
        usage: what the server reports; None has it count characters (`Request.tokens` and `Reply.tokens`).
        error: answer with this HTTP error instead.
        delay: seconds to wait before answering.
    """

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    error: HttpError | None = None
    delay: float = 0.0

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning, as `ceil(characters / 4)`."""
        return count_chars(self.reasoning or "")

    @property
    def tokens(self) -> int:
        """Tokens of the reply: `ceil(characters / 4)` of its reasoning, its text and each call (name and arguments)."""
        calls = sum(count_chars(call.tool + call.raw_arguments) for call in self.calls)
        return self.reasoning_tokens + count_chars(self.text or "") + calls


Script: TypeAlias = Iterable[Reply] | Callable[[Request], Reply]
"""Replies in the order in which they are given out, or a function that makes each from the request."""
