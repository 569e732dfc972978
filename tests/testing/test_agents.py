"""The server under real clients: Pydantic AI with OpenAI's and Anthropic's own."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import ModelHTTPError

from tests.testing.support import every_protocol, model_of, reader, run, streamed_or_not
from wane.testing import Call, HttpError, Kind, Reply, Request, ScriptedServer, Usage

READ = Call("read", {"path": "ä.py"})
TALK = [
    Reply("Reading both.", reasoning="Look first, then speak.", calls=(READ, Call("read", {"path": "b.py"}))),
    Reply("It prints 42.", reasoning="Now I know."),
]


@pytest.mark.quick(3)
@every_protocol
@streamed_or_not
def test_a_conversation(protocol: str, stream: bool) -> None:
    with ScriptedServer(TALK, preserved_reasoning=True) as server:
        result = asyncio.run(run(reader(model_of(server, protocol)), "What do they do?", stream))
        first, second = server.requests
        assert (server.remaining, server.refusals) == (0, ())
    assert result.output == "It prints 42."
    assert first.system == "Be brief."
    assert (first.number, first.stream, first.tools) == (0, stream, ("read",))
    assert [part.kind for part in first.parts] == [Kind.SYSTEM, Kind.USER]
    kinds = ["system", "user", "reasoning", "text", "call", "call", "result", "result"]
    assert [part.kind.value for part in second.parts] == kinds
    assert second.texts(Kind.REASONING) == ("Look first, then speak.",)
    assert second.texts(Kind.TEXT) == ("Reading both.",)
    assert [part.text for part in second.parts if part.tool == "read"] == ['{"path":"ä.py"}', '{"path":"b.py"}']
    assert list(second.results.values()) == ["<ä.py>", "<b.py>"]
    assert second.dropped_reasoning == ()
    assert not {"authorization", "x-api-key"} & set(second.headers)


@every_protocol
@streamed_or_not
def test_usage_as_scripted(protocol: str, stream: bool) -> None:
    script = [Reply("Hello.", usage=Usage(input=900, output=20, cache_read=700, cache_write=150))]
    with ScriptedServer(script) as server:
        usage = asyncio.run(run(reader(model_of(server, protocol)), "Hi", stream)).usage
    assert (usage.input_tokens, usage.output_tokens) == (900, 20)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (700, 150)


@pytest.mark.quick(6)
@every_protocol
@streamed_or_not
@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", '"x"', "nonsense"])
def test_malformed_arguments_reach_the_client(protocol: str, stream: bool, arguments: str) -> None:
    with ScriptedServer([Reply(calls=(Call("read", arguments),)), Reply("Sorry.")]) as server:
        result = asyncio.run(run(reader(model_of(server, protocol)), "Go", stream))
        assert len(server.requests[1].results) == 1
    assert result.output == "Sorry."


@every_protocol
@streamed_or_not
def test_errors_are_the_providers(protocol: str, stream: bool) -> None:
    with ScriptedServer([Reply(error=HttpError(529, "Overloaded."))]) as server:
        with pytest.raises(ModelHTTPError, match=r"Overloaded\.") as caught:
            asyncio.run(run(reader(model_of(server, protocol)), "Hi", stream))
        assert len(server.requests) == 1
    assert caught.value.status_code == 529


def test_a_client_that_retries_gets_the_next_reply() -> None:
    script = [Reply(error=HttpError(429, headers={"retry-after-ms": "1"})), Reply("Hello.")]
    with ScriptedServer(script) as server:
        assert reader(server.openai_model(max_retries=1)).run_sync("Hi").output == "Hello."


@every_protocol
def test_the_script_runs_out(protocol: str) -> None:
    with ScriptedServer([Reply("Hello.", delay=0.01)]) as server:
        agent = reader(model_of(server, protocol))
        agent.run_sync("Hi")
        with pytest.raises(ModelHTTPError, match="had 1 replies, and this is request number 2") as caught:
            agent.run_sync("Hi again")
        assert (len(server.requests), len(server.refusals)) == (1, 1)
    assert caught.value.status_code == 400


@every_protocol
def test_a_function_as_script(protocol: str) -> None:
    def script(request: Request) -> Reply:
        assert len(server.requests) == request.number
        return Reply(", ".join(request.results.values())) if request.results else Reply(calls=(READ,))

    with ScriptedServer(script) as server:
        assert reader(model_of(server, protocol)).run_sync("Go").output == "<ä.py>"
        assert server.remaining is None


def test_an_assertion_in_a_script_fails_the_test() -> None:
    def script(request: Request) -> Reply:
        assert request.system == "something else"
        return Reply("never")

    with (
        pytest.raises(AssertionError, match="something else"),
        ScriptedServer(script) as server,
        pytest.raises(ModelHTTPError, match="script raised AssertionError"),
    ):
        reader(server.openai_model()).run_sync("Hi")

    with pytest.raises(ModelHTTPError) as caught, ScriptedServer(script) as server:
        reader(server.openai_model()).run_sync("Hi")
    assert any("AssertionError" in note for note in caught.value.__notes__)


@every_protocol
def test_a_full_context_window(protocol: str) -> None:
    with ScriptedServer(lambda _: Reply("Hello."), context_limit=500) as server:
        agent = reader(model_of(server, protocol))
        agent.run_sync("short")
        with pytest.raises(ModelHTTPError, match=r"too long|maximum context length"):
            agent.run_sync("long " * 500)


def test_many_at_once() -> None:
    async def ask(server: ScriptedServer) -> list[str]:
        agent = reader(server.openai_model())
        return [result.output for result in await asyncio.gather(*(agent.run("Hi") for _ in range(40)))]

    with ScriptedServer(lambda request: Reply(str(request.number))) as server:
        outputs = asyncio.run(ask(server))
        assert [request.number for request in server.requests] == list(range(40))
    assert sorted(map(int, outputs)) == list(range(40))
