"""Tools that a provider runs by itself, in what the scripted server says and takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.testing.support import CHAT, MESSAGES, RESPONSES, post
from wane.core.errors import ConfigError
from wane.testing import Kind, Reply, ScriptedServer, ServedCall

SEARCH, CODE = ServedCall("web_search", "moon", "It waxes."), ServedCall("code_execution", "print(4)", "4")
USER: dict[str, Any] = {"role": "user", "content": "Go."}
GEMINI = "/v1beta/models/gemini-3-pro-preview:generateContent"
ASK: dict[str, dict[str, Any]] = {
    MESSAGES: {"model": "m", "max_tokens": 900, "messages": [USER]},
    RESPONSES: {"model": "m", "input": [USER]},
    CHAT: {"model": "m", "messages": [USER]},
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]},
}
WHOLE: dict[str, Any] = {MESSAGES: BetaMessage, RESPONSES: Response}
EVENTS: dict[str, Any] = {MESSAGES: BetaRawMessageStreamEvent, RESPONSES: ResponseStreamEvent}


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
def test_answers_are_of_the_providers_types(path: str) -> None:
    reply = Reply("So.", reasoning="Hm.", served=(SEARCH, CODE))
    with ScriptedServer([reply, reply]) as server:
        _, whole = post(server, path, ASK[path])
        _, stream = post(server, path, {**ASK[path], "stream": True})
    WHOLE[path].model_validate(whole)
    adapter = TypeAdapter(EVENTS[path])
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")]
    kinds = [json.loads(line)["type"] for line in lines]
    for line, kind in zip(lines, kinds, strict=True):
        if kind != "ping":
            adapter.validate_json(line)
    if path == RESPONSES:
        assert [kind for kind in kinds if "web_search" in kind] == [
            f"response.web_search_call.{step}" for step in ("in_progress", "searching", "completed")
        ]
        assert "response.code_interpreter_call_code.done" in kinds


@pytest.mark.parametrize(
    ("path", "answer", "key"),
    [
        (MESSAGES, lambda said: {"role": "assistant", "content": said["content"]}, "messages"),
        (RESPONSES, lambda said: said["output"], "input"),
        (GEMINI, lambda said: said["candidates"][0]["content"], "contents"),
    ],
)
def test_they_stand_ahead_of_the_text_and_count_in_the_next_request(path: str, answer: Any, key: str) -> None:
    with ScriptedServer([Reply("So.", served=(SEARCH, CODE)), Reply("Well.")]) as server:
        said = answer(post(server, path, ASK[path])[1])
        before = ASK[path][key]
        body = {**ASK[path], key: [*before, *(said if isinstance(said, list) else [said]), *before]}
        assert post(server, path, body)[0] == 200
    _, *answered, _ = server.requests[1].parts
    assert {part.kind for part in answered} == {Kind.TEXT}
    texts = [part.text for part in answered]
    assert "moon" in texts[0]
    assert texts[-1] == "So."
    assert any("print(4)" in text for text in texts[:-1])


def test_a_paused_turn_goes_on_with_the_result() -> None:
    first = Reply("I search.", served=(ServedCall("web_search", "moon", None, "srvtoolu_1"),))
    result = ServedCall("web_search", "moon", "Waxes.", "srvtoolu_1")
    then = Reply("It waxes.", reasoning="Now I know.", served=(result,))
    with ScriptedServer([first, then, Reply("Good.")]) as server:
        _, paused = post(server, MESSAGES, ASK[MESSAGES])
        assert (paused["stop_reason"], paused["content"][0]["id"]) == ("pause_turn", "srvtoolu_1")
        messages = [USER, {"role": "assistant", "content": paused["content"]}]
        _, resumed = post(server, MESSAGES, {**ASK[MESSAGES], "messages": messages})
        assert resumed["stop_reason"] == "end_turn"
        kinds = [block["type"] for block in resumed["content"]]
        assert kinds == ["web_search_tool_result", "thinking", "text"]
        # Another turn cannot begin before the result.
        assert post(server, MESSAGES, {**ASK[MESSAGES], "messages": [*messages, USER]})[0] == 400
        whole = [*messages, {"role": "assistant", "content": resumed["content"]}, USER]
        assert post(server, MESSAGES, {**ASK[MESSAGES], "messages": whole})[0] == 200


@pytest.mark.parametrize(
    ("path", "call", "words"),
    [
        (CHAT, SEARCH, "web_search that the provider runs, which openai-chat does not have"),
        (MESSAGES, ServedCall("file_search", "q"), "file_search that the provider runs, which anthropic does not have"),
        (RESPONSES, ServedCall("web_search", "q", None), "for which openai-responses does not pause"),
        (GEMINI, ServedCall("code_execution", "q", None), "for which gemini does not pause"),
    ],
)
def test_what_a_protocol_does_not_have_is_refused_by_name(path: str, call: ServedCall, words: str) -> None:
    with ScriptedServer([Reply(served=(call,))]) as server:
        assert post(server, path, ASK[path])[0] == 400
    assert words in server.refusals[0].message


def test_a_tool_that_no_provider_runs_is_refused() -> None:
    with pytest.raises(ConfigError, match="web_search, code_execution, file_search, not 'read'"):
        ServedCall("read", "x")  # type: ignore[arg-type]
