"""What the tests of the scripted server share."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models import Model

from tests.marks import then_full, wide
from wane.testing import ScriptedServer

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
PROTOCOLS = ("openai_model", "openai_responses_model", "anthropic_model")

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
streamed_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

WAYS = [("openai_model", True), ("openai_responses_model", False), ("anthropic_model", True)]
each_protocol_once = pytest.mark.parametrize(
    ("protocol", "stream"),
    [WAYS[0], *then_full(*WAYS[1:]), *wide(*((protocol, not stream) for protocol, stream in WAYS))],
)
"""In `make test` one protocol, in `.ci/run` every one, streamed or not; in `make test-all` both."""


def model_of(server: ScriptedServer, protocol: str) -> Model[Any]:
    model: Model[Any] = getattr(server, protocol)()
    return model


def reader(model: Model[Any], **settings: Any) -> Agent[None, str]:
    """An agent with one tool, `read`."""
    # Above some limit, Anthropic's client streams even what was not to be streamed.
    agent = Agent(model, instructions="Be brief.", model_settings={"max_tokens": 2_000}, **settings)

    @agent.tool_plain
    def read(path: str) -> str:
        return f"<{path}>"

    return agent


async def run(agent: Agent[None, str], prompt: str, stream: bool, **options: Any) -> Any:
    """The result of a run, by the streaming or the plain request."""
    if not stream:
        return await agent.run(prompt, **options)
    async with agent.run_stream_events(prompt, **options) as events:
        async for _ in events:
            pass
        return events.result


def post(server: ScriptedServer, path: str, body: Mapping[str, Any] | bytes) -> tuple[int, Any]:
    """Status and JSON of an answer, or status and bytes of a stream."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    data = body if isinstance(body, bytes) else json.dumps(body)
    connection.request("POST", path, data, {"content-type": "application/json", "authorization": "Bearer secret"})
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    is_json = response.getheader("content-type") == "application/json"
    return response.status, json.loads(raw) if is_json else raw


def message_of(answer: Any) -> str:
    """The text of an error, in whichever provider's shape."""
    return str(answer["error"]["message"])
