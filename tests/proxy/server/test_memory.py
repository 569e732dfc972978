"""What the proxy holds of a request once it is answered."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.proxy.world import AnthropicClient, begin
from wane.proxy.head import RequestHead
from wane.proxy.http.client import Client
from wane.proxy.server.exchange import Exchange
from wane.proxy.sessions.bodies import ReadBody
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import ServerTimeouts
from wane.proxy.store.stores import MemoryStore
from wane.proxy.traffic import Traffic


@pytest.fixture(autouse=True)
def _disable_collector() -> Iterator[None]:
    """Leave cycles where they are: the proxy's collector runs rarely, and a request's bodies would wait for it."""
    gc.disable()
    yield
    gc.enable()


async def test_a_client_that_was_answered_leaves_no_cycle() -> None:
    disconnected = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        pass

    async def answer() -> weakref.ref[Client]:
        with Traffic().request("anthropic") as counters:
            client = Client(receive, send, ServerTimeouts(), RequestHead("POST", "/", b"/", b"", []), counters)
            client.watch()
            await asyncio.sleep(0)
            client.close()
            return weakref.ref(client)

    client = await answer()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert client() is None


async def test_an_exchange_that_is_over_keeps_no_session_in_memory() -> None:
    client = AnthropicClient()
    client.say("Go.")
    exchange: Exchange = await begin(SessionIndex(MemoryStore()), client.wire, client.body())
    assert exchange in exchange.cached.exchanges
    exchange.close()
    assert not exchange.cached.exchanges


async def test_a_message_that_was_taken_in_keeps_no_parts_in_memory() -> None:
    client = AnthropicClient()
    client.say("Go.")
    body = client.body()
    read = ReadBody(body)
    exchange = Exchange(SessionIndex(MemoryStore()), client.wire, body, read)
    await exchange.locate()
    assert [gc.get_referents(arrival) for arrival in read.arrivals]
    for arrival in read.arrivals:
        assert not any(isinstance(value, list) for value in gc.get_referents(arrival))
    exchange.close()
