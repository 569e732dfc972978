"""Clients that change what they have sent before: what was evicted stays so, and what the user says is never lost."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.sessions.test_index import SMALL, disk, result, work, worker
from tests.proxy.world import CLIENTS, AnthropicClient, ChatClient, Client, Upstream, exchange, run_turn
from wane.proxy.sessions.index import SessionIndex
from wane.proxy.store.base import MemoryStore
from wane.testing import Call, Reply, Request

every_client = pytest.mark.parametrize("make", CLIENTS, ids=lambda client: client.__name__)


def turned(value: Any) -> Any:
    """The same data with its keys in another order."""
    if isinstance(value, list):
        return [turned(entry) for entry in value]
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return value


def padded(value: Any) -> Any:
    """A history in which the model's texts have more spaces about them."""
    if isinstance(value, list):
        return [padded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    made = {key: padded(entry) for key, entry in value.items()}
    text = "text" if value.get("type") in ("text", "output_text") else "content" if "tool_calls" in value else None
    if text is not None and isinstance(value.get(text), str) and value[text].startswith("Saying"):
        made[text] = f"{value[text]}  "
    return made


def said(body: dict[str, Any]) -> str:
    return json.dumps(body.get("messages", body.get("input")))


@every_client
@pytest.mark.parametrize("edit", [turned, padded])
@pytest.mark.parametrize("seed", range(2))
def test_what_was_evicted_stays_so_however_a_client_writes_it_now(make: type[Client], edit: Any, seed: int) -> None:
    async def main() -> None:
        client = make()
        index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, seed, reasons=True)
        await work(index, client, upstream, 8)
        client.say("Go on.")
        before = await exchange(index, client, upstream)
        client.history = edit(client.history)
        after = await exchange(index, client, upstream)
        assert after.facts.session == before.facts.session
        assert after.facts.evicted == before.facts.evicted > 0
        gone = [number for number in range(200) if f"Saying {number}." not in said(before.bodies[0])]
        assert not [number for number in gone if f"Saying {number}." in said(after.bodies[0])]

    asyncio.run(main())


def test_what_a_user_adds_to_a_message_whose_results_are_gone_is_shown() -> None:
    async def main() -> None:
        client = AnthropicClient()
        index, upstream = SessionIndex(MemoryStore(), SMALL), worker(client, 1)
        await work(index, client, upstream, 8)
        for number, message in enumerate(client.history[:20]):
            if message["role"] == "user" and message["content"][0]["type"] == "tool_result":
                message["content"].append({"type": "text", "text": f"Mind number {number}!"})
        client.say("Go on.")
        done = await exchange(index, client, upstream)
        assert len(index.status()) == 1
        assert done.facts.evicted > 0
        told = said(client.body())
        wanted = [number for number in range(200) if f"Mind number {number}!" in told]
        assert wanted
        assert all(f"Mind number {number}!" in said(done.bodies[0]) for number in wanted)

    asyncio.run(main())


@every_client
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "on disk"])
def test_a_client_may_go_back_to_a_message_that_it_has_edited(make: type[Client], stored: bool, tmp_path: Path) -> None:
    async def main() -> None:
        client = make()
        index, upstream = SessionIndex(disk(tmp_path) if stored else MemoryStore(), SMALL), worker(client, 1, steps=2)
        lengths = []
        for number in range(5):
            client.say(f"User turn {number}.")
            lengths.append(len(client.history))
            await run_turn(index, client, upstream, result)
        place = next(n for n in reversed(range(lengths[2])) if "User turn 2." in json.dumps(client.history[n]))
        client.history[place] = json.loads(json.dumps(client.history[place]).replace("turn 2.", "turn 2, edited."))
        client.say("Go on.")
        await run_turn(index, client, upstream, result)
        back = client.copy()
        back.history = back.history[: lengths[2]]
        done = await run_turn(index, back, upstream, result)
        done += await work(index, back, upstream, 2)
        assert len({each.facts.session for each in done}) == 1
        assert len(index.status()) == 2
        await index.close()

    asyncio.run(main())


@every_client
def test_sessions_that_begin_alike_keep_their_own_rounds(make: type[Client]) -> None:
    def model(request: Request) -> Reply:
        if request.results:
            return Reply(text="Done.")
        return Reply(calls=(Call("delimiter", {"action": "start", "name": "a", "type": "expl"}), Call("read")))

    async def main() -> None:
        first = make()
        upstream = Upstream(first.provider, model)
        index = SessionIndex(MemoryStore(), SMALL)
        first.say("The same for all.")
        others = [first.copy() for _ in range(4)]
        answers = [await exchange(index, client, upstream) for client in others]
        for client, done in zip(others, answers, strict=True):
            client.take(done.answer, result)
            client.say("On.")
            following = await exchange(index, client, upstream)
            # Beside its definition, the call that the model made.
            assert json.dumps(following.bodies[0]).count('"name": "delimiter"') > 1
        assert len(index.status()) == 4

    asyncio.run(main())


def test_a_damaged_session_is_told_of_and_refused_where_it_is_to_be_strict(tmp_path: Path) -> None:
    async def main() -> None:
        client = ChatClient()
        upstream = worker(client, 1)
        index = SessionIndex(disk(tmp_path), SMALL)
        await work(index, client, upstream, 4)
        await index.close()
        (path,) = tmp_path.rglob("*.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        lines[3] = lines[3].replace(b"a", b"b")
        path.write_bytes(b"".join(lines))
        client.say("Go on.")
        strict = SessionIndex(disk(tmp_path), SMALL, strict=True)
        with pytest.raises(Exception, match="damaged"):
            await strict.turn(client.wire, client.body())
        await strict.close()
        index = SessionIndex(disk(tmp_path), SMALL)
        done = await exchange(index, copy.copy(client), upstream)
        assert "damaged" in done.facts.note
        again = await exchange(index, client, upstream)
        assert again.facts.note == ""
        await index.close()

    asyncio.run(main())
