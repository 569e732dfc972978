"""A proxy that is restarted before every request sends what one sends that never stops, whatever it has to go on with.

Two clients go through the same session beside each other: one over sessions in memory, the other over a new index of
sessions on disk for each of its requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cross_quick
from tests.proxy.agents import Worker
from tests.proxy.recaller import Recaller
from tests.proxy.sessions.test_index import SMALL, disk, result
from tests.proxy.sessions.test_reminders import SETTINGS, Builder, Endless, text_of
from tests.proxy.sessions.test_thinking import SETTINGS as THINKING_SETTINGS
from tests.proxy.sessions.test_thinking import ThinkingClient
from tests.proxy.sessions.test_thinking import result as long_result
from tests.proxy.world import CLIENTS, Client, Done, GeminiCliClient, RemindedClient, Upstream, begin, exchange
from wane.conversation import ContextSettings
from wane.proxy import jsons
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore


async def exchange_unrecorded(index: SessionIndex, client: Client, upstream: Upstream) -> Done:
    """An exchange whose proxy dies as the client has got its answer."""
    body = client.body()
    begun = await begin(index, client.wire, body)
    await begun.send_body(jsons.dumps(begun.body), "https://provider.example")
    out = begun.feed(upstream.ask(begun.body))
    begun.end_round()
    return Done([begun.body], json.loads(out + begun.reply.finish()), begun.facts)


@dataclass(frozen=True)
class Life:
    """A session.

    Attributes:
        settings: those of the proxy.
        model: makes the model that answers.
        turns: the user's.
        reminders: how many requests have one, at least.
        dies: whether the proxy dies before the rest of a reply is recorded, and is not only stopped.
        result: what the client's tools return.
    """

    settings: ContextSettings
    model: Callable[[], Any]
    turns: int = 4
    reminders: int = 0
    dies: bool = False
    result: Callable[[str, Any], str] = result


def _under(strategy: Any, seed: int) -> Life:
    settings = replace(SMALL, strategy=strategy, remind_at=0.2)
    return Life(settings, lambda: Worker(seed, reasons=True), turns=5)


def _reminding_life(kind: type[Worker], share: float, reminders: int, *, dies: bool = False) -> Life:
    settings = replace(SETTINGS, budget=3_000, remind_at=share)
    return Life(settings, lambda: kind(3, steps=20, marks=False), reminders=reminders, dies=dies)


LIVES = {
    "cwl": _under("cwl", 0),
    "paper": _under("paper", 1),
    "truncate": _under("truncate", 1),
    "clear-tools": _under("clear-tools", 2),
    "reminders": _reminding_life(Worker, 0.2, 3),
    "killed": _reminding_life(Worker, 0.2, 3, dies=True),
    "an episode without an end": _reminding_life(Endless, 0.2, 3),
    "an act without an end": _reminding_life(Builder, 1.0, 1),
    "recall": Life(replace(SMALL, recall=True), lambda: Recaller(1), turns=8),
}


# The recalling model tells what an episode held from its own words and results, so it knows nothing of notices, and it
# tells results by the ids of its calls, of which Gemini's older models have none.
PAIRS = [
    pair
    for pair in cross_quick(LIVES, CLIENTS)
    if pair.values not in (("recall", RemindedClient), ("recall", GeminiCliClient))
]


@pytest.mark.full
@pytest.mark.parametrize(("name", "make"), PAIRS)
def test_a_restart_before_every_request_changes_nothing(make: type[Client], name: str, tmp_path: Path) -> None:
    life, models = LIVES[name], [LIVES[name].model() for _ in range(2)]
    done = asyncio.run(beside(make, life, models, tmp_path))
    assert done[-1].facts.evicted > 0
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1
    assert sum(bool(text_of(each.bodies[0])) for each in done) >= life.reminders
    if isinstance(models[1], Recaller):
        assert models[1].check() >= 3
        assert models[1].removed & set(models[1].whole)


@pytest.mark.wide
def test_nor_does_it_change_what_is_kept_for_the_provider(tmp_path: Path) -> None:
    models = [Worker(0, steps=60) for _ in range(2)]
    life = Life(THINKING_SETTINGS, Worker, turns=3, result=long_result)
    done = asyncio.run(beside(ThinkingClient, life, models, tmp_path))
    assert done[-1].facts.evicted > 0


async def beside(make: type[Client], life: Life, models: list[Any], root: Path) -> list[Done]:
    """Go through a life twice at once; return the exchanges of the one that is never stopped."""
    clients = make(), make()
    upstreams = [Upstream(make.provider, model) for model in models]
    ask = exchange_unrecorded if life.dies else exchange
    steady, done = SessionIndex(MemoryStore(), life.settings), list[Done]()
    for number in range(life.turns):
        for client in clients:
            client.say(f"User turn {number}.")
        calls = 1
        while calls:
            restarted = SessionIndex(disk(root), life.settings)
            one = await ask(steady, clients[0], upstreams[0])
            other = await ask(restarted, clients[1], upstreams[1])
            await restarted.close()
            assert other.bodies == one.bodies
            assert other.facts.evicted == one.facts.evicted
            assert len(restarted.status()) == 0
            done.append(one)
            calls = clients[0].take(one.answer, life.result)
            assert clients[1].take(other.answer, life.result) == calls
    return done
