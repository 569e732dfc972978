"""Figures that a recording holds: usage, cost, provider, and what its client wrote itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.readers.promises import check, kinds, texts
from tests.lab.readers.test_recordings import RECORDINGS
from tests.lab.readers.writing import write_lines
from wane.account import Account
from wane.lab.counting import count
from wane.lab.readers import read_session
from wane.lab.recorded_session import CallUsage, RecordedSession
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.spent import Recorded
from wane.lab.replaying.strategy_replay import Pricing
from wane.prices import Cost, listed_name
from wane.rewrites import Cause, Certainty

FAILING = Path(__file__).resolve().parents[4] / "shared" / "failing"

needs_inputs = pytest.mark.skipif(
    not FAILING.is_dir(), reason="no shared inputs: ../shared/failing (relative to the repository) is not there"
)


def recorded_cost(session: RecordedSession) -> Recorded:
    """What a session cost by its recording."""
    pricing = Pricing.of_recording(session, Pricing.of("anthropic:claude-sonnet-4-5"))
    return Recorded.of(count(session), pricing, 80_000)


@needs_inputs
@pytest.mark.parametrize(
    ("name", "dollars", "priced_as"),
    [
        ("02-opencode-openrouter.json", 0.0402, "openrouter:anthropic/claude-sonnet-4.5"),
        ("02b-opencode-bedrock.json", 0.04422, "amazon-bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("02c-opencode-copilot-free.json", 0.0, "claude-sonnet-4.5"),
        ("02d-opencode-ollama.json", 0.0, "ollama:qwen3-coder:30b"),
        ("02e-pi-openrouter.jsonl", 0.0201, "openrouter:anthropic/claude-sonnet-4.5"),
        ("02f-atif-litellm-name.json", 0.0201, "anthropic:claude-sonnet-4-5"),
    ],
)
def test_the_recorded_cost_counts_first_and_a_model_is_priced_by_its_provider(
    name: str, dollars: float, priced_as: str
) -> None:
    (session,) = map(check, read_session(FAILING / name))
    recorded = recorded_cost(session)
    assert recorded.account.at_least == pytest.approx(dollars)
    assert recorded.complete
    assert {call.priced_as for call in session.calls} == {priced_as}


@needs_inputs
def test_a_plan_that_aider_hands_to_the_editor_is_no_turn_of_the_user() -> None:
    (session,) = map(check, read_session(FAILING / "03-aider-architect.md"))
    assert kinds(session) == ["user", "text", "notice", "text"] * 2
    assert [texts(session)[turn] for turn in session.user_turns] == [
        "Make the parser accept comments.",
        "Now add a test.",
    ]


@needs_inputs
def test_results_that_opencode_cleared_are_an_eviction_that_it_recorded() -> None:
    from wane.lab.cache.paid_again import examine

    (session,) = map(check, read_session(FAILING / "08-opencode-pruned.json"))
    (eviction,) = session.evictions
    assert [session.parts[index].kind.value for index in eviction.removed] == ["result", "result"]
    assert not session.managed
    (rewrite,) = examine(session).rewrites
    assert (rewrite.explanation.cause, rewrite.explanation.certainty) == (Cause.EVICTION, Certainty.RECORDED)


@needs_inputs
def test_what_opencode_wrote_itself_is_neither_a_call_of_the_model_nor_a_turn() -> None:
    (session,) = map(check, read_session(FAILING / "14-opencode-child"))
    assert [side.name for side in session.sidechains] == ["ses_child"]
    assert len(session.calls) == 3
    assert [texts(session)[turn] for turn in session.user_turns] == ["Add the endpoint.", "Commit it."]
    notices = [part.text for part in session.parts if part.kind.value == "notice"]
    assert any("No bugs found." in words for words in notices)
    assert any("nothing to commit" in words for words in notices)


@needs_inputs
def test_the_summary_that_codex_records_as_an_answer_is_none_and_its_prompt_counts_once() -> None:
    (session,) = map(check, read_session(FAILING / "30-codex-summary-and-prompt.jsonl"))
    assert kinds(session) == ["system", "user", "call", "result", "text"]
    assert (len(session.calls), len(session.compactions)) == (2, 1)
    assert [call.usage for call in session.asides] == [CallUsage(3_100, output=9)]


@needs_inputs
def test_gemini_cli_writes_the_whole_history_again_when_it_resumes() -> None:
    (session,) = map(check, read_session(FAILING / "31-gemini-resumed.jsonl"))
    assert kinds(session) == ["notice", "user", "text", "call", "result", "text", "user", "text"]
    assert (len(session.calls), session.compactions, session.problems) == (3, [], [])


@needs_inputs
def test_pi_records_its_system_prompt_and_tools_as_a_message() -> None:
    (session,) = map(check, read_session(FAILING / "32-pi-system-message.jsonl"))
    assert kinds(session) == ["system", "user", "text"]
    assert session.parts[0].text.endswith("<rules>\n- Use bash\n</rules>")
    assert session.system_tokens
    assert session.problems == []


def opencode(*messages: tuple[dict[str, Any], list[dict[str, Any]]], **info: object) -> str:
    """An export of OpenCode."""
    about = {"id": "ses_1", "directory": "/w", "time": {"created": 1, "updated": 2}, **info}
    listed = [{"info": {"id": f"m{number}", **head}, "parts": parts} for number, (head, parts) in enumerate(messages)]
    return json.dumps({"info": about, "messages": listed})


def test_calls_on_an_abandoned_branch_were_paid(tmp_path: Path) -> None:
    user = ({"role": "user"}, [{"type": "text", "text": "Go."}])
    tokens = {"input": 1_000, "output": 10, "cache": {"read": 0, "write": 0}}
    step = [{"type": "text", "text": "Yes."}, {"type": "step-finish", "tokens": tokens}]
    answer = ({"role": "assistant", "modelID": "gpt-5.1", "providerID": "openai", "cost": 0.25}, step)
    path = tmp_path / "s.json"
    path.write_text(opencode(user, answer, user, answer, revert={"messageID": "m2"}))
    (session,) = map(check, read_session(path))
    assert kinds(session) == ["user", "text"]
    recorded = recorded_cost(session)
    assert recorded.account.at_least == 0.25  # what a replay makes, too
    assert recorded.paid == 0.5
    assert recorded.complete
    assert recorded.bounds == "with $0.25 for abandoned branches"
    never = Totals(cost=Cost(fresh=0.25))
    data = recorded.to_dict(never)
    assert {data[key] for key in ("cost_usd", "total_usd", "cost_at_least_usd")} == {0.5}, "one name, one figure"
    assert data["model_calls"] == data["priced_calls"] == 2
    assert data["ratio"] is None, "never evicting does not make these calls"
    assert replace(recorded, abandoned=Account()).to_dict(never)["ratio"] == 1


def copilot(kind: str, number: int, **data: object) -> dict[str, Any]:
    return {
        "type": kind,
        "data": data,
        "id": f"e{number}",
        "parentId": f"e{number - 1}" if number else None,
        "timestamp": f"2026-11-28T19:00:{number:02}.000Z",
    }


def copilot_answer(number: int, **more: object) -> dict[str, Any]:
    return copilot("assistant.message", number, content="Yes.", toolRequests=[], model="gpt-5.1", **more)


def test_copilot_records_the_usage_of_each_call_ahead_of_its_answer(tmp_path: Path) -> None:
    usage = {
        "model": "gpt-5.1",
        "inputTokens": 900,
        "outputTokens": 20,
        "cacheReadTokens": 500,
        "cacheWriteTokens": 100,
    }
    used = {**usage, "apiCallId": "c1", "toolTokenCount": 70, "cost": 1.0, "reasoningEffort": "high"}
    summary = {**usage, "apiCallId": "c2"}
    path = write_lines(
        tmp_path / "events.jsonl",
        copilot("session.start", 0, copilotVersion="1.0.102"),
        copilot("user.message", 1, content="Go."),
        copilot("session.usage_record", 2, usage=used),
        copilot_answer(3, apiCallId="c1"),
        copilot("session.usage_record", 4, usage=summary),
    )
    (session,) = map(check, read_session(path))
    (call,) = session.calls
    assert (call.usage, call.cost, call.effort) == (CallUsage(300, 500, 100, 20), None, "high")
    assert [aside.usage for aside in session.asides] == [CallUsage(300, 500, 100, 20)]  # of no answer
    assert (session.system_tokens, session.totals) == (70, [])


def test_copilot_records_sums_when_it_ends_which_add_up_if_it_was_resumed(tmp_path: Path) -> None:
    usage = {"inputTokens": 2_000, "outputTokens": 30, "cacheReadTokens": 1_500, "cacheWriteTokens": 0}
    metrics = {"gpt-5.1": {"requests": {"count": 1, "cost": 1}, "usage": usage}}
    end = {"modelMetrics": metrics, "systemTokens": 400, "toolDefinitionsTokens": 600}
    path = write_lines(
        tmp_path / "events.jsonl",
        copilot("user.message", 0, content="Go."),
        copilot_answer(1, outputTokens=30),
        copilot("session.shutdown", 2, **end),
        copilot("session.resume", 3),
        copilot_answer(4, outputTokens=30),
        copilot("session.shutdown", 5, **end),
    )
    (session,) = map(check, read_session(path))
    assert session.system_tokens == 1_000
    assert [call.usage for call in session.calls] == [CallUsage(0, output=30)] * 2
    account = recorded_cost(session).account
    assert (account.calls, account.input_tokens, account.output_tokens) == (2, 4_000, 60)
    assert account.at_least == pytest.approx(2 * (500 * 1.25 + 1_500 * 0.125 + 30 * 10) / 1e6)


def test_mini_swe_agent_records_the_response_and_its_cost_beside_an_answer(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 500}}
    extra = {"response": {"model": "gpt-5.1-2025-11-13", "usage": usage}, "cost": 0.002, "timestamp": 1_795_000_000.5}
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "Yes.", "extra": extra},
    ]
    (tmp_path / "t.json").write_text(json.dumps({"trajectory_format": "mini-swe-agent-1.1", "messages": messages}))
    (session,) = map(check, read_session(tmp_path / "t.json"))
    (call,) = session.calls
    assert (call.usage, call.cost, call.model) == (CallUsage(400, 500, 0, 20), 0.002, "gpt-5.1-2025-11-13")
    assert call.at == 1_795_000_000.5


def test_pi_records_what_a_summary_cost(tmp_path: Path) -> None:
    usage = {"input": 100, "output": 20, "cacheRead": 30, "cacheWrite": 50, "cacheWrite1h": 50, "cost": {"total": 0.01}}
    path = write_lines(
        tmp_path / "s.jsonl",
        {"type": "session", "version": 3, "id": "s", "cwd": "/w"},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "Go."}},
        {"type": "compaction", "id": "b", "parentId": "a", "summary": "So.", "firstKeptEntryId": "a", "usage": usage},
    )
    (session,) = map(check, read_session(path))
    (aside,) = session.asides
    assert (aside.usage, aside.cost) == (CallUsage(100, 30, 50, 20, 50), 0.01)


def test_goose_records_the_provider_and_what_a_call_cost() -> None:
    (session,) = map(check, read_session(RECORDINGS / "goose.json"))
    assert {call.priced_as for call in session.calls} == {"anthropic:claude-sonnet-4-5"}
    assert session.calls[1].cost == 0.01356
    assert all(call.cost for call in session.calls)


@pytest.mark.parametrize(
    ("provider", "model", "name"),
    [
        ("openrouter", "anthropic/claude-sonnet-4.5", "openrouter:anthropic/claude-sonnet-4.5"),
        ("", "anthropic/claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("my-gateway", "anthropic/claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("my-gateway", "gpt-5.1", "gpt-5.1"),
        ("ollama", "qwen3-coder:30b", "ollama:qwen3-coder:30b"),  # the list does not have it
    ],
)
def test_a_model_is_named_as_the_price_list_has_it(provider: str, model: str, name: str) -> None:
    assert listed_name(provider, model) == name
