"""The adapter of Google's Agent Development Kit: over a scripted model by Gemini's rules, and over Anthropic's wire."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.events.event import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import START, JoinNode, Workflow
from google.genai import types

from wane.conversation import Conversation
from wane.conversation.events import EpisodeClosed, EpisodeOpened, HistoryForked, HistoryReplaced, MessageTaken
from wane.core import Kind
from wane.core.errors import ConfigError
from wane.formats import base
from wane.formats.openai import NON_TEXT_TOKENS
from wane.integrations.google_adk import ContextLifecycle
from wane.testing import Call, Refusal, Reply, Request, adapters
from wane.testing.adapters import grep, read
from wane.testing.request import Message, Part, compact

SEAL = b"sealed"


@dataclass
class Gemini:
    """What a scripted model was sent, and what Gemini would not have taken."""

    replies: Iterator[Reply]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    sent: list[LlmRequest] = field(default_factory=list)

    def answer(self, sent: LlmRequest) -> types.Content | None:
        self.sent.append(sent)
        request, fault = self.parsed(sent)
        self.requests.append(request)
        if fault:
            self.refusals.append(Refusal(fault, 400, request))
            return None
        return content_of(next(self.replies))

    def parsed(self, sent: LlmRequest) -> tuple[Request, str]:
        """A request as it was sent, and what is wrong with it."""
        messages = [Message("system", (Part(Kind.SYSTEM, str(sent.config.system_instruction)),))]
        faults, waiting = [], list[Part]()
        for content in sent.contents:
            parts, calls = [], list[Part]()
            for part in content.parts or []:
                if part.function_call:
                    assert part.part_metadata is not None
                    call_id, name = part.part_metadata["id"], part.function_call.name
                    parts.append(Part(Kind.CALL, compact(part.function_call.args), call_id, name))
                    if not calls and part.thought_signature != SEAL:
                        faults.append(f"the call {call_id} has no thought_signature")
                    if part.function_call.id is not None:
                        faults.append(f"the call {call_id} has the id {part.function_call.id}")
                    calls.append(parts[-1])
                elif part.function_response:
                    call = waiting.pop(0) if waiting else Part(Kind.CALL, "")
                    if call.tool != part.function_response.name:
                        faults.append(f"a response of {part.function_response.name} follows a call of {call.tool}")
                    text = str((part.function_response.response or {}).get("result"))
                    parts.append(Part(Kind.RESULT, text, call.call_id))
                else:
                    kind = (Kind.REASONING if part.thought else Kind.TEXT) if content.role == "model" else Kind.USER
                    parts.append(Part(kind, part.text or ""))
            if waiting:
                faults.append(f"{len(waiting)} calls have no response")
            waiting = calls
            messages.append(Message("assistant" if content.role == "model" else "user", tuple(parts)))
        tools = [tool.model_dump_json(exclude_none=True) for tool in sent.config.tools or []]
        request = Request(
            number=len(self.requests),
            api="openai-chat",
            model="gemini-x",
            messages=tuple(messages),
            tools=tuple(sent.tools_dict),
            tool_tokens=-(-len("".join(tools)) // 4),
            stream=False,
            body={},
            raw=b"",
            headers={},
        )
        return request, "; ".join(faults)


def content_of(reply: Reply) -> types.Content:
    """What Gemini says: without ids of calls, a signature on the first one."""
    parts = [types.Part(text=reply.text)] if reply.text else []
    for number, call in enumerate(reply.calls):
        made = types.FunctionCall(name=call.tool, args=dict(call.arguments))  # type: ignore[arg-type]
        parts.append(
            types.Part(function_call=made, part_metadata={"id": call.id}, thought_signature=None if number else SEAL)
        )
    return types.Content(role="model", parts=parts)


class ScriptedLlm(BaseLlm):
    """A model of the kit that asks `Gemini`."""

    gemini: Any

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        content = self.gemini.answer(llm_request)
        if content is None:
            yield LlmResponse(error_code="400", error_message=self.gemini.refusals[-1].message)
            return
        if stream:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="…")]), partial=True)
        held = self.gemini.requests[-1].tokens
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=held, cached_content_token_count=held // 2
        )
        yield LlmResponse(content=content, usage_metadata=usage)


class ADKThread:
    """A session of an app."""

    def __init__(self, agent: Any, settings: dict[str, Any], sessions: Any = None) -> None:
        self._agent, self._settings = agent, settings
        self._sessions = sessions or InMemorySessionService()
        app = App(name="app", root_agent=agent, plugins=[ContextLifecycle(**settings)])
        self._runner = Runner(app=app, session_service=self._sessions, auto_create_session=True)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        return asyncio.run(self._turn(prompt, stream))

    async def _turn(self, prompt: str, stream: bool) -> str:
        mode = StreamingMode.SSE if stream else StreamingMode.NONE
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        running = self._runner.run_async(
            user_id="u", session_id="s", new_message=message, run_config=RunConfig(streaming_mode=mode)
        )
        events = [event async for event in running]
        assert any(event.partial for event in events) is stream
        parts = events[-1].content.parts if events[-1].content else []
        return "".join(part.text or "" for part in parts if not part.thought)

    def session(self) -> Any:
        return asyncio.run(self._sessions.get_session(app_name="app", user_id="u", session_id="s"))

    def stored(self) -> Sequence[base.Part]:
        found, ids = list[base.Part](), dict[str | None, str | None]()
        for event in self.session().events:
            parts = event.content.parts if event.content else None
            for part in parts or []:
                if call := part.function_call:
                    ids[call.id] = (part.part_metadata or {}).get("id", call.id)
                    arguments = compact(call.args)
                    found.append(base.Part(Kind.CALL, call_id=ids[call.id], tool=call.name, arguments=arguments))
                elif answer := part.function_response:
                    text = str((answer.response or {}).get("result"))
                    found.append(base.Part(Kind.RESULT, text, call_id=ids[answer.id]))
                else:
                    kind = Kind.USER if event.author == "user" else Kind.REASONING if part.thought else Kind.TEXT
                    found.append(base.Part(kind, part.text or ""))
        return found

    def again(self) -> ADKThread:
        return ADKThread(self._agent, self._settings, self._sessions)


class TestGemini(adapters.AdapterContract):
    """By the rules of Gemini, which has no ids."""

    argument = "request"
    cannot = adapters.ONLY_OBJECTS

    @contextmanager
    def serving(self, replies: Iterator[Reply]) -> Iterator[Gemini]:
        self.gemini = Gemini(replies)
        yield self.gemini

    def begin(self, url: str, **settings: Any) -> ADKThread:
        return ADKThread(self.agent(url), settings)

    def delegate(self, url: str, **settings: Any) -> ADKThread:
        agent = self.agent(url)
        helper = agent.model_copy(update={"name": "helper", "description": "Helps with a task."})
        agent.tools.append(AgentTool(helper.model_copy(update={"tools": [read, grep]})))
        return ADKThread(agent, settings)

    def agent(self, url: str) -> LlmAgent:
        model = ScriptedLlm(model="gemini-x", gemini=self.gemini)
        return LlmAgent(name="agent", model=model, instruction="Be good.", tools=[read, grep])


@pytest.mark.wide
class TestAnthropic(TestGemini):
    """Messages, with thinking on a budget."""

    reasoning = True
    serving = adapters.AdapterContract.serving

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


async def live(app: App, *prompts: str) -> Any:
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    for prompt in prompts:
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
    return await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")


def scripted(*replies: Reply) -> ScriptedLlm:
    return ScriptedLlm(model="gemini-x", gemini=Gemini(iter(replies)))


def mark(id_: str, **arguments: Any) -> Call:
    return Call("delimiter", arguments, id_)


LOOK = {"action": "start", "name": "look", "type": "expl"}


def test_another_agents_work_is_a_notice_and_each_has_a_window() -> None:
    model = scripted(
        Reply(calls=(mark("d1", **LOOK),)),
        Reply(calls=(Call("transfer_to_agent", {"agent_name": "b"}, "t1"),)),
        Reply(calls=(mark("d2", **LOOK), Call("read", {"path": "b1"}, "b1"), Call("read", {"path": "b2"}, "b2"))),
        Reply(calls=(Call("transfer_to_agent", {"agent_name": "a"}, "t2"),)),
        Reply(calls=(Call("read", {"path": "a1"}, "a1"), Call("read", {"path": "a2"}, "a2"))),
        Reply(calls=(mark("d3", action="end", description="Seen."),)),
        Reply("Done."),
    )
    taken: list[Any] = []
    b = LlmAgent(name="b", description="B.", model=model, tools=[read])
    a = LlmAgent(name="a", model=model, tools=[read], sub_agents=[b])
    plugin = ContextLifecycle(5_000, on_event=taken.append)
    session = asyncio.run(live(App(name="app", root_agent=a, plugins=[plugin]), "Go."))
    requests = model.gemini.requests
    assert not model.gemini.refusals
    assert requests[3].results["d2"].startswith("Started")
    kinds = {item.kind for event in taken if isinstance(event, MessageTaken) for item in event.items}
    assert Kind.NOTICE in kinds
    # What b had read is told to a as the user's text, and goes with the work that it belongs to.
    told = ["\n".join(request.texts(Kind.USER)) for request in requests]
    assert "b1, line 1," in told[4]
    assert "b1, line 1," not in told[-1]
    assert "Go." in told[-1]
    assert {key for key in session.state if key.startswith("wane")} == {"wane:::a", "wane:::b"}


def test_the_steps_of_a_workflow_and_a_sub_agent_as_a_tool_are_episodes() -> None:
    """R18: without a word to the model."""
    model = scripted(
        Reply(calls=(Call("read", {"path": "a1"}, "a1"),)),
        Reply("Both files are fine."),
        Reply(calls=(Call("helper", {"request": "Help."}, "h1"),)),
        Reply("Helped."),
        Reply(calls=(Call("read", {"path": "b1"}, "b1"),)),
        Reply("Done."),
    )
    events: list[Any] = []
    helper = LlmAgent(name="helper", description="Helps.", model=model)
    find = LlmAgent(name="find", model=model, tools=[read])
    fix = LlmAgent(name="fix", model=model, tools=[read, AgentTool(helper)])
    plugin = ContextLifecycle(annotate="host", steps="expl", subagents={"helper": "expl"}, on_event=events.append)
    workflow = SequentialAgent(name="all", sub_agents=[find, fix])
    asyncio.run(live(App(name="app", root_agent=workflow, plugins=[plugin]), "Go."))
    assert not model.gemini.refusals
    assert all("delimiter" not in request.tools for request in model.gemini.requests)
    marked = [event.episode for event in events if isinstance(event, EpisodeClosed) and event.episode.host]
    assert [episode.name for episode in marked] == ["find", "helper"]
    assert str(marked[1].description).endswith("Helped.")
    assert marked[0].tokens > 0  # ahead of its first answer, an agent is told of the step before it (R15)
    with pytest.raises(ConfigError, match="annotate='host'"):
        ContextLifecycle(steps="expl")


def node(name: str, model: ScriptedLlm, **settings: Any) -> LlmAgent:
    return LlmAgent(name=name, model=model, tools=[read], **settings)


def run_workflow(model: ScriptedLlm, edges: list[Any], steps: str, *prompts: str) -> list[str]:
    """Run a `Workflow` whose steps are marked; return which episodes and tasks began and ended, with what stays."""
    lines: list[str] = []

    def note(event: object) -> None:
        if isinstance(event, EpisodeOpened) and event.episode.host:
            lines.append(f"+{event.episode.name}")
        elif isinstance(event, EpisodeClosed) and event.episode.host:
            lines.append(f"-{event.episode.name}: {event.episode.description}")

    plugin = ContextLifecycle(annotate="host", steps=steps, on_event=note)
    asyncio.run(live(App(name="app", root_agent=Workflow(name="all", edges=edges), plugins=[plugin]), *prompts))
    assert not model.gemini.refusals
    assert all("delimiter" not in request.tools for request in model.gemini.requests)
    return lines


def looks(*names: str) -> list[Reply]:
    """Of each, a call and an answer."""
    return [
        reply for name in names for reply in (Reply(calls=(Call("read", {"path": name}, name),)), Reply(f"{name}."))
    ]


@pytest.mark.parametrize("steps", ["expl", "act", "task"])
def test_each_run_of_a_node_of_a_workflow_is_an_episode_of_its_own_window(steps: str) -> None:
    """R18: a node sees its input and its own run, so that there is nothing else to mark."""
    model, runs = scripted(*looks("a1", "b1", "a2", "b2")), 0

    def again(node_input: str) -> Event:
        nonlocal runs
        runs += 1
        return Event(output=node_input, route="again" if runs < 2 else "done")

    def done(node_input: str) -> str:
        return node_input

    find, fix = node("find", model), node("fix", model)
    lines = run_workflow(model, [(START, find, fix, again), (again, {"again": find, "done": done})], steps, "Go.")
    assert lines == ["+find", "+fix", "+find", "+fix"]
    assert [request.texts(Kind.USER) for request in model.gemini.requests[::2]] == [
        ("Go.",),
        ("a1.",),
        ("b1.",),
        ("a2.",),
    ]


def test_parallel_nodes_of_a_workflow_are_an_episode_each() -> None:
    (call, clear), (other_call, other_clear) = looks("a"), looks("b")
    model = scripted(call, other_call, clear, other_clear, *looks("c"))
    branches = (node("code", model), node("tests", model))
    edges = [(START, branches, JoinNode(name="both"), node("end", model))]
    assert sorted(run_workflow(model, edges, "expl", "Go.")) == ["+code", "+end", "+tests"]
    (told,) = model.gemini.requests[-1].texts(Kind.USER)
    assert "a." in told
    assert "b." in told


def test_a_node_that_chats_sees_its_earlier_runs_as_episodes() -> None:
    """The answer of a run comes with the next request, to another process if need be, and belongs to its own run."""
    model = scripted(*looks("a1", "a2"))
    lines = run_workflow(model, [(START, node("find", model, mode="chat"))], "expl", "Go.", "On.")
    assert lines == ["+find", "-find: a1.", "+find 2"]


def test_instructions_that_come_with_each_request_are_no_part_of_the_history() -> None:
    model = scripted(
        *(
            reply
            for n in range(2)
            for reply in (Reply("I look.", calls=(Call("read", {"path": "a"}, f"r{n}"),)), Reply("Done."))
        )
    )
    taken: list[Any] = []
    agent = LlmAgent(
        name="agent", model=model, tools=[read], static_instruction="Be good.", instruction="Today is {day?}Monday."
    )
    plugin = ContextLifecycle(on_event=taken.append)
    asyncio.run(live(App(name="app", root_agent=agent, plugins=[plugin]), "Go.", "Again."))
    assert not model.gemini.refusals
    assert not [event for event in taken if isinstance(event, (HistoryForked, HistoryReplaced))]
    bare = scripted(
        *(
            reply
            for n in range(2)
            for reply in (Reply("I look.", calls=(Call("read", {"path": "a"}, f"r{n}"),)), Reply("Done."))
        )
    )
    agent = agent.model_copy(update={"model": bare})
    asyncio.run(live(App(name="app", root_agent=agent), "Go.", "Again."))
    shown = [[request.texts(Kind.USER) for request in it.gemini.requests] for it in (model, bare)]
    assert shown[0] == shown[1]
    assert any("Today is Monday." in text for text in shown[0][-1])


class Chained(BasePlugin):
    """Has requests go on from an interaction that the provider keeps."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        llm_request.previous_interaction_id = "i1"


class Attaches(BasePlugin):
    """Adds a picture to each request, as the kit's tool for artifacts does."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        picture = types.Part.from_bytes(data=b"x" * 40_000, mime_type="image/png")
        llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="Artifact a:"), picture]))


def test_a_picture_that_is_part_of_one_request_only_counts_by_an_estimate() -> None:
    overheads = []
    for plugins in ([], [Attaches(name="attaches")]):
        agent = LlmAgent(name="agent", model=scripted(Reply("Done.")))
        app = App(name="app", root_agent=agent, plugins=[*plugins, ContextLifecycle()])
        session = asyncio.run(live(app, "Go."))
        overheads.append(session.state["wane:::agent"]["state"]["fixed"])
    assert NON_TEXT_TOKENS < overheads[1] - overheads[0] < NON_TEXT_TOKENS + 10


def test_it_stands_aside_where_the_provider_keeps_the_conversation() -> None:
    model = scripted(Reply("Done."))
    agent = LlmAgent(name="agent", model=model)
    app = App(name="app", root_agent=agent, plugins=[Chained(name="chained"), ContextLifecycle()])
    with pytest.warns(UserWarning, match="use_interactions_api"):
        asyncio.run(live(app, "Go."))
    assert model.gemini.requests[0].tools == ()


@pytest.mark.parametrize("where", ["app", "plugin"])
def test_a_compaction_beside_it_is_told(where: str) -> None:
    agent = LlmAgent(name="agent", model=scripted(Reply("Done.")))
    if where == "app":
        config = EventsCompactionConfig(compaction_interval=9, overlap_size=1)
        app = App(name="app", root_agent=agent, plugins=[ContextLifecycle()], events_compaction_config=config)
    else:
        app = App(name="app", root_agent=agent, plugins=[ContextFilterPlugin(), ContextLifecycle()])
    with pytest.warns(UserWarning, match="events_compaction_config and ContextFilterPlugin"):
        asyncio.run(live(app, "Go."))


def test_an_agent_that_is_shown_only_its_own_run_begins_anew() -> None:
    model = scripted(
        Reply(calls=(mark("d1", **LOOK),)), Reply("One."), Reply(calls=(mark("d2", **LOOK),)), Reply("Two.")
    )
    agent = LlmAgent(name="agent", model=model, include_contents="none")
    with warnings.catch_warnings(action="error", category=UserWarning):
        asyncio.run(live(App(name="app", root_agent=agent, plugins=[ContextLifecycle()]), "Go.", "Again."))
    assert model.gemini.requests[-1].results["d2"].startswith("Started")


def test_a_run_that_was_rewound_is_forgotten() -> None:
    model = scripted(
        Reply(calls=(mark("d1", **LOOK),)), Reply("One."), Reply(calls=(mark("d2", **LOOK),)), Reply("Two.")
    )
    agent = LlmAgent(name="agent", model=model)

    async def rewound() -> None:
        app = App(name="app", root_agent=agent, plugins=[ContextLifecycle()])
        runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
        message = types.Content(role="user", parts=[types.Part(text="Go.")])
        events = [e async for e in runner.run_async(user_id="u", session_id="s", new_message=message)]
        await runner.rewind_async(user_id="u", session_id="s", rewind_before_invocation_id=events[0].invocation_id)
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass

    asyncio.run(rewound())
    assert model.gemini.requests[-1].results.keys() == {"d2"}
    assert model.gemini.requests[-1].results["d2"].startswith("Started")


@dataclass
class Meeting:
    """Holds back the first answers of several runs until all were asked for, and then takes what each run is told."""

    runs: int
    asked: int = 0
    all: asyncio.Event = field(default_factory=asyncio.Event)
    told: list[str] = field(default_factory=list)

    async def answer(self, sent: LlmRequest) -> Reply:
        parts = [part for content in sent.contents for part in content.parts or ()]
        if parts[-1].text == "Begin.":
            return Reply("Ready.")
        if parts[-1].function_response:
            self.told.append(str(parts[-1].function_response.response))
            return Reply("Done.")
        self.asked += 1
        if self.asked == self.runs:
            self.all.set()
        await self.all.wait()
        return Reply(calls=(mark("d1", **LOOK),))


class MeetingLlm(BaseLlm):
    """A model of the kit that asks a `Meeting`."""

    meeting: Any

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=content_of(await self.meeting.answer(llm_request)))


def run_of(plugin: ContextLifecycle, meeting: Meeting) -> Callable[[int, str], Coroutine[Any, Any, None]]:
    """A function that runs an agent in a session, by number, with a prompt."""
    agent = LlmAgent(name="agent", model=MeetingLlm(model="gemini-x", meeting=meeting))
    app = App(name="app", root_agent=agent, plugins=[plugin])
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)

    async def run(session: int, prompt: str) -> None:
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        async for _ in runner.run_async(user_id="u", session_id=str(session), new_message=message):
            pass

    return run


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(("runs", "sessions"), [(2, 1), (80, 80)])
def test_runs_at_once_know_nothing_of_each_other(runs: int, sessions: int, begun: bool) -> None:
    taken: list[Any] = []
    meeting = Meeting(runs)

    async def meet() -> None:
        run = run_of(ContextLifecycle(on_event=taken.append), meeting)
        for session in range(sessions if begun else 0):
            await run(session, "Begin.")
        await asyncio.gather(*(run(number % sessions, f"Go {number}.") for number in range(runs)))

    asyncio.run(meet())
    assert len(meeting.told) == runs
    assert all('Started exploration "look"' in told for told in meeting.told)
    assert not [event for event in taken if isinstance(event, (HistoryForked, HistoryReplaced))]


def conversations() -> int:
    gc.collect()
    gc.collect()  # the first one collected a run
    return sum(isinstance(each, Conversation) for each in gc.get_objects())


def test_a_run_that_is_cancelled_leaves_no_conversation() -> None:
    plugin = ContextLifecycle()
    known = conversations()
    meeting = Meeting(2)

    async def cancelled() -> None:
        running = asyncio.create_task(run_of(plugin, meeting)(1, "Go."))
        while not meeting.asked:
            await asyncio.sleep(0)
        assert conversations() == known + 1
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert conversations() == known
