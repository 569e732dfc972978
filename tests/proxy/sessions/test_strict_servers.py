"""What a strict server accepts of a client, it accepts of the proxy: passes, recalls, forks and restarts included.

The server is one of those that are stricter than the API that they imitate (`wane.testing.rules`). That it accepts what
the client itself holds is checked ahead of each request.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.conversation.test_servers import FORGETFUL, words_of_persons
from tests.marks import then_full, wide
from tests.proxy.served import (
    PROVIDERS,
    MergingClient,
    PausingClient,
    SearchingClient,
    Serving,
    StreamedClient,
    ThinkingClient,
    loads_in,
    model_of,
)
from tests.proxy.sessions.test_index import disk, result
from tests.proxy.strict import SERVERS, LocalAnthropicClient, Reckless, StrictUpstream
from tests.proxy.world import (
    AnthropicClient,
    ChatClient,
    Client,
    GeminiCliClient,
    GeminiClient,
    ResponsesClient,
    exchange,
)
from wane import Policy
from wane.conversation import ContextSettings
from wane.core import ToolClass
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore
from wane.testing import Call, Reply, Request

STRATEGIES = ("cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "fold")
SETTINGS = ContextSettings(
    budget=2_400,
    policy=Policy(index_share=0.1),
    remind_at=0.3,
    recall=True,
    tool_classes={"edit": ToolClass.PERSON},
)

DOORS: list[Any] = [
    (ChatClient, "template"),
    pytest.param(ChatClient, "mistral", marks=pytest.mark.full),
    pytest.param(ChatClient, "deepseek v4", marks=pytest.mark.full),
    *(
        pytest.param(*door, marks=pytest.mark.full)
        for door in [(ChatClient, "deepseek"), (LocalAnthropicClient, "template"), (ResponsesClient, "template")]
    ),
    pytest.param(GeminiClient, "gemini 3", marks=pytest.mark.full),
    pytest.param(GeminiCliClient, "gemini 2", marks=pytest.mark.wide),
    *(
        pytest.param(*door, marks=pytest.mark.wide)
        for door in [
            *((ChatClient, "openrouter"), (ChatClient, "gemini"), (AnthropicClient, "deepseek")),
            *((LocalAnthropicClient, "mistral"), (ResponsesClient, "mistral")),
        ]
    ),
]


@pytest.mark.parametrize(("make", "server"), DOORS)
@pytest.mark.parametrize("annotate", ["model", "infer"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.wide) for n in range(1, 12))])
async def test_what_a_server_accepts_of_a_client_it_accepts_of_the_proxy(
    make: type[Client], server: str, annotate: Any, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    strategy = "cwl" if seed % 3 < 2 else rng.choice(("paper", "truncate", "clear-tools", "streaming"))
    settings = replace(SETTINGS, annotate=annotate, strategy=strategy)
    stored = seed % 2 == 0
    client, upstream = (
        make(),
        StrictUpstream(make.provider, Reckless(seed, always_reasons=server == "deepseek v4"), server=SERVERS[server]),
    )
    index = SessionIndex(disk(tmp_path) if stored else MemoryStore(), settings)
    forks, evicted, numbers = [client], 0, count()

    def answer(tool: str, arguments: Any) -> str:
        return f"Person's answer {next(numbers)}." if tool == "edit" else result(tool, arguments)

    for _turn in range(12):
        if rng.random() < 0.3:
            forks.append(client.copy())
            client = rng.choice(forks)
        for _ in range(1 + (server == "mistral" and rng.random() < 0.5)):
            client.say(f"User turn {next(numbers)}. " * rng.randint(1, 9))
        calls = 1
        while calls:
            if stored and rng.random() < 0.2:
                await index.close()
                index = SessionIndex(disk(tmp_path), settings)
            # Reasoning of Responses may be followed by a mark alone, which the client never sees.
            if not upstream.server.signs and make is not ResponsesClient:
                assert upstream.refusal(client.body()) is None, "the client alone is refused"
            done = await exchange(index, client, upstream)
            if strategy not in FORGETFUL:
                assert all(words_of_persons(sent) == words_of_persons(client.body()) for sent in done.bodies)
            evicted = max(evicted, done.facts.evicted)
            calls = client.take(done.answer, answer)
    await index.close()
    assert evicted > 0


@pytest.mark.parametrize(("make", "strategy"), [(ChatClient, "cwl"), *then_full((ResponsesClient, "cwl"))])
async def test_a_mark_that_the_client_never_has_ends_no_order_of_roles(make: type[Client], strategy: str) -> None:
    """The client has two turns in a row, which Mistral takes; later turns stay behind the calls ahead of them."""
    client = make()

    def answer(request: Request) -> Reply:
        number = request.number
        if number < 2:
            mark = {"action": "start", "name": "look", "type": "expl"}
            return Reply() if number else Reply(calls=(Call("delimiter", mark),))
        tool = "edit" if number % 4 == 1 else "read"  # a person answers the former
        return Reply(calls=(Call(tool, {"n": number}, id=f"c{number}"),)) if number % 4 else Reply("Done. " * 60)

    upstream = StrictUpstream(client.provider, answer, server=SERVERS["mistral"])
    index = SessionIndex(MemoryStore(), replace(SETTINGS, strategy=strategy, policy=Policy(), remind_at=None))
    evicted = 0
    for turn in range(14):
        client.say(f"User turn {turn}. ")
        calls = 1
        while calls:
            body = client.body()
            done = await exchange(index, client, upstream)
            order = {event: place for place, event in enumerate(events_in(body))}
            for sent in done.bodies:
                places = [order[event] for event in events_in(sent) if event in order]
                assert places == sorted(places)
            evicted = max(evicted, done.facts.evicted)
            calls = client.take(done.answer, result)
    assert evicted > 0


def events_in(body: dict[str, Any]) -> list[str]:
    """The calls and the turns of the user in a request, each once."""
    said = json.dumps(body.get("messages") or body.get("input"))
    return [*dict.fromkeys(re.findall(r"User turn \d+\.|\bc\d+\b", said))]


SERVED: list[Any] = [
    (PausingClient, "anthropic", "truncate"),
    *then_full(
        *((PausingClient, "anthropic", strategy) for strategy in ("cwl", "streaming", "fold")),
        *((MergingClient, "anthropic", strategy) for strategy in ("cwl", "truncate")),
        *((SearchingClient, "openai", strategy) for strategy in ("cwl", "truncate")),
        *((ThinkingClient, "anthropic", "cwl"), (StreamedClient, "anthropic", "cwl")),
        (GeminiClient, "gemini 3", "cwl"),
    ),
    *wide(*((*provider, strategy) for provider in PROVIDERS for strategy in STRATEGIES)),
]


@pytest.mark.parametrize(("make", "server", "strategy"), SERVED)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.wide) for n in range(1, 6))])
async def test_what_the_provider_ran_stays_whole(
    make: type[Client], server: str, strategy: str, seed: int, tmp_path: Path
) -> None:
    """R12 and R15: searches, code, MCP, and searches for tools, within an answer or over several."""
    rng = random.Random(seed)
    settings = replace(SETTINGS, annotate=rng.choice(("model", "infer")), strategy=strategy)
    client, upstream = make(), Serving(make.provider, model_of(make, seed), server=SERVERS[server], seed=seed)
    index = SessionIndex(disk(tmp_path), settings)
    forks, evicted = [client], 0
    for turn in range(12):
        if rng.random() < 0.3:
            forks.append(client.copy())
            client = rng.choice(forks)
        client.say(f"User turn {turn}. " * rng.randint(1, 9))
        calls = 1
        while calls:
            if rng.random() < 0.1:
                await index.close()
                index = SessionIndex(disk(tmp_path), settings)
            if make not in (SearchingClient, GeminiClient):  # as above
                assert upstream.refusal(client.body()) is None, "the client alone is refused"
            done = await exchange(index, client, upstream)
            assert loads_in(client.body()) <= loads_in(done.bodies[0])
            evicted = max(evicted, done.facts.evicted)
            calls = client.take(done.answer, result)
    await index.close()
    assert evicted > 0


async def test_calls_of_one_answer_with_one_id_go_on_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Some servers take them, and a proxy must not break what works without it."""

    def answer(request: Request) -> Reply:
        number = request.number
        calls = (Call("read", {"n": number}, id=f"c{number}"), Call("grep", {"n": number}, id=f"c{number}"))
        return Reply(calls=calls) if number < 12 else Reply("Done.")

    client = ChatClient(["read", "grep"])
    upstream = StrictUpstream(client.provider, answer)
    index = SessionIndex(MemoryStore(), replace(SETTINGS, annotate="infer"))
    client.say("Go.")
    notes, calls = list[str](), 1
    while calls:
        done = await exchange(index, client, upstream)
        notes.append(done.facts.note)
        calls = client.take(done.answer, result)
    assert done.facts.evicted > 0
    assert ["have the id 'c0'" in note for note in notes[:3]] == [False, True, False]
    assert "several calls of one answer have the id 'c0'" in caplog.text


@pytest.mark.parametrize("stored", [False, True])
async def test_marks_behind_an_early_answer_are_put_back_where_items_run_on(stored: bool, tmp_path: Path) -> None:
    """In Responses the client's next answer joins the early one, also where that has joined another."""
    client = ResponsesClient()
    mark = {"action": "start", "name": "look", "type": "expl"}
    replies = [
        Reply("Early."),
        Reply(reasoning="Hm.", calls=(Call("delimiter", mark),)),
        Reply("I go on."),
        Reply(reasoning="So.", calls=(Call("delimiter", {"action": "end", "description": "It is there."}),)),
        Reply(calls=(Call("read", {"path": "a.py"}),)),
        Reply("Done."),
    ]
    upstream = StrictUpstream(client.provider, lambda request: replies[request.number])
    index = SessionIndex(disk(tmp_path) if stored else MemoryStore(), SETTINGS)
    client.say("Go.")
    sent: list[Any] = []
    for _ in range(4):
        if stored:
            await index.close()
            index = SessionIndex(disk(tmp_path), SETTINGS)
        done = await exchange(index, client, upstream)
        sent = done.bodies[0]["input"]
        client.take(done.answer, result)
    await index.close()
    kinds = [item.get("name") or item["type"] for item in sent]
    marked = ["reasoning", "delimiter", "function_call_output"]
    assert kinds == ["message", "message", *marked, "message", *marked, "read", "function_call_output"]
