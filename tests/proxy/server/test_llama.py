"""A llama-server whose template shows no tools: the model would never see `delimiter`, so episodes are inferred."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.proxy.server.support import TOOLS, Asked, ask, message, provider, response
from wane.conversation.context import ContextSettings
from wane.proxy.server.run import ProxyOptions, running
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl

LISTEN = Address("127.0.0.1", 0)
BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}], "tools": TOOLS}


def _options(url: str, **settings: Any) -> ProxyOptions:
    return ProxyOptions(ServerSettings(UpstreamUrl.parse(url), LISTEN), ContextSettings(recall=True, **settings))


def _server(properties: object, status: int = 200) -> Any:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        about = asked.target == "/props"
        writer.write(response(json.dumps(properties).encode() if about else message(), status if about else 200))

    return answer


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_without_tools_episodes_are_inferred(prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    properties = {"chat_template_caps": {"supports_tools": False, "supports_tool_calls": True}}
    async with provider(_server(properties)) as up, running(_options(up.url + prefix)) as proxy:
        assert (proxy.sessions.settings.annotate, proxy.sessions.settings.recall) == ("infer", False)
        answer = await ask(proxy, json.dumps(BODY).encode(), "/v1/messages")
        assert answer.header("x-wane-session")
        assert [asked.target for asked in up.asked] == ["/props", "/v1/messages"]
        assert [tool["name"] for tool in up.asked[1].json["tools"]] == ["read"]
    assert f"the chat template of {up.url}{prefix} shows its model no tools" in caplog.text


@pytest.mark.parametrize(
    ("properties", "status"),
    [
        ({"chat_template_caps": {"supports_tools": True}}, 200),
        ({"chat_template_caps": {}}, 200),
        ({"role": "router"}, 200),
        ([], 200),
        ({"error": {"message": "Loading model"}}, 503),
        ({"error": {"message": "no such path"}}, 404),
    ],
)
async def test_else_the_model_marks(properties: object, status: int) -> None:
    async with provider(_server(properties, status)) as up, running(_options(up.url)) as proxy:
        assert (proxy.sessions.settings.annotate, proxy.sessions.settings.recall) == ("model", True)


async def test_a_server_that_is_not_there_yet_says_nothing() -> None:
    async with provider(_server({})) as up:
        pass
    async with running(_options(up.url)) as proxy:
        assert proxy.sessions.settings.annotate == "model"


async def test_without_own_tools_nobody_is_asked() -> None:
    context = ContextSettings(annotate="infer")
    async with provider(_server({})) as up:
        options = ProxyOptions(ServerSettings(UpstreamUrl.parse(up.url), LISTEN), context)
        async with running(options):
            assert up.asked == []
