"""A proxy that only watches reads its sessions back from a database, too."""

from __future__ import annotations

import asyncio

from tests.proxy.server.test_shadow import BUDGET, watch_session
from tests.proxy.store.support import Place
from tests.proxy.world import CLIENTS
from wane.cli.proxy.proxy_options import Shadow
from wane.conversation.context import ContextSettings
from wane.proxy.store import open_store


async def test_what_it_predicts_from_a_database(place: Place) -> None:
    _, _, session = await watch_session(CLIENTS[0], open_store(place.where), turns=3)
    lines = await asyncio.to_thread(Shadow(place.where, ContextSettings(budget=BUDGET)).tell, [session])
    assert lines[0].startswith(f"With Wane at {BUDGET:,} tokens there would have been")
    assert not [line for line in lines if line.startswith("Left out")]
