"""Sessions that begin alike: each is recognised after a restart, whatever their number and whichever store has them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.marks import cross_quick
from tests.proxy.sessions.test_index import SMALL
from tests.proxy.store.support import Place, new_root
from tests.proxy.world import CLIENTS, AnthropicClient, Client, Upstream, begin, exchange
from wane.journal import FORK_NOTE, NoteRecord
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store
from wane.testing import Call, Reply

ALIKE = 16
"""Twice as many as are read to compare them with a request."""


def model_of(number: int) -> Any:
    """A model whose first answer is the same in all sessions, and the further ones are not."""
    steps = iter(
        [Reply("What shall I do?"), Reply(calls=(Call("read", {"path": f"{number}.py"}, id=f"toolu_{number}"),))]
    )
    return lambda _: next(steps, Reply(f"Read {number}."))


async def begin_session(
    index: SessionIndex, make: type[Client], number: int, steps: int, opening: str = "Hello."
) -> tuple[Client, Upstream, str]:
    """A session that has made some requests: one, and then those of a second turn."""
    client = make()
    upstream = Upstream(client.provider, model_of(number))
    client.say(opening)
    done = await exchange(index, client, upstream)
    client.take(done.answer, lambda *_: "")
    client.say(f"Read {number}.py.")
    for _ in range(steps - 1):
        done = await exchange(index, client, upstream)
        client.take(done.answer, lambda *_: f"Text of {number}.")
    return client, upstream, done.facts.session


@pytest.mark.quick(1)
@pytest.mark.parametrize(("steps", "make"), cross_quick((3, 2), CLIENTS))
async def test_all_of_them_are_resumed_after_a_restart(make: type[Client], steps: int, place: Place) -> None:
    opening = new_root()  # others have used the server
    index = SessionIndex(open_store(place.where), SMALL)
    sessions = [await begin_session(index, make, number, steps, opening) for number in range(ALIKE)]
    await index.close()
    index = SessionIndex(open_store(place.where), SMALL)
    resumed = 0
    for client, upstream, session in sessions:
        if steps == 3:
            client.say("Go on.")
        done = await exchange(index, client, upstream)
        resumed += done.facts.session == session
    assert resumed == ALIKE
    await index.close()


@pytest.mark.full
async def test_requests_that_are_sent_again_after_a_restart_find_their_sessions(place: Place) -> None:
    """The proxy was killed before their replies, so that nothing but the user's words tells the sessions apart."""

    opening = new_root()  # others have used the server
    index = SessionIndex(open_store(place.where), SMALL)
    sessions = []
    for number in range(ALIKE):
        client, upstream, session = await begin_session(index, AnthropicClient, number, 1, opening)
        await begin(index, client.wire, client.body())
        sessions.append((client, upstream, session))
    await index.close()
    index = SessionIndex(open_store(place.where), SMALL)
    assert [(await exchange(index, client, up)).facts.session for client, up, _ in sessions] == [
        session for _, _, session in sessions
    ]
    await index.close()


@pytest.mark.full
async def test_a_session_rewound_after_a_restart_forks_the_right_one(place: Place) -> None:
    opening = new_root()  # others have used the server
    index = SessionIndex(open_store(place.where), SMALL)
    sessions = [await begin_session(index, AnthropicClient, number, 3, opening) for number in range(ALIKE)]
    rewound = []
    for client, upstream, session in sessions:
        before = client.copy()
        client.say("And now?")
        await exchange(index, client, upstream)
        before.say("No, something else.")
        rewound.append((before, upstream, session))
    await index.close()
    index = SessionIndex(open_store(place.where), SMALL)
    for client, upstream, session in rewound:
        done = await exchange(index, client, upstream)
        assert done.facts.session != session
        # Read from the session's records, not begun anew.
        records = await place.store().read(done.facts.session)
        assert [record for record in records if isinstance(record, NoteRecord) and record.topic == FORK_NOTE]
    await index.close()


async def test_copies_of_one_session_are_told_apart_by_how_far_they_went(place: Place) -> None:
    opening = new_root()  # others have used the server
    index = SessionIndex(open_store(place.where), SMALL)
    client, upstream, _ = await begin_session(index, AnthropicClient, 0, 3, opening)
    copies = []
    for number in range(12):
        other = copy.deepcopy(client)
        other.say(f"Way {number}.")
        twin = await begin(index, other.wire, other.body())
        copies.append((other, twin.facts.session))
    await index.close()
    index = SessionIndex(open_store(place.where), SMALL)
    for other, session in copies:
        assert (await exchange(index, other, upstream)).facts.session == session
    await index.close()
