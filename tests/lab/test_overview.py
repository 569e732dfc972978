"""`wane report`: every figure against a count that was written apart from the product's code."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli import sample
from tests.cli.conftest import Run, plain_surroundings, run
from tests.lab.browser import Browser, needs_chromium
from tests.lab.readers import test_pi as pi
from tests.lab.readers.test_recordings import RECORDINGS, load_recording, opencode_database
from tests.lab.readers.writing import write_lines
from wane.core import Kind, chars
from wane.core.errors import WaneError
from wane.core.items import ASSISTANT
from wane.lab.cache.paid_again import examine
from wane.lab.counting import count, measure
from wane.lab.file_store import Source
from wane.lab.overview.figure_store import FigureReader, FigureStore, Terms
from wane.lab.overview.overview import Overview, summarise
from wane.lab.overview.recording_figures import (
    CallRow,
    Calls,
    CompactionRow,
    LostMessage,
    SessionFigures,
    Simulation,
    figures_of,
)
from wane.lab.readers import Recording, figures_alone, read_session
from wane.lab.recorded_session import CallUsage, RecordedSession
from wane.lab.replaying.managed import money_of
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import study
from wane.lab.report.headline import headline_of
from wane.lab.report.overview import overview_dict, write_overview
from wane.lab.report.simulating import simulate_sessions
from wane.lab.report.tiles import tiles_of
from wane.rewrites import Cause
from wane.savings import CostChange

__all__ = ["plain_surroundings", "run"]  # fixtures

SHARED = Path(__file__).parents[3] / "shared" / "sessions"
needs_sessions = pytest.mark.skipif(not SHARED.is_dir(), reason=f"there are no recorded sessions at {SHARED}")

# Dollars for a million tokens: input, output, read from the cache, written to it for 5 minutes and for an hour.
RATES = {
    "claude-opus-4-5-20251101": (5, 25, 0.5, 6.25, 10),
    "claude-opus-4-6": (5, 25, 0.5, 6.25, 10),
    "claude-opus-5": (5, 25, 0.5, 6.25, 10),
    "claude-sonnet-4-6": (3, 15, 0.3, 3.75, 6),
    "claude-haiku-4-5-20251001": (1, 5, 0.1, 1.25, 2),
    "gpt-5.5": (5, 30, 0.5, 5, 5),
}


@dataclass
class Own:
    """A count of one's own: calls, tokens, and dollars without output."""

    calls: int = 0
    input: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    dollars: float = 0.0


Paid = tuple[str, str, dict[str, Any]]
"""A call as its client recorded it: the time, the model and the usage."""


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def answers_in(value: Any) -> Iterator[dict[str, Any]]:
    """Anthropic's answers anywhere in a record: those of sub-agents stand within others."""
    if isinstance(value, dict):
        if str(value.get("id", "")).startswith("msg_") and isinstance(value.get("usage"), dict):
            yield value
        for entry in value.values():
            yield from answers_in(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from answers_in(entry)


def calls_of_claude_code(path: Path) -> Iterator[Paid]:
    last: dict[str, Paid] = {}
    for record in lines_of(path):
        for answer in answers_in(record):
            last[answer["id"]] = record["timestamp"], answer["model"], answer["usage"]
    yield from last.values()


def calls_of_codex(path: Path) -> Iterator[Paid]:
    model, before = "", None
    for record in lines_of(path):
        payload = record["payload"]
        if record["type"] == "turn_context":
            model = payload["model"]
        if payload.get("type") != "token_count" or not payload.get("info"):
            continue
        if payload["info"]["total_token_usage"] == before:
            continue  # the same report again
        before = payload["info"]["total_token_usage"]
        yield record["timestamp"], model, payload["info"]["last_token_usage"]


def calls_of_pi(path: Path) -> Iterator[Paid]:
    for record in lines_of(path):
        message = record.get("message", {})
        if message.get("role") == "assistant":
            yield record["timestamp"], message["model"], message["usage"]


def own_count_of_claude_code(path: Path) -> Own:
    own = Own()
    for _, model, usage in calls_of_claude_code(path):
        fresh, read = usage["input_tokens"], usage.get("cache_read_input_tokens", 0)
        written = usage.get("cache_creation_input_tokens", 0)
        hour = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0)
        rates = RATES[model]
        own.calls += 1
        own.input += fresh + read + written
        own.read += read
        own.written += written
        own.output += usage["output_tokens"]
        own.dollars += (fresh * rates[0] + read * rates[2] + (written - hour) * rates[3] + hour * rates[4]) / 1e6
    return own


def own_count_of_codex(path: Path) -> Own:
    own = Own()
    for _, model, usage in calls_of_codex(path):
        own.calls += 1
        own.input += usage["input_tokens"]
        own.read += usage["cached_input_tokens"]
        own.output += usage["output_tokens"]
        if model in RATES:
            fresh = usage["input_tokens"] - usage["cached_input_tokens"]
            own.dollars += (fresh * RATES[model][0] + usage["cached_input_tokens"] * RATES[model][2]) / 1e6
    return own


def figures_in(path: Path) -> list[SessionFigures]:
    reader = FigureReader(Terms(80_000, "anthropic:claude-sonnet-4-5"), FigureStore(None), 1)
    reader.read([Source.of(path, 0.0, 0)])
    assert not reader.unread
    return reader.figures[str(path)]


def rows_in(path: Path) -> list[CallRow]:
    return [row for figures in figures_in(path) for _, row in figures.calls.rows()]


def sums(rows: list[CallRow]) -> tuple[int, int, int]:
    return sum(row.input for row in rows), sum(row.read for row in rows), sum(row.written for row in rows)


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("claude-code/*.jsonl")), ids=lambda path: path.stem)
def test_claude_code_by_a_count_of_ones_own(path: Path) -> None:
    own, rows = own_count_of_claude_code(path), rows_in(path)
    assert sum(row.calls for row in rows) == own.calls
    assert sums(rows) == (own.input, own.read, own.written)
    # Where the client recorded a placeholder, the output is counted by its text, which is no part of the cost.
    output = sum(row.output * RATES[row.model][1] for row in rows if not row.estimated) / 1e6
    assert sum(row.dollars for row in rows) - output == pytest.approx(own.dollars)
    assert sum(row.output for row in rows) >= own.output
    guessed = sum(row.output * RATES[row.model][1] for row in rows if row.estimated) / 1e6
    assert sum(row.guessed for row in rows) == pytest.approx(guessed)
    assert not any(row.priced for row in rows if row.estimated)


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("codex/*.jsonl")), ids=lambda path: path.stem)
def test_codex_by_a_count_of_ones_own(path: Path) -> None:
    own, rows = own_count_of_codex(path), [row for row in rows_in(path) if row.input]
    assert sums(rows)[:2] == (own.input, own.read)
    assert (len(rows), sum(row.output for row in rows)) == (own.calls, own.output)
    output = sum(row.output * RATES[row.model][1] for row in rows if row.priced) / 1e6
    assert sum(row.dollars for row in rows) - output == pytest.approx(own.dollars)


GEMINI_RATES = {
    "gemini-2.5-pro": ((1.25, 0.125, 10), (2.5, 0.25, 15)),
    "gemini-3.1-pro-preview": ((2, 0.2, 12), (4, 0.4, 18)),
}
"""Dollars for a million tokens of input, of input from the cache and of output: up to 200,000 tokens, and above."""


@pytest.mark.parametrize("model", GEMINI_RATES)
def test_long_prompts_of_gemini_by_a_count_of_ones_own(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """A whole request of more than 200,000 tokens costs more, what it reads from the cache and its output, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines = list(lines_of(RECORDINGS / "gemini-cli.jsonl"))
    names = dict.fromkeys(line["id"] for line in lines if line.get("type") == "gemini")
    # Input, of it from the cache, output and thoughts.
    sizes = dict(
        zip(names, [(200_000, 0, 1_200, 60), (200_001, 190_000, 700, 300), (340_000, 0, 2_000, 0)], strict=True)
    )
    dollars = 0.0
    for size, cached, output, thoughts in sizes.values():
        fresh, read, written = GEMINI_RATES[model][size > 200_000]
        dollars += ((size - cached) * fresh + cached * read + (output + thoughts) * written) / 1e6
    for line in lines:
        if line.get("type") == "gemini":
            fields = dict(zip(("input", "cached", "output", "thoughts"), sizes[line["id"]], strict=True))
            line.update(model=model, tokens=fields)
    path = write_lines(tmp_path / "s.jsonl", *lines)
    total = json.loads(run("report", path, "--json").out)["total"]
    assert (total["calls"], total["priced"], total["dollars"]) == (3, 3, pytest.approx(dollars, rel=1e-12))
    recorded = json.loads(run("replay", path, "--strategy", "none", "--json", "--workers", "1").out)["recorded"]
    assert recorded["cost_usd"] == pytest.approx(dollars, rel=1e-12)


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("pi/*.jsonl")), ids=lambda path: path.stem)
def test_pi_by_a_count_of_ones_own(path: Path) -> None:
    usages = [usage for _, _, usage in calls_of_pi(path)]
    paid = [usage for usage in usages if usage["input"] + usage["cacheRead"] + usage["cacheWrite"]]
    rows = [row for row in rows_in(path) if row.input]
    assert len(rows) == len(paid)
    assert sum(row.read for row in rows) == sum(usage["cacheRead"] for usage in paid)
    assert sum(row.output for row in rows if row.output) >= sum(usage["output"] for usage in paid)
    assert sum(row.dollars for row in rows) == pytest.approx(sum(usage["cost"]["total"] for usage in paid))


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("pi/*.jsonl")), ids=lambda path: path.stem)
def test_what_broke_the_cache_by_a_count_of_ones_own(path: Path) -> None:
    """Each request reads what the one before of the same model read and wrote; what is missing was paid again."""
    usages = []
    for _, model, usage in calls_of_pi(path):
        if usage["input"] + usage["cacheRead"] + usage["cacheWrite"]:
            usages.append((model, usage))
    assert len({model for model, _ in usages}) == 1
    rates, times, dollars = {"claude-opus-4-5": (5, 0.5, 6.25), "claude-sonnet-4-5": (3, 0.3, 3.75)}, 0, 0.0
    for (_, before), (model, usage) in pairwise(usages):
        total = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        again = min(before["cacheRead"] + before["cacheWrite"], total) - usage["cacheRead"]
        if again > 1_024:
            fresh, read, write = rates[model]
            # Sonnet 4.5 doubles the price of input beyond 200,000 tokens.
            factor = 2 if model == "claude-sonnet-4-5" and total > 200_000 else 1
            written = min(again, usage["cacheWrite"])
            times += 1
            dollars += factor * (written * (write - read) + (again - written) * (fresh - read)) / 1e6
    rows = [row for row in rows_in(path) if row.cause]
    assert (len(rows), sum(row.again or 0 for row in rows)) == (times, pytest.approx(dollars))


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("pi/*.jsonl")), ids=lambda path: path.stem)
def test_the_words_that_compactions_took_by_a_count_of_ones_own(path: Path) -> None:
    records = list(lines_of(path))
    places = {record.get("id"): number for number, record in enumerate(records)}
    taken: dict[int, str] = {}
    for number, record in enumerate(records):
        if record["type"] != "compaction":
            continue
        # Older files number their entries.
        until = record.get("firstKeptEntryIndex", number)
        if "firstKeptEntryId" in record:
            until = places[record["firstKeptEntryId"]]
        for place, earlier in enumerate(records[:until]):
            message = earlier.get("message", {})
            if message.get("role") != "user":
                continue
            content = message["content"]
            blocks = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
            text = "".join(blocks).strip()
            if text and text not in record["summary"]:
                taken.setdefault(place, text)
    lost = [message for figures in figures_in(path) for one in figures.compactions for message in one.lost]
    assert (len(lost), sum(message.words for message in lost)) == (
        len(taken),
        sum(len(text.split()) for text in taken.values()),
    )


HARNESS = (
    "<bash-std",
    "<local-command",
    "<system-reminder>",
    "<task-notification>",
    "Operation stopped by hook",
    "[Request interrupted",
)
"""How texts begin that Claude Code writes in a person's place."""


def command_or_text(text: str) -> str:
    """What a person typed: a command stands between marks."""
    if "<command-name>" in text:
        name = text.partition("<command-name>")[2].partition("</command-name>")[0]
        arguments = text.partition("<command-args>")[2].partition("</command-args>")[0]
        return f"{name} {arguments}".strip()
    if text.startswith("<bash-input>"):
        return "! " + text.removeprefix("<bash-input>").partition("</bash-input>")[0].strip()
    return text


def own_messages_of_claude_code(path: Path) -> tuple[list[str], dict[int, str]]:
    """A person's messages, and by number those that compactions took."""
    records, typed, taken = list(lines_of(path)), list[str](), dict[int, str]()
    attached = [record["attachment"] for record in records if record.get("type") == "attachment"]
    queued_too = {str(one.get("prompt")).strip() for one in attached if one["type"] == "queued_command"}
    seen, waiting = set[str](), list[str]()
    after: dict[str, str] = {}
    for record in records:
        if "uuid" in record:
            after[record["uuid"]] = record.get("parentUuid") or record.get("logicalParentUuid")
    # The records before the last one: what the person took back is not among them.
    sent, latest = set[str](), next(one["uuid"] for one in reversed(records) if one["type"] in ("user", "assistant"))
    while latest:
        sent.add(latest)
        latest = after.get(latest, "")
    for number, record in enumerate(records):
        if record.get("uuid") in seen:
            continue
        seen.add(record.get("uuid", ""))
        if record.get("subtype") == "compact_boundary":
            summary = next(later for later in records[number:] if later.get("isCompactSummary"))
            content = summary["message"]["content"]
            told = content if isinstance(content, str) else "".join(block["text"] for block in content)
            for place, text in enumerate(typed):
                if text not in told:
                    taken.setdefault(place, command_or_text(text))
        elif record["type"] == "queue-operation":
            text = record.get("content", "")
            match record["operation"]:
                case "enqueue" if not text.startswith(("<", "{")):  # those are told to the agent by the client
                    waiting.append(text)
                case "dequeue" | "remove" if waiting:
                    text = text if text in waiting else waiting[0]
                    waiting.remove(text)
                    if record["operation"] == "remove":
                        typed += [] if text.strip() in queued_too else [text.strip()]
                case "popAll":
                    waiting.clear()
        elif record["type"] == "attachment" and record["attachment"]["type"] == "queued_command":
            attachment = record["attachment"]
            if attachment.get("commandMode", "prompt") == "prompt" and isinstance(attachment["prompt"], str):
                typed.append(attachment["prompt"].strip())
        elif record["type"] == "user" and not (record.get("isSidechain") or record.get("isMeta")):
            content = record["message"]["content"]
            blocks = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
            texts = [text for text in blocks if text.strip() and not text.lstrip().startswith(HARNESS)]
            if texts and not record.get("isCompactSummary") and record["uuid"] in sent:
                typed.append("\n".join(texts).strip())
    return typed, taken


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("claude-code/*.jsonl")), ids=lambda path: path.stem)
def test_a_persons_words_in_claude_code_by_a_count_of_ones_own(path: Path) -> None:
    typed, taken = own_messages_of_claude_code(path)
    (session,) = read_session(path)
    assert Counter(text_of_turns(session)) == Counter(typed)
    assert lost_in(path) == (len(taken), sum(len(text.split()) for text in taken.values()))


def text_of_turns(session: RecordedSession) -> list[str]:
    return [text for turn in session.user_turns if (text := session.parts[turn].text.strip())]


def lost_in(path: Path) -> tuple[int, int]:
    lost = [message for figures in figures_in(path) for one in figures.compactions for message in one.lost]
    return len(lost), sum(message.words for message in lost)


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("codex/*.jsonl")), ids=lambda path: path.stem)
def test_a_persons_words_in_codex_by_a_count_of_ones_own(path: Path) -> None:
    """Codex sends a person's messages again after a compaction, as it records."""
    typed, taken = list[str](), dict[int, str]()
    for record in lines_of(path):
        payload = record["payload"]
        if payload.get("type") == "user_message":
            typed.append(payload["message"].strip())
        elif record["type"] == "compacted":
            kept = json.dumps(payload["replacement_history"], ensure_ascii=False)
            for place, text in enumerate(typed):
                if json.dumps(text, ensure_ascii=False)[1:-1] not in kept:
                    taken.setdefault(place, text)
    (session,) = read_session(path)
    assert Counter(text_of_turns(session)) == Counter(typed)
    assert lost_in(path) == (len(taken), sum(len(text.split()) for text in taken.values()))


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("pi/*.jsonl")), ids=lambda path: path.stem)
def test_a_persons_words_in_pi_by_a_count_of_ones_own(path: Path) -> None:
    typed = []
    for record in lines_of(path):
        message = record.get("message", {})
        if message.get("role") == "user":
            content = message["content"]
            typed.append(content if isinstance(content, str) else "\n".join(block["text"] for block in content))
    (session,) = read_session(path)
    assert Counter(text_of_turns(session)) == Counter(text.strip() for text in typed)


@needs_sessions
@pytest.mark.parametrize("path", sorted(SHARED.glob("copilot-cli/*.jsonl")), ids=lambda path: path.stem)
def test_copilot_by_a_count_of_ones_own(path: Path) -> None:
    """It recorded the output of each call, and no input, so that no call has a price."""
    answers = [record["data"] for record in lines_of(path) if record["type"] == "assistant.message"]
    typed = [record["data"]["content"] for record in lines_of(path) if record["type"] == "user.message"]
    (session,) = read_session(path)
    turns = text_of_turns(session)
    assert len(turns) == len(typed)
    # The client sends the time and its reminders beside a person's words.
    assert all(words.strip() in turn for words, turn in zip(typed, turns, strict=True))
    rows = rows_in(path)
    assert sum(row.calls for row in rows) == len(answers)
    outputs = [call.usage.output or 0 for call in session.calls if call.usage]
    assert sum(outputs) == sum(answer["outputTokens"] for answer in answers)
    assert {row.model for row in rows} == {answer["model"] for answer in answers}
    assert sums(rows) == (0, 0, 0)
    assert sum(row.output for row in rows) == sum(outputs)
    assert not any(row.priced for row in rows)


@needs_sessions
def test_runs_of_terminal_bench_by_a_count_of_ones_own() -> None:
    """They hold messages alone: calls without usage."""
    for path in sorted(SHARED.glob("terminal-bench-2/*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        messages = data if isinstance(data, list) else data["messages"]
        roles = Counter(message["role"] for message in messages)
        rows = rows_in(path)
        assert (sum(row.calls for row in rows), sum(row.priced for row in rows)) == (roles["assistant"], 0)
        (session,) = read_session(path)
        typed = [str(message["content"]).strip() for message in messages if message["role"] == "user"]
        assert Counter(text_of_turns(session)) == Counter(typed)


EVERY_SESSION = [
    path
    for folder in (SHARED, SHARED.parent / "failing", RECORDINGS)
    for path in sorted(folder.rglob("*"))
    if path.is_file()
]


@pytest.mark.parametrize("path", EVERY_SESSION, ids=lambda path: path.name)
def test_read_for_figures_alone_a_session_has_the_same_figures(path: Path) -> None:
    try:
        whole = read_session(path)
    except WaneError:
        return
    with figures_alone():
        light = read_session(path)
    for first, second in zip(with_sub_agents(whole), with_sub_agents(light), strict=True):
        for name in {entry.name for entry in fields(RecordedSession)} - {"parts", "sidechains"}:
            assert getattr(second, name) == getattr(first, name), name
        sizes = [(part.kind, part.tokens(chars)) for part in second.parts]
        assert sizes == [(part.kind, part.tokens(chars)) for part in first.parts]
        assert examine(second).to_dict() == examine(first).to_dict()
        assert measure(second) == measure(first)
        terms = 5.0, 80_000, "anthropic:claude-sonnet-4-5"
        assert figures_of(second, *terms) == figures_of(first, *terms)


def with_sub_agents(sessions: Iterable[RecordedSession]) -> Iterator[RecordedSession]:
    for session in sessions:
        yield session
        yield from with_sub_agents(session.sidechains)


@needs_sessions
def test_read_for_figures_alone_a_session_has_no_text_of_results_or_models() -> None:
    with figures_alone():
        sessions = read_session(SHARED / "claude-code")
    parts = [part for session in sessions for part in session.parts]
    sized = [part for part in parts if part.kind is Kind.RESULT or part.kind in ASSISTANT]
    assert len(sized) > 1_000
    assert not any(part.text or part.tool or part.arguments for part in sized)
    # Parts of one kind and size are one object.
    assert len({id(part) for part in sized}) == len({(part.kind, part.extra_tokens) for part in sized})


NOON = datetime(2026, 11, 20, 12).astimezone()
DAY = date(2026, 11, 20)


def row(number: int, **values: Any) -> CallRow:
    return replace(CallRow(f"c{number}", NOON.timestamp(), "m", 1, 1, 2.0, 1, 100, 50, 10, 5), **values)


def make_figures(name: str, calls: list[CallRow], **values: Any) -> SessionFigures:
    figures = SessionFigures("codex", name, name, "", name, False, Calls.of(calls), (), Simulation(), NOON.timestamp())
    return replace(figures, **values)


AGENTS: dict[str, tuple[Callable[[Path], Iterator[Paid]], tuple[str, ...]]] = {
    "claude-code": (
        calls_of_claude_code,
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ),
    "codex": (calls_of_codex, ("input_tokens",)),
    "pi": (calls_of_pi, ("input", "cacheRead", "cacheWrite")),
}
"""By folder, how to read the calls, and the fields of a usage that add up to its input."""


@needs_sessions
def test_days_agents_and_models_of_recorded_sessions_by_a_count_of_ones_own() -> None:
    figures, days, models = list[SessionFigures](), Counter[tuple[str, date]](), Counter[str]()
    for agent, (calls_of, names) in AGENTS.items():
        for path in sorted(SHARED.glob(f"{agent}/*.jsonl")):
            figures += figures_in(path)
            for at, model, usage in calls_of(path):
                tokens = sum(usage.get(name, 0) for name in names)
                days[agent, datetime.fromisoformat(at).astimezone().date()] += tokens
                models[model] += tokens
    overview = summarise(figures, None, date.max)
    told = Counter[tuple[str, date]]()
    for day, agents in overview.by_day.items():
        told.update({(agent, day): sums.input for agent, sums in agents.items()})
    assert +told == +days
    assert +Counter({model: sums.input for model, sums in overview.by_model.items()}) == +models


def test_days_agents_models_and_causes_add_up_to_the_whole() -> None:
    first = make_figures("a", [row(1), row(2, at=NOON.timestamp() - 86_400, model="n"), row(3, priced=0, dollars=0.0)])
    second = make_figures(
        "b",
        [row(4, cause="idle", certainty="inferred", again=0.5), row(5, cause="tools", certainty="recorded")],
        source="claude-code",
    )
    old = make_figures("old", [row(6, at=NOON.timestamp() - 40 * 86_400)])
    overview = summarise([first, second, old], date(2026, 10, 22), DAY)
    assert (overview.total.calls, overview.total.priced, overview.total.dollars) == (5, 4, 8.0)
    for parts in (overview.by_agent, overview.by_model):
        assert sum(part.dollars for part in parts.values()) == 8.0
        assert sum(part.calls for part in parts.values()) == 5
    days = {day: sum(part.dollars for part in parts.values()) for day, parts in overview.by_day.items()}
    assert days == {date(2026, 11, 19): 2.0, DAY: 6.0}
    assert {cause: (one.times, one.dollars, one.priced) for cause, one in overview.causes.items()} == {
        Cause.IDLE: (1, 0.5, 1),
        Cause.TOOLS: (1, 0.0, 0),
    }
    assert {cause: one.inferred for cause, one in overview.causes.items()} == {Cause.IDLE: 1, Cause.TOOLS: 0}
    assert [summary.figures.name for summary in overview.sessions] == ["a", "b"], "nothing of the old one counts"
    data = overview_dict(overview)
    assert sum(sum(values) for _, values, _ in data["days"]) == pytest.approx(data["total"]["dollars"])
    assert [day for day, _, _ in data["days"]] == ["2026-11-19", "2026-11-20"], "the sessions' own days"
    assert data["days"][0][1:] == [[0, 2.0], [False, False]]
    assert data["days"][1][1:] == [[4.0, 2.0], [False, True]], "one call of that day has no price"
    assert (data["since"], data["until"]) == ("2026-11-19", "2026-11-20")


def test_a_cost_without_the_calls_that_wrote_summaries_is_a_lower_bound() -> None:
    """A client's summary costs a call; where the recording lacks it, no figure covers it."""
    session = make_figures("a", [row(1), row(2, summaries=2), row(3, model="n")])
    overview = summarise([SessionFigures.read(json.loads(json.dumps(session.to_dict())))], DAY, DAY)
    assert (overview.total.priced, overview.total.calls) == (3, 3)
    assert not overview.total.complete
    assert {model: sums.complete for model, sums in overview.by_model.items()} == {"m": False, "n": True}
    assert overview_dict(overview)["total"]["summaries"] == 2
    assert overview.say_saving(Simulation(3, 4.0, 2.0, 3.0)) == "at least 25% less"


def test_a_cost_without_output_that_was_not_recorded_is_a_lower_bound() -> None:
    """A count of its text may be too high: it is no part of the cost, and named beside it."""
    session = make_figures("a", [row(1), row(2, priced=0, estimated=1, guessed=0.5)])
    overview = summarise([SessionFigures.read(json.loads(json.dumps(session.to_dict())))], DAY, DAY)
    assert overview.total.say_cost("?") == "≥$4.00"
    total = overview_dict(overview)["total"]
    assert (total["complete"], total["priced"], total["estimated"], total["guessed"]) == (False, 1, 1, 0.5)


@needs_sessions
@pytest.mark.parametrize("source", ["claude-code", "pi", "codex"])
def test_a_report_says_of_each_session_what_a_replay_says_of_its_bounds(source: str) -> None:
    for session in read_session(SHARED / source):
        figures = figures_of(session, NOON.timestamp(), 80_000, "anthropic:claude-opus-4-6")
        bounded = sum(one.summaries for one in figures.calls.groups)
        lacking = max(0, len(session.compactions) - len(session.asides))
        assert bounded == (lacking if session.calls and not session.totals else 0), session.name


def test_a_call_in_several_files_counts_once_and_a_sub_agent_with_its_parent() -> None:
    later = NOON.timestamp() + 10
    fork = make_figures("fork", [row(1), row(2, at=later)], modified=later)
    child = make_figures("child", [row(9, at=later)], parent="a")
    overview = summarise([fork, child, make_figures("a", [row(1)])], DAY, DAY)
    assert overview.total.calls == 3
    assert {summary.figures.name: summary.sums.calls for summary in overview.sessions} == {"a": 2, "fork": 1}


def test_what_the_proxy_recorded_too_counts_once() -> None:
    calls = [row(1, id="", input=100), row(2, id="", input=200)]
    client = make_figures("client", calls, source="claude-code")
    proxied = make_figures("proxied", [*calls, row(3, id="", input=300)], source="journal", managed=True)
    assert summarise([client, proxied], DAY, DAY).total.calls == 3
    other = replace(client, calls=Calls.of([row(7, id="", input=7)]))
    assert summarise([other, proxied], DAY, DAY).total.calls == 4


def test_what_the_proxy_has_of_a_named_session_takes_its_place_and_nothing_else_of_it_counts() -> None:
    calls = [row(1, id="", input=100), row(2, id="", input=200)]
    client = make_figures("client", calls, source="claude-code")
    proxied = make_figures("proxied", [*calls, row(3, id="", input=300)], source="journal", managed=True)
    child = make_figures("child", [row(4, id="", input=400)], source="journal", parent="proxied")
    other = make_figures("other", [row(5, id="", input=500)], source="journal", agent="codex")
    overview = summarise([client], DAY, DAY, journals=[proxied, child, other])
    assert (overview.total.calls, set(overview.by_agent)) == (4, {"claude-code"})
    assert summarise([client, proxied], DAY, DAY, journals=[proxied]).total.calls == 3
    assert summarise([client], DAY, DAY, journals=[other]).total.calls == 2
    shadow = replace(proxied, managed=False)
    assert summarise([client], DAY, DAY, journals=[shadow]).sessions[0].figures == client, "where Wane only looked on"


def test_a_recording_of_the_proxy_has_the_name_of_the_agent_that_sent_the_requests() -> None:
    calls = [row(1, id="", input=100)]
    proxied = make_figures("proxied", calls, source="journal", agent="opencode")
    assert set(summarise([proxied], DAY, DAY).by_agent) == {"opencode"}
    assert set(summarise([replace(proxied, agent="")], DAY, DAY).by_agent) == {"journal"}


def test_what_wane_saves_is_told_of_the_calls_of_which_both_costs_are_known() -> None:
    known = make_figures("a", [row(1), row(2)], simulation=Simulation(2, 4.0, 1.0, 3.0, 10, 9))
    unknown = make_figures("b", [row(3)], source="pi")
    overview = summarise([known, unknown], DAY, DAY)
    assert overview.total.dollars == 6.0
    assert overview.comparable_calls() == overview.comparable_calls("codex") == Simulation(2, 4.0, 1.0, 3.0, 10, 9)
    assert overview.comparable_calls("pi") == Simulation()
    data = overview_dict(overview)
    assert data["compared"] == {
        "calls": 2,
        "without_wane_usd": 4.0,
        "with_wane_usd": [1.0, 3.0],
        "saving": "25% to 75% less",
        "raised_to_tokens": None,
    }
    assert {it["agent"]: it["compared"] for it in data["agents"]} == {"codex": data["compared"], "pi": None}
    half = replace(known, calls=Calls.of([row(1), row(2, at=NOON.timestamp() - 86_400)]))
    overview = summarise([half], DAY, DAY)
    assert overview.comparable_calls() == Simulation(1, 2.0, 0.5, 1.5, 10, 9), "the part of the day, by its cost"
    assert (overview.parted, overview_dict(overview)["counted_in_part"]) == (1, 1)


def test_calls_without_a_price_are_in_no_comparison(tmp_path: Path) -> None:
    """Neither those that fit into the budget, nor those of a replay, which takes another model's prices for them."""
    terms = 5.0, 800, "anthropic:claude-sonnet-4-5"
    for budget in (80_000, 800):
        for model, calls in (("claude-opus-4-6", 3), ("nobody-knows-it", 0)):
            path = transcript(tmp_path / f"{model}.jsonl")
            path.write_text(path.read_text().replace("claude-opus-4-6", model))
            (session,) = read_session(path)
            figures = figures_of(session, 5.0, budget, terms[2], replayed=True)
            assert (figures.simulation.calls, figures.pending) == (calls, False), (budget, model)
            assert bool(figures.simulation.before) == bool(calls)


@needs_sessions
@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["pi/large-session", "codex/agentv-33_5841c2d678_0", "claude-code/packmind-8f_2ac5b863c7_0"]
)
def test_the_saving_of_one_session_is_that_of_its_replay(run: Run, name: str) -> None:
    file = SHARED / f"{name}.jsonl"
    data = json.loads(run("report", file, "--json", "--afresh", "--workers", "1").out)
    replayed = json.loads(run("replay", file, "--strategy", "cwl", "--json").out)
    assert data["compared"]["without_wane_usd"] == pytest.approx(replayed["lowest"]["cost_usd"])
    assert f"again: {data['compared']['saving']}" in replayed["verdict"]


def test_a_session_that_wane_managed_tells_what_wane_made_of_it() -> None:
    """As `wane view` does; and it counts for the agent whose requests the proxy recorded."""
    managed = make_figures("m", [row(1, id="", input=100), row(2, id="", input=300)], source="journal", managed=True)
    managed = replace(managed, simulation=Simulation(2, 5.0, 4.0, 4.0))
    overview = summarise(
        [managed, make_figures("b", [row(3, input=999)], simulation=Simulation(1, 2.0, 1.0, 1.0))], DAY, DAY
    )
    assert (overview.simulation, overview.effect) == (Simulation(1, 2.0, 1.0, 1.0), Simulation(2, 5.0, 4.0, 4.0))
    assert (overview.comparable_calls(), overview.worked.total()) == (Simulation(3, 7.0, 5.0, 5.0), 1)
    client = make_figures("c", [row(1, id="", input=100)], source="claude-code")
    overview = summarise([managed, client], DAY, DAY)
    assert (overview.agents, overview.total.calls) == (["claude-code"], 2)
    child = make_figures("child", [row(4, id="", input=77)], source="journal", parent="m")
    overview = summarise([managed, client, child], DAY, DAY)
    assert [summary.sums.calls for summary in overview.sessions] == [3], "with its sub-agent"


def test_a_day_without_a_known_cost_is_not_one_of_nothing_spent() -> None:
    unknown = make_figures("b", [row(3, priced=0, dollars=0.0)], source="pi")
    (day,) = overview_dict(summarise([unknown], DAY, DAY))["days"]
    assert day == ["2026-11-20", [None], [True]]


def test_after_a_compaction_what_was_paid_again_is_at_most_so() -> None:
    calls = [row(1, cause="compaction", certainty="recorded", again=0.5), row(2, cause="idle", again=0.25)]
    overview = summarise([make_figures("a", calls)], DAY, DAY)
    assert {cause: one.say_cost("?") for cause, one in overview.causes.items()} == {
        Cause.COMPACTION: "≤$0.50",
        Cause.IDLE: "$0.25",
    }
    assert overview.lost.say_cost("?") == "≤$0.75"
    unpriced = summarise([make_figures("a", [*calls, row(3, cause="idle")])], DAY, DAY)
    assert (unpriced.lost.say_cost("?"), overview_dict(unpriced)["paid_again"]["cost"]) == ("≈$0.75", "≈$0.75")
    # A compaction whose price is unknown is in no sum.
    unknown = summarise([make_figures("a", [row(1, cause="compaction", certainty="recorded"), calls[1]])], DAY, DAY)
    assert unknown.lost.say_cost("?") == "≥$0.25"


def test_marks_cost_also_where_nothing_was_evicted(tmp_path: Path) -> None:
    """Wane was at work from the first mark on: its report, its view and its replay say what the marks cost."""
    (tmp_path / "chat.json").write_text(json.dumps(sample.messages()))
    (session,) = read_session(tmp_path / "chat.json")
    usage = CallUsage(10, 5_000, 300, 20)
    session.calls = [replace(call, usage=usage, model="claude-opus-4-6") for call in session.calls]
    assert not session.managed, "another agent may have tools of these names"
    session.source = "journal"
    assert session.managed
    assert not session.evicted
    figures = figures_of(session, NOON.timestamp(), 80_000, "anthropic:claude-sonnet-4-5")
    money = money_of(count(session), Pricing.of("anthropic:claude-opus-4-6"))
    assert money.marks_cost > 0 == round(money.eviction_saved, 9)
    assert (figures.simulation.before, figures.simulation.low) == (money.unmanaged, money.account.at_least)
    assert figures.simulation.before < figures.simulation.low
    studied = study([Recording(session, "")], Pricing.of("anthropic:claude-sonnet-4-5"), own_prices=True)
    (simulated,) = simulate_sessions(studied, 80_000)
    text = headline_of(studied[0].subject.material, simulated).text
    assert text.startswith("Wane ran no pass, ")
    assert f"marks cost {CostChange.of(money).marks}, eviction saved $0.00" in text
    cost = tiles_of(studied[0].subject.material, simulated)[0]
    assert cost.bound.endswith("Wane set nothing aside.")


def test_every_cause_has_words_for_people() -> None:
    assert len({cause.label for cause in Cause}) == len(Cause)
    assert all(cause.hint.endswith(".") for cause in Cause)


def transcript(path: Path, calls: int = 3, at: str = "2026-11-20T12:00:0{}Z") -> Path:
    records: list[dict[str, Any]] = []
    for number in range(calls):
        common = {"sessionId": path.stem, "timestamp": at.format(number), "cwd": "/w", "version": "2.1.0"}
        records.append(
            {**common, "type": "user", "uuid": f"u{number}", "parentUuid": f"a{number - 1}" if number else None}
            | {"message": {"role": "user", "content": f"Please do {number} <b>now</b>"}}
        )
        usage = {"input_tokens": 10, "cache_read_input_tokens": 900 * number, "cache_creation_input_tokens": 900}
        message = {"id": f"msg_{path.stem}{number}", "role": "assistant", "model": "claude-opus-4-6"}
        message |= {"content": [{"type": "text", "text": "Done."}], "usage": {**usage, "output_tokens": 20}}
        records.append(
            {**common, "type": "assistant", "uuid": f"a{number}", "parentUuid": f"u{number}"} | {"message": message}
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


class TestCommand:
    def test_without_an_argument_it_takes_all_agents_of_the_last_days(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        now = datetime.now().astimezone()
        today = now.strftime("%Y-%m-%dT00:00:0{}%z")
        transcript(tmp_path / ".claude" / "projects" / "p" / "one.jsonl", at=today)
        page = tmp_path / "page.html"
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "wane", "report", "--output", page]
        assert subprocess.run(command, stdout=writer, check=False).returncode == 0
        assert page.exists(), "a reader that has gone takes the summary, not the page"
        done = run("report", "--output", page)
        assert done.code == 0, done.err
        assert "1 session with 3 calls" in done.out
        # 30 fresh, 2,700 read, 2,700 written and 60 of output.
        dollars = (30 * 5 + 2_700 * 0.5 + 2_700 * 6.25 + 60 * 25) / 1e6
        data = json.loads(run("report", "--json").out)
        assert not (tmp_path / "cache" / "wane" / "pages").exists(), "data alone need no page"
        assert data["total"]["dollars"] == pytest.approx(dollars)
        assert data["days"][-1] == [now.date().isoformat(), [pytest.approx(dollars)], [False]]
        assert "Please do 0" in page.read_text()
        run("report", "--output", page, "--redact")
        assert "Please do" not in page.read_text()
        old = tmp_path / ".claude" / "projects" / "p" / "one.jsonl"
        os.utime(old, (1e9, 1e9))
        nothing = run("report")
        assert nothing.code == 2
        assert "no model call was recorded by any agent on this machine since" in nothing.err

    def test_of_sessions_that_are_named_all_days_count_and_the_heading_has_these(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        first = transcript(tmp_path / "first.jsonl", at="2025-03-04T12:00:0{}Z")
        second = transcript(tmp_path / "second.jsonl", at="2025-03-09T12:00:0{}Z")
        page = tmp_path / "page.html"
        assert ", 2025-03-04: $" in run("report", first, "--output", page).out
        done = run("report", first, second, "--output", page)
        assert "2 sessions with 6 calls, 2025-03-04 to 2025-03-09: $" in done.out
        assert '"title":"Sessions of your agents"' in page.read_text()
        data = json.loads(run("report", first, second, "--json").out)
        assert (data["days"][0][0], data["days"][-1][0]) == ("2025-03-04", "2025-03-09")
        nothing = run("report", first, "--days", 30)
        assert "in the sessions named since" in nothing.err
        assert nothing.code == 2

    def test_a_compaction_that_took_no_words_is_not_among_those_that_did(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        files = []
        for name, summary in (("took", "all done so far"), ("kept", "fix it by noon")):
            messages = pi.chain(*[pi.user("fix it by noon"), pi.answer(pi.text_block("on it"))] * 2)
            compaction = pi.entry("c", "e3", summary=summary, tokensBefore=9000, firstKeptEntryId="e2")
            after = pi.entry("e4", "c", message=pi.answer(pi.text_block("so it is")))
            lines = ({**pi.HEADER, "id": name}, *messages, {**compaction, "type": "compaction"}, after)
            timed = [{**line, "timestamp": f"2026-01-01T00:0{len(files)}:00Z"} for line in lines]  # else it were a fork
            files.append(write_lines(tmp_path / name / "s.jsonl", *timed))
        page = tmp_path / "page.html"
        done = run("report", *files, "--output", page)
        assert "1 of 2 compactions took 1 message of yours, 4 words." in done.out, done.err
        assert "1 compaction took none of your messages." in run("report", files[1], "--output", page).out
        data = json.loads(run("report", *files, "--json").out)
        taking = [session["compactions_taking_words"] for session in data["words"]]
        assert (data["compactions"], data["compactions_taking_words"], taking) == (2, 1, [1])

    def test_one_session_of_a_file_or_a_database_can_be_named(self, run: Run, tmp_path: Path) -> None:
        histories = []
        for day, words in (("01", "Make it work."), ("02", "What is in README.md?")):
            start = f"# aider chat started at 2026-09-{day} 10:00:00\n\n> Main model: openai/gpt-5.1  \n"
            counts = f"> Tokens: 90k sent, 400 received. Cost: $0.1{day[1]} message, $0.1{day[1]} session.  "
            histories.append(f"{start}\n#### {words}  \n\nDone.\n\n{counts}\n")
        file = tmp_path / "history.md"
        file.write_text("\n".join(histories))
        page = tmp_path / "page.html"
        assert "2 sessions with 2 calls" in run("report", file, "--afresh", "--output", page).out
        for choice in ("#2", "#README"):
            done = run("report", f"{file}{choice}", "--afresh", "--output", page)
            assert "1 session with 1 call" in done.out, done.err
            assert "$0.12" in done.out
        database = opencode_database(tmp_path / "opencode.db", load_recording("opencode.json"))
        (session,) = read_session(database)
        counted = json.loads(run("report", database / session.id, "--json").out)["total"]["calls"]
        assert counted == json.loads(run("report", database, "--json").out)["total"]["calls"] > 0
        refused = run("report", "-")
        assert refused.code == 2
        assert "standard input" in refused.err

    def test_a_file_that_no_reader_takes_is_refused_by_name(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "agent.jsonl"
        path.write_text('{"role": "user", "message": {"content": [{"type": "text", "text": "Look."}]}}\n')
        done = run("report", path, "--afresh")
        assert done.code == 2
        assert "1 file could not be read: " in done.err
        assert "it is a transcript of Cursor" in done.err
        assert done.err.count(str(path)) == 1

    def test_a_file_that_cannot_be_read_ends_it_as_it_ends_other_commands(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "s.jsonl"
        path.write_text('{"kind": "session", "version": 99, "id": "a", "cwd": "/", "message_format": "pydantic_ai"}\n')
        codes = {command: run(command, path).code for command in ("report", "view", "replay", "doctor")}
        assert codes == dict.fromkeys(codes, 1)

    def test_what_an_agent_keeps_beside_its_sessions_is_not_told_as_unread(self, run: Run, tmp_path: Path) -> None:
        transcript(tmp_path / "projects" / "p" / "one.jsonl")
        for name in ("one/subagents/agent-a1.meta.json", "one/tool-results/toolu_1.json", "sessions-index.json"):
            beside = tmp_path / "projects" / "p" / name
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text('{"agentType": "Explore"}')
        assert json.loads(run("report", tmp_path / "projects", "--json", "--afresh").out)["unread"] == 0
        assert "skipped" not in run("doctor", tmp_path / "projects").out
        named = run("doctor", beside)
        assert named.code == 2, "a file that is named is read"

    def test_a_file_that_did_not_change_is_not_read_again(self, tmp_path: Path) -> None:
        path = transcript(tmp_path / "a.jsonl")
        store, terms = FigureStore(tmp_path / "kept.sqlite"), Terms(80_000, "anthropic:claude-sonnet-4-5")
        source = Source.of(path, 5.0, 7)
        first = FigureReader(terms, store, 1)
        first.read([source])
        path.write_text("damaged")
        again = FigureReader(terms, store, 1)
        again.read([source])
        assert again.figures == first.figures
        changed = FigureReader(terms, store, 1)
        changed.read([replace(source, stamp="another")])
        assert [file.path for file in changed.unread] == [str(path)]
        other = FigureReader(replace(terms, budget=50_000), store, 1)
        other.read([source])
        assert other.unread, "other terms, other figures"
        assert (tmp_path / "kept.sqlite").stat().st_mode & 0o077 == 0

    def test_several_processes_read_the_same_as_one(self, tmp_path: Path) -> None:
        paths = [transcript(tmp_path / f"{name}.jsonl") for name in ("a", "b", "c")]
        paths[1].write_text("damaged")
        sources = [Source.of(path, 1.0, 1) for path in paths]
        readers = [FigureReader(Terms(80_000, "anthropic:claude-sonnet-4-5"), FigureStore(None), n) for n in (1, 2)]
        for reader in readers:
            reader.read(sources)
        assert readers[0].figures == readers[1].figures != {}
        assert [file.path for file in readers[1].unread] == [str(paths[1])]

    @needs_sessions
    def test_each_report_replays_some_more(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        files = [SHARED / "claude-code" / f"packmind-{name}.jsonl" for name in ("16_b343528434_0", "8f_2ac5b863c7_0")]
        left, simulated = [], []
        for _ in range(3):
            done = run("report", *files, "--days", "4000", "--replays", "1", "--json", "--workers", "1")
            assert done.code == 0, done.err
            data = json.loads(done.out)
            left.append(data["not_replayed"])
            simulated.append(data["simulated"]["calls"] if data["simulated"] else 0)
        assert left == [1, 0, 0]
        assert simulated[0] < simulated[1] == simulated[2]

    def test_a_store_that_cannot_be_used_is_as_if_it_were_empty(self, tmp_path: Path) -> None:
        (tmp_path / "kept.sqlite").write_text("no database")
        reader = FigureReader(Terms(80_000, "anthropic:claude-sonnet-4-5"), FigureStore(tmp_path / "kept.sqlite"), 1)
        path = transcript(tmp_path / "a.jsonl")
        reader.read([Source.of(path, 1.0, 1)])
        assert len(reader.figures[str(path)]) == 1

    def test_a_file_in_the_place_of_another_is_read_though_size_and_time_are_the_same(self, tmp_path: Path) -> None:
        path = transcript(tmp_path / "a.jsonl")
        before = Source.of(path, 1.0, 1)
        other = tmp_path / "b.jsonl"
        other.write_bytes(path.read_bytes())
        status = path.stat()
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(path)
        assert path.stat().st_mtime_ns == status.st_mtime_ns
        assert Source.of(path, 1.0, 1).stamp != before.stamp

    def test_a_sub_agents_file_that_changed_is_read_again(self, tmp_path: Path) -> None:
        path = transcript(tmp_path / "a.jsonl")
        side = transcript(tmp_path / "a" / "subagents" / "agent-1.jsonl")
        before = Source.of(path, 1.0, 1)
        os.utime(side, ns=(0, side.stat().st_mtime_ns + 1))
        assert Source.of(path, 1.0, 1).stamp != before.stamp

    def test_what_was_kept_of_a_file_goes_with_it(self, tmp_path: Path) -> None:
        store, terms = FigureStore(tmp_path / "kept.sqlite"), Terms(80_000, "anthropic:claude-sonnet-4-5")
        sources = [Source.of(transcript(tmp_path / name), 1.0, 1) for name in ("a.jsonl", "b.jsonl")]
        FigureReader(terms, store, 1).read(sources)
        (tmp_path / "a.jsonl").unlink()
        FigureReader(terms, store, 1).read(sources[1:])
        assert [source for source, _ in store.find_known(sources, terms)] == sources[1:]
        assert b"a.jsonl" not in (tmp_path / "kept.sqlite").read_bytes(), "nor in its free pages"

    @pytest.mark.parametrize("offset", [0, 100, 4096, 5000, 9000])
    def test_a_damaged_store_is_as_if_it_were_empty_and_is_made_again(self, tmp_path: Path, offset: int) -> None:
        kept, terms = tmp_path / "kept.sqlite", Terms(80_000, "anthropic:claude-sonnet-4-5")
        sources = [Source.of(transcript(tmp_path / f"{number}.jsonl"), 1.0, 1) for number in range(40)]
        FigureReader(terms, FigureStore(kept), 1).read(sources)
        content = bytearray(kept.read_bytes())
        content[offset : offset + 3000] = b"\xa5" * 3000
        kept.write_bytes(content)
        for _ in range(2):
            reader = FigureReader(terms, FigureStore(kept), 1)
            reader.read(sources)
            assert len(reader.figures) == len(sources)
        assert len(list(FigureStore(kept).find_known(sources, terms))) == len(sources)

    def test_a_store_that_another_report_holds_is_as_if_it_were_empty(self, tmp_path: Path) -> None:
        store = FigureStore(tmp_path / "kept.sqlite", patience=0.0)
        terms, path = Terms(80_000, "anthropic:claude-sonnet-4-5"), transcript(tmp_path / "a.jsonl")
        FigureReader(terms, store, 1).read([Source.of(path, 1.0, 1)])
        with closing(sqlite3.connect(tmp_path / "kept.sqlite")) as other:
            other.execute("BEGIN EXCLUSIVE")
            reader = FigureReader(terms, store, 1)
            reader.read([Source.of(path, 1.0, 1)])
            assert len(reader.figures[str(path)]) == 1
        assert len(list(store.find_known([Source.of(path, 1.0, 1)], terms))) == 1


def overview_of_much() -> Overview:
    lost = CompactionRow(NOON.timestamp(), (LostMessage("<img src=x> & `words`", 4),))
    calls = [
        row(number, cause="idle" if number % 3 else "", certainty="inferred" if number < 5 else "recorded", again=0.1)
        for number in range(12)
    ]
    none_lost = CompactionRow(NOON.timestamp(), ())
    figures = make_figures(
        "a" * 90, calls, compactions=(lost, none_lost), simulation=Simulation(12, 24.0, 12.0, 18.0, 50, 49)
    )
    return summarise(
        [figures, make_figures("free", [row(50, priced=0, dollars=0.0)], source="copilot-cli")], date(2026, 10, 22), DAY
    )


@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_the_page_shows_its_figures_and_fits(tmp_path: Path, width: int, dark: bool) -> None:
    page = tmp_path / "page.html"
    write_overview(page, overview_of_much(), 80_000)
    with Browser(width, 900, dark=dark) as browser:
        browser.look(width, 900, dark=dark, mobile=width < 500)
        browser.open(page)
        browser.settle()
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.text("#spent .value") == "≥$24.00"
        assert browser.text("#would .value") == "$24.00 → $12.00 to $18.00"
        assert "3 of them inferred" in browser.text("#causes")
        assert browser.text("#taken .value") == "1 message"
        assert "By 1 of 2 compactions, in 1 session." in browser.text("#taken")
        assert ", 1 compaction, 4 words" in browser.text("#lost")
        assert browser.text("#lost blockquote") == "<img src=x> & `words`"
        assert not browser.errors
        assert [address for address in browser.requested if not address.startswith("file:")] == []


@needs_chromium
def test_days_of_two_years_leave_each_other_room_and_tiles_say_which_calls_they_cover(tmp_path: Path) -> None:
    calls = [row(number, at=NOON.timestamp() + 30 * 86_400 * number) for number in range(8)]
    figures = make_figures("a", calls, simulation=Simulation(5, 20.0, 12.0, 18.0, 50, 49))
    write_overview(tmp_path / "page.html", summarise([figures], DAY, date(2027, 12, 31)), 80_000)
    with Browser(390, 900) as browser:
        browser.open(tmp_path / "page.html")
        browser.settle()
        boxes = "[...document.querySelectorAll('#dayschart text')].filter(it => / 20/.test(it.textContent))"
        sides = browser.run(f"{boxes}.map(it => it.getBoundingClientRect()).map(it => [it.left, it.right])")
        assert len(sides) > 1
        assert all(before[1] < after[0] for before, after in pairwise(sides))
        assert "over all 8 calls" in browser.text("#spent")
        assert "over 5 of 8 calls" in browser.text("#would")


def test_the_causes_of_a_page_add_up_to_its_tile() -> None:
    data = overview_dict(overview_of_much())
    assert sum(it["dollars"] for it in data["causes"]) == pytest.approx(data["paid_again"]["dollars"])
    assert Counter(it["cause"] for it in data["causes"]) == {"idle": 1}
