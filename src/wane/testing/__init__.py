"""A scripted model server, for tests of agents over the real wire.

It stands in for OpenAI, Anthropic and Google on a free port of the loopback interface: client, protocol, streaming and
errors are the real ones, and only the model is not. It needs no key, no network, and nothing beyond the standard
library:

    from pydantic_ai import Agent
    from wane.testing import Call, Reply, ScriptedServer

    def test_reads_before_it_answers():
        script = [
            Reply(reasoning="Look first.", calls=(Call("read", {"path": "a.py"}),)),
            Reply("It prints 42."),
        ]
        with ScriptedServer(script) as server:
            agent = Agent(server.anthropic_model())

            @agent.tool_plain
            def read(path: str) -> str:
                return "print(42)"

            assert agent.run_sync("What does a.py do?").output == "It prints 42."
            assert list(server.requests[1].results.values()) == ["print(42)"]

`server.openai_model()`, `server.openai_responses_model()`, `server.anthropic_model()` and `server.google_model()` are
Pydantic AI models; any other client connects to `server.url` (with `/v1` for OpenAI). The same script serves all four
protocols.

A script can also be a function, if what the model says depends on what it was sent:

    def script(request: Request) -> Reply:
        return Reply("too much") if request.tokens > 2_000 else Reply(calls=(Call("grep", {"pattern": "x"}),))

**What was sent** is in `server.requests`: a `Request` holds its `messages` as parts of the same kinds as Wane's items
(system, user, text, reasoning, call, result), the `tools`, and the JSON `body` as received.

**What a provider would refuse is refused** with HTTP 400 and the provider's words, and kept in `server.refusals`: a
result without its call, a call without its result, an empty message, a user turn between a call and its result
(Anthropic: anything before the results), reasoning without the item that followed it or that item without its
reasoning (Responses), calls of the latest message without the thinking that led to them (Anthropic), calls of the
current turn without their signature (Gemini 3). A context manager that sends such a view fails its test here instead
of in production. `rules=` adds what stricter servers demand (`wane.testing.rules`), `context_limit=` refuses requests
that are too long, and `preserved_reasoning=True` refuses or drops reasoning whose conversation has changed.

**Failures** are scripted too: `Reply(error=HttpError(529))`, `Reply("late", delay=2)`, `Call("read", '{"path": ')`,
`Reply("half", breaks=Break(after=3))`.

**Usage** is set by the reply (`usage=Usage(input=900, output=20, cache_read=800)`), or counted from the characters as
Wane's `chars` counter does.
"""

from wane.core.items import Kind
from wane.testing.script import Break, Call, HttpError, Reply, Script, ServedCall, Usage
from wane.testing.sent_request import Message, Part, Request
from wane.testing.server import Refusal, ScriptedServer

__all__ = [
    "Break",
    "Call",
    "HttpError",
    "Kind",
    "Message",
    "Part",
    "Refusal",
    "Reply",
    "Request",
    "Script",
    "ScriptedServer",
    "ServedCall",
    "Usage",
]
