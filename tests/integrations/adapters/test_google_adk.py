"""The adapter of Google's Agent Development Kit over its real models, on two wires."""

from __future__ import annotations

import asyncio
import copy
import gc
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.events.event import Event
from google.adk.models import Gemini, LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, JoinNode, Workflow
from google.genai import types

from tests.integrations.adapters.support import breaks, mark, needs, part_texts
from wane.conversation import Conversation
from wane.conversation.events import EpisodeClosed, EpisodeOpened, MessageTaken
from wane.core import Kind
from wane.core.errors import ConfigError, FormatError
from wane.formats import message_format
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.google_adk import ContextLifecycle, GoogleADKFormat
from wane.testing import Call, Reply, ScriptedServer, adapters
from wane.testing.adapters import grep, read
from wane.testing.sent_request import compact

FORMAT = GoogleADKFormat()
QUESTION = "adk_request_confirmation"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "k")


def user_content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def user_content_of(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=[*parts])


def drop(table: str, tool_context: ToolContext) -> dict[str, str]:
    """Drop a table."""
    answer = tool_context.tool_confirmation
    if answer is None:
        tool_context.request_confirmation(hint=f"May I drop {table}?", payload={"reason": ""})
        tool_context.actions.skip_summarization = True  # the run ends, until the person has answered
        return {"status": "waits"}
    assert not answer.confirmed
    return {"error": f"refused: {(answer.payload or {})['reason']}"}


class ADKThread:
    """A session of an app."""

    words = ""
    """What its person says who rejects a call."""

    def __init__(self, agent: Any, adapter: ContextLifecycle, sessions: Any = None) -> None:
        self._agent, self._sessions, self._session = agent, sessions or InMemorySessionService(), "s"
        app = App(name="app", root_agent=agent, plugins=[adapter])
        self._runner = Runner(app=app, session_service=self._sessions, auto_create_session=True)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        return asyncio.run(self._turn(prompt, stream))

    async def _turn(self, prompt: str, stream: bool) -> str:
        events, message = list[Event](), user_content(prompt)
        while message.parts:
            more = await self._run(message, stream)
            events += more
            questions = [call for event in more for call in event.get_function_calls() if call.name == QUESTION]
            message = user_content_of(*(self._refuse(question) for question in questions))
        parts = (events[-1].content.parts if events[-1].content else None) or []
        return "".join(part.text or "" for part in parts if not part.thought)

    async def _run(self, message: types.Content, stream: bool) -> list[Event]:
        config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        running = self._runner.run_async(user_id="u", session_id=self._session, new_message=message, run_config=config)
        events = [event async for event in running]
        assert any(event.partial for event in events) is stream
        return events

    def _refuse(self, question: types.FunctionCall) -> types.Part:
        response = {"confirmed": False, "payload": {"reason": self.words}}
        return types.Part(function_response=types.FunctionResponse(id=question.id, name=QUESTION, response=response))

    def read_stored(self) -> Sequence[message_format.Part]:
        session = asyncio.run(self._sessions.get_session(app_name="app", user_id="u", session_id=self._session))
        parts = [
            (event, part) for event in session.events for part in (event.content.parts if event.content else None) or ()
        ]
        stored = list[message_format.Part]()
        for event, part in parts:
            if call := part.function_call:
                stored.append(
                    message_format.Part(Kind.CALL, call_id=call.id, tool=call.name, arguments=compact(call.args))
                )
            elif answer := part.function_response:
                stored.append(
                    message_format.Part(Kind.RESULT, str((answer.response or {}).get("result")), call_id=answer.id)
                )
            else:
                kind = Kind.USER if event.author == "user" else Kind.REASONING if part.thought else Kind.TEXT
                stored.append(message_format.Part(kind, part.text or ""))
        return stored

    def again(self, adapter: ContextLifecycle) -> ADKThread:
        thread = ADKThread(self._agent, adapter, self._sessions)
        thread._session, thread.words = self._session, self.words
        return thread

    def fork(self) -> ADKThread:
        # The same app, in a session with copies of the events.
        thread = copy.copy(self)
        thread._session = asyncio.run(self._copy_session())
        return thread

    async def _copy_session(self) -> str:
        app: Any = {"app_name": "app", "user_id": "u"}
        session = await self._sessions.get_session(**app, session_id=self._session)
        other = await self._sessions.create_session(**app)
        for event in session.events:
            await self._sessions.append_event(other, event.model_copy(deep=True))
        return str(other.id)


class TestGemini(adapters.AdapterContract):
    """Gemini, whose latest models have ids and signatures."""

    argument = "request"
    cannot = adapters.ONLY_OBJECTS
    serves: Sequence[Any] = ("web_search", "code_execution")

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return ContextLifecycle(**settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> ADKThread:
        return ADKThread(self.agent(url), adapter)

    def reject(self, url: str, adapter: ContextLifecycle, words: str) -> ADKThread:
        agent = self.agent(url)
        agent.tools.append(drop)
        thread = ADKThread(agent, adapter)
        thread.words = words
        return thread

    def delegate(self, url: str, adapter: ContextLifecycle) -> ADKThread:
        agent = self.agent(url)
        helper = agent.model_copy(update={"name": "helper", "description": "Helps with a task."})
        agent.tools.append(AgentTool(helper.model_copy(update={"tools": [read, grep]})))
        return ADKThread(agent, adapter)

    def agent(self, url: str) -> LlmAgent:
        model = Gemini(model="gemini-3-pro-preview", base_url=url)
        return LlmAgent(name="agent", model=model, instruction="Be good.", tools=[read, grep])


@pytest.mark.wide
class TestAnthropic(TestGemini):
    """Messages, with thinking on a budget."""

    cannot = adapters.ANTHROPIC
    reasoning = True
    serves = ()  # this class raises NotImplementedError for such a block

    def agent(self, url: str) -> LlmAgent:
        anthropic = pytest.importorskip("anthropic", reason="needs the package anthropic")
        from google.adk.models.anthropic_llm import AnthropicLlm

        client = anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
        config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=1_024))
        return LlmAgent(
            name="agent",
            model=AnthropicLlm(model="claude-x", client=client),
            instruction="Be good.",
            tools=[read, grep],
            generate_content_config=config,
        )


# What this framework does by itself


def agent_of(server: ScriptedServer, name: str = "agent", **settings: Any) -> LlmAgent:
    model = Gemini(model=settings.pop("model", "gemini-3-pro-preview"), base_url=server.url)
    return LlmAgent(name=name, model=model, **{"tools": [read], **settings})


async def live(agent: Any, plugins: Sequence[BasePlugin], *prompts: str, **settings: Any) -> Any:
    """Run an agent in a session, and return that."""
    app = App(name="app", root_agent=agent, plugins=[*plugins], **settings)
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    for prompt in prompts:
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=user_content(prompt)):
            pass
    return await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")


def looks(*names: str) -> list[Reply]:
    """Of each, a call and an answer."""
    return [
        reply for name in names for reply in (Reply(calls=(Call("read", {"path": name}, name),)), Reply(f"{name}."))
    ]


def test_calls_and_results_without_ids_stay_together() -> None:
    with ScriptedServer(adapters.script()) as server:
        agent = agent_of(server, model="gemini-2.5-flash", tools=[read, grep])
        asyncio.run(live(agent, [ContextLifecycle(adapters.BUDGET)], *map(adapters.prompt_of, range(adapters.TURNS))))
    assert not server.refusals
    last = server.requests[-1]
    assert len(last.texts(Kind.CALL)) == len(last.texts(Kind.RESULT))
    assert all(" of " in call_id for call_id in last.results), "the server made these ids"
    assert adapters.content_of("a0") not in last.texts(Kind.RESULT)
    assert adapters.content_of("d3") in last.texts(Kind.RESULT)


def test_another_agents_work_is_a_notice_and_each_has_a_window() -> None:
    replies = [
        Reply(calls=(mark("d1"),)),
        Reply(calls=(Call("transfer_to_agent", {"agent_name": "b"}, "t1"),)),
        Reply(calls=(mark("d2"), Call("read", {"path": "b1"}, "b1"), Call("read", {"path": "b2"}, "b2"))),
        Reply(calls=(Call("transfer_to_agent", {"agent_name": "a"}, "t2"),)),
        Reply(calls=(Call("read", {"path": "a1"}, "a1"), Call("read", {"path": "a2"}, "a2"))),
        Reply(calls=(mark("d3", action="end", description="Seen."),)),
        Reply("Done."),
    ]
    events: list[Any] = []
    with ScriptedServer(replies) as server:
        agent = agent_of(server, "a", sub_agents=[agent_of(server, "b", description="B.")])
        session = asyncio.run(live(agent, [ContextLifecycle(5_000, on_event=events.append)], "Go."))
    assert not server.refusals
    assert server.requests[3].results["d2"].startswith("Started")
    kinds = {item.kind for event in events if isinstance(event, MessageTaken) for item in event.items}
    assert Kind.NOTICE in kinds
    # What b had read is told to a as the user's text, and goes with the work that it belongs to.
    texts = ["\n".join(request.texts(Kind.USER)) for request in server.requests]
    assert "b1, line 1," in texts[4]
    assert "b1, line 1," not in texts[-1]
    assert "Go." in texts[-1]
    assert {key for key in session.state if key.startswith("wane")} == {"wane:::a", "wane:::b"}


def test_the_steps_of_a_workflow_and_a_sub_agent_as_a_tool_are_episodes() -> None:
    """R18: without a word to the model."""
    help_ = Call("helper", {"request": "Help."}, "h1")
    replies = [*looks("a1"), Reply(calls=(help_,)), Reply("Helped."), *looks("b1")]
    events: list[Any] = []
    with ScriptedServer(replies) as server:
        fix = agent_of(server, "fix", tools=[read, AgentTool(agent_of(server, "helper", description="Helps."))])
        plugin = ContextLifecycle(annotate="host", steps="expl", subagents={"helper": "expl"}, on_event=events.append)
        asyncio.run(live(SequentialAgent(name="all", sub_agents=[agent_of(server, "find"), fix]), [plugin], "Go."))
    assert not server.refusals
    assert all("delimiter" not in request.tools for request in server.requests)
    marked = [event.episode for event in events if isinstance(event, EpisodeClosed) and event.episode.host]
    assert [episode.name for episode in marked] == ["find", "helper"]
    assert str(marked[1].description).endswith("Helped.")
    assert marked[0].tokens > 0  # ahead of its first answer, an agent is told of the step before it (R15)
    with pytest.raises(ConfigError, match="annotate='host'"):
        ContextLifecycle(steps="expl")


def run_workflow(server: ScriptedServer, edges: list[Any], steps: str, *prompts: str) -> list[str]:
    """Run a `Workflow` whose steps are marked; return which episodes and tasks began and ended, with what stays."""
    lines: list[str] = []

    def note(event: object) -> None:
        if isinstance(event, EpisodeOpened) and event.episode.host:
            lines.append(f"+{event.episode.name}")
        elif isinstance(event, EpisodeClosed) and event.episode.host:
            lines.append(f"-{event.episode.name}: {event.episode.description}")

    plugin = ContextLifecycle(annotate="host", steps=steps, on_event=note)
    asyncio.run(live(Workflow(name="all", edges=edges), [plugin], *prompts))
    assert not server.refusals
    assert all("delimiter" not in request.tools for request in server.requests)
    return lines


@pytest.mark.parametrize("steps", ["expl", "act", "task"])
def test_each_run_of_a_node_of_a_workflow_is_an_episode_of_its_own_window(steps: str) -> None:
    """R18: a node sees its input and its own run, so that there is nothing else to mark."""
    runs = 0

    def again(node_input: str) -> Event:
        nonlocal runs
        runs += 1
        return Event(output=node_input, route="again" if runs < 2 else "done")

    def done(node_input: str) -> str:
        return node_input

    with ScriptedServer(looks("a1", "b1", "a2", "b2")) as server:
        find, fix = agent_of(server, "find"), agent_of(server, "fix")
        edges = [(START, find, fix, again), (again, {"again": find, "done": done})]
        assert run_workflow(server, edges, steps, "Go.") == ["+find", "+fix", "+find", "+fix"]
    prompts = [request.texts(Kind.USER) for request in server.requests[::2]]
    assert prompts == [("Go.",), ("a1.",), ("b1.",), ("a2.",)]


def test_parallel_nodes_of_a_workflow_are_an_episode_each() -> None:
    def answer(request: Any) -> Reply:
        return Reply(f"{request.texts(Kind.USER)[-1]} Fine.") if request.results else looks("a")[0]

    with ScriptedServer(answer) as server:
        branches = (agent_of(server, "code"), agent_of(server, "tests"))
        edges = [(START, branches, JoinNode(name="both"), agent_of(server, "end"))]
        assert sorted(run_workflow(server, edges, "expl", "Go.")) == ["+code", "+end", "+tests"]
    (prompt,) = server.requests[-1].texts(Kind.USER)
    assert prompt.count("Go. Fine.") == 2


def test_a_node_that_chats_sees_its_earlier_runs_as_episodes() -> None:
    """The answer of a run comes with the next request, to another process if need be, and belongs to its own run."""
    with ScriptedServer(looks("a1", "a2")) as server:
        edges = [(START, agent_of(server, "find", mode="chat"))]
        assert run_workflow(server, edges, "expl", "Go.", "On.") == ["+find", "-find: a1.", "+find 2"]


def test_instructions_that_come_with_each_request_are_no_part_of_the_history() -> None:
    def prompts(*plugins: BasePlugin) -> list[tuple[str, ...]]:
        with ScriptedServer(looks("a", "b")) as server:
            agent = agent_of(server, static_instruction="Be good.", instruction="Today is {day?}Monday.")
            asyncio.run(live(agent, plugins, "Go.", "Again."))
        assert not server.refusals
        return [request.texts(Kind.USER) for request in server.requests]

    events: list[Any] = []
    managed = prompts(ContextLifecycle(on_event=events.append))
    assert not breaks(events)
    assert managed == prompts()
    assert any("Today is Monday." in text for text in managed[-1])


class Changes(BasePlugin):
    """Calls a function with each request."""

    def __init__(self, change: Any) -> None:
        super().__init__("changes")
        self._change = change

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        if (waiting := self._change(llm_request)) is not None:
            await waiting


def test_a_picture_that_is_part_of_one_request_only_counts_by_an_estimate() -> None:
    def attach(request: LlmRequest) -> None:  # as the kit's tool for artifacts does
        picture = types.Part.from_bytes(data=b"x" * 40_000, mime_type="image/png")
        request.contents.append(types.Content(role="user", parts=[types.Part(text="Artifact a:"), picture]))

    overheads = []
    for plugins in ([], [Changes(attach)]):
        with ScriptedServer([Reply("Done.")]) as server:
            session = asyncio.run(live(agent_of(server), [*plugins, ContextLifecycle()], "Go."))
        overheads.append(session.state["wane:::agent"]["state"]["fixed"])
    assert NON_TEXT_TOKENS < overheads[1] - overheads[0] < NON_TEXT_TOKENS + 10


def test_it_stands_aside_where_the_provider_keeps_the_conversation() -> None:
    def chain(request: LlmRequest) -> None:
        request.previous_interaction_id = "i1"

    with ScriptedServer([Reply("Done.")]) as server, pytest.warns(UserWarning, match="use_interactions_api"):
        asyncio.run(live(agent_of(server, tools=[]), [Changes(chain), ContextLifecycle()], "Go."))
    assert server.requests[0].tools == ()


@pytest.mark.parametrize("where", ["app", "plugin"])
def test_a_compaction_beside_it_is_told(where: str) -> None:
    plugins, settings = [ContextFilterPlugin()] if where == "plugin" else [], dict[str, Any]()
    if where == "app":
        settings["events_compaction_config"] = EventsCompactionConfig(compaction_interval=9, overlap_size=1)
    with (
        ScriptedServer([Reply("Done.")]) as server,
        pytest.warns(UserWarning, match="events_compaction_config and ContextFilterPlugin"),
    ):
        asyncio.run(live(agent_of(server), [*plugins, ContextLifecycle()], "Go.", **settings))


def marks() -> Iterator[Reply]:
    """Two runs, which start the same exploration."""
    for n in (1, 2):
        yield Reply(calls=(mark(f"d{n}"),))
        yield Reply("Done.")


def test_an_agent_that_is_shown_only_its_own_run_begins_anew() -> None:
    with ScriptedServer(marks()) as server, warnings.catch_warnings(action="error", category=UserWarning):
        asyncio.run(live(agent_of(server, include_contents="none"), [ContextLifecycle()], "Go.", "Again."))
    assert server.requests[-1].results["d2"].startswith("Started")


def test_a_run_that_was_rewound_is_forgotten() -> None:
    async def rewound(agent: Any) -> None:
        app = App(name="app", root_agent=agent, plugins=[ContextLifecycle()])
        runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
        events = [e async for e in runner.run_async(user_id="u", session_id="s", new_message=user_content("Go."))]
        await runner.rewind_async(user_id="u", session_id="s", rewind_before_invocation_id=events[0].invocation_id)
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=user_content("Go.")):
            pass

    with ScriptedServer(marks()) as server:
        asyncio.run(rewound(agent_of(server)))
    assert server.requests[-1].results.keys() == {"d2"}
    assert server.requests[-1].results["d2"].startswith("Started")


def meeting(runs: int, agent: Any, lifecycle: ContextLifecycle) -> tuple[Runner, asyncio.Barrier]:
    """What runs an agent, so that the first requests of all runs wait for each other."""
    barrier = asyncio.Barrier(runs)

    def meet(request: LlmRequest) -> Any:
        parts = request.contents[-1].parts or [types.Part()]
        return barrier.wait() if (parts[-1].text or "").startswith("Go") else None

    app = App(name="app", root_agent=agent, plugins=[lifecycle, Changes(meet)])
    return Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True), barrier


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(("runs", "sessions"), [(2, 1), (80, 80)])
def test_runs_at_once_know_nothing_of_each_other(runs: int, sessions: int, begun: bool) -> None:
    def answer(request: Any) -> Reply:
        if request.texts(Kind.USER)[-1] == "Begin.":
            return Reply("Ready.")
        return Reply("Done.") if request.results else Reply(calls=(mark("d1"),))

    async def meet(agent: Any) -> None:
        runner, _ = meeting(runs, agent, ContextLifecycle(on_event=events.append))

        async def run(session: int, prompt: str) -> None:
            async for _ in runner.run_async(user_id="u", session_id=str(session), new_message=user_content(prompt)):
                pass

        for session in range(sessions if begun else 0):
            await run(session, "Begin.")
        await asyncio.gather(*(run(number % sessions, f"Go {number}.") for number in range(runs)))

    events: list[Any] = []
    with ScriptedServer(answer) as server:
        asyncio.run(meet(agent_of(server)))
    results = [text for request in server.requests for text in request.results.values()]
    assert len(results) == runs
    assert all('Started exploration "look"' in text for text in results)
    assert not breaks(events)


def conversations() -> int:
    gc.collect()
    gc.collect()  # the first one collected a run
    return sum(isinstance(entry, Conversation) for entry in gc.get_objects())


def test_a_run_that_is_cancelled_leaves_no_conversation() -> None:
    async def cancel_run(agent: Any) -> None:
        runner, barrier = meeting(2, agent, lifecycle)
        events = runner.run_async(user_id="u", session_id="s", new_message=user_content("Go."))
        running = asyncio.ensure_future(anext(events))
        while not barrier.n_waiting:
            await asyncio.sleep(0)
        assert conversations() == known + 1
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    lifecycle = ContextLifecycle()
    known = conversations()
    with ScriptedServer([]) as server:
        asyncio.run(cancel_run(agent_of(server)))
    assert conversations() == known


# The contents, part by part


def call(name: str, *, seal: bytes | None = None, **args: object) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args), thought_signature=seal)


def response(name: str, **given: object) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response=given))


def model_content(*parts: types.Part) -> types.Content:
    return types.Content(role="model", parts=list(parts))


def user(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


def test_calls_without_ids_pair_with_their_results() -> None:
    calls = FORMAT.parts(
        model_content(types.Part(text="I look."), call("read", path="a"), call("grep"), call("read", path="b"))
    )
    results = FORMAT.parts(user(response("read", result="A"), response("grep", found=1), response("read", result="B")))
    assert [part.call_id for part in calls[1:]] == [part.call_id for part in results]
    assert len({part.call_id for part in results}) == 3
    assert [part.text for part in results] == ["A", '{"found":1}', "B"]
    assert calls[1].arguments == '{"path":"a"}'


CODE = types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON))
RAN = types.Part(
    code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1"),
)
THOUGHT = types.Part(text="Hm.", thought=True, thought_signature=b"x")
TEXT = types.Part(text="I look.")


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        ([TEXT, call("a", seal=b"x"), call("b"), call("c")], [(), (), (-1,), (-2,)]),
        ([THOUGHT, TEXT, call("a"), call("b")], [(1,), (), (-2,), (-3,)]),
        ([CODE, RAN, TEXT], [(1,), (-1,), ()]),
    ],
    ids=["signature of the first call", "signed thought", "what the provider ran"],
)
def test_what_stays_together(parts: list[types.Part], needed: list[tuple[int, ...]]) -> None:
    assert needs(FORMAT, model_content(*parts)) == needed


def test_what_stands_in_the_users_place() -> None:
    context = "For context: below is a transcript of what another agent did, quoted between A and B."
    blob = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    kinds = [
        [part.kind for part in FORMAT.parts(content)]
        for content in (
            user(types.Part(text="Go."), blob),
            user(types.Part(text=context), types.Part(text="[b] said: x")),
            user(types.Part(text="<system-reminder>Mind it.</system-reminder>")),
            user(types.Part(text="")),
            types.Content(role="user", parts=[]),
        )
    ]
    assert kinds == [[Kind.USER] * 2, [Kind.NOTICE] * 2, [Kind.NOTICE], [Kind.USER], [Kind.USER]]


def test_what_wane_writes() -> None:
    content = model_content(TEXT, types.Part(text=""), call("a", seal=b"x"))
    kept = FORMAT.keep(content, [1])
    assert kept.parts is not None
    assert kept.parts[0] is (content.parts or [])[2]
    assert part_texts(FORMAT, FORMAT.clear_result(user(response("a", result="x")), 0, "gone")) == [
        (Kind.RESULT, "gone")
    ]
    (part,) = FORMAT.parts(FORMAT.result(content, 1, "There."))
    assert (part.kind, part.text, part.call_id) == (Kind.RESULT, "There.", FORMAT.parts(content)[1].call_id)


def test_what_is_no_content_is_refused() -> None:
    with pytest.raises(FormatError, match="found dict"):
        FORMAT.parts({"role": "user"})  # type: ignore[arg-type]
