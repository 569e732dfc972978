"""The states of an exchange: what may follow which."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.proxy.world import AnthropicClient, Upstream, begin
from tests.proxy.world import exchange as whole_exchange
from wane.core.errors import FormatError
from wane.proxy import jsons
from wane.proxy.server.exchange import Exchange, State
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore
from wane.proxy.wire.wire import Round
from wane.testing import Call, Reply

DONE = Round({"role": "assistant", "content": "Done."})
START = Call("delimiter", {"action": "start", "type": "expl", "name": "look"})


def client_saying(words: str) -> AnthropicClient:
    client = AnthropicClient()
    client.say(words)
    return client


async def test_an_exchange_passes_its_states_in_order() -> None:
    """The model first calls nothing but `delimiter`, so the second round has a body of its own."""
    client, index, script = client_saying("Go."), SessionIndex(MemoryStore()), [Reply(calls=(START,)), Reply("Done.")]
    upstream = Upstream(client.provider, lambda _: script.pop(0))
    exchange = Exchange(index, client.wire, client.body())
    states = [exchange.state]
    await exchange.locate()
    body = exchange.body
    while exchange.state is not State.OVER:
        states.append(exchange.state)
        await exchange.send_body(jsons.dumps(body), "https://provider.example")
        states.append(exchange.state)
        exchange.feed(upstream.ask(body))
        states.append(exchange.state)
        await exchange.record(exchange.end_round())
        body = exchange.body
    names = [state.value for state in states]
    assert names == ["received", *["viewed", "asked", "streaming"] * 2]


async def locate(exchange: Exchange) -> None:
    await exchange.locate()


async def feed(exchange: Exchange) -> None:
    exchange.feed(b"{}")


async def record(exchange: Exchange) -> None:
    await exchange.record(DONE)


@pytest.mark.parametrize("step", [locate, feed, record])
async def test_what_may_not_follow_is_a_defect(step: Callable[[Exchange], Awaitable[None]]) -> None:
    """A view that was never sent has no reply, and is not decided twice."""
    client = client_saying("Go.")
    begun = await begin(SessionIndex(MemoryStore()), client.wire, client.body())
    assert begun.state is State.VIEWED
    with pytest.raises(RuntimeError, match="an exchange cannot go from viewed to"):
        await step(begun)
    begun.close()
    with pytest.raises(RuntimeError, match="an exchange cannot go from over to"):
        await step(begun)


async def test_a_request_that_cannot_be_read_leaves_no_session() -> None:
    client, index = client_saying("Go."), SessionIndex(MemoryStore())
    exchange = Exchange(index, client.wire, {**client.body(), "messages": []})
    with pytest.raises(FormatError):
        await exchange.locate()
    assert exchange.state is State.RECEIVED
    assert not index.status()


async def test_a_request_that_was_refused_may_be_sent_smaller() -> None:
    client, index = client_saying("Go. " * 2_000), SessionIndex(MemoryStore())
    upstream = Upstream(client.provider, lambda _: Reply("Done."))
    begun = await begin(index, client.wire, client.body())
    await begun.send_body(b"{}", "https://provider.example")
    assert not await begun.shrink("the wording of no known provider")
    assert begun.state is State.ASKED
    begun.close()
    assert (await whole_exchange(index, client, upstream)).facts.session == begun.facts.session
