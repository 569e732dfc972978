"""Tools that stand in the input, as newer versions of Codex send them."""

from __future__ import annotations

import json
from typing import Any

from tests.proxy.wire.openai_support import DELIMITER, GUIDANCE
from tests.proxy.wire.views import with_view
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire

WIRE = OpenAIResponsesWire()
USER = {"role": "user", "content": "Hi"}
EXEC = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
BROUGHT: dict[str, Any] = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [EXEC]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]}


def body(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "store": False, "input": [BROUGHT, *items], **more}


def names(item: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in item["tools"]]


def test_they_are_the_clients_tools() -> None:
    assert WIRE.why_unmanaged(body(USER)) is None
    assert WIRE.tools(body(USER)) == frozenset()
    named = {**BROUGHT, "tools": [EXEC, {"type": "function", "name": "delimiter"}]}
    assert WIRE.tools({**body(), "input": [named, USER]}) == {"delimiter"}
    hosted = {**BROUGHT, "tools": [{"type": "web_search"}]}
    for without in ({"input": [hosted, USER]}, {"input": [{**BROUGHT, "tools": None}, USER]}, {"input": [USER]}):
        assert "no tools" in (WIRE.why_unmanaged({**body(), **without}) or "")


def test_the_own_tool_is_behind_them() -> None:
    request = body(USER)
    before = json.dumps(request)
    equipped = WIRE.equip(request, [DELIMITER], GUIDANCE).body
    assert json.dumps(request) == before
    assert "tools" not in equipped
    assert names(equipped["input"][0]) == ["functions", "delimiter"]
    assert equipped["input"][0]["tools"][0] is EXEC
    assert equipped["input"][1:] == [USER]
    assert equipped["instructions"] == GUIDANCE
    assert WIRE.equip(request, [], "").body == request


def test_it_stays_in_every_view() -> None:
    request = body(USER, SAID, USER)
    messages = WIRE.messages(request)
    equipped = WIRE.equip(request, [DELIMITER], GUIDANCE)
    placed = with_view(WIRE, equipped, [messages[0], *messages[3:]])
    assert placed["input"] == [equipped.body["input"][0], USER]
    assert names(placed["input"][0])[-1] == "delimiter"
    # And is not there for the last of many rounds, which has no own tool.
    assert with_view(WIRE, WIRE.equip(request, [], ""), messages) == request


def test_with_tools_at_the_top_too_the_own_one_is_there() -> None:
    top = {"type": "function", "name": "read", "parameters": {}}
    equipped = WIRE.equip(body(USER, tools=[top]), [DELIMITER], GUIDANCE).body
    assert names(equipped) == ["read", "delimiter"]
    assert equipped["input"] == [BROUGHT, USER]
