"""Servers that are stricter than the API that they imitate, and a model that gives them every reason to refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.proxy.agents import Worker, state_of
from tests.proxy.world import AnthropicClient, Upstream
from wane import Kind
from wane.core import OWN_TOOLS
from wane.proxy.wire.gemini.gemini_wire import GeminiWire
from wane.scripted.sight import words_of
from wane.testing import Call, Reply, Request
from wane.testing.gemini import Gemini
from wane.testing.rules import DEEPSEEK, DEEPSEEK_V4, GEMINI, GEMINI_CHAT, MISTRAL, OPENROUTER, TEMPLATE, Rule
from wane.testing.wire import Refused

MALFORMED = (
    *("{not json", '["start"]', '"start"', "", "null", '{"action": "start", "name": "e'),
    *('{"action": 5}', '{"action": "end", "name": "other"}'),
)


@dataclass
class Reckless(Worker):
    """Marks and recalls, as often in a wrong way as in the right one, and reasons when it calls a tool, or always."""

    always_reasons: bool = False

    def __call__(self, request: Request) -> Reply:
        reply = super().__call__(request)
        if _has_spoken(request) and self._rng.random() < 0.5:
            return Reply(reasoning=reply.reasoning or "Hm." if self.always_reasons else None)
        if "recall" in request.tools and self._rng.random() < 0.2:
            names = state_of(request)[1] or ["nothing"]
            arguments = {"name": self._rng.choice(names)} if self._rng.random() < 0.6 else self._malformed_arguments()
            reply = replace(reply, calls=(*reply.calls, Call("recall", arguments)))
        return replace(reply, reasoning=f"Thought {self._number}." * 9) if reply.calls or self.always_reasons else reply

    def _marks(self, request: Request) -> list[Call]:
        if self._rng.random() < 0.2:
            return [Call("delimiter", self._malformed_arguments())]
        return super()._marks(request)

    def _malformed_arguments(self) -> str:
        return self._rng.choice(MALFORMED)


def _has_spoken(request: Request) -> bool:
    """Whether the latest answer has a text and calls of Wane's own alone, so that the model may have nothing to add.

    False once the user has said something since, which the model must answer. False in Responses, too, where the
    scripted server seals the reasoning ahead of the text, as no server with templates does.
    """
    if request.api == "openai-responses":
        return False
    behind = list(request.parts)
    while behind and behind[-1].kind in (Kind.RESULT, Kind.USER, Kind.NOTICE) and not words_of(behind[-1]):
        behind.pop()
    own = 0
    while behind and behind[-1].kind is Kind.CALL and behind[-1].tool in OWN_TOOLS:
        behind.pop()
        own += 1
    return own > 0 and bool(behind) and behind[-1].kind is Kind.TEXT


def sign_calls(message: dict[str, Any]) -> None:
    """Sign the first call of an answer, as Gemini does behind a Chat endpoint."""
    for call in (message.get("tool_calls") or ())[:1]:
        call["extra_content"] = {"google": {"thought_signature": "c2VhbA=="}}


def give_details(message: dict[str, Any]) -> None:
    """Sign each call beside it, as OpenRouter does."""
    message.pop("reasoning_content", None)
    sealed = {"type": "reasoning.encrypted", "data": "c2VhbA==", "index": 0}
    if calls := message.get("tool_calls"):
        message["reasoning_details"] = [{**sealed, "id": call["id"]} for call in calls]


class LocalAnthropicClient(AnthropicClient):
    """Sets no breakpoints, as servers that run templates know none."""

    def body(self) -> dict[str, Any]:
        body = super().body()
        del body["messages"][-1]["content"][-1]["cache_control"]
        return body


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        rules: what it demands.
        write: what it adds to an answer of Chat Completions.
        signs: whether it signs calls. The client then holds what signs calls that it does not see, or not what signs
            its own, and only the proxy has all of it.
    """

    rules: Sequence[Rule]
    write: Callable[[dict[str, Any]], None] | None = None
    signs: bool = False


SERVERS = {
    "deepseek": Server(DEEPSEEK),
    "deepseek v4": Server(DEEPSEEK_V4),
    "openrouter": Server(OPENROUTER, give_details, signs=True),
    "gemini": Server(GEMINI_CHAT, sign_calls, signs=True),
    "template": Server(TEMPLATE),
    "mistral": Server(MISTRAL),
    "anthropic": Server(()),
    "openai": Server(()),
    "gemini 2": Server(GEMINI),
    "gemini 3": Server(GEMINI, signs=True),
}


@dataclass
class StrictUpstream(Upstream):
    """A provider with rules."""

    server: Server = Server(())

    def ask(self, body: Mapping[str, Any]) -> bytes:
        words = self.refusal(body)
        assert words is None, f"{words}: {json.dumps(body, indent=1)}"
        answer = json.loads(super().ask(body))
        if self.server.write is not None:
            self.server.write(answer["choices"][0]["message"])
        return json.dumps(answer).encode()

    def refusal(self, body: Mapping[str, Any]) -> str | None:
        told = {name: body.get(name) for name in ("model", "stream")}
        if isinstance(self.provider, Gemini):
            body = GeminiWire().outgoing(dict(body), "", counts=False)
        request = self.provider.parse(json.dumps(body).encode(), body, {}, 0, told)
        try:
            self.provider.check(request)
        except Refused as error:
            return str(error)
        return next((words for rule in self.server.rules if (words := rule(request)) is not None), None)
