"""A request that the provider calls too long: what it says calibrates the budget, and the loop goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from wane import Conversation
from wane.testing import Reply, ScriptedServer

openai = pytest.importorskip("openai", reason="the openai extra is not installed")
anthropic = pytest.importorskip("anthropic", reason="the anthropic extra is not installed")

WINDOW = 2_000
Send = Callable[[list[Any]], object]


def _chat(url: str) -> Send:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    return lambda messages: client.chat.completions.create(model="m", messages=messages)


def _responses(url: str) -> Send:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    return lambda messages: client.responses.create(model="m", input=messages)


def _messages(url: str) -> Send:
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    return lambda messages: client.messages.create(model="m", max_tokens=50, messages=messages)


def _gemini(url: str) -> Send:
    client = httpx.Client(base_url=url)

    def send(messages: list[Any]) -> object:
        answer = client.post("/v1beta/models/m:generateContent", json={"contents": messages})
        if answer.is_error:
            raise RuntimeError(answer.text)
        return answer

    return send


DOORS = {"openai": _chat, "openai_responses": _responses, "anthropic": _messages, "gemini": _gemini}


def _text_message(name: str, role: str, text: str) -> dict[str, Any]:
    if name == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


@pytest.mark.parametrize("name", DOORS)
def test_a_refused_request_fits_the_window_that_the_provider_names(name: str) -> None:
    conversation = Conversation(name, budget="100k", annotate="infer")
    with ScriptedServer(lambda _: Reply("Yes."), context_limit=WINDOW) as server:
        send = DOORS[name](server.url)
        for turn in range(24):
            conversation.append(_text_message(name, "user", f"Question {turn}"))
            request = conversation.request()
            try:
                send(request.messages)
            except Exception as error:
                if not conversation.refused(error):
                    raise
                send(conversation.request().messages)
            conversation.append(_text_message(name, "assistant", f"Answer {turn}. " + "word " * 100))
    # What is fixed grows with each turn, so later refusals may follow; the first one has lowered the budget for good.
    assert 0 < len(server.refusals) <= 3
    assert conversation.settings.budget <= WINDOW


def test_an_error_that_says_something_else_changes_nothing() -> None:
    conversation = Conversation(budget="100k", annotate="infer")
    conversation.append({"role": "user", "content": "Hi."})
    request = conversation.request()
    for error in (openai.OpenAIError("invalid api key"), json.dumps({"error": {"message": "no such model"}}), None):
        assert not conversation.refused(error)
    assert conversation.settings.budget == 100_000
    assert conversation.request().messages == request.messages


def test_nothing_that_could_leave_is_no_smaller_request() -> None:
    conversation = Conversation(budget="100k", annotate="infer")
    conversation.append({"role": "user", "content": "word " * 900})
    conversation.request()
    assert not conversation.refused("prompt is too long: 1200 tokens > 1000 maximum")


def test_what_is_not_in_the_view_leaves_the_budget() -> None:
    conversation = Conversation(budget="100k", annotate="infer")
    conversation.append({"role": "user", "content": "word " * 90})
    conversation.request()
    assert not conversation.refused("prompt is too long: 210000 tokens > 200000 maximum")
    assert conversation.settings.budget == 100_000


def test_without_a_budget_nothing_is_lowered() -> None:
    for settings in ({"strategy": "none"}, {"manage": False}):
        conversation = Conversation(budget="100k", **settings)  # type: ignore[arg-type]
        conversation.append({"role": "user", "content": "word " * 900})
        conversation.request()
        assert not conversation.refused("prompt is too long: 1200 tokens > 1000 maximum")
