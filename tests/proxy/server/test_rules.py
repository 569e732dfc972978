"""A session through the proxy behind servers that demand more than their API."""

from __future__ import annotations

import pytest

from tests.proxy.server.support import proxy
from tests.proxy.server.test_too_long import turn
from tests.proxy.world import ChatClient, Client, ResponsesClient
from wane.testing import Call, Reply, ScriptedServer
from wane.testing.rules import arguments_are_objects


@pytest.mark.parametrize("make", [ChatClient, ResponsesClient], ids=lambda client: client.__name__)
async def test_a_mark_that_is_no_json_goes_back_as_an_empty_object(make: type[Client]) -> None:
    client = make()
    script = [Reply(calls=(Call("delimiter", '{"action": "start", "name": "look'),)), Reply("Well."), Reply("Done.")]
    with ScriptedServer(script, rules=[arguments_are_objects]) as server:
        async with proxy(server.url) as running:
            await turn(running, client, "Look.")
            await turn(running, client, "Go on.")
        assert server.refusals == ()
        results = [part.text for part in server.requests[-1].parts if part.call_id and part.text.startswith("Error")]
    assert len(results) == 1
