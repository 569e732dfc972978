"""A provider and a client in one process: whole sessions through an index of sessions and a wire, without a socket.

The provider answers as the scripted server does and refuses what a provider would; the client keeps its own history,
which it sends whole with every request, in the shape of its protocol.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from tests.marks import then_full, wide
from tests.proxy.agents import RESULT
from wane.proxy.server.exchange import Exchange
from wane.proxy.sessions.memory import Facts
from wane.proxy.sessions.sender import NOBODY, Sender
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.gemini.gemini_wire import GeminiWire
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import Wire
from wane.testing import Reply, Request, Usage
from wane.testing.anthropic import Anthropic
from wane.testing.gemini import Gemini
from wane.testing.openai import OpenAIChat, OpenAIResponses
from wane.testing.wire import Provider

Model = Callable[[Request], Reply]


@dataclass
class Upstream:
    """A provider that answers by a function, and remembers what it was asked."""

    provider: Provider
    model: Model
    requests: list[Request] = field(default_factory=list)

    def ask(self, body: Mapping[str, Any]) -> bytes:
        told = {name: body.get(name) for name in ("model", "stream")}
        # Gemini's model stands in the path, which only a server sees.
        if isinstance(self.provider, Gemini):
            body = GeminiWire().outgoing(dict(body), "", counts=False)
        raw = orjson.dumps(body)
        request = self.provider.parse(raw, orjson.loads(raw), {}, len(self.requests), told)
        self.provider.check(request)
        self.requests.append(request)
        reply = self.model(request)
        if isinstance(self.provider, Gemini):
            reply = readable(reply)
        usage = reply.usage or Usage(request.tokens, reply.tokens)
        if not request.stream:
            return json.dumps(self.provider.answer(request, reply, usage)).encode()
        return b"".join(event.encode() for event in self.provider.stream(request, reply, usage))


def readable(reply: Reply) -> Reply:
    """A reply whose calls have objects as arguments, as Gemini gives no others away."""
    calls = []
    for call in reply.calls:
        try:
            given = json.loads(call.raw_arguments)
        except ValueError:
            given = None
        calls.append(call if isinstance(given, dict) else replace(call, arguments={"raw": call.raw_arguments}))
    return replace(reply, calls=tuple(calls))


class Client:
    """What all clients do: keep a history, send it, and answer calls."""

    wire: Wire
    provider: Provider
    history: list[Any]

    def __init__(self, tools: Sequence[str] = ("read", "bash", "edit")) -> None:
        self.history = []
        self.tools = list(tools)
        self.edit: Callable[[list[Any]], list[Any]] = lambda history: history

    def read(self, answer: bytes) -> dict[str, Any]:
        """Return an answer as the client has it in the end."""
        answered: dict[str, Any] = json.loads(answer)
        return answered

    def copy(self) -> Any:
        other = type(self)(self.tools)
        other.history = copy.deepcopy(self.history)
        other.edit = self.edit
        return other

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def say(self, text: str) -> None:
        raise NotImplementedError

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        """Take an answer in, and answer its calls; return how many there were."""
        raise NotImplementedError


class AnthropicClient(Client):
    wire: Wire = AnthropicWire()
    provider: Provider = Anthropic()

    def body(self) -> dict[str, Any]:
        messages = self.edit(copy.deepcopy(self.history))
        last = messages[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1]["cache_control"] = {"type": "ephemeral"}
        tools = [{"name": t, "description": t, "input_schema": {"type": "object"}} for t in self.tools]
        return {
            "model": "claude-sonnet-5",
            "max_tokens": 1000,
            "system": [{"type": "text", "text": "You code.", "cache_control": {"type": "ephemeral"}}],
            "tools": tools,
            "messages": messages,
        }

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        content = answer["content"]
        if content:
            self.history.append({"role": "assistant", "content": content})
        calls = [block for block in content if block["type"] == "tool_use"]
        blocks = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": results(call["name"], call["input"])}
            for call in calls
        ]
        if blocks:
            self.history.append({"role": "user", "content": blocks})
        return len(calls)


class RemindedClient(AnthropicClient):
    """Speaks as Claude Code does: notices stand beside what a person says, behind results, and in system messages."""

    def say(self, text: str) -> None:
        super().say(text)
        self.history[-1]["content"].insert(0, self._notice("Today's date is 2026-11-22."))
        self._remind("UserPromptSubmit hook additional context: be brief")

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        calls = super().take(answer, results)
        if calls:
            self.history[-1]["content"].append(self._notice(f"Contents of {len(self.history)}/CLAUDE.md:\n\nBe good."))
            self._remind()
        return calls

    def _notice(self, text: str) -> dict[str, Any]:
        return {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"}

    def _remind(self, *others: str) -> None:
        left = f"<total_tokens>{len(self.history)} tokens left</total_tokens>"
        self.history.append({"role": "system", "content": "\n\n".join([left, *others])})


class ChatClient(Client):
    wire: Wire = OpenAIChatWire()
    provider: Provider = OpenAIChat()

    def __init__(self, tools: Sequence[str] = ("read", "bash", "edit")) -> None:
        super().__init__(tools)
        self.history = [{"role": "system", "content": "You code."}]

    def body(self) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": t, "parameters": {"type": "object"}}} for t in self.tools]
        return {"model": "gpt-5", "tools": tools, "messages": self.edit(copy.deepcopy(self.history))}

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        message = {key: value for key, value in answer["choices"][0]["message"].items() if value is not None}
        calls = message.get("tool_calls") or []
        if message.get("content") or calls or message.get("reasoning_content"):
            self.history.append({"content": None, **message})
        for call in calls:
            function = call["function"]
            text = results(function["name"], function["arguments"])
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return len(calls)


class ResponsesClient(Client):
    wire: Wire = OpenAIResponsesWire()
    provider: Provider = OpenAIResponses()

    def body(self) -> dict[str, Any]:
        tools = [{"type": "function", "name": t, "parameters": {"type": "object"}} for t in self.tools]
        return {
            "model": "gpt-5",
            "instructions": "You code.",
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "tools": tools,
            "input": self.edit(copy.deepcopy(self.history)),
        }

    def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": "user", "content": content})

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        self.history += answer["output"]
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        for call in calls:
            text = results(call["name"], call["arguments"])
            self.history.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})
        return len(calls)


class GeminiClient(Client):
    """Sends back what it got, as Google's SDK does; its results name no calls."""

    wire: Wire = GeminiWire()
    provider: Provider = Gemini()
    model = "gemini-3.1-pro-preview"

    def body(self) -> dict[str, Any]:
        tools = [{"name": t, "parametersJsonSchema": {"type": "object"}} for t in self.tools]
        body = {
            "systemInstruction": {"parts": [{"text": "You code."}]},
            "tools": [{"functionDeclarations": tools}],
            "contents": self.edit(copy.deepcopy(self.history)),
            "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
        }
        return self.wire.read_path(body, f"/v1beta/models/{self.model}:generateContent", b"")

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "parts": [{"text": text}]})

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        content = answer["candidates"][0]["content"]
        if content.get("parts"):
            self.history.append(self.keep_content(content))
        calls = [part["functionCall"] for part in content.get("parts", ()) if "functionCall" in part]
        parts = [self.answer_call(call, results(call["name"], call["args"])) for call in calls]
        if parts:
            self.history.append({"role": "user", "parts": parts})
        return len(calls)

    def keep_content(self, content: dict[str, Any]) -> dict[str, Any]:
        return content

    def answer_call(self, call: Mapping[str, Any], text: str) -> dict[str, Any]:
        return {"functionResponse": {"name": call["name"], "response": {"result": text}}}


class GeminiCliClient(GeminiClient):
    """With an older model, whose calls get ids from the client, which drops thoughts and signs the latest calls."""

    model = "gemini-2.5-flash"
    serial, copies = "0", 0

    def copy(self) -> Any:
        other = super().copy()
        self.copies += 1
        other.serial = f"{self.serial}-{self.copies}"
        return other

    def body(self) -> dict[str, Any]:
        body = super().body()
        for content in body["contents"][-3:]:
            for part in content["parts"] if content["role"] == "model" else ():
                if "functionCall" in part:
                    part.setdefault("thoughtSignature", "skip_thought_signature_validator")
                    break
        return body

    def keep_content(self, content: dict[str, Any]) -> dict[str, Any]:
        for number, part in enumerate(content["parts"]):
            if (call := part.get("functionCall")) is not None:
                call["id"] = f"{call['name']}_{self.serial}_{len(self.history)}_{number}"
        return {**content, "parts": [part for part in content["parts"] if not part.get("thought")]}

    def answer_call(self, call: Mapping[str, Any], text: str) -> dict[str, Any]:
        answer = {"id": call["id"], "name": call["name"], "response": {"output": text}}
        return {"functionResponse": answer}


CLIENTS: tuple[type[Client], ...] = (
    *(AnthropicClient, RemindedClient, ChatClient, ResponsesClient),
    *(GeminiClient, GeminiCliClient),
)
every_client = pytest.mark.parametrize(
    "make",
    [AnthropicClient, ChatClient, *then_full(ResponsesClient, GeminiClient), *wide(RemindedClient, GeminiCliClient)],
    ids=lambda client: client.__name__,
)
"""Every kind of client; `make test` takes two, and `.ci/run` one for each protocol."""


async def begin(
    index: SessionIndex,
    wire: Wire,
    body: dict[str, Any],
    *,
    sender: Sender = NOBODY,
    owner: str = "",
    sums: bool = True,
) -> Exchange:
    """Let an index take in a request, up to the body to send."""
    begun = Exchange(index, wire, body, sender=sender, owner=owner, sums=sums)
    await begun.locate()
    return begun


@dataclass
class Done:
    """One request of a client: what went upstream, and what came back."""

    bodies: list[dict[str, Any]]
    answer: dict[str, Any]
    facts: Facts


async def exchange(
    index: SessionIndex,
    client: Client,
    upstream: Upstream,
    *,
    sums: bool = True,
    sender: Sender = NOBODY,
    owner: str = "",
) -> Done:
    """Send a client's history through an index of sessions, as the server does, and return the client's answer."""
    body = client.body()
    begun = await begin(index, client.wire, body, sender=sender, owner=owner, sums=sums)
    bodies: list[dict[str, Any]] = []
    asked: dict[str, Any] | None = begun.body
    out = b""
    while asked is not None:
        bodies.append(asked)
        await begun.send_body(orjson.dumps(asked), "https://provider.example")
        out += begun.feed(upstream.ask(asked))
        asked = await begun.record(begun.end_round())
    out += begun.reply.finish()
    return Done(bodies, client.read(out), begun.facts)


async def run_turn(
    index: SessionIndex, client: Client, upstream: Upstream, results: Callable[[str, Any], str], limit: int = 50
) -> list[Done]:
    """Let an agent work until its model calls no more tools."""
    exchanges = []
    for _ in range(limit):
        done = await exchange(index, client, upstream)
        exchanges.append(done)
        if not client.take(done.answer, results):
            return exchanges
    raise AssertionError("the model never stopped")


def result(tool: str, arguments: Any) -> str:
    """What a tool returns: what was asked of it, and some lines."""
    return f"{tool} {json.dumps(arguments)}\n{RESULT}"


async def work(index: SessionIndex, client: Client, upstream: Upstream, turns: int) -> list[Done]:
    """Have an agent do some turns of its user."""
    done: list[Done] = []
    for number in range(turns):
        client.say(f"User turn {number}: please do thing {number}.")
        done += await run_turn(index, client, upstream, result)
    return done
