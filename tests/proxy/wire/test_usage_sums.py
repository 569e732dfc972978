"""Usages that sum up several samplings: what the request held, and what all of them cost."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wane
from wane.account import parts_of, usage_of
from wane.conversation import Conversation
from wane.journal.records import UsageRecord
from wane.prices import NO_USAGE, SEARCH_FEE, TokenUsage, bill_of, cost_of
from wane.proxy.wire.anthropic.anthropic_reply import tokens_of
from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.gemini.gemini_reply import tokens_of as tokens_of_gemini
from wane.proxy.wire.openai_shared import token_usage
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import Round

MODEL = "anthropic:claude-sonnet-4-6"
ADVISOR = "anthropic:claude-opus-4-6"
SEARCHED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "text", "text": "42"},
]


def passes(kind: str, read: int, output: int, **more: Any) -> dict[str, Any]:
    cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"type": kind, "input_tokens": read, "output_tokens": output, **cache, **more}


def sum_iterations(*iterations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A usage whose top level adds up the passes of the model that was asked, as Anthropic's does."""
    own = [entry for entry in iterations if entry["type"] in ("message", "fallback_message")]
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return {name: sum(entry[name] for entry in own) for name in names} | {"iterations": list(iterations)} | more


ADVISED = sum_iterations(
    passes("message", 10_000, 100),
    passes("advisor_message", 100_000, 4_000, model="claude-opus-4-6"),
    passes("message", 12_000, 400),
)


def dollars(model: str, read: int, output: int) -> float:
    cost = cost_of(TokenUsage(read, output), model)
    assert cost is not None
    return cost


def test_an_advisor_costs_what_its_own_model_costs_and_the_window_is_what_the_first_pass_read() -> None:
    usage = tokens_of(ADVISED)
    assert usage is not None
    assert (usage.input, usage.output) == (122_000, 4_500)
    assert usage.of_request == TokenUsage(10_000, 100)
    wanted = dollars(MODEL, 10_000, 100) + dollars(ADVISOR, 100_000, 4_000) + dollars(MODEL, 12_000, 400)
    assert cost_of(usage, MODEL) == pytest.approx(wanted)
    # A model without a provider is priced like that, too.
    assert cost_of(usage, "claude-sonnet-4-6") == pytest.approx(wanted)


def test_what_litellm_adds_up_in_chat_is_taken_apart_again() -> None:
    """LiteLLM 1.110.2 hands Anthropic's iterations on, beside `prompt_tokens` that are the sum of all of them."""
    iterations = passes("compaction", 180_000, 3_500), passes("message", 20_000, 1_000, cache_read_input_tokens=3_000)
    usage = {"prompt_tokens": 203_000, "completion_tokens": 4_500, **sum_iterations(*iterations)}
    counted = token_usage({"usage": usage}, "prompt", "completion")
    assert counted is not None
    assert (counted.input, counted.output) == (203_000, 4_500)
    assert counted.of_request == TokenUsage(23_000, 1_000, 3_000)

    advised = token_usage(
        {"usage": {"prompt_tokens": 122_000, "completion_tokens": 4_500, **ADVISED}}, "prompt", "completion"
    )
    assert advised is not None
    assert cost_of(advised, MODEL) == pytest.approx(cost_of(tokens_of(ADVISED) or NO_USAGE, MODEL))


def test_several_passes_under_a_threshold_are_not_priced_above_it() -> None:
    """Prices rise with the size of a request, not with the sum of its passes."""
    usage = tokens_of(sum_iterations(*[passes("message", 150_000, 10)] * 3))
    assert usage is not None
    model = "google:gemini-2.5-pro"
    assert cost_of(usage, model) == pytest.approx(3 * dollars(model, 150_000, 10))
    assert cost_of(TokenUsage(450_000, 30), model) > 1.5 * cost_of(usage, model)  # type: ignore[operator]


def test_a_compaction_costs_too_and_what_was_compacted_is_no_window() -> None:
    usage = tokens_of(
        sum_iterations(
            passes("message", 180_000, 50),
            passes("compaction", 5_000, 3_000),
            passes("message", 20_000, 60),
            passes("message", 26_000, 70),
        )
    )
    assert usage is not None
    assert usage.of_request.input == 20_000
    wanted = sum(dollars(MODEL, *each) for each in ((180_000, 50), (5_000, 3_000), (20_000, 60), (26_000, 70)))
    assert cost_of(usage, MODEL) == pytest.approx(wanted)


def test_of_a_turn_that_another_model_served_that_model_tells_the_window() -> None:
    usage = tokens_of(
        sum_iterations(
            passes("message", 900, 5, model="claude-opus-5-5"),
            passes("message", 1_300, 20, model="claude-sonnet-5-5"),
            passes("fallback_message", 1_700, 30, model="claude-sonnet-5-5"),
        )
    )
    assert usage is not None
    assert usage.of_request.input == 1_300


def test_one_pass_is_no_sum() -> None:
    usage = tokens_of(sum_iterations(passes("message", 900, 5)))
    assert usage == TokenUsage(900, 5)


def test_an_unknown_model_among_the_passes_makes_the_cost_a_lower_bound() -> None:
    usage = tokens_of(sum_iterations(passes("message", 900, 5), passes("advisor_message", 10, 10, model="oracle-9")))
    assert usage is not None
    bill = bill_of(usage, MODEL)
    assert (bill.cost, bill.complete) == (None, False)
    assert bill.at_least == pytest.approx(dollars(MODEL, 900, 5))
    # A session that goes on from its records has the same figures.
    parts = parts_of(usage, bill.at_least)
    record = UsageRecord(1, usage.input, usage.output, cost=bill.cost, model=MODEL, parts=parts)
    assert (record.request_tokens, record.cost_at_least) == (900, bill.at_least)
    assert usage_of(record) == usage


def test_searches_cost_a_fee() -> None:
    usage = tokens_of({"input_tokens": 900, "output_tokens": 5, "server_tool_use": {"web_search_requests": 3}})
    assert usage is not None
    assert cost_of(usage, MODEL) == pytest.approx(dollars(MODEL, 900, 5) + 3 * SEARCH_FEE)


def event(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **data}).encode())


def test_without_iterations_the_beginning_of_a_stream_tells_the_window_and_a_whole_answer_does_not() -> None:
    total = {"input_tokens": 3_000, "output_tokens": 90}
    wire = AnthropicWire()
    whole = wire.reply({}, frozenset())
    whole.feed(
        json.dumps({"role": "assistant", "content": SEARCHED, "stop_reason": "end_turn", "usage": total}).encode()
    )
    usage = whole.end().usage
    assert usage is not None
    assert (usage.input, usage.of_request) == (3_000, NO_USAGE)
    streamed = wire.reply({"stream": True}, frozenset())
    start = {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 900, "output_tokens": 1}}
    streamed.feed(event("message_start", message=start))
    for number, block in enumerate(SEARCHED):
        streamed.feed(event("content_block_start", index=number, content_block=block))
        streamed.feed(event("content_block_stop", index=number))
    streamed.feed(event("message_delta", delta={"stop_reason": "end_turn"}, usage=total) + event("message_stop"))
    usage = streamed.end().usage
    assert usage is not None
    assert (usage.input, usage.of_request.input) == (3_000, 900)


def response(*items: dict[str, Any]) -> Round:
    reply = OpenAIResponsesWire().reply({}, frozenset())
    usage = {"input_tokens": 9_000, "output_tokens": 5}
    said = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "42"}]}
    reply.feed(json.dumps({"status": "completed", "output": [*items, said], "usage": usage}).encode())
    return reply.end()


def test_a_response_with_searches_tells_no_window_and_its_fees_are_a_lower_bound() -> None:
    search = {"type": "web_search_call", "id": "ws1", "status": "completed", "action": {"type": "search", "query": "x"}}
    opened = {"type": "web_search_call", "id": "ws2", "status": "completed", "action": {"type": "open_page"}}
    usage = response(search, opened).usage
    assert usage is not None
    assert (usage.of_request, usage.fees, usage.further_fees) == (NO_USAGE, SEARCH_FEE, True)
    assert cost_of(usage, "openai:gpt-5.2") is None
    assert bill_of(usage, "openai:gpt-5.2").at_least > SEARCH_FEE
    assert response().usage == TokenUsage(9_000, 5)


def test_what_geminis_tools_brought_is_no_part_of_the_request() -> None:
    usage = tokens_of_gemini({"promptTokenCount": 900, "toolUsePromptTokenCount": 5_000, "candidatesTokenCount": 7})
    assert usage is not None
    assert (usage.input, usage.of_request.input) == (5_900, 900)


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"role": "assistant", "content": SEARCHED, "usage": ADVISED}, 10_000),
        ({"role": "assistant", "content": SEARCHED}, 0),
        ({"role": "assistant", "content": [{"type": "text", "text": "42"}]}, 22_000),
    ],
)
def test_a_conversation_takes_the_request_from_the_whole_answer(answer: Any, tokens: int) -> None:
    conversation: Conversation[Any] = wane.Conversation("anthropic", budget="80k")
    conversation.append({"role": "user", "content": "x" * 80_000})
    conversation.request()
    counted = conversation.tokens
    conversation.append(answer, input_tokens=22_000)
    # The answer itself holds less than 100 tokens.
    assert (tokens or counted) <= conversation.tokens < (tokens or counted) + 100


@pytest.mark.parametrize(
    ("more", "charged"),
    [
        ({}, None),
        ({"cost": 0.25}, None),  # of another server, in another currency for all we know
        ({"cost": 0.25, "cost_details": {"upstream_inference_cost": None}, "is_byok": False}, 0.25),
        ({"cost": 0.0125, "cost_details": {"upstream_inference_cost": 0.25}, "is_byok": True}, 0.2625),
        ({"cost": 0.0125, "cost_details": {"upstream_inference_cost": None}, "is_byok": True}, None),
        ({"cost": "0.25", "cost_details": {}}, None),
    ],
)
def test_openrouter_says_what_it_charges(more: dict[str, Any], charged: float | None) -> None:
    """https://openrouter.ai/docs/use-cases/usage-accounting."""
    reply = {"usage": {"prompt_tokens": 194, "completion_tokens": 2, **more}}
    usage = token_usage(reply, "prompt", "completion")
    assert usage is not None
    assert usage.charged == (None if charged is None else pytest.approx(charged))
