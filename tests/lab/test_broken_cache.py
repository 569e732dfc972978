"""What broke the cache of recorded sessions, counted by code that shares nothing with Wane's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.lab.test_overview import RATES, SHARED, lines_of, needs_sessions, rows_in

SMALLEST: Final = 1_024
"""Up to so many tokens paid again are no break: caches hold a prefix in steps, and the last one may be missing."""

_NOT_RECORDED: Final = ("", "reported")
"""Causes that do not follow from what the client recorded: none was found, or the provider told it."""


@dataclass
class Request:
    """A request as its client recorded it: `since` names what the client recorded between it and the one before."""

    model: str
    at: float
    input: int
    read: int
    written: int
    hour: int
    cached: int
    since: set[str]
    effort: str = ""


@dataclass
class Broken:
    """A request that paid again, with what caused it, if that was recorded; and what it paid in dollars."""

    request: Request
    cause: str
    dollars: float


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def requests_of_claude_code(path: Path) -> list[list[Request]]:
    """The requests of a session and of each sub-agent in its file; of the lines of one answer the last counts."""
    agents: dict[str, dict[tuple[str, str], Request]] = {}
    since: dict[str, set[str]] = {}
    for record in lines_of(path):
        line, agent = record, record.get("agentId", "side") if record.get("isSidechain") else ""
        if record["type"] == "progress" and record["data"].get("type") == "agent_progress":
            line, agent = record["data"]["message"], f"progress {record['data']['agentId']}"
        if record.get("isCompactSummary") or record.get("subtype") == "compact_boundary":
            since.setdefault(agent, set()).add("compaction")
        if line.get("type") != "assistant" or line["message"]["model"] == "<synthetic>":
            continue
        message, known = line["message"], agents.setdefault(agent, {})
        usage = message["usage"]
        read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
        hour = usage.get("cache_creation", {}).get("ephemeral_1h_input_tokens", 0)
        request = Request(
            message["model"],
            seconds(line.get("timestamp") or record["timestamp"]),
            usage["input_tokens"] + read + written,
            read,
            written,
            hour,
            read + written,
            since.pop(agent, set()),
        )
        if reason := (message.get("diagnostics") or {}).get("cache_miss_reason"):
            request.since.add("reported" if reason["type"] != "messages_changed" else "other messages")
        key = message["id"], line.get("requestId", "")
        if key in known:
            request.since |= known[key].since
        known[key] = request
    return [list(requests.values()) for requests in agents.values()]


def requests_of_codex(path: Path) -> list[list[Request]]:
    requests: list[Request] = []
    model, effort, before, since, answered = "", "", None, set[str](), ""
    for record in lines_of(path):
        payload = record["payload"]
        if record["type"] == "turn_context":
            model, effort = payload["model"], payload.get("effort") or ""
        elif record["type"] == "compacted":
            since.add("compaction")
        elif payload.get("type") in ("message", "reasoning", "function_call", "custom_tool_call"):
            answered = record["timestamp"]
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if not info or info["total_token_usage"] == before:
            continue
        before, usage = info["total_token_usage"], info["last_token_usage"]
        # GPT-5.5 caches in steps of 512 tokens, 128 of which stand ahead of the request; others in steps of 128.
        step, ahead = (512, 128) if model == "gpt-5.5" else (128, 0)
        cached = max(0, (usage["input_tokens"] + ahead) // step * step - ahead)
        sizes = usage["input_tokens"], usage["cached_input_tokens"], 0, 0, cached
        requests.append(Request(model, seconds(answered or record["timestamp"]), *sizes, since, effort))
        since = set()
    return [requests]


def broken(requests: list[Request]) -> Iterator[Broken]:
    """Compare each request with the last one of the same model, or with the last one of all."""
    requests = [request for request in requests if request.input]
    head = SMALLEST + min([requests[0].input, *(request.read for request in requests if request.read)])
    lifetimes: dict[str, float] = {}
    for number, request in enumerate(requests):
        earlier = [other for other in requests[:number] if other.model == request.model] or requests[:number]
        again = min(earlier[-1].cached, request.input) - request.read if earlier else 0
        if again > SMALLEST:
            yield Broken(request, cause_of(request, earlier[-1], head, lifetimes), dollars_for(request, again))
        if request.written:
            lifetimes[request.model] = 3_600 if 2 * request.hour > request.written else 300


def cause_of(request: Request, before: Request, head: int, lifetimes: dict[str, float]) -> str:
    # That the messages are others follows from a compaction; of other reports nothing else is known.
    if "reported" in request.since or ("other messages" in request.since and "compaction" not in request.since):
        return "reported"
    # OpenAI keeps entries of these models for half an hour.
    lifetime = lifetimes.get(before.model, 1_800 if before.model.startswith("gpt-5") else 300)
    if request.at - before.at >= lifetime and request.read <= head:
        return "idle"
    if before.model != request.model:
        return "model"
    if before.effort and request.effort and before.effort != request.effort:
        return "settings"
    return "compaction" if "compaction" in request.since else ""


def dollars_for(request: Request, again: int) -> float:
    if request.model not in RATES:
        return 0.0
    fresh, _, read, write, write_hour = RATES[request.model]
    # GPT-5.5 doubles the price of input beyond 272,000 tokens.
    factor = 2 if request.model == "gpt-5.5" and request.input > 272_000 else 1
    rate = write_hour if 2 * request.hour > request.written else write
    written = min(again, request.written)
    return factor * (written * (rate - read) + (again - written) * (fresh - read)) / 1e6


@needs_sessions
@pytest.mark.parametrize(
    "path",
    [path for agent in ("claude-code", "codex") for path in sorted(SHARED.glob(f"{agent}/*.jsonl"))],
    ids=lambda path: path.stem,
)
def test_what_broke_the_cache_is_what_an_independent_count_finds(path: Path) -> None:
    read: Any = requests_of_claude_code if path.parent.name == "claude-code" else requests_of_codex
    own = [entry for requests in read(path) if requests for entry in broken(requests)]
    rows = [row for row in rows_in(path) if row.cause]
    assert len(rows) == len(own)
    assert sum(row.again or 0 for row in rows) == pytest.approx(sum(one.dollars for one in own))
    recorded = Counter((row.cause, row.input, row.read) for row in rows if row.certainty == "recorded")
    counted = Counter((one.cause, one.request.input, one.request.read) for one in own if one.cause not in _NOT_RECORDED)
    assert recorded == counted
    reported = sum(row.certainty == "reported" for row in rows)
    assert reported == sum(one.cause == "reported" for one in own)
