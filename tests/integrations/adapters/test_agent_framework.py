"""The adapter of Microsoft Agent Framework over its real chat clients."""

from __future__ import annotations

import asyncio
import copy
import json
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import pytest

pytest.importorskip("agent_framework_openai", reason="needs the extra agent-framework, and agent-framework-openai")

from agent_framework import (
    Agent,
    AgentSession,
    ChatContext,
    CompactionProvider,
    Content,
    ContextProvider,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    SessionContext,
    SlidingWindowStrategy,
)
from agent_framework.exceptions import ChatClientException
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from tests.integrations.adapters.support import LOOK, breaks, mark, needs, part_texts
from wane.core import Kind
from wane.core.errors import FormatError
from wane.formats.message_format import Part
from wane.integrations.agent_framework import AgentFrameworkFormat, ContextLifecycle
from wane.testing import Call, Reply, Request, ScriptedServer, adapters
from wane.testing.adapters import grep, read

FORMAT = AgentFrameworkFormat()


class AgentFrameworkThread:
    """A session of an agent."""

    def __init__(self, make: Any, options: dict[str, Any], adapter: ContextLifecycle, saved: Any = None) -> None:
        self._make, self._options = make, options
        self._agent = self.agent("agent", adapter, read, grep)
        self._session = self._agent.create_session() if saved is None else AgentSession.from_dict(saved)

    def agent(self, name: str, adapter: ContextLifecycle, *tools: Any) -> Agent:
        given: dict[str, Any] = {"context_providers": [adapter], "default_options": self._options}
        return Agent(self._make(), "Be good.", name=name, description="Helps with a task.", tools=[*tools], **given)

    def delegating(self, adapter: ContextLifecycle) -> AgentFrameworkThread:
        helper = self.agent("helper", adapter, read, grep)
        self._agent = self.agent("agent", adapter, read, grep, helper.as_tool())
        return self

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        return asyncio.run(self._turn(prompt, stream))

    async def _turn(self, prompt: str, stream: bool) -> str:
        if not stream:
            return (await self._agent.run(prompt, session=self._session)).messages[-1].text
        running = self._agent.run(prompt, session=self._session, stream=True)
        updates = [update async for update in running]
        assert len(updates) > 1
        return (await running.get_final_response()).messages[-1].text

    def read_stored(self) -> Sequence[Part]:
        messages = self._session.state["in_memory"]["messages"]
        return [part for message in messages for part in FORMAT.parts(message)]

    def again(self, adapter: ContextLifecycle) -> AgentFrameworkThread:
        saved = json.loads(json.dumps(self._session.to_dict()))
        return AgentFrameworkThread(self._make, self._options, adapter, saved)

    def fork(self) -> AgentFrameworkThread:
        # The same agent, in a copy of its session.
        thread = copy.copy(self)
        thread._session = AgentSession.from_dict(json.loads(json.dumps(self._session.to_dict())))
        return thread


@pytest.mark.full
class TestChatCompletions(adapters.AdapterContract):
    """Chat Completions."""

    client: Any = OpenAIChatCompletionClient
    options: ClassVar[dict[str, Any]] = {}

    def model(self, url: str) -> Any:
        return self.client(model="gpt-x", api_key="k", base_url=f"{url}/v1")

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> AgentFrameworkThread:
        return AgentFrameworkThread(lambda: self.model(url), self.options, adapter)

    def delegate(self, url: str, adapter: ContextLifecycle) -> AgentFrameworkThread:
        return self.begin(url, adapter).delegating(adapter)


@pytest.mark.wide
class TestResponses(TestChatCompletions):
    """Responses, stored by nobody but the session."""

    client = OpenAIChatClient
    options: ClassVar = {"store": False}


@pytest.mark.wide
class TestAnthropic(TestChatCompletions):
    """Messages, with thinking on a budget."""

    cannot = adapters.ANTHROPIC
    reasoning = True
    options: ClassVar = {"max_tokens": 5_000, "thinking": {"type": "enabled", "budget_tokens": 1_024}}

    def model(self, url: str) -> Any:
        anthropic = pytest.importorskip(
            "agent_framework_anthropic", reason="agent-framework-anthropic wants anthropic below 2"
        )
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
        return anthropic.AnthropicClient(model="claude-x", anthropic_client=client)


def agent(server: ScriptedServer, *providers: Any, client: Any = OpenAIChatCompletionClient, **settings: Any) -> Agent:
    model = client(model="gpt-x", api_key="k", base_url=f"{server.url}/v1")
    return Agent(model, "Be good.", context_providers=providers, **{"tools": [read], **settings})


def live(replies: Any, given: Sequence[Any], *providers: Any, **settings: Any) -> ScriptedServer:
    """Run an agent in one session with each of the given inputs, and return the server that it asked."""

    async def run(asked: Agent) -> None:
        session = asked.create_session()
        for each in given:
            await asked.run(each, session=session)

    with ScriptedServer(replies) as server:
        asyncio.run(run(agent(server, *providers, **settings)))
    assert not server.refusals
    return server


def test_a_sub_agent_in_the_same_session_has_a_window_of_its_own() -> None:
    replies = [
        Reply(calls=(mark("d1"), Call("helper", {"task": "Help."}, "h1"))),
        Reply(calls=(mark("d2"),)),
        Reply("Helped."),
        Reply("Done."),
    ]
    with ScriptedServer(replies) as server:
        lifecycle = ContextLifecycle()
        helper = agent(server, lifecycle, name="helper", description="Helps.").as_tool(propagate_session=True)
        parent = agent(server, lifecycle, name="parent", tools=[helper])
        asyncio.run(parent.run("Go.", session=parent.create_session()))
    assert not server.refusals
    assert server.requests[2].results["d2"].startswith("Started")
    assert server.requests[3].results["d1"].startswith("Started")


def test_a_mark_is_answered_after_an_approval_in_another_process() -> None:
    careful = FunctionTool(name="careful", func=read, approval_mode="always_require")
    calls = (mark("d1"), Call("careful", {"path": "a"}, "c1"))

    async def live(server: ScriptedServer) -> None:
        first = agent(server, ContextLifecycle(), tools=[careful])
        session = first.create_session()
        asked = await first.run("Go.", session=session)
        assert len(server.requests) == 1
        again = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
        second = agent(server, ContextLifecycle(), tools=[careful])
        answers = [Message("user", [each.to_function_approval_response(True)]) for each in asked.user_input_requests]
        assert (await second.run(answers, session=again)).text.endswith("Done.")

    with ScriptedServer([Reply(calls=calls), Reply("Done.")]) as server:
        asyncio.run(live(server))
    assert not server.refusals
    assert server.requests[1].results["d1"].startswith("Started")
    assert server.requests[1].results["c1"] == adapters.content_of("a")


def test_it_stands_aside_where_the_service_stores_the_conversation() -> None:
    with ScriptedServer([Reply("One."), Reply("Two.")]) as server:
        asked = agent(server, ContextLifecycle(), client=OpenAIChatClient)
        with pytest.warns(UserWarning, match=r'options=\{"store": False\}') as warned:
            asyncio.run(asked.run("Go."))
        with warnings.catch_warnings(action="error", category=UserWarning):
            asyncio.run(asked.run("Go."))
    assert len(warned) == 1
    assert server.requests[0].tools == ("read",)


def test_it_stands_aside_where_the_history_is_loaded_within_each_call() -> None:
    replies = [Reply(calls=(Call("read", {"path": "a"}, "r1"),)), Reply("Done.")]
    providers = (InMemoryHistoryProvider(), ContextLifecycle())
    with pytest.warns(UserWarning, match="require_per_service_call_history_persistence"):
        server = live(replies, ["Go."], *providers, require_per_service_call_history_persistence=True)
    assert server.requests[1].results == {"r1": adapters.content_of("a")}


@pytest.mark.parametrize("where", ["agent", "provider"])
def test_a_compaction_beside_it_is_told(where: str) -> None:
    strategy = SlidingWindowStrategy(keep_last_groups=20)
    providers = [CompactionProvider(before_strategy=strategy)] if where == "provider" else []
    settings = {"compaction_strategy": strategy} if where == "agent" else {}
    with pytest.warns(UserWarning, match="compaction_strategy"):
        live([Reply("Done.")], ["Go."], *providers, ContextLifecycle(), **settings)


class Memories(ContextProvider):
    """Looks something up for each run."""

    def __init__(self) -> None:
        super().__init__("memories")
        self.runs = 0

    async def before_run(self, *, context: SessionContext, **_: Any) -> None:
        self.runs += 1
        context.extend_messages(self, [Message("user", [f"Memory {self.runs}."])])


def test_what_another_provider_adds_to_a_run_is_no_part_of_the_history() -> None:
    def prompts(*providers: Any) -> list[tuple[str, ...]]:
        replies = [Reply("I look.", calls=(Call("read", {"path": "a"}, "r"),)), Reply("Done.")] * 2
        server = live(replies, ["Go.", "Again."], Memories(), *providers)
        return [request.texts(Kind.USER) for request in server.requests]

    taken: list[Any] = []
    assert prompts(ContextLifecycle(on_event=taken.append)) == prompts()
    assert not breaks(taken)


def test_reasoning_of_a_run_goes_with_what_followed_it() -> None:
    calls = [
        call
        for n in range(6)
        for call in (
            mark(f"s{n}", **{**LOOK, "name": f"look-{n}"}),
            Call("read", {"path": f"a{n}"}, f"r{n}"),
            mark(f"e{n}", action="end", name=f"look-{n}", description="Seen."),
        )
    ]
    replies = [Reply(reasoning="It is best to go on. " * 9, calls=(call,)) for call in calls]
    settings: dict[str, Any] = {"client": OpenAIChatClient, "default_options": {"store": False}}
    server = live([*replies, Reply("Done.", reasoning="So.")], ["Go."], ContextLifecycle(4_000), **settings)
    assert max(request.tokens for request in server.requests) <= 4_000
    assert "r0" not in server.requests[-1].results
    assert server.requests[-1].texts(Kind.REASONING)


class Within(ContextProvider):
    """Calls a function with each request, after what the providers before it have done to it."""

    def __init__(self, function: Callable[[ChatContext], Awaitable[None]]) -> None:
        super().__init__("within")
        self._function = function

    async def before_run(self, *, context: SessionContext, **_: Any) -> None:
        async def ask(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
            await self._function(context)
            await call_next()

        context.extend_middleware(self.source_id, [ask])


@pytest.mark.parametrize("begun", [True, False])
def test_runs_at_once_know_nothing_of_each_other(begun: bool) -> None:
    def answer(request: Request) -> Reply:
        if request.texts(Kind.USER)[-1] == "Begin.":
            return Reply("Ready.")
        return Reply("Done.") if request.results else Reply(calls=(mark(f"d{request.number}"),))

    async def live(server: ScriptedServer) -> None:
        both = asyncio.Barrier(2)

        async def meet(context: ChatContext) -> None:
            if context.messages[-1].text.startswith("Go"):
                await both.wait()

        asked = agent(server, ContextLifecycle(on_event=taken.append), Within(meet))
        session = asked.create_session()
        if begun:
            await asked.run("Begin.", session=session)
        await asyncio.gather(*(asked.run(f"Go {number}.", session=session) for number in range(2)))

    taken: list[Any] = []
    with ScriptedServer(answer) as server:
        asyncio.run(live(server))
    results = [text for request in server.requests for text in request.results.values()]
    assert [text[:7] for text in results] == ["Started"] * 2
    assert not breaks(taken)


def test_a_run_that_failed_leaves_the_state_that_fits_the_stored_history() -> None:
    async def live(server: ScriptedServer) -> None:
        asked = agent(server, ContextLifecycle())
        session = asked.create_session()
        await asked.run("Go.", session=session)
        stored = json.dumps(session.to_dict())
        with pytest.raises(ChatClientException):
            await asked.run("Fail.", session=session)
        assert json.dumps(session.to_dict()) == stored

    with ScriptedServer([Reply("Done."), Reply(calls=(mark("d1"),))]) as server:
        asyncio.run(live(server))


ORPHAN = Message("tool", [Content.from_function_result(call_id="gone", result="x")])


def test_a_request_with_a_history_that_cannot_be_managed_is_sent_as_it_is() -> None:
    def send_orphan(*providers: Any) -> Any:
        with ScriptedServer([]) as server, pytest.raises(ChatClientException):
            asyncio.run(agent(server, *providers).run([ORPHAN, Message("user", ["Go."])]))
        request = server.refusals[0].request
        assert request is not None
        return request.body

    with pytest.warns(UserWarning, match="'gone'"):
        managed = send_orphan(ContextLifecycle())
    assert managed == send_orphan()


def test_a_call_that_was_not_offered_is_not_to_be_made_again() -> None:
    async def repair(context: ChatContext) -> None:
        context.messages = [each for each in context.messages if each.contents[0].call_id != "gone"]

    given = [[ORPHAN, Message("user", ["Go."])]]
    with pytest.warns(UserWarning, match="'gone'"):
        server = live([Reply(calls=(mark("d1"),)), Reply("Done.")], given, ContextLifecycle(), Within(repair))
    assert "Do not call it again" in server.requests[1].results["d1"]


# The messages, part by part


def call(call_id: str) -> Content:
    return Content.from_function_call(call_id, "read", arguments='{"path": ')


def test_an_answer_comes_apart_and_keeps_its_raw_arguments() -> None:
    thought = Content.from_text_reasoning(text="Hm.")
    message = Message("assistant", [thought, "I look.", call("c1"), Content.from_usage({"input_token_count": 1})])
    parts = FORMAT.parts(message)
    assert [part.kind for part in parts] == [Kind.REASONING, Kind.TEXT, Kind.CALL]
    assert parts[2].arguments == '{"path": '
    assert [part.needs for part in parts] == [(), (-1,), (-2,)]
    kept = FORMAT.keep(message, [1])
    assert kept.text == "I look."
    assert len(kept.contents) == 1
    assert len(message.contents) == 4


RAN = Content.from_mcp_server_tool_call("m1", "search", server_name="s", arguments={"q": "x"})
FOUND = Content.from_mcp_server_tool_result("m1", output=[Content.from_text("Found.")])


def sealed_reasoning(**fields: str) -> Content:
    return Content.from_text_reasoning(protected_data="x", **fields)


@pytest.mark.parametrize(
    ("contents", "needed"),
    [
        # By OpenAI's ids, what follows needs the reasoning as well; by a signature, only calls do.
        ([sealed_reasoning(id="rs_1", text="Hm."), "I look.", call("c1")], [(1,), (-1,), (-2,)]),
        ([sealed_reasoning(text="Hm."), "I look.", call("c1")], [(1,), (), (-2,)]),
        # Chat Completions has it behind the calls.
        ([call("c1"), sealed_reasoning()], [(1,), ()]),
        # What the provider ran is text.
        ([RAN, FOUND, "Done.", call("c1")], [(1,), (-1,), (), ()]),
    ],
    ids=["id", "signature", "behind", "ran"],
)
def test_what_stays_together(contents: list[Any], needed: list[tuple[int, ...]]) -> None:
    assert needs(FORMAT, Message("assistant", contents)) == needed


REMINDER = "<system-reminder>Mind it.</system-reminder>"
PICTURE = Content.from_uri("https://example.org/a.png", media_type="image/png")


@pytest.mark.parametrize(
    ("role", "contents", "expected"),
    [
        ("user", ["Go.", PICTURE], [(Kind.USER, "Go."), (Kind.USER, "")]),
        ("user", [REMINDER], [(Kind.NOTICE, REMINDER)]),
        ("user", [], [(Kind.USER, "")]),
        ("system", ["Be good."], [(Kind.SYSTEM, "Be good.")]),
        ("tool", [Content.from_function_result(call_id="c1", result="x")], [(Kind.RESULT, "x")]),
    ],
    ids=["user", "notice", "nothing", "system", "result"],
)
def test_what_turns_and_results_become(role: str, contents: list[Any], expected: list[tuple[Kind, str]]) -> None:
    assert part_texts(FORMAT, Message(role, contents)) == expected


def test_what_wane_writes() -> None:
    result = FORMAT.result(Message("assistant", ["I look.", call("c1")]), 1, "There.")
    (part,) = FORMAT.parts(result)
    assert (part.kind, part.text, part.call_id) == (Kind.RESULT, "There.", "c1")
    assert part_texts(FORMAT, FORMAT.clear_result(result, 0, "gone")) == [(Kind.RESULT, "gone")]
    assert FORMAT.parts(result)[0].text == "There."


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(FormatError, match="found dict"):
        FORMAT.parts({"role": "user"})  # type: ignore[arg-type]
