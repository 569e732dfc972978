"""A llama-server whose template shows no tools: the model would never see `delimiter`, so episodes are inferred."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.proxy.server.support import TOOLS, WAIT, Asked, ask, message, provider, response
from wane.conversation.context import ContextSettings
from wane.core.errors import ConfigError
from wane.proxy.http import llama
from wane.proxy.http.llama import shows_tools
from wane.proxy.server.running import ProxyOptions, running
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_PROXY", "http://127.0.0.1:9"),
        ("ALL_PROXY", "socks5://127.0.0.1:9"),
        ("SSL_CERT_FILE", "/nonexistent"),
    ],
)
async def test_it_is_asked_as_requests_are_sent(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on this machine is asked without the environment's proxy, and without certificates."""
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    properties = {"chat_template_caps": {"supports_tools": False}}
    async with provider(_server(properties)) as up:
        assert await shows_tools(UpstreamUrl.parse(up.url)) is False
        assert [asked.target for asked in up.asked] == ["/props"]


async def test_a_proxy_of_the_environment_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(ConfigError, match="the proxy that the environment names for http:"):
        async with running(_options("http://models.example")):
            pass


async def test_an_answer_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drips(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.02)

    monkeypatch.setattr(llama, "_PATIENCE", 0.2)
    async with provider(drips) as up, asyncio.timeout(WAIT):
        assert await shows_tools(UpstreamUrl.parse(up.url)) is None


async def test_an_answer_nested_too_deeply_says_nothing() -> None:
    async def nests(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"[" * 200_000))

    async with provider(nests) as up:
        assert await shows_tools(UpstreamUrl.parse(up.url)) is None


async def test_without_own_tools_nobody_is_asked() -> None:
    context = ContextSettings(annotate="infer")
    async with provider(_server({})) as up:
        options = ProxyOptions(ServerSettings(UpstreamUrl.parse(up.url), LISTEN), context)
        async with running(options):
            assert up.asked == []
