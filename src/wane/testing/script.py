"""Replies of a scripted model, and scripts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from wane.core.errors import ConfigError
from wane.testing.sent_request import Request, compact, count_chars


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes.

    Attributes:
        tool: name of the tool.
        arguments: an object to send as JSON, or a string to send unchanged, which may be malformed.
        id: the provider's id of the call; the server makes one if it is None. Ids must be unique in a conversation.
    """

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def raw_arguments(self) -> str:
        """The arguments as text on the wire."""
        if isinstance(self.arguments, str):
            return self.arguments
        return compact(self.arguments)


ServedTool: TypeAlias = Literal["web_search", "code_execution", "file_search"]
"""The tools that a provider runs by itself, by Anthropic's names; `file_search` is OpenAI's alone."""


@dataclass(frozen=True, slots=True)
class ServedCall:
    """A tool call that the provider runs by itself, with its result.

    Attributes:
        tool: the tool.
        query: what is searched for, or the code that is run.
        result: what the search finds, or the code prints. If it is None, which only Messages allow, the provider pauses
            the turn ahead of it, unless the client's own calls stand in the reply, too. A later reply of the turn has a
            call of the same id with the result, and then only that is sent.
        id: the provider's id of the call; the server makes one if it is None. Responses and Gemini's code have none, or
            one that the server makes.

    Raises:
        ConfigError: for another tool.
    """

    tool: ServedTool
    query: str
    result: str | None = ""
    id: str | None = None

    def __post_init__(self) -> None:
        if self.tool not in get_args(ServedTool):
            raise ConfigError(f"a provider runs {', '.join(get_args(ServedTool))}, not {self.tool!r}")


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a request, in tokens.

    Attributes:
        input: all tokens of the request, with those read from and written to the cache.
        output: tokens of the reply.
        cache_read: the part of `input` that came from the cache.
        cache_write: the part of `input` that was written to it.
        cache_write_hour: the part of `cache_write` that is to live for an hour; only Anthropic's API reports it.

    Raises:
        ConfigError: for a negative count, or one that exceeds what it is a part of.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0

    def __post_init__(self) -> None:
        if min(self.input, self.output, self.cache_read, self.cache_write, self.cache_write_hour) < 0:
            raise ConfigError(f"token counts cannot be negative: {self}")
        if self.cache_read + self.cache_write > self.input:
            raise ConfigError(f"cache_read and cache_write are parts of input and cannot be more than it: {self}")
        if self.cache_write_hour > self.cache_write:
            raise ConfigError(f"cache_write_hour is a part of cache_write and cannot be more than it: {self}")


@dataclass(frozen=True, slots=True)
class HttpError:
    """An HTTP error instead of a reply.

    Attributes:
        status: the HTTP status, 400 to 599.
        body: a mapping is sent unchanged; a string, or None for a default text, is put into the provider's error
            shape.
        headers: additional response headers, such as `{"retry-after": "1"}`.

    Raises:
        ConfigError: for a status that is not an error.
    """

    status: int
    body: str | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigError(f"an HTTP error has a status from 400 to 599, not {self.status}")


How: TypeAlias = Literal["close", "reset", "garbage", "error"]
"""How an answer breaks off."""


@dataclass(frozen=True, slots=True)
class Break:
    """A streamed answer that breaks off. One that is not streamed breaks off before its first byte.

    Attributes:
        after: number of events that are sent before.
        how: `close` ends the stream without its last events, `reset` also tears the connection down, `garbage` sends an
            event that is not JSON, and `error` sends the provider's error event.
        status: the HTTP status that the error of the event stands for.
        stall: seconds for which nothing more comes before that.

    Raises:
        ConfigError: for another `how`, or a negative number of events or seconds.
    """

    after: int = 3
    how: How = "close"
    status: int = 529
    stall: float = 0.0

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise ConfigError(f"an answer breaks off by {', '.join(get_args(How))}, not {self.how!r}")
        if self.after < 0 or self.stall < 0:
            raise ConfigError(f"events and seconds before a break cannot be negative: {self}")


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model, in the order reasoning, what the provider ran, text, calls.

    Attributes:
        text: what the model says.
        reasoning: what it thinks before. Sent as `reasoning_content` (Chat Completions), as a reasoning item with an
            id and encrypted content (Responses), as a signed thinking block (Anthropic), or as a thought if the request
            asks for thoughts (Gemini).
        calls: the tool calls, made in parallel.
        served: tool calls that the provider runs by itself. Chat Completions have none.
        usage: the reported usage; None counts characters (`Request.tokens` and `Reply.tokens`).
        error: an HTTP error to send instead.
        delay: seconds to wait before answering.
        breaks: how the answer breaks off; None if it is sent whole.

    Raises:
        ConfigError: for a negative delay, and for calls or texts of another type.
    """

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    served: tuple[ServedCall, ...] = ()
    usage: Usage | None = None
    error: HttpError | None = None
    delay: float = 0.0
    breaks: Break | None = None

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise ConfigError(f"a reply cannot be delayed by {self.delay} seconds")
        calls: object = self.calls  # a comma is forgotten easily
        if not isinstance(calls, tuple) or not all(isinstance(call, Call) for call in calls):
            raise ConfigError(f"calls is {calls!r:.80}; it must be a tuple of calls, such as (Call('read'),)")
        for name in ("text", "reasoning"):
            if not isinstance(getattr(self, name), str | None):
                raise ConfigError(f"{name} is {getattr(self, name)!r:.80}; it must be a string, or None")

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning, as `ceil(characters / 4)`."""
        return count_chars(self.reasoning or "")

    @property
    def tokens(self) -> int:
        """Tokens of the reply: `ceil(characters / 4)` of its reasoning, its text, each call and what was served."""
        calls = sum(count_chars(call.tool + call.raw_arguments) for call in self.calls)
        served = sum(count_chars(call.tool + call.query + (call.result or "")) for call in self.served)
        return self.reasoning_tokens + count_chars(self.text or "") + calls + served

    @property
    def pauses(self) -> bool:
        """Whether the turn pauses for the result of a tool that the provider runs."""
        return not self.calls and any(call.result is None for call in self.served)


Script: TypeAlias = Iterable[Reply] | Callable[[Request], Reply]
"""Replies in order, or a function that makes each reply from its request."""
