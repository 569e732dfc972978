"""Sub-agents in the proxy: under the session that started them, by the client's ids or by a call's prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.world import CLIENTS, AnthropicClient, Client, Upstream, exchange
from wane import Kind
from wane.conversation import ContextSettings
from wane.journal import SessionStore
from wane.journal.records import UNKNOWN_PARENT
from wane.proxy.sessions.memory import SessionStatus
from wane.proxy.sessions.sender import AGENTS, NOBODY, Parentage, Sender, handed_over, prompts_of
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import MemoryStore, StoreError
from wane.proxy.team.deletion import delete_name
from wane.testing import Call, Reply, Request

TASK = "Delegate the work, please."
PROMPTS = ("Read a.py and say what it prints.", "Read b.py and say what it prints.")
SETTINGS = ContextSettings(budget=20_000)


def model(*prompts: str, tool: str = "agent") -> Upstream:
    """A model that hands prompts over in its first reply to `TASK`, and just answers anything else."""

    def reply(request: Request) -> Reply:
        said, calls = request.texts(Kind.USER), [part for part in request.parts if part.kind is Kind.CALL]
        if TASK in said and not calls:
            return Reply("I delegate.", calls=tuple(Call(tool, {"prompt": prompt}) for prompt in prompts))
        return Reply("It prints 41.")

    return Upstream(AnthropicClient.provider, reply)


def client_of(text: str, make: type[Client] = AnthropicClient) -> Client:
    client = make(("agent", "read"))
    client.say(text)
    return client


async def session(index: SessionIndex, upstream: Upstream, text: str, sender: Sender = NOBODY) -> str:
    """Send a session's first request, and return its id."""
    return (await exchange(index, client_of(text), upstream, sender=sender)).facts.session


def parents(index: SessionIndex) -> dict[str, str]:
    return {status.facts.session: status.facts.parent for status in index.status()}


def status_of(index: SessionIndex, session_id: str) -> SessionStatus:
    return next(status for status in index.status() if status.facts.session == session_id)


@pytest.mark.parametrize("make", CLIENTS, ids=lambda client: client.__name__)
async def test_sub_agents_are_known_by_the_prompts_of_open_calls(make: type[Client]) -> None:
    index, upstream = SessionIndex(MemoryStore(), SETTINGS, agent_budget=5_000), model(*PROMPTS)
    upstream.provider = make.provider
    main = await exchange(index, client_of(TASK, make), upstream)
    subs = await asyncio.gather(*(exchange(index, client_of(prompt, make), upstream) for prompt in PROMPTS))
    other = await exchange(index, client_of("Something else.", make), upstream)
    assert [sub.facts.parent for sub in subs] == [main.facts.session] * 2
    assert (main.facts.parent, other.facts.parent) == ("", "")
    assert [done.facts.budget for done in (main, *subs, other)] == [20_000, 5_000, 5_000, 20_000]


async def test_a_call_starts_one_sub_agent_and_an_ambiguous_prompt_none() -> None:
    index, upstream = SessionIndex(MemoryStore(), SETTINGS), model(*PROMPTS)
    main = await session(index, upstream, TASK)
    sub = await session(index, upstream, PROMPTS[0])
    assert parents(index)[sub] == main
    again = client_of(PROMPTS[0])
    again.history[0]["content"].append({"type": "text", "text": "Another session with the same words."})
    assert not (await exchange(index, again, upstream)).facts.parent
    # A session of someone else, with a prompt that is still open here.
    rival = AnthropicClient(("agent", "read"))
    rival.say(TASK)
    rival.history[0]["content"].append({"type": "text", "text": "In another directory."})
    await exchange(index, rival, upstream)
    late = await session(index, upstream, PROMPTS[1])
    assert not parents(index)[late]


async def test_the_clients_ids_decide_where_it_tells_them() -> None:
    index, upstream = SessionIndex(MemoryStore(), SETTINGS, agent_budget=5_000), model(*PROMPTS)
    main = await session(index, upstream, TASK, Sender("s"))
    sub = await session(index, upstream, "Sealed.", Sender("s", "one"))
    nested = await session(index, upstream, "Sealed, too.", Sender("s", "two", "one"))
    orphan = await session(index, upstream, "Of a parent that was never seen.", Sender("s", "four", "three"))
    stranger = await session(index, upstream, PROMPTS[0], Sender("t"))
    assert parents(index) == {main: "", sub: main, nested: sub, orphan: UNKNOWN_PARENT, stranger: ""}
    assert status_of(index, orphan).facts.budget == 5_000
    assert [status_of(index, each).client for each in (main, sub)] == ["s", ""]


async def test_agents_that_begin_alike_or_fork_another_have_sessions_of_their_own() -> None:
    index, upstream = SessionIndex(MemoryStore(), SETTINGS, agent_budget=5_000), model(PROMPTS[0], PROMPTS[0])
    client = client_of(TASK)
    first = await exchange(index, client, upstream, sender=Sender("s"))
    twins = [await session(index, upstream, PROMPTS[0], Sender("s", agent)) for agent in ("one", "two")]
    assert len(set(twins)) == 2
    # A sub-agent that starts with its parent's history, before the parent goes on.
    client.take(first.answer, lambda tool, arguments: "started")
    fork = client.copy()
    fork.say("You are a sub-agent now.")
    child = await exchange(index, fork, upstream, sender=Sender("s", "three"))
    later = await exchange(index, client, upstream, sender=Sender("s"))
    assert later.facts.session == first.facts.session
    assert (child.facts.parent, child.facts.budget) == (first.facts.session, 5_000)
    assert status_of(index, child.facts.session).money.account.calls == 1


async def test_a_restart_and_another_process_know_them_too(tmp_path: Path) -> None:
    upstream = model(*PROMPTS)

    def index() -> SessionIndex:
        return SessionIndex(DiskStore(SessionStore(tmp_path), fsync=False), SETTINGS, agent_budget=5_000)

    one, two = index(), index()
    main = await session(one, upstream, TASK)
    client = client_of(PROMPTS[0])
    sub = await exchange(two, client, upstream)
    assert sub.facts.parent == main
    client.take(sub.answer, lambda tool, arguments: "")
    client.say("Go on.")
    await two.close()
    three = index()
    again = await exchange(three, client, upstream)
    assert (again.facts.session, again.facts.parent, again.facts.budget) == (sub.facts.session, main, 5_000)
    await one.close()
    await three.close()


async def test_a_store_that_fails_makes_a_parent_unknown_and_nothing_worse() -> None:
    class NoDocuments(MemoryStore):
        async def document(self, kind: str, name: str) -> str | None:
            raise StoreError("the documents are gone")

    index, upstream = SessionIndex(NoDocuments(), SETTINGS), model(*PROMPTS)
    await session(index, upstream, TASK, Sender("s"))
    sub = await session(index, upstream, "Sealed.", Sender("s", "one"))
    assert parents(index)[sub] == UNKNOWN_PARENT
    late = await session(index, upstream, PROMPTS[0])
    assert not parents(index)[late]


async def test_sub_agents_stay_in_memory_with_the_session_that_started_them(tmp_path: Path) -> None:
    store = DiskStore(SessionStore(tmp_path), fsync=False)
    index, upstream = SessionIndex(store, SETTINGS, idle=60), model(*PROMPTS)
    main = await session(index, upstream, TASK)
    sub = await session(index, upstream, PROMPTS[0])
    lone = await session(index, upstream, "Something else.")
    for session_id in (sub, lone):
        cached = index._finders[""].memory.get(session_id)
        assert cached is not None
        cached.last = cached.last.replace(year=2000)
    await index.sweep()
    assert set(parents(index)) == {main, sub}
    await index.close()


# What is kept of them

SENDERS = st.sampled_from([NOBODY, Sender("s"), Sender("t")])


@given(
    st.lists(st.tuples(st.booleans(), SENDERS, st.sampled_from(["a", "b"]), st.sampled_from(["p", "q"])), max_size=20)
)
def test_prompts_are_claimed_once_and_only_if_one_session_fits(steps: Sequence[tuple[bool, Sender, str, str]]) -> None:
    async def run() -> None:
        parentage = Parentage(MemoryStore())
        open_calls: list[tuple[str, str, str]] = []
        for hands_over, sender, session_id, prompt in steps:
            if hands_over:
                await parentage.handed_over(sender, session_id, [prompt])
                open_calls.append((sender.session, session_id, prompt))
                continue
            callers = {call[1] for call in open_calls if call[0] == sender.session and call[2] == prompt}
            expected = callers.pop() if len(callers) == 1 else ""
            assert await parentage.parent(sender, [prompt]) == expected
            if expected:
                open_calls.remove((sender.session, expected, prompt))

    asyncio.run(run())


async def test_owners_share_nothing_and_what_is_known_of_one_is_deleted_with_it() -> None:
    store = MemoryStore()
    await Parentage(store, "ann").handed_over(NOBODY, "x", ["p"])
    assert not await Parentage(store, "ben").parent(NOBODY, ["p"])
    await Parentage(store, "ben").handed_over(NOBODY, "x", ["p"])
    await delete_name(store, "ann")
    assert [await Parentage(store, name).parent(NOBODY, ["p"]) for name in ("ann", "ben")] == ["", "x"]


async def test_an_unreadable_document_is_none_and_an_old_one_is_deleted() -> None:
    store = MemoryStore()
    parentage = Parentage(store)
    await parentage.handed_over(NOBODY, "x", ["p"])
    ((name, document),) = (await store.documents(AGENTS)).items()
    assert await store.replace_document(AGENTS, name, document, "{}")
    assert not await parentage.parent(NOBODY, ["p"])
    await parentage.handed_over(NOBODY, "x", ["q"])
    parentage._tidied -= timedelta(hours=2)
    await parentage.tidy()
    assert name not in await store.documents(AGENTS)
    assert await parentage.parent(NOBODY, ["q"]) == "x"


@pytest.mark.parametrize(
    ("tool", "arguments", "prompts"),
    [
        ("Agent", '{"prompt": " look ", "description": "d"}', ["look"]),
        ("functions.collaboration.spawn_agent", '{"task_name": "one", "message": "look"}', ["look"]),
        ("spawn_agent", '{"systemPrompt": "You read.", "task": "look"}', ["look"]),
        ("subagent", '{"tasks": [{"agent": "a", "task": "one"}, {"task": "two"}, 3]}', ["one", "two"]),
        ("Read", '{"prompt": "look"}', []),
        ("Agent", '{"prompt": 3}', []),
        ("Agent", "[]", []),
        ("Agent", "{", []),
        ("Agent", None, []),
    ],
)
def test_prompts_of_calls(tool: str, arguments: str | None, prompts: list[str]) -> None:
    assert prompts_of(tool, arguments) == prompts


def test_what_a_first_message_may_hold() -> None:
    wrapped = "Your task is this:\n<objective>\nRead a.py.\n</objective>"
    assert handed_over(wrapped) == [wrapped, "Read a.py."]
    assert handed_over(" Task: look\n") == ["Task: look", "look"]
    dated = "<current_datetime>2026-11-29T01:24:39.973+00:00</current_datetime>\n\nRead a.py."
    assert handed_over(dated) == [dated, "Read a.py."]
    assert handed_over("  ") == []
