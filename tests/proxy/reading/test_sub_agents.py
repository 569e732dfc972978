"""Sub-agents that a proxy kept: below the session that started them, with their sums beside its own."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from tests.cli.conftest import Run
from tests.proxy.world import AnthropicClient, Upstream, exchange
from wane import Kind
from wane.conversation import ContextSettings
from wane.journal import SessionStore
from wane.lab.readers import gather
from wane.proxy.server.status import figures_of
from wane.proxy.server.workers import with_agents
from wane.proxy.sessions.sender import NOBODY, Sender
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.traffic import Traffic
from wane.testing import Call, Reply, Request

TASK, PROMPTS = "Look at both files.", ("Look at a.py.", "Look at b.py.")


def reply(request: Request) -> Reply:
    calls = [part for part in request.parts if part.kind is Kind.CALL]
    if calls:
        return Reply("Done.")
    if TASK in request.texts(Kind.USER):
        return Reply(calls=tuple(Call("agent", {"prompt": prompt}) for prompt in PROMPTS))
    return Reply(calls=(Call("read", {"path": "shared.py"}),))


def keep(store: SessionStore, here: Path) -> tuple[list[str], dict[str, object]]:
    """Keep a session with two sub-agents, and one of a parent that is not known.

    Returns:
        Their ids, and the first one's row in the proxy's status.
    """

    async def main() -> tuple[list[str], dict[str, object]]:
        index = SessionIndex(DiskStore(store, cwd=here, fsync=False), ContextSettings())
        upstream = Upstream(AnthropicClient.provider, reply)
        ids = []
        senders = (NOBODY, NOBODY, NOBODY, Sender("s", "agent"))
        for text, sender in zip((TASK, *PROMPTS, "Sealed."), senders, strict=True):
            client = AnthropicClient(("agent", "read"))
            client.say(text)
            for _ in range(2):
                done = await exchange(index, client, upstream, sender=sender)
                client.take(done.answer, lambda tool, arguments: "print(41)")
            ids.append(done.facts.session)
        rows = with_agents(figures_of(index, Traffic(), datetime.now(UTC))["sessions"])
        await index.close()
        return ids, next(row for row in rows if row["id"] == ids[0])

    return asyncio.run(main())


def test_lists_show_and_view_have_them_below_their_parent(store: SessionStore, here: Path, run: Run) -> None:
    ids, row = keep(store, here)
    listed = {entry["id"]: entry["parent"] for entry in json.loads(run("sessions", "--json").out)}
    assert listed == {ids[0]: "", ids[1]: ids[0], ids[2]: ids[0], ids[3]: "?"}
    table = run("sessions").out
    assert "a sub-agent of an unknown session" in " ".join(table.split())
    lines = table.splitlines()
    names = [session_id.rpartition("-")[2][:12] for session_id in ids]
    where = {name: next(number for number, line in enumerate(lines) if name in line) for name in names}
    assert where[names[0]] < min(where[names[1]], where[names[2]])
    assert all(lines[where[name]].startswith("  ") for name in names[1:3])

    shown = json.loads(run("show", ids[0], "--json").out)
    agents = row["agents"]
    assert isinstance(agents, dict)
    assert sorted(shown["agents"]) == sorted(ids[1:3])
    assert shown["usage_of_agents"]["model_calls"] == agents["calls"] == 4
    assert shown["usage_of_agents"]["input_tokens"] == agents["used"]["input"] > 0
    assert shown["usage_of_agents"]["cost_usd"] == agents["money"]["spent"] > 0
    assert shown["usage"]["model_calls"] == row["calls"] == 2
    assert "with them 6 model calls" in " ".join(run("show", ids[0]).out.split())
    assert "of an unknown session" in run("show", ids[3]).out

    page = here / "page.html"
    assert not run("view", ids[0], "--output", str(page)).code
    assert "1 of 2 results (50%) repeat a file or command of the parent or a sibling, 1 to the byte" in page.read_text()
    (entry,) = gather([store.find(ids[0])]).recordings
    assert sorted(side.id for side in entry.session.sidechains) == sorted(ids[1:3])


def test_a_damaged_sub_agent_is_named_and_left_out(store: SessionStore, here: Path, run: Run) -> None:
    ids, _ = keep(store, here)
    path = store.find(ids[1])
    first, second, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, second.replace(b"config", b"konfig"), *others]))
    assert "without 1 that cannot be read" in " ".join(run("show", ids[0]).out.split())
