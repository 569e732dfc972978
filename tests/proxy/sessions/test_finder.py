"""What a request is to the known sessions: a decision, before anything is begun."""

from __future__ import annotations

import copy
from contextlib import AsyncExitStack

from tests.proxy.sessions.test_index import SMALL
from tests.proxy.world import AnthropicClient, Upstream, exchange
from wane.proxy.sessions.client_messages import Arrival, root_of_request
from wane.proxy.sessions.sender import NOBODY
from wane.proxy.sessions.session_index import Continue, Decision, Fork, Fresh, IncomingRequest, Retake, SessionIndex
from wane.proxy.store.stores import MemoryStore
from wane.testing import Reply


async def decide(index: SessionIndex, client: AnthropicClient) -> Decision:
    body = client.body()
    arrivals = [Arrival(client.wire, message) for message in client.wire.messages(body)]
    request = IncomingRequest(client.wire, body, arrivals, root_of_request(client.wire, arrivals), NOBODY)
    async with AsyncExitStack() as holds:
        return await index.finder_of("").find(request, holds)


async def test_a_request_continues_forks_or_rewrites_a_session_or_is_new() -> None:
    index = SessionIndex(MemoryStore(), SMALL)
    answers = iter(range(100))
    upstream = Upstream(AnthropicClient.provider, lambda _: Reply(f"Answer {next(answers)}. " * 30))
    client = AnthropicClient()
    client.say("Go.")
    assert isinstance(await decide(index, client), Fresh)
    assert not index.status(), "a decision begins nothing"
    for number in range(3):
        done = await exchange(index, client, upstream)
        client.take(done.answer, lambda *_: "")
        client.say(f"On {number}. " * 40)
    decision = await decide(index, client)
    assert isinstance(decision, Continue)
    assert decision.cached.id == done.facts.session
    back = copy.deepcopy(client)
    back.history[2:] = []
    back.say("Another way.")
    decision = await decide(index, back)
    assert isinstance(decision, Fork)
    assert decision.alignment.common == 2
    other = copy.deepcopy(client)
    other.history[0] = {"role": "user", "content": "A summary of what was before."}
    decision = await decide(index, other)
    assert isinstance(decision, Retake)
    assert decision.shared is not None
    assert (decision.shared.start, decision.shared.count) == (1, 4)
    assert len(index.status()) == 1


async def test_what_a_client_asks_beside_a_session_is_not_the_sessions_next_turn() -> None:
    """As Claude Code and Qwen Code do after a turn: they guess what the person will type, and keep memories."""
    index = SessionIndex(MemoryStore(), SMALL)
    upstream = Upstream(AnthropicClient.provider, lambda _: Reply("Done."))
    client = AnthropicClient()
    client.say("Go.")
    sessions, asides = [], []
    for _ in range(3):
        done = await exchange(index, client, upstream)
        sessions.append(done.facts.session)
        client.take(done.answer, lambda *_: "")
        aside = copy.deepcopy(client)
        aside.say("[SUGGESTION MODE: Suggest what the user might naturally type next.]")
        facts = (await exchange(index, aside, upstream)).facts
        asides.append(facts.session)
        assert facts.parent == sessions[0]
        client.say("On.")
    assert len(set(sessions)) == 1
    assert len({*sessions, *asides}) == 4
