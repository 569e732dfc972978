"""The capability over the real wire: what goes out is the view, and no provider refuses it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic_ai import capture_run_messages
from pydantic_ai.capabilities import Caching
from pydantic_ai.messages import ToolReturnPart

from tests.conversation.support import Log
from tests.integrations.support import delimiter, shapes_of
from tests.integrations.worksite import INSTRUCTIONS, THINKING, expected_views, session, task, wire_views, work, worker
from tests.strategies import RAW
from tests.testing.support import each_protocol_once, every_protocol, model_of, run
from wane import Kind, Policy
from wane.conversation.events import HistoryReplaced, MessageTaken, PassRan, UsageObserved
from wane.core.delimiter import SCHEMA
from wane.core.guidance import guidance
from wane.integrations.pydantic_ai import ContextLifecycle, new_conversation
from wane.testing import Call, Reply, Request, ScriptedServer, Usage

BUDGET = 2_600


@each_protocol_once
def test_every_request_is_exactly_the_view(protocol: str, stream: bool) -> None:
    policy = Policy.paper() if stream else Policy(index_share=0)
    # The chat adapter has its own ways with reasoning.
    reasoning = protocol != "openai_model"
    log = Log()
    with ScriptedServer(session(*"abcde", reasoning=reasoning)) as server:
        capability = ContextLifecycle(BUDGET, policy=policy, on_event=log)
        history = asyncio.run(work(server, protocol, stream, capability, model_settings=THINKING))
    assert server.refusals == ()
    assert wire_views(server) == expected_views(history, log, BUDGET, policy)
    evicting = [event.report for event in log.of(PassRan) if event.report.steps]
    assert len(evicting) >= 2
    assert all(report.tokens_after <= BUDGET for report in evicting)
    assert min(len(request.parts) for request in server.requests[-4:]) < len(shapes_of(history)) / 2


@pytest.mark.full
@every_protocol
def test_instructions_and_system_prompts_are_in_every_request(protocol: str) -> None:
    with ScriptedServer(session(*"abc")) as server:
        asyncio.run(work(server, protocol, False, ContextLifecycle(BUDGET, recall=True), system_prompt="Be careful."))
    assert len({request.system for request in server.requests}) == 1
    for text in (INSTRUCTIONS, guidance(recall=True), "Be careful."):
        assert text in server.requests[-1].system
    # What Wane puts behind it may be one message with it on the wire (R12b).
    assert all(request.texts(Kind.USER)[0].startswith("Go.") for request in server.requests)


@every_protocol
def test_the_tool_is_advertised_as_the_paper_has_it(protocol: str) -> None:
    with ScriptedServer([Reply("Done.")]) as server:
        asyncio.run(work(server, protocol, False, ContextLifecycle()))
    (tool,) = (tool for tool in server.requests[0].body["tools"] if "delimiter" in json.dumps(tool)[:200])
    schema = tool.get("input_schema") or tool.get("parameters") or tool["function"]["parameters"]
    assert schema == SCHEMA
    assert "recall" not in server.requests[0].tools


# Delimiter calls


@each_protocol_once
def test_malformed_calls_come_back_as_results_and_use_up_no_retry(protocol: str, stream: bool) -> None:
    malformed = [raw for raw in RAW if len(raw) < 1_000]
    calls = [Call("delimiter", raw) for raw in malformed]
    script = [Reply(calls=tuple(calls[first : first + 8])) for first in range(0, len(calls), 8)] + [Reply("Done.")]
    with ScriptedServer(script) as server:
        # A retry would end the run: none is left.
        history = asyncio.run(work(server, protocol, stream, ContextLifecycle(100_000), retries=0))
    assert server.refusals == ()
    results = list(server.requests[-1].results.values())
    assert len(results) == len(malformed)
    assert all(result.startswith("Error: ") and "A right call: " in result for result in results)
    returns = [part for message in history for part in message.parts if isinstance(part, ToolReturnPart)]
    assert {part.outcome for part in returns} == {"success"}


@pytest.mark.parametrize("raw", [raw for raw in RAW if len(raw) >= 1_000], ids=["deep", "wide"])
def test_arguments_that_no_parser_likes_do_not_end_the_run_either(raw: str) -> None:
    with ScriptedServer([Reply(calls=(Call("delimiter", raw),)), Reply("Done.")]) as server:
        asyncio.run(work(server, "openai_model", False, ContextLifecycle(100_000)))
    assert next(iter(server.requests[-1].results.values())).startswith("Error: ")


# Going on with a history


@every_protocol
def test_a_run_that_was_cut_off_goes_on_with_its_conversation(protocol: str) -> None:
    log = Log()
    conversation = new_conversation(BUDGET, on_event=log)

    async def cut_off_and_go_on(server: ScriptedServer) -> None:
        agent = worker(model_of(server, protocol), ContextLifecycle(conversation=conversation))

        @agent.tool_plain
        async def wait() -> str:
            await asyncio.sleep(60)
            return "never"

        with capture_run_messages() as messages:
            running = asyncio.ensure_future(agent.run("Go."))
            while len(server.requests) < 2 or len(log.of(MessageTaken)) < 4:
                await asyncio.sleep(0.005)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await agent.run("Go on.", message_history=messages)

    calls = (Call("read", {"path": "a"}), Call("wait", {}), delimiter(action="start", name="x", type="expl"))
    script = [task("a")[0], Reply(calls=calls), *session("b")[1:]]
    with ScriptedServer(script) as server:
        asyncio.run(cut_off_and_go_on(server))
    assert server.refusals == ()
    assert not log.of(HistoryReplaced)
    assert "interrupted" in str(server.requests[2].results)


# Usage


@each_protocol_once
def test_reported_usage_anchors_the_accounting(protocol: str, stream: bool) -> None:
    log = Log()
    script = session("a")
    # Four times what the counter says, a part of it cached.
    script[3] = Reply(script[3].text, None, script[3].calls, usage=Usage(9_000, 50, cache_read=8_000, cache_write=500))
    with ScriptedServer(script) as server:
        asyncio.run(work(server, protocol, stream, ContextLifecycle(8_000, on_event=log)))
    observed = log.of(UsageObserved)
    assert [event.input_tokens for event in observed] == [
        9_000 if number == 3 else request.tokens for number, request in enumerate(server.requests)
    ]
    (ran,) = log.of(PassRan)
    assert ran.report.tokens_before > 9_000


# Reminders and the provider's cache

REMINDED = (
    ("openai_model", "gpt-4.1"),
    ("openai_responses_model", "gpt-4.1"),
    # A tag in the user's turn; an entry of its own that lasts for the request, with a tag in it and without.
    ("anthropic_model", "claude-haiku-4-5"),
    ("anthropic_model", "claude-sonnet-5-5"),
    ("anthropic_model", "claude-opus-5-5"),
)


TAKE_NOTES = ("claude-sonnet-5-5", "claude-opus-5-5")


def split_request(request: Request) -> tuple[Any, list[Any]]:
    """A request as the provider caches it: what opens it, and its blocks or messages, without breakpoints."""
    body = request.body
    blocks = [
        {**block, "cache_control": None}
        for message in body.get("messages") or body["input"]
        for block in (message["content"] if request.api == "anthropic" else (message,))
    ]
    return (body.get("system"), body.get("instructions"), body.get("tools")), blocks


@pytest.mark.full
@pytest.mark.parametrize(("protocol", "name"), REMINDED)
@pytest.mark.parametrize("caching", [True, False], ids=["cached", "plain"])
def test_a_reminder_leaves_the_cached_prefix_as_it_is(protocol: str, name: str, caching: bool) -> None:
    script = [Reply(calls=(Call("grep", {"pattern": f"p{n}"}),)) for n in range(4)] + [Reply("Done.")]
    with ScriptedServer(script) as server:
        model = getattr(server, protocol)(name)
        extras = (Caching(),) if caching else ()
        asyncio.run(run(worker(model, ContextLifecycle(7_000), *extras), "Go.", True))
    assert server.refusals == ()
    (number,) = (n for n, request in enumerate(server.requests) if "Automatic note" in request.raw.decode())
    reminded, after = server.requests[number], server.requests[number + 1]
    (head, blocks), (next_head, next_blocks) = split_request(reminded), split_request(after)
    assert "Automatic note" in json.dumps(blocks[-1])
    # Some templates know no turn of the user behind a result. A note stands apart only behind a breakpoint, and for
    # models that take notes for a request.
    in_result = protocol == "openai_model" or (not caching and name not in TAKE_NOTES)
    assert "p2 p2" in json.dumps(blocks[-1] if in_result else blocks[-2])
    assert next_head == head == split_request(server.requests[0])[0]
    assert next_blocks[: len(blocks) - 1] == blocks[:-1]


@pytest.mark.parametrize("name", ["claude-haiku-4-5", "claude-sonnet-4-6", "claude-sonnet-5"])
def test_a_breakpoint_stays_on_the_last_that_the_next_request_has(name: str) -> None:
    script = [Reply(calls=(Call("grep", {"pattern": f"p{n}"}),)) for n in range(4)] + [Reply("Done.")]
    with ScriptedServer(script) as server:
        worker(server.anthropic_model(name), ContextLifecycle(7_000), Caching()).run_sync("Go.")
    (reminded,) = (request for request in server.requests if "Automatic note" in request.raw.decode())
    result, note = reminded.body["messages"][-1]["content"]
    assert (result["type"], "cache_control" in result) == ("tool_result", True)
    assert "Automatic note" in note["text"]
    assert "cache_control" not in note


@pytest.mark.parametrize("name", TAKE_NOTES)
def test_models_that_take_notes_for_a_request_get_them_so(name: str) -> None:
    # The automatic breakpoint passes over such an entry, by the provider's rule.
    script = [Reply(calls=(Call("grep", {"pattern": f"p{n}"}),)) for n in range(4)] + [Reply("Done.")]
    with ScriptedServer(script) as server:
        worker(server.anthropic_model(name), ContextLifecycle(7_000), Caching()).run_sync("Go.")
    (reminded,) = (request for request in server.requests if "Automatic note" in request.raw.decode())
    *_, result, note = reminded.body["messages"]
    assert result["content"][-1]["type"] == "tool_result"
    assert (note["role"], note["clear_at"]) == ("system", "next_user_message")
    assert "cache_control" not in note["content"][0]
    assert reminded.body["cache_control"]["type"] == "ephemeral"


def marked_blocks(request: Request) -> list[dict[str, Any]]:
    """The blocks of a request's messages that have a breakpoint."""
    blocks = [block for message in request.body["messages"] for block in message["content"]]
    return [block for block in blocks if "cache_control" in block]


@pytest.mark.parametrize(
    ("settings", "ttl"),
    [
        ({"cache": True}, "5m"),
        ({"cache": {"retention": "1h"}}, "1h"),
        ({"anthropic_cache": "1h"}, "1h"),
        ({"anthropic_cache_messages": True}, "5m"),
        ({"cache": {"messages": False}}, None),
        ({"cache": True, "anthropic_cache_instructions": True}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_breakpoint_stands_behind_the_words_of_the_user_that_open_the_view(settings: Any, ttl: str | None) -> None:
    with ScriptedServer(session("one", "two", "three")) as server:
        agent = worker(server.anthropic_model("claude-opus-4-6"), ContextLifecycle(BUDGET), model_settings=settings)
        agent.run_sync("Go, please.")
    assert server.refusals == ()
    first, last = server.requests[0], server.requests[-1]
    automatic = "anthropic_cache_messages" not in settings
    assert len(marked_blocks(first)) == (0 if automatic or ttl is None else 1)
    marked = [block for block in marked_blocks(last) if block["type"] == "text"]
    assert [(block["text"], block["cache_control"].get("ttl")) for block in marked] == (
        [("Go, please.", ttl)] if ttl else []
    )


# Models that bind their thinking to what came before it


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
def test_models_that_bind_their_thinking_are_not_asked_in_vain_again_and_again(stream: bool) -> None:
    with ScriptedServer(session(*"abcdefg", reasoning=True), preserved_reasoning=True) as server:

        async def go() -> Any:
            agent = worker(server.anthropic_model("claude-opus-5-5"), ContextLifecycle(BUDGET, policy=Policy.paper()))
            with pytest.warns(match="rejected a replayed thinking block"):
                return await run(agent, "Go.", stream)

        asyncio.run(go())
    assert len(server.refusals) == 1
    assert "bound to a different conversation" in server.refusals[0].message
    assert sum(bool(request.dropped_reasoning) for request in server.requests) >= 3
