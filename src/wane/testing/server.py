"""The scripted model server: a real HTTP server on loopback that answers from a script."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import ThreadingHTTPServer
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from wane.core.errors import ConfigError
from wane.testing.anthropic import Anthropic
from wane.testing.gemini import Gemini
from wane.testing.handler import Handler, HttpServer
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.rules import Rule
from wane.testing.script import Break, Reply, Script, Usage
from wane.testing.wire import CREATED, Provider, Refused, ScriptedEvent

if TYPE_CHECKING:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

    from wane.testing.sent_request import Request

_PROVIDERS: Final[Mapping[str, Provider]] = {
    "/v1/chat/completions": OpenAIChat(),
    "/v1/responses": OpenAIResponses(),
    "/v1/messages": Anthropic(),
}
_COUNTERS: Final[Mapping[str, Provider]] = {
    "/v1/responses/input_tokens": _PROVIDERS["/v1/responses"],
    "/v1/messages/count_tokens": _PROVIDERS["/v1/messages"],
}
_GEMINI: Final = Gemini()
_VERBS: Final = re.compile(
    r"/v1(?:beta|alpha)?/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)", re.ASCII
)
_GEMINI_MODELS: Final = "/v1beta/models"
_MODELS: Final = "/v1/models"
_MODEL: Final = "scripted"
"""The listed model. The server answers to every name."""

_SECRETS: Final = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that the server refused, because the provider would refuse it.

    Attributes:
        message: the error text sent.
        status: the HTTP status sent.
        request: the request, or None if it could not be parsed.
    """

    message: str
    status: int
    request: Request | None


class _Route(NamedTuple):
    """Who answers a request.

    Attributes:
        provider: the protocol.
        counts: whether the request only counts tokens.
        told: what the path says of a request: its model, and whether it streams; None if its body says so.
        array: whether a streamed answer is a JSON array, not server-sent events.
    """

    provider: Provider
    counts: bool = False
    told: Mapping[str, Any] | None = None
    array: bool = False


def _route(target: str) -> _Route | None:
    """Return who answers a POST; None if nobody does."""
    path, _, query = target.partition("?")
    if path in _COUNTERS:
        return _Route(_COUNTERS[path], counts=True)
    if path in _PROVIDERS:
        return _Route(_PROVIDERS[path])
    if (match := _VERBS.fullmatch(path)) is None:
        return None
    streams = match[2].startswith("stream")
    told = {"model": match[1], "stream": streams}
    return _Route(_GEMINI, match[2] == "countTokens", told, streams and "alt=sse" not in query.split("&"))


class ScriptedServer:
    """A model server on loopback that answers with the replies of a script.

    It listens on a free port while its `with` block runs, and serves the OpenAI Chat Completions, OpenAI Responses,
    Anthropic Messages and Gemini protocols from one script. Requests that the provider would refuse get HTTP 400 and
    the provider's words, and use up no reply. So do requests after the end of the script.

    If a function as script raises, the client gets HTTP 400, and the `with` block raises the error at its end: an
    assertion in a script is one of the test.

    Args:
        script: replies in order, or a function from `Request` to `Reply`, which is called by one thread at a time.
        context_limit: refuse requests of more tokens (`Request.tokens`), as a full context window does.
        preserved_reasoning: accept reasoning only if the conversation before it is unchanged, as the newest models do:
            Anthropic answers HTTP 400 unless the request asks for `drop_block`, OpenAI drops the reasoning and says so
            in `input_transformations`. `Request.dropped_reasoning` tells what was dropped.
        keep: number of latest requests to keep in `requests`; None keeps all. Each is as large as its view.
        rules: what a stricter server demands besides (`wane.testing.rules`).

    Raises:
        ConfigError: for a `context_limit` below 1, or a negative `keep`.
    """

    def __init__(
        self,
        script: Script,
        *,
        context_limit: int | None = None,
        preserved_reasoning: bool = False,
        keep: int | None = None,
        rules: Iterable[Rule] = (),
    ) -> None:
        if context_limit is not None and context_limit < 1:
            raise ConfigError(f"a context window holds at least one token, not {context_limit}")
        if keep is not None and keep < 0:
            raise ConfigError(f"keep is a number of requests, and cannot be {keep}")
        self._function = script if callable(script) else None
        self._replies = () if callable(script) else tuple(script)
        self._context_limit = context_limit
        self._preserved_reasoning = preserved_reasoning
        self._rules = tuple(rules)
        # Reentrant, because a function as script may read what the server has recorded.
        self._lock = threading.RLock()
        self._requests: deque[Request] = deque(maxlen=keep)
        self._answered = 0
        self._refusals: list[Refusal] = []
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._http is not None or self._closing.is_set():
            raise RuntimeError("a ScriptedServer serves one `with` block: make a new one")
        self._http = HttpServer(("127.0.0.1", 0), Handler, self._respond)
        # Leaving the block may take as long as the interval.
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._http is not None and self._thread is not None:
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
        if self._failure is None:
            return
        if error is None:
            raise self._failure
        error.add_note(f"The script of the ScriptedServer raised {self._failure!r}")

    @property
    def url(self) -> str:
        """The base URL: Anthropic's and Google's, and OpenAI's without `/v1`.

        Raises:
            RuntimeError: outside the `with` block.
        """
        if self._http is None:
            raise RuntimeError("the ScriptedServer is not running: use it as `with ScriptedServer(...) as server:`")
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests that the script has answered, in order; only the latest `keep`."""
        with self._lock:
            return tuple(self._requests)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The requests that the server refused, in order."""
        with self._lock:
            return tuple(self._refusals)

    @property
    def remaining(self) -> int | None:
        """Number of replies left; None if the script is a function."""
        with self._lock:
            return None if self._function else len(self._replies) - self._answered

    def openai_model(self, name: str = "gpt-4.1", *, max_retries: int = 0) -> OpenAIChatModel:
        """Return a Pydantic AI model that speaks Chat Completions to this server.

        Args:
            name: the model's name, by which Pydantic AI chooses its profile.
            max_retries: how often the client retries after HTTP 429 or 5xx. Each try takes a reply of the script.

        Raises:
            MissingExtraError: without the `openai` extra.
        """
        from wane.testing.connected_models import openai_chat_model

        return openai_chat_model(self.url, name, max_retries)

    def openai_responses_model(self, name: str = "gpt-5", *, max_retries: int = 0) -> OpenAIResponsesModel:
        """Return a Pydantic AI model that speaks Responses to this server; see `openai_model`."""
        from wane.testing.connected_models import openai_responses_model

        return openai_responses_model(self.url, name, max_retries)

    def anthropic_model(self, name: str = "claude-sonnet-5", *, max_retries: int = 0) -> AnthropicModel:
        """Return a Pydantic AI model that speaks Messages to this server; see `openai_model`.

        Raises:
            MissingExtraError: without the `anthropic` extra.
        """
        from wane.testing.connected_models import anthropic_model

        return anthropic_model(self.url, name, max_retries)

    def google_model(self, name: str = "gemini-3-pro-preview", *, max_retries: int = 0) -> GoogleModel:
        """Return a Pydantic AI model that speaks Gemini's protocol to this server; see `openai_model`.

        Raises:
            MissingExtraError: without the `google` extra.
        """
        from wane.testing.connected_models import google_model

        return google_model(self.url, name, max_retries)

    def _respond(self, handler: Handler, path: str, raw: bytes | None, headers: Mapping[str, str]) -> None:
        """Answer one request; the handler calls this in a thread of its own."""
        if raw is None:
            handler.send_json(*_look_up(path, {name.lower(): value for name, value in headers.items()}))
            return
        route = _route(handler.path)
        if route is None:
            served = ", ".join((*_PROVIDERS, *_COUNTERS, f"{_GEMINI_MODELS}/MODEL:generateContent"))
            message = f"the scripted server has no {path}; it serves {served}"
            handler.send_json(404, OpenAIChat().error(404, message))
            return
        request: Request | None = None
        provider = route.provider
        try:
            request = self._parse(route, raw, headers)
            provider.check(request)
            for rule in self._rules:
                if (words := rule(request)) is not None:
                    raise Refused(words)
            if self._preserved_reasoning:
                request = replace(request, dropped_reasoning=provider.dropped_reasoning(request))
            if self._context_limit is not None and request.tokens > self._context_limit:
                raise provider.too_long(request.tokens, self._context_limit)
            if route.counts:
                handler.send_json(200, provider.count(request))
                return
            for name in provider.needed:
                if name not in request.body:
                    raise Refused(f"{name}: Field required")
            request, reply = self._take(request)
            provider.check_reply(reply)
        except Refused as refused:
            with self._lock:
                self._refusals.append(Refusal(refused.message, refused.status, request))
            # Both clients follow this header, so that a refusal fails at once instead of being retried.
            handler.send_json(refused.status, provider.refusal(refused), {"x-should-retry": "false"})
            return
        self._closing.wait(reply.delay)
        self._send(handler, route, request, reply)

    def _parse(self, route: _Route, raw: bytes, headers: Mapping[str, str]) -> Request:
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise Refused(f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused("the body is not a JSON object")
        public = {name.lower(): value for name, value in headers.items() if name.lower() not in _SECRETS}
        try:
            return route.provider.parse(raw, body, public, self._answered, route.told)
        except (AttributeError, TypeError) as error:
            # A list where an object belongs, and the like, which no client sends.
            raise Refused(f"the body is malformed: {error}") from error

    def _take(self, request: Request) -> tuple[Request, Reply]:
        """Return the request with its final number, and the next reply; one thread at a time."""
        with self._lock:
            request = replace(request, number=self._answered)
            if self._function is None:
                if request.number >= len(self._replies):
                    raise Refused(
                        f"the script has run out: it had {len(self._replies)} replies, and this is request number"
                        f" {request.number + 1}"
                    )
                reply = self._replies[request.number]
            else:
                try:
                    reply = self._function(request)
                except Exception as error:
                    self._failure = self._failure or error
                    raise Refused(f"the script raised {error!r}") from error
            self._requests.append(request)
            self._answered += 1
            return request, reply

    def _send(self, handler: Handler, route: _Route, request: Request, reply: Reply) -> None:
        provider = route.provider
        if error := reply.error:
            body = error.body
            if not isinstance(body, Mapping):
                body = provider.error(error.status, body or f"the script answers with HTTP {error.status}")
            handler.send_json(error.status, body, error.headers)
            return
        usage = reply.usage or Usage(input=request.tokens, output=reply.tokens)
        breaks = reply.breaks
        if request.stream and breaks is None:
            handler.send_events(provider.stream(request, reply, usage), array=route.array)
        elif breaks is not None:
            if request.stream:
                events = self._broken(provider, provider.stream(request, reply, usage), breaks)
                handler.send_events(events, array=route.array)
            if breaks.how == "reset":
                handler.reset()
            handler.close_connection = True
        else:
            handler.send_json(200, provider.answer(request, reply, usage))

    def _broken(self, provider: Provider, events: Iterable[ScriptedEvent], breaks: Break) -> Iterator[ScriptedEvent]:
        """Yield the events of a stream that breaks off."""
        yield from islice(events, breaks.after)
        self._closing.wait(breaks.stall)
        if breaks.how == "garbage":
            yield ScriptedEvent('{"type": "mess')
        elif breaks.how == "error":
            yield provider.error_event(breaks.status, f"the script breaks off with {breaks.status}")


def _look_up(path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Return status and body of the answer to a GET or HEAD; names of headers are in lower case."""
    error = OpenAIChat().error
    model: dict[str, Any]
    models: dict[str, Any]
    if "websocket" in headers.get("upgrade", "").lower():
        # Clients then use a plain request at once, and do not try a websocket again.
        return 426, error(426, "the scripted server speaks no websocket; send a POST")
    if "anthropic-version" in headers:
        released = {"created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
        model = {"type": "model", "id": _MODEL, "display_name": "Scripted", **released}
        models = {"data": [model], "has_more": False, "first_id": _MODEL, "last_id": _MODEL}
    else:
        model = {"id": _MODEL, "object": "model", "created": CREATED, "owned_by": "wane"}
        models = {"object": "list", "data": [model]}
    if path.startswith(_GEMINI_MODELS):
        about = {"name": f"models/{_MODEL}", "displayName": "Scripted", "inputTokenLimit": 1_000_000}
        about = about | {"supportedGenerationMethods": ["generateContent", "countTokens"]}
        return (200, {"models": [about]}) if path == _GEMINI_MODELS else (200, about)
    if path == _MODELS:
        return 200, models
    if path == f"{_MODELS}/{_MODEL}":
        return 200, model
    return 404, error(404, f"the scripted server has no {path} to read; it lists {_MODELS}")
