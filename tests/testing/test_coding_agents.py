"""What coding agents send beyond the plain protocols, and what they ask besides."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

import pytest
from anthropic.types.beta import BetaModelInfo
from openai.types import Model
from openai.types.responses import Response, ResponseInputItem, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.testing.support import MESSAGES, RESPONSES, message_of, post
from wane.testing import Call, Kind, Reply, ScriptedServer

USER = {"role": "user", "content": "Hi"}
PATCH = "*** Begin Patch\n*** End Patch\n"
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "exec_command", "parameters": {"type": "object"}},
    {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
    {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
    {"type": "web_search"},
    {
        "type": "namespace",
        "name": "agents",
        "description": "Others.",
        "tools": [
            {"type": "function", "name": "spawn", "parameters": {"type": "object"}},
            {"type": "custom", "name": "exec"},
        ],
    },
]
NAMES = ("exec_command", "apply_patch", "tool_search", "web_search", "agents.spawn", "agents.exec")
CALLS = (
    Call("exec_command", {"cmd": "ls"}),
    Call("apply_patch", PATCH),
    Call("tool_search", {"query": "agents"}),
    Call("agents.spawn", {"task": "x"}),
    Call("agents.exec", "text(1)"),
)
WAYS: dict[str, dict[str, Any]] = {
    "at the top": {"tools": TOOLS, "input": [USER]},
    "in an item": {"input": [{"type": "additional_tools", "role": "developer", "tools": TOOLS}, USER]},
}


def answers_to(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = []
    for item in output:
        match item["type"]:
            case "function_call":
                made.append({"type": "function_call_output", "call_id": item["call_id"], "output": "r"})
            case "custom_tool_call":
                content = [{"type": "input_text", "text": "r"}]
                made.append({"type": "custom_tool_call_output", "call_id": item["call_id"], "output": content})
            case "tool_search_call":
                found = [{"type": "function", "name": "found", "parameters": {}}]
                made.append({"type": "tool_search_output", "call_id": item["call_id"], "tools": found})
    return made


@pytest.mark.parametrize("way", WAYS)
def test_tools_of_every_kind_are_offered_and_called(way: str) -> None:
    ask = {"model": "m", **WAYS[way]}
    with ScriptedServer([Reply("So.", reasoning="Hm.", calls=CALLS), Reply("Done.")]) as server:
        _, answer = post(server, RESPONSES, ask)
        output = answer["output"]
        TypeAdapter(list[ResponseInputItem]).validate_python(output)
        Response.model_validate(answer)
        items = [*ask["input"], *output, *answers_to(output)]
        assert post(server, RESPONSES, {**ask, "input": items})[0] == 200
        first, second = server.requests
    assert first.tools == NAMES
    assert second.tools == (*NAMES, "found")
    assert second.tool_tokens > first.tool_tokens > 100
    calls = [part for part in second.parts if part.kind is Kind.CALL]
    assert [part.tool for part in calls] == [call.tool for call in CALLS]
    assert [part.text for part in calls] == [call.raw_arguments for call in CALLS]
    assert list(second.results.values()) == ["r", "r", "", "r", "r"]
    assert [item.get("namespace") for item in output[2:]] == [None, None, None, "agents", "agents"]


@pytest.mark.full
def test_their_stream_is_of_the_providers_types() -> None:
    with ScriptedServer([Reply(calls=CALLS)]) as server:
        _, stream = post(server, RESPONSES, {"model": "m", "stream": True, **WAYS["at the top"]})
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")]
    events = [TypeAdapter[Any](ResponseStreamEvent).validate_json(line) for line in lines]
    typed = "".join(event.delta for event in events if event.type == "response.custom_tool_call_input.delta")
    assert typed == PATCH + "text(1)"
    assert [event.sequence_number for event in events] == list(range(len(events)))


def call_item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "a", "name": "f", **fields}


CUSTOM = call_item("custom_tool_call", input="x")
WRONG_INPUT: dict[str, tuple[list[Any], str]] = {
    "custom call without output": ([USER, CUSTOM], "No tool output found for custom tool call a."),
    "output of another kind": (
        [USER, CUSTOM, {"type": "function_call_output", "call_id": "a", "output": "r"}],
        "No tool call found for function call output with call_id a",
    ),
    "search without output": (
        [USER, {"type": "tool_search_call", "call_id": "a", "arguments": {}}],
        "No tool output found for tool search call a.",
    ),
    "found without search": ([USER, {"type": "tool_search_output", "call_id": "a", "tools": []}], "tool search output"),
    "found without tools": ([USER, {"type": "tool_search_output", "call_id": "a"}], "'input[1].tools'"),
    "tools of a user": ([{"type": "additional_tools", "role": "user", "tools": []}, USER], "Invalid value: 'user'"),
    "tools without a name": (
        [{"type": "additional_tools", "role": "developer", "tools": [{"type": "custom"}]}, USER],
        "'input[0].tools[0].name'",
    ),
    "tools of one name": (
        [{"type": "additional_tools", "role": "developer", "tools": [TOOLS[1], TOOLS[1]]}, USER],
        "'apply_patch' is given twice",
    ),
    "patch without its reasoning": (
        [USER, {**CUSTOM, "id": "ctc_ra_0"}, {"type": "custom_tool_call_output", "call_id": "a", "output": "r"}],
        "of type 'custom_tool_call' was provided without its required 'reasoning' item: 'rs_ra'",
    ),
}


@pytest.mark.parametrize("name", WRONG_INPUT)
def test_input_that_openai_would_refuse(name: str) -> None:
    items, text = WRONG_INPUT[name]
    with ScriptedServer([]) as server:
        status, answer = post(server, RESPONSES, {"model": "m", "input": items})
    assert (status, text in message_of(answer)) == (400, True), answer


def test_settings_may_change_within_the_input() -> None:
    items = [USER, {"type": "configuration_update", "reasoning": {"effort": "low"}}, USER]
    with ScriptedServer([Reply("Hello.")]) as server:
        assert post(server, RESPONSES, {"model": "m", "input": items})[0] == 200
        assert server.requests[0].texts(Kind.USER) == ("Hi", "Hi")


@pytest.mark.parametrize("stream", [False, True])
def test_a_history_is_compacted_when_that_is_asked_for(stream: bool) -> None:
    ask = {"model": "m", "input": [USER, {"type": "compaction_trigger"}], "stream": stream}
    with ScriptedServer([Reply("SEALED", calls=CALLS), Reply("Hello.")]) as server:
        _, answer = post(server, RESPONSES, ask)
        if stream:
            lines = [line.removeprefix("data: ") for line in answer.decode().splitlines() if line.startswith("data: ")]
            answer = [TypeAdapter[Any](ResponseStreamEvent).validate_json(line) for line in lines][-1].response
            answer = answer.model_dump(exclude_none=True)
        (item,) = answer["output"]
        assert (item["type"], item["encrypted_content"]) == ("compaction", "SEALED")
        assert post(server, RESPONSES, {"model": "m", "input": [item, USER]})[0] == 200


def test_a_search_of_the_provider_may_follow_reasoning() -> None:
    items = [
        USER,
        {"type": "reasoning", "id": "rs_x", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"role": "assistant", "content": "Found."},
        USER,
    ]
    with ScriptedServer([Reply("Hello.")]) as server:
        assert post(server, RESPONSES, {"model": "m", "input": items})[0] == 200


SYSTEM = {"role": "system", "content": "<system-reminder>"}
SAID = {"role": "assistant", "content": "said"}
CACHED = {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "input_schema": {"type": "object"}}
LOADED = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_reference", "tool_name": "Fetch"}]}
SEARCHED = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "ToolSearch", "input": {}}]}
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s", "cache_control": {"type": "ephemeral"}}
WRONG_MESSAGES: dict[str, tuple[Mapping[str, Any], str]] = {
    "system first": ({"messages": [SYSTEM, SAID, USER]}, "messages.0: role 'system' must follow a 'user'"),
    "system after the model": ({"messages": [USER, SAID, SYSTEM]}, "messages.2: role 'system' must follow"),
    "system before the user": (
        {"messages": [USER, SYSTEM, USER]},
        "messages.1: role 'system' must precede an 'assistant' message or end the array",
    ),
    "two systems": ({"messages": [USER, SYSTEM, SYSTEM]}, "messages.1: role 'system' must precede"),
    "a picture in a system": (
        {"messages": [USER, {"role": "system", "content": [{"type": "image"}]}]},
        "Input tag 'image' found using 'type'",
    ),
    "five breakpoints": (
        {"system": [CACHED], "tools": [{**READ, **CACHED}], "messages": [{"role": "user", "content": [CACHED] * 3}]},
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "a breakpoint on thinking": (
        {"messages": [USER, {"role": "assistant", "content": [THOUGHT, CACHED]}, USER]},
        "messages.1.content.0.thinking.cache_control",
    ),
    "a breakpoint on a deferred tool": (
        {"tools": [{**READ, "defer_loading": True, "cache_control": {"type": "ephemeral"}}], "messages": [USER]},
        "cannot use prompt caching",
    ),
    "tools of one name": ({"tools": [READ, READ], "messages": [USER]}, "Tool names must be unique"),
    "a tool that is not there": (
        {"tools": [READ], "messages": [USER, SEARCHED, {"role": "user", "content": [LOADED]}]},
        "Tool reference 'Fetch' not found",
    ),
}


@pytest.mark.parametrize("name", WRONG_MESSAGES)
def test_messages_that_anthropic_would_refuse(name: str) -> None:
    body, text = WRONG_MESSAGES[name]
    with ScriptedServer([]) as server:
        status, answer = post(server, MESSAGES, {"model": "m", "max_tokens": 9, **body})
    assert (status, text in message_of(answer)) == (400, True), answer


def test_system_messages_in_their_places() -> None:
    asked = [USER, SYSTEM, SEARCHED, {"role": "user", "content": [LOADED, CACHED]}, SYSTEM]
    tools = [READ, {"name": "Fetch", "input_schema": {}, "defer_loading": True}]
    with ScriptedServer([Reply("Hello.")]) as server:
        status, answer = post(server, MESSAGES, {"model": "m", "max_tokens": 9, "tools": tools, "messages": asked})
        assert status == 200, answer
        assert server.requests[0].texts(Kind.SYSTEM) == ("<system-reminder>",) * 2


def look(server: ScriptedServer, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data


def test_what_clients_ask_besides() -> None:
    with ScriptedServer([]) as server:
        status, listed = look(server, "GET", "/v1/models?limit=9")
        assert (status, Model.model_validate(json.loads(listed)["data"][0]).id) == (200, "scripted")
        _, listed = look(server, "GET", "/v1/models", anthropic_version="2023-06-01")
        assert BetaModelInfo.model_validate(json.loads(listed)["data"][0]).id == "scripted"
        assert look(server, "GET", "/v1/models/scripted")[0] == 200
        assert look(server, "HEAD", "/") == (404, b"")
        assert look(server, "GET", "/v1/responses", upgrade="websocket", connection="upgrade")[0] == 426
        assert look(server, "GET", "/v1/responses")[0] == 404
        assert (server.requests, server.refusals) == ((), ())
