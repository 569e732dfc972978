"""Shared by the protocols: their interface, refusals, and helpers for JSON and server-sent events."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wane.core.items import Kind
from wane.testing.sent_request import Api, Message, Part, Request, count_chars

if TYPE_CHECKING:
    from wane.testing.script import Reply, Usage

CREATED: Final = 1_767_225_600
"""Unix time of every answer, 2026-01-01; fixed, so that the same run gives the same bytes."""


class Refused(Exception):  # noqa: N818 - an answer of the server, which never leaves it
    """The provider would refuse this request.

    Args:
        message: the provider's text.
        param: the part of the request that is wrong (OpenAI).
        code: the provider's code (OpenAI).
        status: the HTTP status.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class ScriptedEvent:
    """One server-sent event; a string is sent unchanged, an object as JSON."""

    data: Mapping[str, Any] | str
    name: str | None = None

    def encode(self) -> bytes:
        """Return the event in the form of `text/event-stream`."""
        head = f"event: {self.name}\n".encode() if self.name else b""
        return b"%bdata: %b\n\n" % (head, self.element())

    def element(self) -> bytes:
        """Return its data alone, as an element of an array."""
        return self.data.encode() if isinstance(self.data, str) else json_bytes(self.data)


class Provider(ABC):
    """A wire protocol: parses requests, checks them, and builds answers.

    Attributes:
        api: its name.
        fields: the fields that a request's body may have.
        needed: those besides model and messages that a request for an answer must have, but not one for a count.
        serves: the tools that it runs by itself.
        pauses: whether a turn may pause for the result of such a tool.
    """

    api: Api
    fields: frozenset[str]
    needed: Sequence[str] = ()
    serves: Sequence[str] = ()
    pauses = False

    def parse(
        self,
        raw: bytes,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        number: int,
        told: Mapping[str, Any] | None = None,
    ) -> Request:
        """Return the request; raise `Refused` if it does not follow this protocol.

        Args:
            raw: the bytes of the body.
            body: the body, parsed.
            headers: the headers.
            number: number of requests answered before.
            told: the model, and whether to stream, where the path tells it and not the body.
        """
        body = self.unwrap_body(body)
        check_fields(body, self.fields, self.unknown)
        told = body if told is None else told
        messages = tuple(self.messages(body))
        tools, tool_tokens = self.tools(body)
        return Request(
            number=number,
            api=self.api,
            model=told["model"],
            messages=messages,
            tools=tools,
            tool_tokens=tool_tokens,
            stream=bool(told.get("stream")),
            body=body,
            raw=raw,
            headers=headers,
        )

    def unwrap_body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body of a request to the model, which another body may hold."""
        return body

    @abstractmethod
    def messages(self, body: Mapping[str, Any]) -> Iterator[Message]:
        """Yield the messages of a body, a system prompt first; raise `Refused` if a required field is missing."""

    def tools(self, body: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        """Return the names of the tools in a body, and the tokens of their definitions."""
        tools: Sequence[Mapping[str, Any]] = body.get("tools") or ()
        names = tuple(str((tool.get("function") or tool).get("name") or tool.get("type")) for tool in tools)
        return names, sum(count_chars(canonical(tool)) for tool in tools)

    @abstractmethod
    def unknown(self, name: str) -> Refused:
        """Return the refusal of a field of the body that the provider does not know."""

    @abstractmethod
    def check(self, request: Request) -> None:
        """Raise `Refused` if the provider would not accept the request."""

    def check_reply(self, reply: Reply) -> None:
        """Raise `Refused` for a reply that this protocol cannot send."""
        for call in reply.served:
            if call.tool not in self.serves:
                raise Refused(f"the script has a {call.tool} that the provider runs, which {self.api} does not have")
            if call.result is None and not self.pauses:
                raise Refused(f"the script has a {call.tool} without its result, for which {self.api} does not pause")

    def dropped_reasoning(self, request: Request) -> tuple[str, ...]:  # noqa: ARG002 - some protocols seal none
        """Return the reasoning that a provider drops because the conversation before it has changed.

        Raises:
            Refused: if it refuses such a request instead.
        """
        return ()

    @abstractmethod
    def answer(self, request: Request, reply: Reply, usage: Usage) -> dict[str, Any]:
        """Return the body of a whole answer."""

    @abstractmethod
    def stream(self, request: Request, reply: Reply, usage: Usage) -> Iterator[ScriptedEvent]:
        """Yield the events of a streamed answer."""

    @abstractmethod
    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return the body of an error."""

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """Return the body of a refusal."""
        return self.error(refused.status, refused.message)

    def error_event(self, status: int, message: str) -> ScriptedEvent:
        """Return an error in the middle of a stream."""
        return ScriptedEvent(self.error(status, message))

    @abstractmethod
    def too_long(self, tokens: int, limit: int) -> Refused:
        """Return the refusal of a request that exceeds the context window."""

    def count(self, request: Request) -> dict[str, Any]:
        """Return the answer of the protocol's token-counting endpoint."""
        return {"input_tokens": request.tokens}


def check_fields(
    owner: Mapping[str, Any], known: Container[str], unknown: Callable[[str], Refused], path: str = ""
) -> None:
    """Raise the refusal of the first field that is not known, of the body or of an object in it, at `path`."""
    for name in owner:
        if name not in known:
            raise unknown(f"{path}{name}")


def json_bytes(body: object) -> bytes:
    """Return JSON as providers send it: in UTF-8, or with escapes if it holds a lone surrogate."""
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body).encode()


def token_of(request: Request, reply: Reply) -> str:
    """Return the stem of an answer's ids, which depends on the request alone and is unique to it.

    It starts with `r` if the reply reasons, so that later requests show which calls belong with reasoning (R12).
    """
    digest = hashlib.sha256(b"%d:" % request.number + request.raw).hexdigest()
    return ("r" if reply.reasoning else "n") + digest[:20]


def pieces(text: str, count: int = 3) -> Iterator[str]:
    """Yield the text in at most `count` pieces, as a stream does."""
    size = max(1, -(-len(text) // count))
    for start in range(0, len(text), size):
        yield text[start : start + size]


def canonical(value: object) -> str:
    """Return JSON text that is the same for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def content_parts(kind: Kind, content: object, **fields: Any) -> Iterator[Part]:
    """Yield the parts of content, a string or a list of blocks; blocks without text give empty parts."""
    if isinstance(content, str):
        if content:
            yield Part(kind, content, wire={"type": "text", "text": content}, **fields)
    elif isinstance(content, list):
        for block in content:
            text = block.get("text") or block.get("refusal") or ""
            yield Part(kind, str(text), wire=block, **fields)


def content_text(content: object) -> str:
    """Return the text of content, a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content_parts(Kind.RESULT, content))
