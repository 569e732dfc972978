"""The lab on a proxy's sessions: every call with its own usage, the view by its passes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.lab.readers.promises import check, kinds
from tests.lab.readers.writing import write_lines
from tests.marks import cross_quick, first_quick
from tests.proxy.agents import Worker
from tests.proxy.reading.conftest import Keep, work
from tests.proxy.world import CLIENTS, AnthropicClient, Client, ResponsesClient, Upstream, every_client, exchange
from wane import Kind, chars
from wane.cli.sessions.show import load_session
from wane.conversation import ContextSettings
from wane.journal import (
    ConfigRecord,
    Journal,
    MessageRecord,
    NoteRecord,
    Record,
    SessionStore,
    StrategyRecord,
    UsageRecord,
    read,
)
from wane.lab.readers import read_session
from wane.lab.recorded_session import RecordedSession
from wane.proxy.sessions.sender import sender_of
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore


def only(path: Path) -> RecordedSession:
    (session,) = read_session(path)
    return check(session)


@pytest.mark.quick(1)
@every_client
@pytest.mark.parametrize("seed", first_quick(*range(3)))
def test_each_call_has_the_usage_that_was_reported_of_it(make: type[Client], seed: int, keep: Keep) -> None:
    kept = keep(make(), seed=seed)
    session = only(kept.path)
    reported = [record for record in read(kept.path).records if isinstance(record, UsageRecord)]
    assert [call.usage.total_input for call in session.calls if call.usage] == [r.input_tokens for r in reported]
    for call in session.calls:
        written = sum(part.item(chars, 0).tokens for part in session.parts[call.first : call.stop])
        assert call.usage is not None
        assert call.usage.output is not None
        assert abs(call.usage.output - written) <= 0.3 * written + 8, "of this answer, not of another round's"
    assert not session.problems
    assert session.title == "User turn 0: please do thing 0."
    assert {call.model for call in session.calls} == {kept.facts.model}


@pytest.mark.quick(1)
@every_client
def test_it_can_be_planned(make: type[Client], keep: Keep, run: Run) -> None:
    kept = keep(make())
    done = run("plan", kept.path, "--budget", "1000", "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["annotation"] == "agent"
    assert data["tokens"]["before"] > sum(item.tokens for item in load_session(kept.path).items)
    assert {episode["name"] for episode in data["episodes"]} >= {
        episode.name for episode in load_session(kept.path).rebuilt.episodes
    }


@every_client
def test_passes_and_marks_are_read(make: type[Client], keep: Keep) -> None:
    kept = keep(make())
    session, shown = only(kept.path), load_session(kept.path)
    assert len(session.parts) == len(shown.items)
    gone = {index for eviction in session.evictions for index in eviction.removed}
    assert gone == set(range(len(shown.items))) - set(shown.visible)
    assert any(part.kind is Kind.CALL and part.tool == "delimiter" for part in session.parts)
    assert session.system_tokens is not None
    assert session.system_tokens > 0


@pytest.mark.quick(2)
@pytest.mark.parametrize(("make", "strategy"), cross_quick(CLIENTS, ("truncate", "clear-tools")))
def test_what_other_strategies_left_out_is_read(make: type[Client], strategy: str, keep: Keep) -> None:
    kept = keep(make(), strategy=strategy)
    session, shown = only(kept.path), load_session(kept.path)
    assert not session.problems
    gone = {index for eviction in session.evictions for index in eviction.removed}
    assert gone == set(range(len(shown.items))) - set(shown.visible) != set()
    freed = sum(eviction.tokens_before - eviction.tokens_after for eviction in session.evictions)
    assert freed == kept.facts.evicted
    assert all(eviction.position <= len(session.parts) for eviction in session.evictions)


def test_what_a_strategy_could_not_have_done_is_named(store: SessionStore, here: Path) -> None:
    with store.create(here, message_format="openai", fsync=False) as journal:
        _history(journal)
        for strategy, done in (
            ("truncate", {"from": 99}),
            ("clear-tools", {"cleared": [0]}),
            ("magic", {}),
            ("", {}),
        ):
            journal.append(StrategyRecord(3, strategy, done))
    session = only(journal.path)
    assert (session.evictions, len(session.problems)) == ([], 4)
    assert all("it is unknown what left the view" in problem.what for problem in session.problems)


def test_a_summary_of_the_agents_is_a_compaction(store: SessionStore, here: Path) -> None:
    with store.create(here, message_format="openai", fsync=False) as journal:
        _history(journal)
        done = {"from": 1, "summary": "said a", "tokens": 2}
        journal.append(StrategyRecord(3, "compact", done))
    (compaction,) = only(journal.path).compactions
    assert (compaction.position, compaction.first_kept) == (3, 1)
    assert compaction.summary.endswith("said a")


@every_client
def test_a_reply_that_its_client_dropped_is_a_call_without_parts(
    make: type[Client], store: SessionStore, here: Path
) -> None:
    async def main() -> None:
        client = make()
        index = SessionIndex(DiskStore(store, cwd=here, fsync=False), ContextSettings())
        upstream = Upstream(client.provider, Worker(1, marks=False))
        await work(index, client, upstream, 1)
        client.say("Again.")
        for _ in range(3):  # the client asks again each time, as one does whose connection broke
            last = await exchange(index, client, upstream)
        client.take(last.answer, lambda *_: "done")
        client.say("More.")
        await exchange(index, client, upstream)
        await index.close()

    asyncio.run(main())
    session = only(store.latest(here).path)
    empty = [number for number, call in enumerate(session.calls) if call.first == call.stop]
    count = len(session.calls)
    assert empty == [count - 4, count - 3, count - 1], "two that were dropped, and the last, which is yet to come"
    for number in empty[:2]:
        assert session.calls[number].first == session.calls[count - 2].first
    assert all(call.usage for call in session.calls)


@pytest.mark.parametrize(
    ("headers", "agent"),
    [
        ({"user-agent": "claude-cli/2.1.332 (external, cli)", "x-claude-code-session-id": "s"}, "claude-code"),
        ({"user-agent": "opencode/1.18.33 ai-sdk"}, "opencode"),
        ({"user-agent": "OpenAI/JS 6.1.0", "x-initiator": "agent"}, "copilot-cli"),
        ({"user-agent": "curl/8"}, ""),
    ],
)
def test_it_says_which_agent_sent_the_requests_and_a_report_names_it(
    headers: dict[str, str], agent: str, store: SessionStore, here: Path, run: Run
) -> None:
    async def main() -> None:
        client = AnthropicClient()
        index = SessionIndex(DiskStore(store, cwd=here, fsync=False), ContextSettings())
        upstream = Upstream(client.provider, Worker(1))
        sender = sender_of([(name.encode(), value.encode()) for name, value in headers.items()], {})
        for words in ("Go.", "Go on."):
            client.say(words)
            client.take((await exchange(index, client, upstream, sender=sender)).answer, lambda *_: "done")
        await index.close()

    asyncio.run(main())
    path = store.latest(here).path
    assert only(path).agent == agent
    (told,) = json.loads(run("report", path, "--days", "4000", "--json", "--afresh").out)["agents"]
    assert told["agent"] == (agent or "journal")


def test_a_report_on_the_agents_own_file_counts_the_rounds_that_the_proxy_made(
    store: SessionStore, here: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        client = AnthropicClient()
        index = SessionIndex(DiskStore(store, cwd=here, fsync=False), ContextSettings())
        await work(index, client, Upstream(client.provider, Worker(1)), 3)
        await index.close()

    asyncio.run(main())
    path = store.latest(here).path
    calls = [call for call in only(path).calls if not call.further]
    assert len(calls) < len(only(path).calls), "marks took rounds of their own"
    lines = []
    for number, call in enumerate(calls):
        assert call.usage is not None
        usage = {"input_tokens": call.usage.input, "output_tokens": call.usage.output}
        usage |= {
            "cache_read_input_tokens": call.usage.cache_read,
            "cache_creation_input_tokens": call.usage.cache_write,
        }
        message = {"id": f"m{number}", "role": "assistant", "model": call.model, "stop_reason": "end_turn"}
        message |= {"content": [{"type": "text", "text": "Done."}], "usage": usage}
        about = {"uuid": f"a{number}", "parentUuid": f"a{number - 1}" if number else None, "sessionId": "s"}
        lines.append({"type": "assistant", "timestamp": "2026-01-01T00:00:00.000Z", "message": message, **about})
    own = write_lines(tmp_path / "own.jsonl", *lines)

    def report_calls() -> tuple[int, list[str]]:
        data = json.loads(run("report", own, "--days", "4000", "--json", "--afresh").out)
        return data["total"]["calls"], [entry["agent"] for entry in data["agents"]]

    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "none"))
    assert report_calls() == (len(calls), ["claude-code"])
    monkeypatch.setenv("WANE_SESSION_DIR", str(store.root))
    assert report_calls() == (len(only(path).calls), ["claude-code"])


@pytest.mark.full
@pytest.mark.parametrize("make", first_quick(*CLIENTS))
def test_the_commands_take_it(make: type[Client], keep: Keep, run: Run, tmp_path: Path) -> None:
    kept = keep(make())
    (replayed,) = json.loads(run("replay", kept.path, "--budget", "4k", "--strategy", "cwl,none", "--json").out)[
        "sessions"
    ]
    assert (replayed["source"], replayed["annotation"]) == ("journal", "agent")
    assert replayed["tokens_from_usage"]
    named = run("replay", kept.facts.session.rpartition("-")[2][:12], "--budget", "4k", "--strategy", "cwl", "--json")
    assert json.loads(named.out)["sessions"][0]["path"] == str(kept.path)
    assert "there is no file or folder 0000, and no session has an id" in run("replay", "0000").err
    done = run("sweep", kept.path, "--budgets", "3k,5k", "--strategy", "cwl", "--json")
    assert done.code == 0, done.err
    done = run("tune", kept.path, "--json")
    assert done.code == 0, done.err
    page = tmp_path / "page.html"
    done = run("view", kept.facts.session, "--output", page)
    assert done.code == 0, done.err
    text = page.read_text(encoding="utf-8")
    assert "4,000 tokens" in text
    assert "please do thing 5" in text
    assert run("plan", kept.path, "--budget", "2k").code == 0


def usage(items: int, total: int, cached: int) -> UsageRecord:
    return UsageRecord(
        items, total, 10, cache_read_tokens=cached, cache_write_tokens=total - cached, model="claude-sonnet-4-5"
    )


def test_recorded_reads_are_compared_with_simulated_ones(store: SessionStore, here: Path, run: Run) -> None:
    words = "word " * 8_000
    records: list[Record] = [
        NoteRecord("proxy", {"api": "anthropic", "strategy": "cwl", "infer": False}),
        ConfigRecord(80_000, ContextSettings().policy, overhead=100),
        MessageRecord({"role": "user", "content": [{"type": "text", "text": words}]}),
        usage(1, 10_100, 0),
        NoteRecord("reply", {"shape": "00"}),
        MessageRecord({"role": "assistant", "content": "one"}),
        MessageRecord({"role": "user", "content": "go on"}),
        usage(3, 10_110, 10_100),
        NoteRecord("reply", {"shape": "00"}),
        MessageRecord({"role": "assistant", "content": "two"}),
        MessageRecord({"role": "user", "content": "go on"}),
        usage(5, 10_120, 10_110),
    ]
    with store.create(here, message_format="anthropic", fsync=False) as journal:
        journal.extend(records)
        path = journal.path
    done = run("lab", "validate", path, "--json")
    assert done.code == 0, done.err
    (validated,) = json.loads(done.out)["sessions"]
    assert validated["calls"] == 3


@pytest.mark.parametrize("make", [AnthropicClient, ResponsesClient])
def test_what_a_damaged_one_holds_is_read(make: type[Client], keep: Keep) -> None:
    path = keep(make()).path
    whole = only(path)
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if line.startswith(b'{"kind":"message"') and n > 20)
    path.write_bytes(b"".join([*lines[:number], b"damage\n", *lines[number + 1 :]]))
    session = only(path)
    assert session.problems
    assert len(kinds(whole)) - 6 <= len(kinds(session)) < len(kinds(whole))


def test_a_session_by_the_library_is_read_as_before(store: SessionStore, here: Path) -> None:
    """Usage without an answer, where nothing speaks of rounds, is of a call whose answer was lost."""
    with store.create(here, message_format="openai", fsync=False) as journal:
        _history(journal)
    session = only(journal.path)
    assert [(call.first, call.stop, call.usage and call.usage.total_input) for call in session.calls] == [
        (1, 1, 5),
        (1, 2, 6),
        (3, 3, 9),
    ]


def _history(journal: Journal) -> None:
    journal.extend(
        [
            MessageRecord({"role": "user", "content": "a"}),
            UsageRecord(1, 5, 1),
            UsageRecord(1, 6, 1),
            MessageRecord({"role": "assistant", "content": "b"}),
            MessageRecord({"role": "user", "content": "c"}),
            UsageRecord(3, 9, 1),
        ]
    )
