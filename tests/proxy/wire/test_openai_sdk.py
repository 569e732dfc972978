"""OpenAI's own client reads what the wires give out, and makes of it the message that is expected back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from openai import APIError, OpenAI

from tests.proxy.wire.openai_support import OWN, Upstream, mark, run
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import Round
from wane.testing import Call
from wane.testing import Reply as Scripted
from wane.testing.openai import OpenAIChat, OpenAIResponses

CHAT, RESPONSES = OpenAIChatWire(), OpenAIResponsesWire()
READ = Call("read", {"path": "a.py"})
SCRIPT = [
    Scripted(None, "First.", (mark(),)),
    Scripted("Looking.", "Then.", (mark("end"),)),
    Scripted("Reading.", "So.", (mark(), READ, mark("end"), READ)),
]
FUNCTION: Any = {"name": "read", "parameters": {"type": "object"}}
CHAT_TOOLS: Any = [{"type": "function", "function": FUNCTION}]
RESPONSES_TOOLS: Any = [{"type": "function", **FUNCTION, "strict": False}]
MESSAGES: Any = [{"role": "user", "content": "Go"}]


class Body(httpx2.SyncByteStream):
    """A body in small pieces."""

    def __init__(self, data: bytes) -> None:
        self.pieces = [data[start : start + 37] for start in range(0, len(data), 37)]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)


def answering(wire: Any, provider: Any, rounds: list[Round]) -> Callable[[httpx2.Request], httpx2.Response]:
    """Answer a client as the proxy does, over all rounds of the script."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        from wane.proxy import jsons

        body = jsons.loads(request.content)
        upstream = Upstream(provider(), SCRIPT)
        told = run(wire.reply(body, OWN), [upstream.ask(wire.equip(body, [], "").body) for _ in SCRIPT])
        rounds[:] = told.rounds
        kind = "text/event-stream" if body.get("stream") else "application/json"
        return httpx2.Response(200, headers={"content-type": kind}, stream=Body(told.bytes))

    return handle


def client(wire: Any, provider: Any, rounds: list[Round]) -> OpenAI:
    transport = httpx2.MockTransport(answering(wire, provider, rounds))
    return OpenAI(api_key="none", base_url="http://x/v1", http_client=httpx2.Client(transport=transport))


def client_message(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a client keeps it, without what it makes of it itself."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {key: call["function"][key] for key in ("name", "arguments")},
        }
        for call in message.get("tool_calls") or ()
    ]
    return {key: message.get(key) for key in ("role", "content", "reasoning_content")} | {"tool_calls": calls}


@pytest.mark.parametrize("usage", [True, False])
def test_the_accumulator_of_chat_streams(usage: bool) -> None:
    rounds: list[Round] = []
    options: Any = {"stream_options": {"include_usage": True}} if usage else {}
    with client(CHAT, OpenAIChat, rounds).chat.completions.stream(
        model="m", messages=MESSAGES, tools=CHAT_TOOLS, **options
    ) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        completion = stream.get_final_completion()
    assert text == "Looking.\n\nReading."
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert client_message(choice.message.to_dict()) == client_message(CHAT.visible(rounds))
    assert (completion.usage is not None) is usage
    if completion.usage is not None:
        assert completion.usage.prompt_tokens == sum(each.usage.input for each in rounds if each.usage)


def test_chat_in_one_piece() -> None:
    rounds: list[Round] = []
    completion = client(CHAT, OpenAIChat, rounds).chat.completions.create(
        model="m", messages=MESSAGES, tools=CHAT_TOOLS
    )
    assert client_message(completion.choices[0].message.to_dict()) == client_message(CHAT.visible(rounds))


def test_the_accumulator_of_response_streams() -> None:
    rounds: list[Round] = []
    with client(RESPONSES, OpenAIResponses, rounds).responses.stream(
        model="m", input="Go", tools=RESPONSES_TOOLS
    ) as stream:
        numbers = [event.sequence_number for event in stream]
        response = stream.get_final_response()
    assert numbers == list(range(len(numbers)))
    expected = RESPONSES.visible(rounds)["items"]
    assert [item.id for item in response.output] == [item["id"] for item in expected]
    assert response.output_text == "Looking.Reading."
    assert response.usage is not None
    assert response.usage.input_tokens == sum(each.usage.input for each in rounds if each.usage)


def test_a_response_in_one_piece() -> None:
    rounds: list[Round] = []
    response = client(RESPONSES, OpenAIResponses, rounds).responses.create(model="m", input="Go", tools=RESPONSES_TOOLS)
    assert [item.id for item in response.output] == [item["id"] for item in RESPONSES.visible(rounds)["items"]]


def test_a_later_round_that_is_refused_is_an_error_to_the_client() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        wire: Any = CHAT if "chat" in request.url.path else RESPONSES
        provider: Any = OpenAIChat() if wire is CHAT else OpenAIResponses()
        body = {"model": "m", "stream": True, "messages" if wire is CHAT else "input": MESSAGES}
        reply = wire.reply(body, OWN)
        out = reply.feed(Upstream(provider, SCRIPT[1:]).ask(body))
        reply.end()
        out += reply.fail(503, b'{"error": {"message": "overloaded"}}')
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(out))

    transport = httpx2.MockTransport(handle)
    user = OpenAI(api_key="none", base_url="http://x/v1", http_client=httpx2.Client(transport=transport))
    with pytest.raises(APIError, match="overloaded"):
        list(user.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    last = list(user.responses.create(model="m", input="Go", stream=True))[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "overloaded"
