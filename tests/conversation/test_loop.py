"""A loop of one's own over the real wire: every request within the budget, and none that a strict provider refuses."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from tests.marks import cross_quick, first_quick
from wane import Kind, Policy
from wane.conversation import Call as Asked
from wane.conversation import Conversation, Request
from wane.core.errors import ConfigError
from wane.testing import Call, Reply, ScriptedServer, Usage
from wane.testing import Request as Sent
from wane.testing.anthropic.anthropic_rules import blocks_of

openai = pytest.importorskip("openai", reason="the openai extra is not installed")
anthropic = pytest.importorskip("anthropic", reason="the anthropic extra is not installed")

# Anthropic's client warns when it writes out a call whose arguments are no JSON, as some here are.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")

TURNS = 5


def delimiter(**arguments: Any) -> Call:
    return Call("delimiter", arguments)


def script(*, broken: bool = True) -> Iterator[Reply]:
    """Turns of an exploration and an act each, with reasoning, parallel calls, and calls that are refused.

    Args:
        broken: whether the model writes a call that is no JSON, which Gemini never gives away.
    """
    malformed = (Call("delimiter", '{"action": '),) if broken else ()
    for n in range(TURNS):
        yield Reply(
            "Looking.",
            reasoning=f"I do not know {n} yet.",
            calls=(delimiter(action="start", name=f"look-{n}", type="expl"), Call("read", {"path": f"{n}.py"})),
        )
        yield Reply(
            reasoning="More.",
            calls=(
                Call("grep", {"pattern": f"needle-{n}"}),
                delimiter(action="start", name=f"look-{n}", type="expl"),
                *malformed,
            ),
        )
        yield Reply(
            calls=(
                delimiter(action="end", description=f"{n}.py is a file"),
                delimiter(action="start", name=f"fix-{n}", type="act", dependencies=[f"look-{n}"]),
                Call("edit", {"path": f"{n}.py"}),
            )
        )
        yield Reply(calls=(delimiter(action="end"),))
        if n == TURNS - 1:
            yield Reply(calls=(Call("recall", {"search": "needle-0:"}),))
        yield Reply(f"Done {n}.")


class Chat:
    """Over Chat Completions."""

    format = "openai"
    broken = True

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def ask(self, request: Request[Any], tools: list[Any], instructions: str) -> tuple[Any, int]:
        system = {"role": "system", "content": instructions}
        reply = self.client.chat.completions.create(model="m", messages=[system, *request.messages], tools=tools)
        return reply.choices[0].message.model_dump(exclude_none=True), reply.usage.prompt_tokens


class Responses(Chat):
    """Over Responses, without state on the server."""

    format = "openai_responses"

    def ask(self, request: Request[Any], tools: list[Any], instructions: str) -> tuple[Any, int]:
        reply = self.client.responses.create(
            model="m", input=request.messages, tools=tools, instructions=instructions, store=False
        )
        return [item.model_dump(exclude_none=True) for item in reply.output], reply.usage.input_tokens


class Messages(Chat):
    """Over Anthropic's Messages."""

    format = "anthropic"
    more: ClassVar[dict[str, Any]] = {}

    def __init__(self, url: str) -> None:
        self.client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)

    def ask(self, request: Request[Any], tools: list[Any], instructions: str) -> tuple[Any, int]:
        reply = self.client.messages.create(
            model="m", max_tokens=5_000, system=instructions, messages=request.messages, tools=tools, **self.more
        )
        usage = reply.usage
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        return reply.model_dump(include={"role", "content"}, exclude_none=True), usage.input_tokens + cached


class Thinking(Messages):
    """With a budget for thinking, so that each turn of the model must begin with it."""

    more: ClassVar[dict[str, Any]] = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}


class Gemini(Chat):
    """Over Gemini's protocol, by Google's SDK."""

    format = "gemini"
    broken = False
    model = "gemini-3.1-pro-preview"

    def __init__(self, url: str) -> None:
        genai = pytest.importorskip("google.genai", reason="the google extra is not installed")
        self.client = genai.Client(api_key="k", http_options={"base_url": url, "retry_options": {"attempts": 1}})

    def user(self, text: str) -> Any:
        return {"role": "user", "parts": [{"text": text}]}

    def ask(self, request: Request[Any], tools: list[Any], instructions: str) -> tuple[Any, int]:
        config = {"system_instruction": instructions, "tools": tools, "thinking_config": {"include_thoughts": True}}
        reply = self.client.models.generate_content(model=self.model, contents=request.messages, config=config)
        return reply, reply.usage_metadata.prompt_token_count


class OldGemini(Gemini):
    """With a model that names and signs no calls."""

    model = "gemini-2.5-flash"


def run(call: Asked[Any]) -> str:
    what = json.loads(call.arguments).get("pattern", "line")
    return "\n".join(f"{what}: {n}" for n in range(60))


def mine(conversation: Conversation[Any]) -> list[Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "pattern": {"type": "string"}}}
    return [conversation.format.tool(name, name, schema) for name in ("read", "grep", "edit")]  # type: ignore[attr-defined]


def turn(client: Chat, conversation: Conversation[Any], text: str) -> None:
    conversation.append(client.user(text))
    while not conversation.ended:
        request = conversation.request()
        answer, tokens = client.ask(request, [*conversation.tools, *mine(conversation)], conversation.instructions)
        for call in conversation.append(answer, input_tokens=tokens):
            conversation.append(call.result(run(call)))


def script_with_usage(replies: Iterator[Reply]) -> Callable[[Sent], Reply]:
    """A script whose usage is not what characters tell, with a part read from a cache."""

    def answer(request: Sent) -> Reply:
        reply = next(replies)
        usage = Usage(round(1.3 * request.tokens) + 50, reply.tokens, cache_read=request.tokens // 2)
        return Reply(reply.text, reasoning=reply.reasoning, calls=reply.calls, usage=usage)

    return answer


@pytest.mark.quick(1)
@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("kind", "policy"),
    cross_quick((Chat, Responses, Messages, Thinking, Gemini, OldGemini), (Policy(), Policy.paper())),
)
def test_a_long_task_stays_within_the_budget_and_is_never_refused(kind: type[Chat], policy: Policy) -> None:
    with ScriptedServer(script_with_usage(script(broken=kind.broken))) as server:
        client = kind(server.url)
        opens = kind is Thinking
        conversation = Conversation(client.format, budget=3_300, policy=policy, recall=True, keep_opening=opens)
        for n in range(TURNS):
            turn(client, conversation, f"Please do number {n}.")
        requests = server.requests
    assert server.refusals == ()
    assert server.remaining is None
    assert all(round(1.3 * request.tokens) + 50 <= 3_300 for request in requests[4:])
    assert max(request.tokens for request in requests) > 2_000
    # A Chat request joins turns between which all answers have left (R12b).
    turns = "\n\n".join(requests[-1].texts(Kind.USER)).split("\n\n")
    assert turns[:TURNS] == [f"Please do number {n}." for n in range(TURNS)]
    early = [result for result in requests[1].results.values() if "line: 59" in result]
    assert early
    assert not any("line: 59" in result for result in list(requests[-1].results.values())[:2])
    (found,) = (text for text in requests[-1].results.values() if text.startswith('"needle-0:" was found in'))
    assert 'in episode "look-0", not in view' in found
    assert "needle-0: 59" in conversation.recall("look-0", 1_600)
    refused = [text for text in requests[2].results.values() if text.startswith("Error")]
    assert len(refused) == 1 + kind.broken


@pytest.mark.parametrize("kind", first_quick(Messages, Chat, Responses, Gemini))
def test_it_goes_on_in_a_new_process(kind: type[Chat]) -> None:
    def views(restart: bool) -> list[Any]:
        with ScriptedServer(script_with_usage(script(broken=kind.broken))) as server:
            client = kind(server.url)
            conversation = Conversation(client.format, budget=3_300, recall=True)
            for n in range(TURNS):
                turn(client, conversation, f"Please do number {n}.")
                if restart:
                    state, history = json.loads(json.dumps([conversation.state(), conversation.messages]))
                    conversation = Conversation(client.format, budget=3_300, recall=True)
                    assert conversation.restore(state, history)
            assert server.refusals == ()
            return [request.messages for request in server.requests]

    assert views(restart=True) == views(restart=False)


def test_two_conversations_know_nothing_of_each_other() -> None:
    """A sub-agent has one of its own, and may use the same names."""
    replies = [
        Reply(calls=(delimiter(action="start", name="look", type="expl"), Call("grep", {"pattern": "x"}))),
        Reply(calls=(delimiter(action="start", name="look", type="expl"),)),
        Reply("The helper is done."),
        Reply(calls=(delimiter(action="end", description="x is found"),)),
        Reply("Done."),
    ]
    with ScriptedServer(replies) as server:
        client = Chat(server.url)
        parent, child = Conversation(), Conversation()
        parent.append(client.user("Go."))
        request = parent.request()
        answer, _ = client.ask(request, [*parent.tools, *mine(parent)], "")
        (call,) = parent.append(answer)
        turn(client, child, "Help.")
        parent.append(call.result(child.messages[-1]["content"]))
        while not parent.ended:
            answer, _ = client.ask(parent.request(), parent.tools, "")
            parent.append(answer)
    assert server.refusals == ()
    assert [episode.name for episode in (*parent.episodes, *child.episodes) if episode.name] == ["look", "look"]
    assert all(request.results == {} or "Error" not in str(request.results) for request in server.requests)


def marks_in(request: Sent) -> list[tuple[int, int]]:
    """The places of a request's breakpoints: number of the message, and position of the block."""
    return [
        (number, position)
        for number, message in enumerate(request.body["messages"])
        for position, block in enumerate(blocks_of(message["content"]))
        if "cache_control" in block
    ]


def prefix(request: Sent, end: tuple[int, int]) -> str:
    """All of a request's messages up to a block, as the provider caches them."""
    blocks = [
        {**block, "cache_control": None}
        for number, message in enumerate(request.body["messages"])
        for position, block in enumerate(blocks_of(message["content"]))
        if (number, position) <= end
    ]
    return json.dumps(blocks)


def test_breakpoints_stand_at_the_end_and_behind_what_no_pass_may_take() -> None:
    mark = {"type": "ephemeral"}
    with ScriptedServer(script_with_usage(script())) as server:
        client = Messages(server.url)
        conversation = Conversation("anthropic", budget=3_300, recall=True, cache_control=mark)
        for n in range(TURNS):
            turn(client, conversation, f"Please do number {n}. " + "As I said. " * 20)
        requests = server.requests
    assert server.refusals == ()
    heads = []
    for before, request in itertools.pairwise(requests):
        *head, end = marks_in(request)
        assert end[0] == len(request.body["messages"]) - 1
        if head:
            # What the breakpoint ends was in the request before, whatever a pass has taken since.
            assert prefix(request, head[0]) == prefix(before, head[0])
            heads.append(head[0])
    assert marks_in(requests[0]) == [(0, 0)]
    assert len(heads) > TURNS
    assert not any("cache_control" in str(message) for message in conversation.messages)


def test_only_messages_of_anthropic_have_breakpoints() -> None:
    with pytest.raises(ConfigError, match="cache_control is for Anthropic's messages, and these are in openai"):
        Conversation(cache_control={"type": "ephemeral"})
