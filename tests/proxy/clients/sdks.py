"""Small agents on the SDKs of OpenAI, Anthropic and Google: they keep a history, send it whole, and answer calls."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2
from anthropic import AsyncAnthropic
from google import genai
from openai import AsyncOpenAI

from wane.testing import Call

NAMES = ("read", "run", "edit")
_SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}}


class SdkHands:
    def read(self, path: str) -> Call:
        return Call("read", {"what": path})

    def run(self, command: str) -> Call:
        return Call("run", {"what": command})

    def edit(self, path: str, old: str, new: str) -> Call:
        return Call("edit", {"what": f"{path}: {old} -> {new}"})


def result_of(name: str, what: str) -> str:
    """The result of a call: always the same, and long for a file that is read."""
    if name == "read":
        return "\n".join(f"Line {line} of {what}." for line in range(120))
    return f"{name} {what}: done"


@dataclass(frozen=True)
class Said:
    """What a model said: a text, and its calls as id, name and JSON arguments."""

    text: str
    calls: tuple[tuple[str, str, str], ...]


class Headers(list[Mapping[str, str]]):
    """The headers of all answers."""

    async def hook(self, response: httpx2.Response) -> None:
        self.append(response.headers)


class Sdk(ABC):
    """An agent on an SDK.

    Attributes:
        history: what was said, as the SDK has it.
    """

    def __init__(self, url: str, model: str, headers: Headers) -> None:
        self.url, self.model, self.headers = url, model, headers
        self.history: list[Any] = []

    def _client(self, make: Callable[..., Any], path: str = "/v1") -> Any:
        http = httpx2.AsyncClient(event_hooks={"response": [self.headers.hook]})
        return make(base_url=self.url + path, http_client=http, api_key="sk-dummy-0123456789", max_retries=0)

    def prompt(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    @abstractmethod
    async def ask(self, *, stream: bool) -> Any:
        """Ask, and return the SDK's whole answer."""

    @abstractmethod
    def take(self, answer: Any) -> Said: ...

    @abstractmethod
    def give(self, results: Mapping[str, str]) -> None: ...


class Chat(Sdk):
    """Chat Completions."""

    def _body(self) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in NAMES]
        return {"model": self.model, "messages": self.history, "tools": tools}

    async def ask(self, *, stream: bool) -> Any:
        async with self._client(AsyncOpenAI) as client:
            if not stream:
                return await client.chat.completions.create(**self._body())
            asked = client.chat.completions.stream(**self._body(), stream_options={"include_usage": True})
            async with asked as events:
                return await events.get_final_completion()

    def take(self, answer: Any) -> Said:
        message = answer.choices[0].message
        assert answer.usage.total_tokens > 0
        self.history.append(_strip_parsed(message.model_dump(exclude_none=True)))
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        return Said(message.content or "", tuple(calls))

    def give(self, results: Mapping[str, str]) -> None:
        self.history += [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in results.items()]


class Responses(Sdk):
    """Responses, without state at the provider."""

    def _body(self) -> dict[str, Any]:
        tools = [{"type": "function", "name": name, "parameters": _SCHEMA, "strict": False} for name in NAMES]
        kept = {"store": False, "include": ["reasoning.encrypted_content"]}
        return {"model": self.model, "input": self.history, "tools": tools, **kept}

    async def ask(self, *, stream: bool) -> Any:
        async with self._client(AsyncOpenAI) as client:
            if not stream:
                return await client.responses.create(**self._body())
            async with client.responses.stream(**self._body()) as events:
                return await events.get_final_response()

    def take(self, answer: Any) -> Said:
        assert answer.usage.total_tokens > 0
        self.history += [_strip_parsed(item.model_dump(exclude_none=True)) for item in answer.output]
        calls = [(it.call_id, it.name, it.arguments) for it in answer.output if it.type == "function_call"]
        return Said(answer.output_text, tuple(calls))

    def give(self, results: Mapping[str, str]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": id_, "output": text} for id_, text in results.items()
        ]


class Messages(Sdk):
    """Anthropic Messages, with thinking."""

    def _body(self) -> dict[str, Any]:
        tools = [{"name": name, "input_schema": _SCHEMA} for name in NAMES]
        thinking = {"type": "enabled", "budget_tokens": 1024}
        return {
            "model": self.model,
            "max_tokens": 2048,
            "messages": self.history,
            "tools": tools,
            "thinking": thinking,
        }

    async def ask(self, *, stream: bool) -> Any:
        async with self._client(AsyncAnthropic, "") as client:
            if not stream:
                return await client.messages.create(**self._body())
            async with client.messages.stream(**self._body()) as events:
                return await events.get_final_message()

    def take(self, answer: Any) -> Said:
        assert answer.usage.output_tokens > 0
        self.history.append({"role": "assistant", "content": [_return_block(block) for block in answer.content]})
        text = "".join(block.text for block in answer.content if block.type == "text")
        made = [block for block in answer.content if block.type == "tool_use"]
        calls = [(block.id, block.name, json.dumps(block.input)) for block in made]
        return Said(text, tuple(calls))

    def give(self, results: Mapping[str, str]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in results.items()]
        self.history.append({"role": "user", "content": blocks})


class Gemini(Sdk):
    """Gemini's `generateContent`, with thoughts. A stream's parts make one content."""

    def _request_arguments(self) -> dict[str, Any]:
        declared = [{"name": name, "parameters_json_schema": _SCHEMA} for name in NAMES]
        config = {"tools": [{"function_declarations": declared}], "thinking_config": {"include_thoughts": True}}
        return {"model": self.model, "contents": self.history, "config": config}

    def _google(self, **clients: Any) -> Any:
        options = {"base_url": self.url, "retry_options": {"attempts": 1}, **clients}
        return genai.Client(api_key="sk-dummy-0123456789", http_options=options)

    def prompt(self, text: str) -> None:
        self.history.append({"role": "user", "parts": [{"text": text}]})

    async def ask(self, *, stream: bool) -> Any:
        async with httpx.AsyncClient(event_hooks={"response": [self.headers.hook]}) as http:
            models = self._google(httpx_async_client=http).aio.models
            if not stream:
                return [await models.generate_content(**self._request_arguments())]
            return [chunk async for chunk in await models.generate_content_stream(**self._request_arguments())]

    def take(self, answer: Any) -> Said:
        assert answer[-1].usage_metadata.total_token_count > 0
        parts: list[dict[str, Any]] = []
        for part in (part for chunk in answer for part in chunk.candidates[0].content.parts or ()):
            plain, before = part.model_dump(mode="json", exclude_none=True, by_alias=True), parts[-1] if parts else {}
            if "text" in plain and plain.keys() == before.keys() and "thoughtSignature" not in plain:
                parts[-1] = {**before, "text": before["text"] + plain["text"]}
            elif plain != {"text": ""}:
                parts.append(plain)
        self.history.append({"role": "model", "parts": parts})
        text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        return Said(text, tuple((call["id"], call["name"], json.dumps(call["args"])) for call in made))

    def give(self, results: Mapping[str, str]) -> None:
        calls = {
            part["functionCall"]["id"]: part["functionCall"] for part in self.history[-1]["parts"][-len(results) :]
        }
        parts = [
            {"functionResponse": {"id": id_, "name": calls[id_]["name"], "response": {"output": text}}}
            for id_, text in results.items()
        ]
        self.history.append({"role": "user", "parts": parts})


def _strip_parsed(data: Any) -> Any:
    """Without what the SDK has made of the answer, which no provider takes back."""
    if isinstance(data, list):
        return [_strip_parsed(each) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        key: _strip_parsed(value) for key, value in data.items() if key not in ("parsed", "parsed_arguments", "index")
    }


def _return_block(block: Any) -> dict[str, Any]:
    """A block as it goes back."""
    keep = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("id", "name", "input")}[block.type]
    return {"type": block.type, **{name: getattr(block, name) for name in keep}}


SDKS: dict[str, type[Any]] = {
    "openai-chat": Chat,
    "openai-responses": Responses,
    "anthropic": Messages,
    "gemini-3": Gemini,
}


async def turn(sdk: Sdk, text: str, *, stream: bool) -> str:
    """One turn of the user."""
    sdk.prompt(text)
    while True:
        said = sdk.take(await sdk.ask(stream=stream))
        if not said.calls:
            return said.text
        assert all(name in NAMES for _, name, _ in said.calls)
        sdk.give({id_: result_of(name, json.loads(arguments)["what"]) for id_, name, arguments in said.calls})
