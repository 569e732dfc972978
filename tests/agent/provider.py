"""The scripted model in this process: no client, no wire, no server. `make test-all` takes the real wire too.

Half of the time of a turn over the wire is the provider's client. What a test says of the session does not depend on
it, so `make test` leaves it out. `test_session.py`, `test_strategies.py` and `test_faults.py` keep some over the wire
for each protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, Protocol, Self

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse, SystemPromptPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from tests.marks import first_quick
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.testing import Kind, Message, Part, Reply, Request, Script, ScriptedServer, Usage
from wane.testing.sent_request import compact, count_chars
from wane.testing.wire import pieces

APIS = ("openai_model", "openai_responses_model", "anthropic_model")
"""Methods of `ScriptedServer` that make a model, one for each protocol."""

DIRECT = "in process"
WAYS = first_quick(DIRECT, APIS[0])
"""How the model is reached: in this process, and in `make test-all` over the wire."""


class Provider(Protocol):
    """What a test asks of a scripted model, wherever it is."""

    @property
    def requests(self) -> Sequence[Request]: ...
    @property
    def refusals(self) -> Sequence[object]: ...
    def model(self, *name: str, **options: Any) -> Model: ...


class Serve(Protocol):
    """Starts a scripted model."""

    def __call__(self, script: Script, **options: Any) -> AbstractContextManager[Provider]: ...


class Wired(ScriptedServer):
    """A scripted server that is asked over one of its protocols."""

    def __init__(self, api: str, script: Script, **options: Any) -> None:
        super().__init__(script, **options)
        self._api = api

    def model(self, *name: str, **options: Any) -> Model:
        model: Model = getattr(self, self._api)(*name, **options)
        return model


class Direct:
    """A scripted model in this process."""

    def __init__(self, script: Script) -> None:
        self._answer = script if callable(script) else _in_order(script)
        self.requests: tuple[Request, ...] = ()
        self.refusals: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def model(self, *name: str, **_: Any) -> Model:
        return DirectModel(self, *name)

    def take(self, request: Request) -> Reply:
        """Keep a request and return its reply."""
        if wrong := _wrong(request):
            self.refusals += (wrong,)
            raise ModelHTTPError(400, request.model, {"error": {"message": wrong}})
        reply = self._answer(request)
        self.requests += (request,)
        if reply.breaks is not None:
            raise NotImplementedError("an answer breaks off only over the wire")
        return reply


def serve(way: str) -> Serve:
    """Return what starts a scripted model that is reached in this process, or over a protocol (`APIS`)."""
    return Direct if way == DIRECT else partial(Wired, way)


def _in_order(replies: Any) -> Any:
    remaining = iter(replies)
    return lambda _: next(remaining)


def _wrong(request: Request) -> str:
    """What every provider would refuse: a call that is not answered at once, or a result without its call."""
    calls: list[str | None] = []
    for message in request.messages:
        results = [part.call_id for part in message.parts if part.kind is Kind.RESULT]
        if sorted(map(str, results)) != sorted(map(str, calls)):
            return f"the calls {calls} have the results {results}"
        calls = [part.call_id for part in message.parts if part.kind is Kind.CALL]
    return f"the calls {calls} have no results" if calls else ""


class DirectModel(Model):
    """A model that has its answers from a script. It has the price and the window of the real one of its name."""

    def __init__(self, script: Direct, name: str = "gpt-4.1") -> None:
        # As OpenAI's: notes to the model stay where they stand, and are no words of the user.
        super().__init__(profile=ModelProfile(supports_inline_system_prompts=True))
        self._script = script
        self._name = name

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return "openai"

    async def request(self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: Any) -> Any:
        async with self.request_stream(messages, model_settings, model_request_parameters) as stream:
            async for _ in stream:
                pass
        return stream.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: Any,
        model_request_parameters: ModelRequestParameters,
        run_context: object = None,
    ) -> AsyncIterator[StreamedResponse]:
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        request = _request(len(self._script.requests), self._name, messages, parameters)
        reply = self._script.take(request)
        await asyncio.sleep(reply.delay)
        if error := reply.error:
            body = error.body if isinstance(error.body, Mapping) else {"error": {"message": error.body or "scripted"}}
            raise ModelHTTPError(error.status, self._name, dict(body))
        yield _Stream(parameters, self._name, reply, reply.usage or Usage(request.tokens, reply.tokens))


def _request(number: int, model: str, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> Request:
    system = InstructionPart.join(parameters.instruction_parts) if parameters.instruction_parts else ""
    sent = [Message("system", (Part(Kind.SYSTEM, system),))] if system else []
    sent += map(_message, messages)
    tools = parameters.declared_function_tools
    tokens = sum(count_chars(f"{t.name}{t.description}{compact(t.parameters_json_schema)}") for t in tools)
    raw = "\n".join(part.text for message in sent for part in message.parts).encode(errors="surrogatepass")
    return Request(
        number, "openai-chat", model, tuple(sent), tuple(t.name for t in tools), tokens, True, {}, raw, {}
    )  # fmt: skip


def _message(message: ModelMessage) -> Message:
    parts = []
    for position, part in PydanticAIFormat().locate_parts(message):
        native = message.parts[position] if position >= 0 else None
        if isinstance(native, SystemPromptPart):
            parts.append(Part(Kind.SYSTEM, native.content))
            continue
        kind = Kind.USER if part.kind is Kind.NOTICE else part.kind
        text = (part.arguments or "") if kind is Kind.CALL else part.text
        parts.append(Part(kind, text, call_id=part.call_id, tool=part.tool))
    return Message("assistant" if isinstance(message, ModelResponse) else "user", tuple(parts))


_numbers = count()


@dataclass
class _Stream(StreamedResponse):
    """An answer of a script, in pieces."""

    _name: str
    _reply: Reply
    _spent: Usage
    _began: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        for event in self._events():
            await asyncio.sleep(0)
            yield event
        spent = self._spent
        self._usage = RequestUsage(
            input_tokens=spent.input,
            output_tokens=spent.output,
            cache_read_tokens=spent.cache_read,
            cache_write_tokens=spent.cache_write,
        )
        self.finish_reason = "tool_call" if self._reply.calls else "stop"

    def _events(self) -> Iterator[Any]:
        for piece in pieces(self._reply.reasoning or ""):
            yield from self._parts_manager.handle_thinking_delta(vendor_part_id="reasoning", content=piece)
        for piece in pieces(self._reply.text or ""):
            yield from self._parts_manager.handle_text_delta(vendor_part_id="content", content=piece)
        for number, call in enumerate(self._reply.calls):
            call_id = call.id or f"call_{next(_numbers)}"
            yield from self._parts_manager.handle_tool_call_delta_events(
                vendor_part_id=number, tool_name=call.tool, args="", tool_call_id=call_id
            )
            for piece in pieces(call.raw_arguments):
                yield from self._parts_manager.handle_tool_call_delta_events(vendor_part_id=number, args=piece)

    async def close_stream(self) -> None:
        """There is no connection to close."""

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def provider_name(self) -> str:
        return "openai"

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self._began
