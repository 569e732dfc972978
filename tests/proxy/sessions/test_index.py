"""Whole sessions through the index of sessions, over every protocol: what goes upstream, and what the client gets."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.marks import cross_quick, first_quick, then_full
from tests.proxy.agents import Worker
from tests.proxy.world import (
    CLIENTS,
    AnthropicClient,
    ChatClient,
    Client,
    ResponsesClient,
    Upstream,
    begin,
    exchange,
    result,
    run_turn,
    work,
)
from wane import Kind, Policy
from wane.conversation import ContextSettings
from wane.core.errors import ConfigError
from wane.formats.notices import is_notice
from wane.journal import SessionStore
from wane.proxy.server.exchange import Exchange
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import MemoryStore, StoreError
from wane.testing import Call, Reply, Usage

every_client = pytest.mark.parametrize(
    "make", [AnthropicClient, *then_full(ChatClient, ResponsesClient)], ids=lambda client: client.__name__
)
SMALL = ContextSettings(budget=2_400, policy=Policy(index_share=0.1), remind_at=None)
INDEX = "This has left your context window"


def disk(root: Path) -> DiskStore:
    return DiskStore(SessionStore(root), fsync=False)


def worker(client: Client, seed: int, **options: Any) -> Upstream:
    return Upstream(client.provider, Worker(seed, **options))


@pytest.mark.quick(2)
@pytest.mark.parametrize(("make", "seed"), cross_quick(CLIENTS, range(3)))
async def test_a_session_stays_valid_and_within_its_budget(make: type[Client], seed: int) -> None:
    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, seed, reasons=seed % 2 == 1)
    done = await work(index, client, upstream, 8)
    assert "delimiter" not in json.dumps(client.history)
    assert INDEX not in json.dumps(client.history)
    assert any(INDEX in text for request in upstream.requests for text in request.texts(Kind.USER))
    assert len(index.status()) == 1
    assert done[-1].facts.evicted > 0
    said = [f"User turn {number}: please do thing {number}." for number in range(8)]
    for request in upstream.requests:
        users = [text for text in request.texts(Kind.USER) if not is_notice(text)]
        assert users == said[: len(users)]
        assert request.tools[-1] == "delimiter"
    # What was evicted does not come back. Gemini's older models number the results of a view, which names none.
    gone, before = set[str](), set[str]()
    for request in upstream.requests:
        ids = {call_id for call_id in request.results if "#" not in call_id}
        assert not ids & gone
        gone |= before - ids
        before = ids
    assert gone


@every_client
async def test_without_own_calls_and_evictions_the_client_s_messages_go_out_as_they_are(make: type[Client]) -> None:
    client = make()
    upstream = worker(client, 3, marks=False)
    index = SessionIndex(MemoryStore(), replace(SMALL, budget=10**6))
    for number in range(3):
        client.say(f"Turn {number}.")
        for _ in range(20):
            sent = client.body()
            done = await exchange(index, client, upstream)
            key = "input" if "input" in sent else "messages"
            begins = 1 if key == "messages" and sent[key][0]["role"] == "system" else 0  # with the guidance
            assert done.bodies[0][key][begins:] == sent[key][begins:]
            if not client.take(done.answer, result):
                break


@every_client
async def test_the_budget_auto_goes_by_the_whole_first_request_and_stays(make: type[Client], tmp_path: Path) -> None:
    client, settings = make(), replace(SMALL, auto=True)
    client.say("Mind this. " * 16_000)
    upstream = Upstream(client.provider, lambda _: Reply("Yes."))
    index = SessionIndex(disk(tmp_path), settings)
    done = await exchange(index, client, upstream)
    room, budget = done.facts.room, done.facts.budget
    assert room is not None
    assert room.user >= 44_000
    assert budget == room.advised >= 2.5 * room.user
    client.take(done.answer, result)
    await index.close()

    client.say("Mind this, too. " * 16_000)
    index = SessionIndex(disk(tmp_path), settings)
    done = await exchange(index, client, upstream)
    assert done.facts.room is not None
    assert done.facts.room.user > 88_000
    assert done.facts.room.budget == budget
    await index.close()


@pytest.mark.quick(1)
@every_client
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("seed", first_quick(*range(2)))
async def test_a_fork_goes_its_own_way(make: type[Client], seed: int, stored: bool, tmp_path: Path) -> None:
    client = make()
    upstream = worker(client, seed)
    index = SessionIndex(disk(tmp_path) if stored else MemoryStore(), SMALL)
    await work(index, client, upstream, 4)
    fork = client.copy()
    await work(index, client, upstream, 3)
    fork.say("Something else instead.")
    await run_turn(index, fork, upstream, result)
    await work(index, fork, upstream, 3)
    await work(index, client, upstream, 2)
    assert len(index.status()) == 2
    await index.close()


def with_reminder(client: Client) -> Callable[[list[Any]], list[Any]]:
    """Adds to the last message what is gone from it with the next request."""

    def edit(history: list[Any]) -> list[Any]:
        if len(history) < 3:
            return history
        last = history[-1 if history[-1].get("role") != "system" else -2]
        reminder = f"<reminder>{len(history)} messages</reminder>"
        if isinstance(client, AnthropicClient):
            last["content"].append({"type": "text", "text": reminder})
        elif isinstance(client, ChatClient):
            last["content"] = f"{last['content']}\n{reminder}"
        elif "output" in last:
            last["output"] = f"{last['output']}\n{reminder}"
        else:
            last["content"].append({"type": "input_text", "text": reminder})
        return history

    return edit


@every_client
@pytest.mark.parametrize("seed", first_quick(*range(2)))
async def test_reminders_that_come_and_go_are_no_fork(make: type[Client], seed: int) -> None:
    client = make()
    client.edit = with_reminder(client)
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, seed)
    done = await work(index, client, upstream, 10)
    assert len(index.status()) == 1
    assert done[-1].facts.evicted > 0
    assert all(request.raw.count(b"<reminder>") <= 1 for request in upstream.requests)


def clear_results(value: Any) -> Any:
    """A history in which a client has cleared all old results."""
    if isinstance(value, list):
        return [clear_results(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    copied = {key: clear_results(entry) for key, entry in value.items()}
    if "output" in value:
        copied["output"] = "[cleared]"
    if value.get("role") == "tool" or value.get("type") == "tool_result":
        copied["content"] = "[cleared]"
    return copied


@every_client
@pytest.mark.parametrize("seed", first_quick(*range(2)))
async def test_a_client_that_clears_its_results_goes_on(make: type[Client], seed: int) -> None:
    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, seed)
    await work(index, client, upstream, 4)
    marks = delimiters(upstream)
    client.history = [*clear_results(client.history[:-6]), *client.history[-6:]]
    done = await work(index, client, upstream, 3)
    assert done[0].facts.view < 2_400
    assert marks
    assert delimiters(upstream) >= 1


def delimiters(upstream: Upstream) -> int:
    return sum(part.tool == "delimiter" for part in upstream.requests[-1].parts)


@every_client
async def test_a_history_never_seen_is_taken_as_it_comes_and_can_be_evicted(make: type[Client]) -> None:
    client = make()
    upstream = worker(client, 1, marks=False)
    await work(SessionIndex(MemoryStore(), replace(SMALL, strategy="none")), client, upstream, 6)
    index = SessionIndex(MemoryStore(), SMALL)
    client.say("Go on.")
    done = await exchange(index, client, upstream)
    assert done.facts.evicted > 0
    assert done.facts.view <= 2_400


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("make", "strategy"),
    cross_quick((AnthropicClient, ChatClient, ResponsesClient), ("paper", "truncate", "clear-tools", "none")),
)
async def test_every_strategy_sends_what_a_provider_takes(make: type[Client], strategy: Any) -> None:
    client = make()
    index, upstream = (
        SessionIndex(MemoryStore(), replace(SMALL, strategy=strategy)),
        worker(client, 5, reasons=True),
    )
    done = await work(index, client, upstream, 8)
    assert (done[-1].facts.evicted > 0) == (strategy != "none")


@every_client
async def test_a_retry_gets_the_same_view(make: type[Client]) -> None:
    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 4)
    await work(index, client, upstream, 5)
    client.say("Again.")
    first = await exchange(index, client, upstream)
    second = await exchange(index, client, upstream)
    assert first.bodies[0] == second.bodies[0]
    client.take(second.answer, result)
    await run_turn(index, client, upstream, result)
    assert len(index.status()) == 1


@every_client
async def test_two_requests_of_one_session_at_once(make: type[Client]) -> None:
    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 4)
    await work(index, client, upstream, 5)
    other = client.copy()
    client.say("One way.")
    other.say("Another way.")
    first, second = await asyncio.gather(exchange(index, client, upstream), exchange(index, other, upstream))
    client.take(first.answer, result)
    other.take(second.answer, result)
    await asyncio.gather(
        run_turn(index, client, upstream, result) if client.history else asyncio.sleep(0),
        run_turn(index, other, upstream, result),
    )
    assert len(index.status()) == 2


@every_client
async def test_a_model_that_only_ever_marks_is_stopped(make: type[Client]) -> None:
    def model(request: Any) -> Reply:
        if "delimiter" not in request.tools:
            return Reply(text="At last.")
        return Reply(calls=(Call("delimiter", {"action": "end"}),))

    client = make()
    client.say("Go.")
    done = await exchange(SessionIndex(MemoryStore(), SMALL), client, Upstream(client.provider, model))
    assert len(done.bodies) == 8
    assert client.take(done.answer, result) == 0
    assert "At last." in json.dumps(client.history)


@every_client
async def test_a_session_that_was_idle_leaves_memory_and_is_found_again(make: type[Client], tmp_path: Path) -> None:
    client = make()
    upstream = worker(client, 4)
    index = SessionIndex(disk(tmp_path), SMALL, idle=-1.0)
    await work(index, client, upstream, 5)
    await index.sweep()
    assert not index.status()
    done = await work(index, client, upstream, 1)
    assert done[0].facts.evicted > 0
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1
    await index.close()


@every_client
async def test_counting_tokens_takes_nothing_in(make: type[Client]) -> None:
    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 4)
    await work(index, client, upstream, 5)
    client.say("Count me.")
    before = copy.deepcopy(index.status()[0])
    counted = await Exchange(index, client.wire, client.body()).count_body()
    assert index.status()[0] == before
    done = await exchange(index, client, upstream)
    assert done.bodies[0] == counted


@every_client
async def test_a_session_that_was_cut_short_while_it_was_written_goes_on(make: type[Client], tmp_path: Path) -> None:
    client = make()
    upstream = worker(client, 4)
    index = SessionIndex(disk(tmp_path), SMALL)
    await work(index, client, upstream, 4)
    whole = client.copy()
    client.say("Go on.")
    await exchange(index, client, upstream)
    await index.close()
    (path,) = tmp_path.rglob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"topic":"client"' in line)
    path.write_bytes(b"".join(lines[: last + 1]))
    index = SessionIndex(disk(tmp_path), SMALL)
    done = await work(index, whole, upstream, 2)
    assert done[0].facts.evicted > 0
    assert len(index.status()) == 1
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2
    await index.close()


class Full(DiskStore):
    """A store whose disk may be full."""

    full = False

    async def create(self, root: str, message_format: str, owner: str = "", parent: str = "") -> Any:
        log = await super().create(root, message_format, owner, parent)
        append = log.append

        async def full(records: Any, marks: Any = None) -> None:
            if self.full:
                raise StoreError("no space left on device")
            await append(records, marks)

        log.append = full  # type: ignore[method-assign]
        return log


@every_client
async def test_a_full_disk_is_told_and_forgotten_when_there_is_room(make: type[Client], tmp_path: Path) -> None:
    client = make()
    upstream = worker(client, 4)
    store = Full(SessionStore(tmp_path), fsync=False)
    index = SessionIndex(store, SMALL)
    await work(index, client, upstream, 2)
    store.full = True
    told = await work(index, client, upstream, 2)
    assert "no space left" in told[-1].facts.note
    store.full = False
    done = await work(index, client, upstream, 2)
    assert done[-1].facts.note == ""
    before = done[-1].facts
    await index.close()
    index = SessionIndex(disk(tmp_path), SMALL)
    client.say("Still there?")
    after = await exchange(index, client, upstream)
    assert after.facts.session == before.session
    assert after.facts.evicted >= before.evicted
    await index.close()


async def test_a_store_that_fails_is_an_error_where_it_is_to_be_strict(tmp_path: Path) -> None:
    client = CLIENTS[0]()
    client.say("Go.")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        await begin(SessionIndex(disk(tmp_path / "file"), SMALL, strict=True), client.wire, client.body())
    done = await exchange(SessionIndex(disk(tmp_path / "file"), SMALL), client, worker(client, 1))
    assert "not stored" in done.facts.note


@every_client
async def test_a_provider_that_counts_a_part_only_is_not_believed(make: type[Client]) -> None:
    """Some services report what was not in their cache, as if that were all."""

    client = make()
    agent = Worker(2)
    upstream = Upstream(client.provider, lambda request: replace(agent(request), usage=Usage(10, 10)))
    done = await work(SessionIndex(MemoryStore(), SMALL), client, upstream, 8)
    assert done[-1].facts.evicted > 0
    assert done[-1].facts.view > 500


@every_client
async def test_a_request_without_tools_that_goes_on_with_a_session_is_shown_its_view(make: type[Client]) -> None:
    """As when a client asks for a summary of all that it has, which may be more than any window holds."""

    client = make()
    index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 4)
    client.say("Little.")
    await exchange(index, client, upstream)
    assert await Exchange(index, client.wire, client.body()).shorten_body() is None
    await work(index, client, upstream, 8)
    client.say("Summarise all of it.")
    asked = client.body()
    asked.pop("tools")
    shortened = await Exchange(index, client.wire, asked).shorten_body()
    assert shortened is not None
    assert len(json.dumps(shortened)) < len(json.dumps(asked))
    assert "tools" not in shortened
    assert "Summarise all of it." in json.dumps(shortened)
    assert {**shortened, "messages": 0, "input": 0} == {**asked, "messages": 0, "input": 0}
    upstream.ask(shortened)
    other = make()
    other.say("Nothing that is known.")
    assert await Exchange(index, other.wire, other.body()).shorten_body() is None


async def test_a_session_that_waits_for_its_model_stays(tmp_path: Path) -> None:
    client = CLIENTS[0]()
    client.say("Go.")
    index = SessionIndex(disk(tmp_path), SMALL, idle=-1.0)
    begun = await begin(index, client.wire, client.body())
    await index.sweep()
    assert len(index.status()) == 1
    del begun
    await index.sweep()
    assert not index.status()


@every_client
async def test_the_first_request_counts_what_it_gains(make: type[Client]) -> None:
    client = make()
    client.say("Go.")
    done = await exchange(SessionIndex(MemoryStore(), SMALL), client, worker(client, 1))
    alone = await exchange(SessionIndex(MemoryStore(), replace(SMALL, strategy="none")), client, worker(client, 1))
    gained = len(json.dumps(done.bodies[0])) - len(json.dumps(alone.bodies[0]))
    assert done.facts.view - alone.facts.view > 0.8 * gained / 4


@every_client
async def test_a_session_that_repeats_another_word_for_word_is_one_session_too(
    make: type[Client], tmp_path: Path
) -> None:
    index = SessionIndex(disk(tmp_path), SMALL)
    found = []
    for _ in range(2):
        client = make()
        done = await work(index, client, worker(client, 3), 4)
        found.append({exchange.facts.session for exchange in done})
    assert [len(ids) for ids in found] == [1, 1]
    assert found[0] != found[1]
    await index.close()


def test_a_strategy_that_calls_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="calls no model by itself, so it cannot run the strategy 'compact'"):
        SessionIndex(MemoryStore(), ContextSettings(strategy="compact"))
