"""The classes of Anthropic's and OpenAI's SDKs for clouds, pointed at the proxy: what they send is managed.

All take a key. Where a class of Bedrock's signs its requests instead, the signature covers the host.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.proxy.server.support import Asked, provider, proxy, response
from wane.testing import Reply, Usage
from wane.testing.anthropic import Anthropic
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.wire import Provider

anthropic = pytest.importorskip("anthropic", reason="the anthropic extra is not installed")
openai = pytest.importorskip("openai", reason="the openai extra is not installed")

CLASSES: dict[str, tuple[Callable[[str], Any], str]] = {
    "AnthropicBedrockMantle": (
        lambda url: anthropic.AsyncAnthropicBedrockMantle(
            api_key="k", aws_region="us-east-1", base_url=f"{url}/anthropic"
        ),
        "/anthropic/v1/messages",
    ),
    "AnthropicAWS": (
        lambda url: anthropic.AsyncAnthropicAWS(api_key="k", workspace_id="w", aws_region="us-east-1", base_url=url),
        "/v1/messages",
    ),
    "AnthropicFoundry": (
        lambda url: anthropic.AsyncAnthropicFoundry(api_key="k", base_url=f"{url}/anthropic"),
        "/anthropic/v1/messages",
    ),
    "AnthropicGoogleCloud": (
        lambda url: anthropic.AsyncAnthropicGoogleCloud(token_provider=lambda: "k", workspace_id="w", base_url=url),
        "/v1/messages",
    ),
    "AzureOpenAI": (
        lambda url: openai.AsyncAzureOpenAI(azure_endpoint=url, api_version="2026-08-01", api_key="k"),
        "/openai/deployments/m/chat/completions",
    ),
    "BedrockOpenAI": (
        lambda url: openai.AsyncBedrockOpenAI(api_key="k", base_url=f"{url}/openai/v1"),
        "/openai/v1/responses",
    ),
}
PROTOCOLS: dict[str, Provider] = {
    "messages": Anthropic(),
    "completions": OpenAIChat(),
    "responses": OpenAIResponses(),
}


async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Answer in the protocol of the path."""
    protocol = PROTOCOLS[asked.target.partition("?")[0].rpartition("/")[2]]
    parsed = protocol.parse(asked.body, asked.json, {}, 0, None)
    writer.write(response(json.dumps(protocol.answer(parsed, Reply("Hello."), Usage(10, 2))).encode()))


@pytest.mark.parametrize("name", CLASSES)
async def test_a_clouds_class_is_managed_behind_the_proxy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_REGION"):
        monkeypatch.delenv(variable, raising=False)
    make, path = CLASSES[name]
    said: list[dict[str, Any]] = [{"role": "user", "content": "Hello."}]
    schema = {"type": "object", "properties": {}}
    async with provider(answer) as up, proxy(up.url) as running:
        client = make(running.url)
        if path.endswith("messages"):
            tools = [{"name": "read", "input_schema": schema}]
            sent = client.messages.with_raw_response.create(model="m", max_tokens=9, messages=said, tools=tools)
        elif path.endswith("completions"):
            functions = [{"type": "function", "function": {"name": "read", "parameters": schema}}]
            sent = client.chat.completions.with_raw_response.create(model="m", messages=said, tools=functions)
        else:
            functions = [{"type": "function", "name": "read", "parameters": schema, "strict": False}]
            sent = client.responses.with_raw_response.create(model="m", input=said, tools=functions, store=False)
        got = await sent
        await client.close()
    (asked,) = up.asked
    assert asked.target.partition("?")[0] == path
    assert "delimiter" in json.dumps(asked.json["tools"])
    assert got.headers.get("x-wane-session")
    assert got.headers.get("x-wane-unmanaged") is None
    assert "k" in (asked.header("authorization") or "", asked.header("x-api-key"), asked.header("api-key")) or str(
        asked.header("authorization")
    ).endswith(" k")
