"""The lines of Python on the page "Your provider" run as they stand, through the proxy that its lines start."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.proxy.server.support import Asked, provider, proxy, response
from wane.testing import Reply, Usage
from wane.testing.anthropic import Anthropic
from wane.testing.gemini import Gemini
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.wire import Provider

PAGE = (Path(__file__).parents[3] / "docs" / "proxy" / "your-provider.md").read_text(encoding="utf-8")
LISTENING = "http://127.0.0.1:8484"
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
STARTED = dict(
    re.findall(r"^## ([^\n]+)\n(?:(?!^## |^```).)*^```\nwane proxy --upstream (\S+)", PAGE, re.MULTILINE | re.DOTALL)
)
SCHEMA = {"type": "object", "properties": {}}
SAID: Any = [{"role": "user", "content": "Hello."}]
PROTOCOLS: dict[str, Provider] = {
    "messages": Anthropic(),
    "completions": OpenAIChat(),
    "responses": OpenAIResponses(),
    "generateContent": Gemini(),
}


def messages(client: Any) -> None:
    tools = [{"name": "read", "input_schema": SCHEMA}]
    client.messages.create(model="m", max_tokens=9, messages=SAID, tools=tools)


def chat(client: Any) -> None:
    tools = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
    client.chat.completions.create(model="m", messages=SAID, tools=tools)


def responses(client: Any) -> None:
    tools = [{"type": "function", "name": "read", "parameters": SCHEMA, "strict": False}]
    client.responses.create(model="m", input=SAID, tools=tools, store=False)


def gemini(client: Any) -> None:
    declared = [{"name": "read", "parameters_json_schema": SCHEMA}]
    client.models.generate_content(
        model="m",
        contents="Hello.",
        config={
            "tools": [{"function_declarations": declared}],
            "automatic_function_calling": {"disable": True},
        },
    )


CALLS: list[tuple[str, Callable[[Any], None], str]] = [
    ("Anthropic", messages, "/v1/messages"),
    ("OpenAI", responses, "/v1/responses"),
    ("OpenAI", chat, "/v1/chat/completions"),
    ("Gemini", gemini, "/v1beta/models/m:generateContent"),
    ("OpenRouter", chat, "/api/v1/chat/completions"),
    ("Amazon Bedrock", messages, "/anthropic/v1/messages"),
    ("Google Vertex AI", gemini, "/v1beta1/publishers/google/models/m:generateContent"),
    ("Azure OpenAI", responses, "/openai/responses"),
    ("Azure OpenAI", chat, "/openai/deployments/m/chat/completions"),
    ("Microsoft Foundry", messages, "/anthropic/v1/messages"),
    ("Ollama, LM Studio, llama.cpp, vLLM, LiteLLM", chat, "/v1/chat/completions"),
]
KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "ANTHROPIC_FOUNDRY_API_KEY",
)


async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Answer in the protocol of the path."""
    protocol = PROTOCOLS[re.split("[/:]", asked.target.partition("?")[0])[-1]]
    # Gemini's requests name the model in the path.
    told = {"model": "m", "stream": False} if isinstance(protocol, Gemini) else None
    parsed = protocol.parse(asked.body, asked.json, {}, 0, told)
    writer.write(response(json.dumps(protocol.answer(parsed, Reply("Hello."), Usage(10, 2))).encode()))


def test_each_provider_with_lines_is_tried() -> None:
    assert set(BLOCKS) == {name for name, _, _ in CALLS}


def test_the_line_that_starts_the_proxy_stands_first() -> None:
    assert set(STARTED) == set(BLOCKS)


@pytest.mark.parametrize(("name", "call", "path"), CALLS)
async def test_the_lines_of_the_page_are_managed_by_the_proxy(
    name: str, call: Callable[[Any], None], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("anthropic", "openai", "google.genai"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    for key in KEYS:
        monkeypatch.setenv(key, "k")
    async with provider(answer) as up, proxy(up.url + urlsplit(STARTED[name]).path) as running:
        code = BLOCKS[name].replace(LISTENING, running.url)
        assert code != BLOCKS[name]
        scope: dict[str, Any] = {}
        exec(compile(code, "your-provider.md", "exec"), scope)
        await asyncio.to_thread(call, scope["client"])
    (asked,) = up.asked
    assert asked.target.partition("?")[0] == path
    assert "delimiter" in json.dumps(asked.json["tools"]), "the request is managed"
