"""What clients are told of the usage of a reply that took several rounds, and where the sums stand."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.server.support import (
    CALLED,
    MARK,
    START,
    STOP,
    Asked,
    ask,
    body,
    call_block,
    event,
    message,
    provider,
    proxy,
    response,
    text_block,
)
from tests.proxy.server.test_managed import replies
from wane.account import Account
from wane.journal import read
from wane.prices import TokenUsage, cost_of
from wane.proxy.server.running import Running
from wane.proxy.sessions.sender import sender_of
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import ReportedUsage
from wane.proxy.store import open_store

CLAUDE = "claude-cli/2.1.329 (external, sdk-cli)"
CODEX = "codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)"
PI = "pi (linux 6.18.44; x64)"
OTHER = "OpenAI/Python 2.30.0"
OWN = {"type": "tool_use", "id": "o1", "name": "delimiter", "input": MARK}
ALONE = message(content=[OWN], stop_reason="tool_use", usage={"input_tokens": 100, "output_tokens": 7})
SAID = message("hi", usage={"input_tokens": 130, "output_tokens": 5})


@pytest.mark.parametrize(
    ("usage", "client", "beside", "last"),
    [
        *(("auto", client, "", True) for client in (CLAUDE, CODEX, "codex_cli_rs/0.1", "codex-tui/1", PI, "pi/0.9")),
        *(("auto", client, "", False) for client in (OTHER, "", "pip/26", "my claude-cli/1")),
        *(("auto", client, "", True) for client in ("opencode/1.18 ai-sdk/4", "QwenCode/0.24", "kimi-code-cli/2")),
        ("sum", CLAUDE, "", False),
        ("last", OTHER, "", True),
        # Earlier versions of pi name its SDKs; a header tells them from others.
        ("auto", "Anthropic/JS 0.91.1", "anthropic-dangerous-direct-browser-access", True),
        ("auto", "OpenAI/JS 6.26.0", "session_id", True),
        # So does Copilot CLI.
        ("auto", "Anthropic/JS 0.107.0", "x-initiator", True),
        ("auto", "OpenAI/JS 5.20.1", "x-initiator", True),
        # And Mistral Vibe.
        ("auto", "python-httpx/0.28.1", "x-affinity", True),
        # In an editor, Codex has the editor's name.
        ("auto", "zed/0.166.0 (Debian 12.0.0; x86_64) dumb (zed; 1)", "x-codex-turn-metadata", True),
        ("auto", "python-httpx/0.28.1", "x-stainless-lang", False),
        ("auto", "Anthropic/JS 0.91.1", "x-stainless-lang", False),
        ("auto", "OpenAI/JS 6.26.0", "anthropic-dangerous-direct-browser-access", False),
        ("auto", "Mozilla/5.0", "anthropic-dangerous-direct-browser-access", False),
    ],
)
def test_agents_that_compact_by_it_are_told_the_last(
    usage: ReportedUsage, client: str, beside: str, last: bool
) -> None:
    headers = {"user-agent": client, beside: "true"}
    sent = [(name.encode(), value.encode()) for name, value in headers.items() if name and value]
    assert sender_of(sent, {}).sums_usage(usage) == (not last)


async def test_no_count_of_an_earlier_round_stays_beside_those_of_the_last() -> None:
    """Clients keep what `message_start` reported unless a later event has another count."""
    first = json.loads(ALONE)
    first["usage"] |= {"cache_read_input_tokens": 5_000, "cache_creation_input_tokens": 700}
    start = event("message_start", message={**first, "content": [], "usage": first["usage"]})
    rounds = [start + call_block("delimiter", MARK) + CALLED, START + text_block("hi") + STOP]

    answers = [response(content, headers={"content-type": "text/event-stream"}) for content in rounds]
    async with provider(replies(*answers)) as up, proxy(up.url) as running:
        answer = await ask(running, body(), headers={"user-agent": PI})
        said = [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line.startswith("data: ")]
        usage = {**said[0]["message"]["usage"], **said[-2]["usage"]}
        assert usage == {
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        }


async def marks(asked: Asked, writer: asyncio.StreamWriter) -> None:
    first = asked.json["messages"][-1]["role"] == "user" and len(asked.json["messages"]) % 4 == 1
    writer.write(response(ALONE if first else SAID))


def turn(number: int, **more: Any) -> dict[str, Any]:
    """The request of one turn of the user, in which the model marks alone first."""
    said = [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]
    sent = body(stream=False, **more)
    return {**sent, "messages": [*sent["messages"], *said * number]}


@pytest.mark.parametrize(("client", "told"), [(CLAUDE, (130, 5)), (OTHER, (230, 12))])
async def test_the_sums_stand_in_headers_status_and_metrics(client: str, told: tuple[int, int]) -> None:
    async with provider(marks) as up, proxy(up.url) as running:
        for number in (1, 2):
            answer = await ask(running, turn(number - 1), headers={"user-agent": client})
            usage = answer.json["usage"]
            assert (usage["input_tokens"], usage["output_tokens"]) == told
            assert answer.header("x-wane-used-input") == str(230 * number)
            assert answer.header("x-wane-used-output") == str(12 * number)
        assert len(up.asked) == 4
        status = await ask(running, b"", "/wane/status", "GET")
        used = {"input": 460, "output": 24, "cache_read": 0, "cache_write": 0, "cache_write_hour": 0}
        assert status.json["sessions"][0]["used"] == used
        metrics = (await ask(running, b"", "/wane/metrics", "GET")).body.decode()
        assert 'wane_tokens_total{api="anthropic",kind="input"} 460.0' in metrics


async def test_a_fork_leaves_what_was_spent_before_it_to_the_other_session(tmp_path: Path) -> None:
    each = {"input": 130, "output": 5, "cache_read": 0, "cache_write": 0, "cache_write_hour": 0}

    async def status(running: Running) -> Any:
        return (await ask(running, b"", "/wane/status", "GET")).json

    price = cost_of(TokenUsage(130, 5), "claude-sonnet-4-5")
    async with provider(replies(response(SAID))) as up:
        async with proxy(up.url, index=SessionIndex(open_store(str(tmp_path)))) as running:
            for number in range(3):
                await ask(running, turn(number, model="claude-sonnet-4-5"))
            forked = turn(2, model="claude-sonnet-4-5")
            forked["messages"][-1] = {"role": "user", "content": "Something else."}
            answer = await ask(running, forked)
            assert answer.header("x-wane-used-input") == "130"
            told = await status(running)
            assert price is not None
            spent = running.traffic.registry.get_sample_value("wane_dollars_total", {"api": "anthropic"})
            assert spent == pytest.approx(4 * price)
            assert told["money"]["spent"] == pytest.approx(4 * price, abs=1e-6)
            assert [session["used"] for session in told["sessions"]] == [each, {**each, "input": 390, "output": 15}]
        journals = [read(path).records for path in tmp_path.rglob("*.jsonl")]
        assert sorted(Account.of(records).calls for records in journals) == [1, 3]
        # A restarted proxy goes on from there.
        forked["messages"] += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]
        async with proxy(up.url, index=SessionIndex(open_store(str(tmp_path)))) as running:
            assert (await ask(running, forked)).header("x-wane-used-input") == "260"
            (session,) = (await status(running))["sessions"]
            assert session["money"]["spent"] == pytest.approx(2 * price, abs=1e-6)


@pytest.mark.parametrize(
    "usage", [{"input_tokens": 0, "output_tokens": 0}, {"input_tokens": -9, "output_tokens": -1}, {}, None]
)
async def test_a_report_of_nothing_is_no_report(usage: dict[str, int] | None) -> None:
    async with provider(replies(response(message("hi", usage=usage)))) as up, proxy(up.url) as running:
        sent = body("word " * 2_000, stream=False)
        views = []
        for _ in range(2):
            answer = await ask(running, sent)
            assert (answer.status, answer.json["usage"]) == (200, usage)
            views.append(int(answer.header("x-wane-view") or 0))
            sent["messages"] += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "More."}]
        # It is counted as if nothing had been said of it.
        assert 2_500 < views[0] < views[1] < views[0] + 10
        assert answer.header("x-wane-used-input") == "0"
