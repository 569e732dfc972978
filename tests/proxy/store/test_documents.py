"""Small texts that all processes of a store share, and headers of sessions: alike in every store."""

from __future__ import annotations

import asyncio

import pytest

from tests.proxy.store.support import Place, new_root
from wane.proxy.store.base import StoreError


async def test_a_document_is_replaced_only_if_it_is_the_known_one(place: Place) -> None:
    store, other = place.store(), place.store()
    known = await store.document("kind", "a")
    for document in ("one", "two"):
        assert not await store.replace_document("kind", "a", "another", document)
        assert await store.replace_document("kind", "a", known, document)
        assert await other.document("kind", "a") == document
        known = document
    assert not await other.replace_document("kind", "a", None, "three")
    assert await other.replace_document("kind", "a", known, None)
    assert await store.document("kind", "a") is None
    assert await store.replace_document("kind", "a", None, "four")
    assert await store.replace_document("kind", "a", "four", None)
    await store.close()
    await other.close()


async def test_kinds_and_names_are_apart(place: Place) -> None:
    store = place.store()
    for kind, name in (("x", ""), ("x", "a.b@c-d_e"), ("y", "")):
        assert await store.replace_document(kind, name, None, f"{kind} {name} Grüße")
    assert await store.documents("x") == {"": "x  Grüße", "a.b@c-d_e": "x a.b@c-d_e Grüße"}
    assert await store.document("y", "") == "y  Grüße"
    assert await store.documents("z") == {}
    for kind, name in (("x", ""), ("x", "a.b@c-d_e"), ("y", "")):
        assert await store.replace_document(kind, name, f"{kind} {name} Grüße", None)
    await store.close()


async def test_of_changes_at_once_none_is_lost(place: Place) -> None:
    stores = [place.store() for _ in range(4)]

    async def count(number: int) -> None:
        for _ in range(25):
            while True:
                known = await stores[number].document("count", "a")
                if await stores[number].replace_document("count", "a", known, str(int(known or 0) + 1)):
                    break

    await asyncio.gather(*(count(number) for number in range(4)))
    assert await stores[0].document("count", "a") == "100"
    await stores[0].replace_document("count", "a", "100", None)
    for store in stores:
        await store.close()


async def test_a_header_tells_whose_a_session_is(place: Place) -> None:
    store, other = place.store(), place.store()
    logs = [await store.create(new_root(), "openai", owner) for owner in ("", "alice")]
    # Another process reads it while this one has it open.
    assert [(await other.header(log.id)).owner for log in logs] == ["", "alice"]
    with pytest.raises(StoreError, match="there is no session"):
        await store.header(f"{new_root()}-{'0' * 16}")
    for log in logs:
        await log.close()
    await store.close()
    await other.close()
