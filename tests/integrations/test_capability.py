"""What the capability gives an agent, and how it gets on with the rest of Pydantic AI."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, capture_run_messages
from pydantic_ai.capabilities import AbstractCapability, Capability, ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicCompaction
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAICompaction
from pydantic_ai.models.test import TestModel

from tests.conversation.support import Log
from tests.integrations.support import FORMAT, delimiter, histories, live, shapes_of, shapes_on_wire, standing
from tests.integrations.worksite import INSTRUCTIONS, session, worker
from wane import ConfigError, Kind, Policy
from wane.conversation import Conversation
from wane.conversation.events import (
    BudgetUnmet,
    EpisodeOpened,
    Event,
    HistoryForked,
    HistoryReplaced,
    MessageTaken,
    PassRan,
    Reminded,
    UsageObserved,
)
from wane.conversation.request import RECALL_ALONE
from wane.core import exact_budget
from wane.integrations.pydantic_ai import (
    BudgetUnmetEvent,
    ContextLifecycle,
    EpisodeClosedEvent,
    EpisodeOpenedEvent,
    PassRanEvent,
    RemindedEvent,
    new_conversation,
)
from wane.testing import Call, HttpError, Reply, ScriptedServer

BUDGET = 2_600


def script_model(*replies: Reply) -> FunctionModel:
    """A model that gives the replies of a script, without a wire. It keeps what it was sent and offered."""
    script = iter(replies)
    sent: list[list[ModelMessage]] = []
    offered: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(messages)
        offered.append(info)
        reply = next(script)
        number = len(sent)
        calls = [ToolCallPart(call.tool, call.raw_arguments, f"c{number}-{n}") for n, call in enumerate(reply.calls)]
        return ModelResponse([*([TextPart(reply.text)] if reply.text else []), *calls])

    model = FunctionModel(answer)
    model.sent, model.offered = sent, offered
    return model


def count_evicted(log: Log) -> int:
    return sum(len(step.removed) for event in log.of(PassRan) for step in event.report.steps)


# Reminders


def test_a_reminder_is_at_the_end_of_one_request_and_nowhere_in_the_history() -> None:
    log = Log()
    script = [Reply(calls=(Call("grep", {"pattern": f"p{n}"}),)) for n in range(4)] + [Reply("Done.")]
    with ScriptedServer(script) as server:
        agent = worker(server.anthropic_model(), ContextLifecycle(7_000, on_event=log))
        history = agent.run_sync("Go.").all_messages()
    assert len(log.of(Reminded)) == 1
    reminded = [request.number for request in server.requests if "Automatic note" in request.raw.decode()]
    assert len(reminded) == 1
    with_it, after = (shapes_on_wire(server.requests[number]) for number in (reminded[0], reminded[0] + 1))
    assert "Start one with `delimiter`" in with_it[-1][1]
    # Nothing ahead of it is touched, and nothing of it is left.
    assert after[: len(with_it) - 1] == with_it[:-1]
    assert "Automatic note" not in str(history)
    assert "Automatic note" not in str(shapes_of([event.message for event in log.of(MessageTaken)]))


def test_a_reminder_can_be_turned_off() -> None:
    with ScriptedServer([Reply(calls=(Call("grep", {"pattern": "p"}),))] * 4 + [Reply("Done.")]) as server:
        worker(server.anthropic_model(), ContextLifecycle(1_000, remind_at=None)).run_sync("Go.")
    sent = str([request.raw for request in server.requests])
    assert "Automatic note" not in sent
    assert "Mid-conversation system messages" not in sent


def test_the_users_own_word_on_framing_stands() -> None:
    with ScriptedServer([Reply("Done.")]) as server:
        settings = {"framing_announcement": "never"}
        worker(server.anthropic_model(), ContextLifecycle(), model_settings=settings).run_sync("Go.")
    assert "Mid-conversation system messages" not in server.requests[0].system


# Settings


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"conversation": new_conversation(), "budget": BUDGET}, "budget: the conversation has its own"),
        (
            {"conversation": new_conversation(), "on_event": print, "recall": False},
            "on_event, recall: the conversation",
        ),
        ({"conversation": "mine"}, "conversation is 'mine'"),
        ({"on_event": 1}, "on_event is 1"),
    ],
)
def test_what_would_go_unused_is_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ContextLifecycle(**arguments)


def test_management_is_switched_between_runs() -> None:
    conversation = new_conversation(BUDGET)
    with ScriptedServer([*session("a"), Reply("One."), Reply("Two.")]) as server:
        agent = worker(server.anthropic_model(), ContextLifecycle(conversation=conversation))
        first = agent.run_sync("Go.")
        conversation.change(manage=False)
        conversation.change(budget="0.01k")
        second = agent.run_sync("And?", message_history=first.all_messages())
        conversation.change(manage=True)
        agent.run_sync("And?", message_history=second.all_messages())
    *_, managed, off, on = server.requests
    assert "delimiter" in managed.tools
    assert "delimiter" not in off.tools
    assert len(shapes_on_wire(off)) == len(shapes_on_wire(managed)) + 2  # what was said, a prompt
    assert "Mid-conversation system messages" not in off.system  # it is there for the reminders' sake
    assert "delimiter" in on.tools
    assert len(on.parts) < len(off.parts)
    assert server.refusals == ()


# Events


@pytest.mark.quick(1)
@pytest.mark.parametrize("way", ["events", "iter", "handler"])
def test_the_runs_event_stream_tells_what_happens(way: str) -> None:
    seen: list[Any] = []

    async def listen(ctx: RunContext[Any], events: Any) -> None:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - an async loop

    async def go(agent: Agent[Any, Any]) -> None:
        if way == "handler":
            await agent.run("Go.", event_stream_handler=listen)
        elif way == "events":
            async with agent.run_stream_events("Go.") as events:
                await listen(None, events)  # type: ignore[arg-type]
        else:
            async with agent.iter("Go.") as running:
                async for node in running:
                    if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
                        async with node.stream(running.ctx) as events:
                            await listen(None, events)  # type: ignore[arg-type]

    with ScriptedServer([Reply(calls=(Call("grep", {"pattern": "p"}),)), *session(*"ab")]) as server:
        asyncio.run(
            go(worker(server.anthropic_model(), ContextLifecycle(BUDGET, policy=Policy.paper(), remind_at=0.02)))
        )
    kinds = [type(event).__name__ for event in seen if event.event_kind == "capability"]
    opened = [event for event in seen if isinstance(event, EpisodeOpenedEvent)]
    closed = [event for event in seen if isinstance(event, EpisodeClosedEvent)]
    assert [event.name for event in opened] == ["find-a", "fix-a", "find-b", "fix-b"]
    assert [(event.name, event.description) for event in closed][:2] == [("find-a", "it is in a.py"), ("fix-a", None)]
    assert opened[1].dependencies == ["find-a"]
    ran = [event for event in seen if isinstance(event, PassRanEvent) and event.evicted]
    assert ran
    assert all(event.tokens_after < event.tokens_before for event in ran)
    assert kinds.count(RemindedEvent.__name__) == 1
    assert {event.capability_id for event in opened} == {"context_lifecycle"}


def events_of(server: ScriptedServer, log: Log, runs: int) -> list[list[Any]]:
    """The capability's events on the stream of each of several runs, which go on with one history."""
    told: list[list[Any]] = []

    async def listen(ctx: RunContext[Any], events: Any) -> None:
        told[-1] += [event async for event in events if event.event_kind == "capability"]

    async def go() -> None:
        history: list[Any] = []
        for _ in range(runs):
            told.append([])
            capability = ContextLifecycle(BUDGET, policy=Policy.paper(), remind_at=0.2, on_event=log)
            agent = worker(server.anthropic_model(), capability)
            done = await agent.run("Go.", message_history=history, event_stream_handler=listen)
            # As a program does that keeps its histories.
            history = ModelMessagesTypeAdapter.validate_json(done.all_messages_json())

    asyncio.run(go())
    return told


@pytest.mark.full
def test_a_continued_run_does_not_tell_earlier_events_again() -> None:
    log = Log()
    with ScriptedServer([*session(*"ab"), *session(*"cd"), Reply("Well."), *session("e")]) as server:
        told = events_of(server, log, 4)
        assert server.remaining == 0
    opened = [[event.name for event in each if isinstance(event, EpisodeOpenedEvent)] for each in told]
    assert opened == [
        ["find-a", "fix-a", "find-b", "fix-b"],
        ["find-c", "fix-c", "find-d", "fix-d"],
        [],
        ["find-e", "fix-e"],
    ]
    closed = [event.name for each in told for event in each if isinstance(event, EpisodeClosedEvent)]
    assert len(closed) == len(set(closed)) == 10
    ran = [event for each in told for event in each if isinstance(event, PassRanEvent)]
    assert ran
    # A listener is told just the same.
    assert len(log.of(PassRan)) == len(ran)
    assert len(log.of(UsageObserved)) == len(server.requests)
    prompts = [
        part for event in log.of(MessageTaken) for part in event.message.parts if part.part_kind == "user-prompt"
    ]
    assert len(prompts) == 4


def test_a_budget_that_cannot_be_met_is_told_and_the_run_goes_on() -> None:
    log, seen = Log(), []

    async def go(agent: Agent[Any, Any]) -> None:
        async with agent.run_stream_events("Go.") as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - an async loop

    with ScriptedServer([Reply("Done.")]) as server:
        strict = ContextLifecycle("0.05k", policy=Policy(min_room=0), on_event=log)
        asyncio.run(go(worker(server.openai_model(), strict)))
    assert log.of(BudgetUnmet)[0].report.excess > 100
    (unmet,) = (event for event in seen if isinstance(event, BudgetUnmetEvent))
    assert "over the budget of 50" in unmet.explanation


def test_a_response_is_told_before_its_tools_run_and_everything_by_the_end_of_the_run() -> None:
    log, when_run = Log(), []
    model = script_model(Reply(calls=(Call("look", {}),)), Reply("Done."))
    agent = worker(model, ContextLifecycle(on_event=log))

    @agent.tool_plain
    def look() -> str:
        when_run.append(len(log.of(MessageTaken)))
        return "seen"

    history = agent.run_sync("Go.").all_messages()
    assert when_run == [2]
    assert [event.message for event in log.of(MessageTaken)] == history


# Streaming


def test_run_stream_runs_tools_ahead_of_the_history_and_they_are_judged_all_the_same() -> None:
    calls = (
        delimiter(action="start", name="x", type="expl"),
        Call("read", {"path": "a"}),
        delimiter(action="start", name="x", type="expl"),
        delimiter(action="end", description="known"),
    )
    conversation = new_conversation(100_000)

    async def go(agent: Agent[Any, Any]) -> list[ModelMessage]:
        async with agent.run_stream("Go.") as result:
            async for _ in result.stream_text():
                pass
        return result.all_messages()

    with ScriptedServer([Reply("Look.", calls=calls)]) as server:
        agent = worker(server.openai_model(), ContextLifecycle(conversation=conversation), end_strategy="exhaustive")
        history = asyncio.run(go(agent))
    results = [part.content for part in history[-1].parts if part.tool_name == "delimiter"]
    assert [str(text)[:8] for text in results] == ["Started ", "Error: e", "Ended ex"]
    conversation.host.ingest(history)
    assert [(episode.name, episode.closed) for episode in conversation.episodes if episode.name] == [("x", True)]


# Agents that do not mark their work


def reading(steps: int, last: Reply, **settings: Any) -> tuple[str, list[AgentInfo]]:
    """What the last request of an agent that reads and edits ends with, and what each request offered."""
    calls = [Call(tool, {"path": f"{n}.py"}) for n in range(steps) for tool in ("read", "edit")]
    model = script_model(*[Reply(calls=(call,)) for call in calls], last, Reply("Done."))
    worker(model, ContextLifecycle(2_000, annotate="infer", recall=True, **settings)).run_sync("Go.")
    return str(model.sent[-1][-1].parts[-1].content), model.offered


def test_an_agent_that_marks_nothing_stays_within_its_budget_and_recalls_by_a_search() -> None:
    log = Log()
    search = Reply(calls=(Call("recall", {"search": '"0.py"'}),))
    result, offered = reading(12, search, remind_at=0.01, guidance="Mark your work.", on_event=log)
    opened = [event.episode for event in log.of(EpisodeOpened)]
    assert [episode.name for episode in opened[:2]] == ["reading-1:0.py", "work-2:0.py"]
    assert all(episode.inferred for episode in opened)
    assert opened[1].dependencies == ("reading-1:0.py",)
    assert log.of(PassRan)
    assert all(event.report.satisfied for event in log.of(PassRan))
    assert "not in view" in result
    # It knows nothing of episodes: no `delimiter`, no guidance on it, no reminders. A search needs none.
    assert {tool.name for info in offered for tool in info.function_tools} == {"grep", "read", "edit", "recall"}
    assert {info.instructions for info in offered} == {f"{INSTRUCTIONS}\n\n{RECALL_ALONE}"}
    assert not log.of(Reminded)


@given(histories(), st.integers(1, 2_000))
def test_a_history_taken_in_at_once_gives_the_inferred_episodes_of_the_run(
    history: list[ModelMessage], budget: int
) -> None:
    one, two = (new_conversation(exact_budget(budget), annotate="infer") for _ in range(2))
    live(one, history)
    two.host.ingest(history)
    two.request()
    assert standing(one) == standing(two)


class Watched(ContextLifecycle):
    """Notes the conversation of each run, and how much of its history each took in."""

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        taken: list[Event] = []
        self._conversation.listeners.append(taken.append)
        result = await super().wrap_run(ctx, handler=handler)
        self._conversation.listeners.remove(taken.append)
        USED.append((self._conversation, sum(isinstance(event, MessageTaken) for event in taken)))
        return result


USED: list[tuple[Conversation[ModelMessage], int]] = []


def contents(messages: list[ModelMessage]) -> list[Any]:
    return [FORMAT.parts(message) for message in messages]


@pytest.mark.parametrize("reloaded", [False, True])
def test_a_run_that_continues_the_last_one_goes_on_with_its_conversation(reloaded: bool) -> None:
    USED.clear()
    replies = [*session("a"), *session("b"), Reply("Well."), Reply("Well."), Reply("Other.")]
    model, lone = script_model(*replies), script_model(*replies)
    kept = worker(model, Watched(BUDGET))

    def carry_on(agent: Agent[Any, Any], history: list[ModelMessage], prompt: str) -> list[ModelMessage]:
        if reloaded:
            history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
        return agent.run_sync(prompt, message_history=history).all_messages()

    histories: list[list[ModelMessage]] = [[]]
    for prompt in ("Go.", "On.", "And?"):
        histories.append(carry_on(kept, histories[-1], prompt))
    carry_on(kept, histories[-2], "Or?")
    carry_on(kept, [], "Else.")
    (first, _), (second, _), (third, added), (other, whole), (last, _) = USED
    assert first is second is third
    assert added == 2
    assert other is not first
    assert whole == len(histories[-2]) + 2
    assert last not in (first, other)
    # The same as in new processes.
    for agent, history, prompt in (
        (worker(lone, ContextLifecycle(BUDGET)), [], "Go."),
        (worker(lone, ContextLifecycle(BUDGET)), histories[1], "On."),
        (worker(lone, ContextLifecycle(BUDGET)), histories[2], "And?"),
        (worker(lone, ContextLifecycle(BUDGET)), histories[2], "Or?"),
        (worker(lone, ContextLifecycle(BUDGET)), [], "Else."),
    ):
        carry_on(agent, history, prompt)
    assert [contents(sent) for sent in lone.sent] == [contents(sent) for sent in model.sent]
    assert min(map(len, lone.sent[-4:-1])) < len(histories[2]), "something was evicted"


# Other capabilities, other models


class Tail(AbstractCapability[Any]):
    """Adds a note to the request, as a new message or to the last one."""

    def __init__(self, joined: bool) -> None:
        self.joined = joined

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        *rest, last = request_context.messages
        note = UserPromptPart("Branch: main.")
        if self.joined:
            request_context.messages = [*rest, replace(last, parts=[*last.parts, note])]
        else:
            request_context.messages = [*rest, last, ModelRequest([note])]
        return request_context


@pytest.mark.full
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_what_others_add_to_a_request_is_left_to_them(joined: bool, first: bool) -> None:
    log = Log()
    ours, theirs = ContextLifecycle(BUDGET, policy=Policy.paper(), on_event=log), Tail(joined)
    with ScriptedServer(session(*"abc")) as server, ScriptedServer(session(*"abc")) as alone:
        worker(server.anthropic_model(), *((ours, theirs) if first else (theirs, ours))).run_sync("Go.")
        worker(alone.anthropic_model(), ContextLifecycle(BUDGET, policy=Policy.paper())).run_sync("Go.")
    assert server.refusals == ()
    assert count_evicted(log)
    assert not log.of(HistoryReplaced)
    for request in server.requests:
        assert request.texts(Kind.USER).count("Branch: main.") == 1
        assert request.parts[-1].text == "Branch: main."
    assert len(server.requests[-1].parts) < len(shapes_of([e.message for e in log.of(MessageTaken)]))


@pytest.mark.parametrize("first", [0, 2])
def test_a_history_that_others_shorten_is_taken_in_anew(first: int) -> None:
    log = Log()
    keep_last = ProcessHistory(
        lambda messages: messages if len(messages) < 8 else [*messages[: first + 1], *messages[first - 6 :]]
    )
    model = script_model(*[Reply(calls=(Call("grep", {"pattern": f"p{n}"}),)) for n in range(6)], Reply("Done."))
    worker(model, keep_last, ContextLifecycle(100_000, on_event=log)).run_sync("Go.")
    # Behind the first answer it is a fork of what was known.
    assert log.of(HistoryForked if first else HistoryReplaced)
    assert not log.of(HistoryReplaced if first else HistoryForked)
    assert len(model.sent[-1]) == 7


def test_another_model_that_takes_over_gets_the_same_view() -> None:
    log = Log()
    with ScriptedServer(session(*"ab")) as server, ScriptedServer(lambda _: Reply(error=HttpError(500))) as down:
        fallback = FallbackModel(down.openai_model(), server.anthropic_model())
        worker(fallback, ContextLifecycle(BUDGET, policy=Policy.paper(), on_event=log)).run_sync("Go.")
    assert server.refusals == ()
    for broken, whole in zip(down.requests, server.requests, strict=True):
        assert [shape[:2] for shape in shapes_on_wire(broken)] == [shape[:2] for shape in shapes_on_wire(whole)]


def test_a_failed_request_may_be_made_again() -> None:
    log = Log()
    conversation = new_conversation(BUDGET, policy=Policy(index_share=0), on_event=log)
    script = session(*"ab")
    script.insert(5, Reply(error=HttpError(500)))

    async def go(agent: Agent[Any, Any]) -> None:
        with capture_run_messages() as messages, pytest.raises(ModelHTTPError):
            await agent.run("Go.")
        await agent.run("Go on.", message_history=messages)

    with ScriptedServer(script) as server:
        asyncio.run(go(worker(server.anthropic_model(), ContextLifecycle(conversation=conversation))))
    assert server.refusals == ()
    assert not log.of(HistoryReplaced)
    assert server.requests[6].texts(Kind.USER) == ("Go.", "Go on.")


def test_tools_that_wait_for_approval_and_calls_beside_them() -> None:
    conversation = new_conversation(100_000)
    calls = (
        delimiter(action="start", name="x", type="expl"),
        Call("launch", {}),
        delimiter(action="end", description="d"),
    )
    model = script_model(Reply(calls=calls), Reply("Done."))
    agent = worker(model, ContextLifecycle(conversation=conversation), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def launch() -> str:
        return "launched"

    asked = agent.run_sync("Go.")
    assert isinstance(asked.output, DeferredToolRequests)
    results = DeferredToolResults(approvals={asked.output.approvals[0].tool_call_id: True})
    done = agent.run_sync(message_history=asked.all_messages(), deferred_tool_results=results)
    returned = {p.tool_name: p.content for m in done.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)}
    ended = 'Ended exploration "x"; its start and steps may leave your view.'
    assert returned == {"delimiter": ended, "launch": "launched"}
    assert [episode.closed for episode in conversation.episodes if episode.name] == [True]


def test_a_delimiter_call_from_inside_another_tool_marks_nothing() -> None:
    conversation = new_conversation(100_000)
    model = script_model(Reply(calls=(Call("program", {}),)), Reply("Done."))
    agent = worker(model, ContextLifecycle(conversation=conversation))

    @agent.tool
    async def program(ctx: RunContext[Any]) -> Any:
        assert ctx.tool_manager is not None
        call = ToolCallPart("delimiter", {"action": "start", "name": "x", "type": "expl"}, "inner")
        return await ctx.tool_manager.handle_call(call)

    agent.run_sync("Go.")
    assert "works only as a tool call of its own" in model.sent[1][-1].parts[0].content
    assert all(episode.implicit for episode in conversation.episodes)


@pytest.mark.quick(1)
@pytest.mark.parametrize("protocol", ["openai_model", "anthropic_model"])
def test_tools_that_were_revealed_stay_so_whatever_is_evicted(protocol: str) -> None:
    extra: Capability[Any] = Capability(id="extra", description="More.", instructions="Use more.", defer_loading=True)

    @extra.tool_plain
    def more() -> str:
        return "there is more"

    script = [*session("a", "b", "c")[:-1], Reply(calls=(Call("more", {}),)), Reply("Done.")]
    load = Call("load_capability", {"id": "extra"})
    script[1] = replace(script[1], calls=(load, *script[1].calls))
    log = Log()
    with ScriptedServer(script) as server:
        capability = ContextLifecycle(3_200, policy=Policy.paper(), on_event=log)
        worker(getattr(server, protocol)(), extra, capability).run_sync("Go.")
    assert count_evicted(log) > 20
    assert not log.of(HistoryReplaced)
    assert all("more" in request.tools and "Use more." in request.raw.decode() for request in server.requests[2:])
    assert "there is more" in server.requests[-1].results.values()


# Settings


@pytest.mark.parametrize(
    "settings", [{"budget": 0}, {"counter": "x"}, {"tool_classes": {"a": "x"}}, {"remind_at": 0.0}, {"budget": "much"}]
)
def test_what_cannot_work_is_said_where_it_is_written(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ContextLifecycle(**settings)


def test_an_agent_has_one_context_lifecycle_and_a_runs_own_comes_first() -> None:
    log, other = Log(), Log()
    agent = worker(script_model(Reply("Done.")), ContextLifecycle(on_event=log))
    agent.run_sync("Go.", capabilities=[ContextLifecycle(9_000, on_event=other)])
    assert (len(log), len(other.of(MessageTaken))) == (0, 2)


def test_it_stands_aside_where_openai_keeps_the_conversation() -> None:
    seen: list[int] = []

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.append(len(messages))
        return ModelResponse([TextPart("Done.")])

    kept = {"openai_conversation_id": "conv_1"}
    lifecycle = ContextLifecycle(BUDGET)
    agent: Any = Agent(FunctionModel(model), capabilities=[lifecycle], model_settings=kept)
    long = ModelResponse([TextPart("Long. " * 500)])
    history = [message for _ in range(5) for message in (ModelRequest.user_text_prompt("Go."), long)]
    with pytest.warns(UserWarning, match="openai_conversation_id"):
        agent.run_sync("Go.", message_history=history)
    with warnings.catch_warnings(action="error", category=UserWarning):
        agent.run_sync("Go.", message_history=history)
    assert seen == [11, 11]
    agent.run_sync("Go.", message_history=history, model_settings={"openai_conversation_id": None})
    assert seen[2] < 11


@pytest.mark.parametrize("compaction", [AnthropicCompaction(), OpenAICompaction()], ids=["anthropic", "openai"])
def test_a_provider_that_compacts_too_is_told_of_once(compaction: Any) -> None:
    agent: Any = Agent(TestModel(), capabilities=[ContextLifecycle(BUDGET), compaction])
    with pytest.warns(UserWarning, match="compacts the conversation beside it"):
        agent.run_sync("Go.")
    with warnings.catch_warnings(action="error", category=UserWarning):
        agent.run_sync("Go on.")
