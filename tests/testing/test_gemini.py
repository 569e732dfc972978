"""Gemini's protocol of the scripted server: what Google's SDK reads of it, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from wane.core.items import Kind
from wane.formats.gemini import UNCHECKED
from wane.testing import Break, Call, HttpError, Reply, Request, ScriptedServer, Usage
from wane.testing.gemini import signature

genai = pytest.importorskip("google.genai", reason="the google extra is not installed")
errors = pytest.importorskip("google.genai.errors", reason="the google extra is not installed")

NEW, OLD = "gemini-3.1-pro-preview", "gemini-2.5-flash"
FULL = Reply("Text.", reasoning="Thought.", calls=(Call("read", {"path": "a"}), Call("read", {})))
TOOLS = [{"function_declarations": [{"name": "read", "parameters_json_schema": {"type": "object"}}]}]


def client(server: ScriptedServer) -> Any:
    return genai.Client(api_key="k", http_options={"base_url": server.url, "retry_options": {"attempts": 1}})


def post(server: ScriptedServer, verb: str, body: Any, model: str = NEW) -> tuple[int, Any]:
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
    connection.request("POST", f"/v1beta/models/{model}:{verb}", json.dumps(body))
    answer = connection.getresponse()
    raw = answer.read()
    return answer.status, json.loads(raw)


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def call(name: str = "read", seal: str = UNCHECKED[0], **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **fields}, **({"thoughtSignature": seal} if seal else {})}


def response(name: str = "read", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "r"}, **fields}}


# What it says


@pytest.mark.parametrize("streams", [False, True])
def test_googles_sdk_reads_every_part_of_an_answer(streams: bool) -> None:
    usage = Usage(100, 20, cache_read=60)
    reply = Reply(FULL.text, reasoning=FULL.reasoning, calls=FULL.calls, usage=usage)
    config = {"thinking_config": {"include_thoughts": True}, "tools": TOOLS, "system_instruction": "Be brief."}
    with ScriptedServer([reply]) as server:
        google = client(server)
        models = google.models
        if streams:
            chunks = list(models.generate_content_stream(model=NEW, contents="Go.", config=config))
        else:
            chunks = [models.generate_content(model=NEW, contents="Go.", config=config)]
        (request,) = server.requests
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    assert "".join(part.text for part in parts if part.thought) == "Thought."
    assert "".join(part.text for part in parts if part.text and not part.thought) == "Text."
    first, second = [part for part in parts if part.function_call]
    assert (first.function_call.args, second.function_call.args) == ({"path": "a"}, {})
    assert first.function_call.id != second.function_call.id
    assert first.thought_signature
    assert not second.thought_signature
    counts = chunks[-1].usage_metadata
    assert (counts.prompt_token_count, counts.cached_content_token_count) == (100, 60)
    assert (counts.candidates_token_count, counts.thoughts_token_count) == (18, 2)
    assert {chunk.model_version for chunk in chunks} == {NEW}
    assert (request.api, request.model, request.stream, request.tools) == ("gemini", NEW, streams, ("read",))
    assert (request.system, request.texts(Kind.USER)) == ("Be brief.", ("Go.",))
    assert "x-goog-api-key" not in request.headers


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("name", [NEW, OLD])
def test_a_chat_of_the_sdk_goes_on_with_what_it_was_given(name: str, streams: bool) -> None:
    """Signatures, and calls with or without ids, come back as they were."""
    ran: list[str] = []

    def read(path: str = "") -> str:
        """Read a file."""
        ran.append(path)
        return f"of {path}"

    script = [Reply(calls=(Call("read", {"path": "a"}), Call("read", {"path": "b"}))), Reply("Done."), Reply("Bye.")]
    with ScriptedServer(script) as server:
        google = client(server)
        chat = google.chats.create(model=name, config={"tools": [read]})
        if streams:
            assert "".join(chunk.text or "" for chunk in chat.send_message_stream("Go.")) == "Done."
        else:
            assert chat.send_message("Go.").text == "Done."
        assert chat.send_message("And?").text == "Bye."
        assert server.refusals == ()
        last = server.requests[-1]
    assert ran == ["a", "b"]
    calls = [part for part in last.parts if part.kind is Kind.CALL]
    assert [last.results[part.call_id or ""] for part in calls] == ["of a", "of b"]
    assert [bool(part.signature) for part in calls] == [name == NEW, False]


def test_a_stream_that_is_no_event_stream_is_an_array() -> None:
    with ScriptedServer([FULL]) as server:
        status, chunks = post(server, "streamGenerateContent", {"contents": [user("Go.")]})
    assert status == 200
    assert [chunk["candidates"][0].get("finishReason") for chunk in chunks] == [None] * (len(chunks) - 1) + ["STOP"]
    assert len(chunks) == 6


def test_calls_that_are_no_json_never_leave_it() -> None:
    with ScriptedServer([Reply("So.", calls=(Call("read", '{"path": '),))]) as server:
        _, answer = post(server, "generateContent", {"contents": [user("Go.")]})
    assert answer["candidates"] == [
        {"content": {"role": "model"}, "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}
    ]


def test_tokens_are_counted_plain_and_of_a_whole_request() -> None:
    with ScriptedServer([]) as server:
        google = client(server)
        assert google.models.count_tokens(model=NEW, contents="x" * 400).total_tokens == 100
        inner = {
            "model": f"models/{NEW}",
            "contents": [user("x" * 400)],
            "systemInstruction": {"parts": [{"text": "yyyy"}]},
        }
        assert post(server, "countTokens", {"generateContentRequest": inner}) == (200, {"totalTokens": 101})


def test_models_are_listed() -> None:
    with ScriptedServer([]) as server:
        google = client(server)
        assert [each.name for each in google.models.list()] == ["models/scripted"]
        assert google.models.get(model="scripted").input_token_limit == 1_000_000


def test_errors_have_googles_form() -> None:
    replies = [
        Reply(error=HttpError(429, "Slow down.")),
        Reply(error=HttpError(503)),
        Reply("x", breaks=Break(1, "error")),
    ]
    with ScriptedServer(replies) as server:
        google = client(server)
        for code, status in ((429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE")):
            with pytest.raises(errors.APIError) as caught:
                google.models.generate_content(model=NEW, contents="Go.")
            assert (caught.value.code, caught.value.status) == (code, status)
        with pytest.raises(errors.APIError):
            list(google.models.generate_content_stream(model=NEW, contents="Go."))
    with ScriptedServer([], context_limit=10) as server:
        status, answer = post(server, "generateContent", {"contents": [user("x" * 400)]})
        assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
        assert answer["error"]["message"].startswith("The input token count (100) exceeds")


def test_a_pydantic_ai_model_speaks_it() -> None:
    from pydantic_ai import Agent

    def script(request: Request) -> Reply:
        return Reply(f"It says {list(request.results.values())}.") if request.results else FULL

    with ScriptedServer(script) as server:
        agent = Agent(server.google_model(NEW))

        @agent.tool_plain
        def read(path: str = "") -> str:
            return f"of {path}"

        assert agent.run_sync("Go.").output == "It says ['of a', 'of ']."
        assert server.refusals == ()


# What it refuses

GO = user("Go.")
PAIRS = "number of function response parts is equal to the number of function call parts"
UNSIGNED = "Function call is missing a thought_signature in functionCall parts. .* function call `default_api:read` "
DATA = r"\.data: required oneof field 'data' must have one initialized field"

REFUSED: list[tuple[Any, str]] = [
    ([], "contents is not specified"),
    ([{"role": "system", "parts": [{"text": "x"}]}], "valid role: user, model"),
    ([{"role": "assistant", "parts": [{"text": "x"}]}], "valid role: user, model"),
    ([GO, model(), GO], r"contents\[1\]\.parts: contents\.parts must not be empty"),
    ([user({})], r"contents\[0\]\.parts\[0\]" + DATA),
    ([user({"text": "x", "inlineData": {"data": ""}})], r"oneof field 'data' is already set\. Cannot set 'text'"),
    ([GO, model("So.")], "ends with a user role or a function response"),
    ([GO, model(call()), GO], PAIRS),
    ([GO, model(call(), call(seal="")), user(response())], PAIRS),
    ([GO, model(call()), user(response(), response())], PAIRS),
    ([GO, model(call()), user(response()), user(response())], PAIRS),
    ([GO, user(response())], "response turn comes immediately after a function call turn"),
    ([model(call()), user(response())], "call turn comes immediately after a user turn"),
    ([GO, model(call(seal="")), user(response())], UNSIGNED + ", position 2"),
    ([GO, model(call()), user(response()), model(call(seal="")), user(response(), "On.")], UNSIGNED + ", position 4"),
    ([GO, model(call(seal="") | {"thoughtSignature": signature(call("grep"))}), user(response())], "Corrupted thought"),
    ([user({"text": "x", "hologram": 1})], r"Unknown name \"hologram\" at 'contents\[0\]\.parts\[0\]': Cannot find"),
    ([GO | {"name": "x"}], r"Unknown name \"name\" at 'contents\[0\]'"),
    ([GO, model(call(type="function")), user(response())], r"parts\[0\]\.function_call': Cannot find field"),
    ([GO, model(call(name="")), user(response())], r"function_call\.name: Name cannot be empty"),
    ([GO, model(call()), user(response(name=""))], r"function_response\.name: Name cannot be empty"),
    (
        [GO, model(call(args="{")), user(response())],
        r"function_call\.args' \(type\.googleapis\.com/google\.protobuf\.Struct",
    ),
]


@pytest.mark.parametrize(("contents", "match"), REFUSED)
def test_what_gemini_refuses_is_refused_in_its_words(contents: Any, match: str) -> None:
    with ScriptedServer([Reply("Hi.")]) as server:
        status, answer = post(server, "generateContent", {"contents": contents})
        error = answer["error"]
        assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
        assert re.search(match, error["message"])
        assert (len(server.refusals), server.remaining) == (1, 1)


TAKEN: list[Any] = [
    [{"parts": [{"text": "Go."}]}],
    [GO, model("So."), GO],
    [GO, GO],
    [GO, model("So"), model("."), model(call()), model(""), user(response())],
    [GO, model(call(), call("grep", seal="")), user(response("grep"), response(), "On.")],
    # An earlier turn is not checked.
    [GO, model(call(seal="")), user(response()), model("So."), GO],
    [user({"inlineData": {"mimeType": "image/png", "data": "eA=="}})],
    [GO, model({"text": "", "thoughtSignature": "x"}), GO],
]


@pytest.mark.parametrize("contents", TAKEN)
def test_what_gemini_takes_is_taken(contents: Any) -> None:
    with ScriptedServer([Reply("Hi.")]) as server:
        assert post(server, "generateContent", {"contents": contents})[0] == 200


def test_older_models_sign_nothing_and_ask_for_no_signature() -> None:
    contents = [GO, model(call(seal="")), user(response())]
    with ScriptedServer([FULL]) as server:
        _, answer = post(server, "generateContent", {"contents": contents}, OLD)
    parts = answer["candidates"][0]["content"]["parts"]
    assert parts == [{"text": "Text."}, *({"functionCall": {"name": "read", "args": a}} for a in ({"path": "a"}, {}))]


def test_fields_of_the_body_and_of_tools_are_checked() -> None:
    def tools(*declarations: Any) -> dict[str, Any]:
        return {"tools": [{"functionDeclarations": [*declarations]}]}

    declared = {"name": "read", "description": "x"}
    with ScriptedServer([]) as server:
        for more, told in (
            ({"hologram": 1}, 'Unknown name "hologram": Cannot find field.'),
            ({"tools": [{"functions": []}]}, "Unknown name \"functions\" at 'tools[0]'"),
            (
                {"tools": [{"functionDeclarations": [{**declared, "strict": True}]}]},
                "tools[0].function_declarations[0]",
            ),
            ({"tools": [{"functionDeclarations": [declared, declared]}]}, "Duplicate function declaration found: read"),
        ):
            status, answer = post(server, "generateContent", {"contents": [GO], **more})
            assert status == 400
            assert told in answer["error"]["message"]
