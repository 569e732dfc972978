"""`wane proxy tokens`, `wane proxy forget` and `wane proxy log`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.proxy.store.support import add, new_root, note
from wane.cli.sessions.listing import short_id
from wane.proxy.store import open_store
from wane.proxy.team.audit import AuditLog


def test_a_token_is_printed_once_and_alone(run: Run, tmp_path: Path) -> None:
    done = run("proxy", "tokens", "add", "alice", "--max-cost", "20", "--requests-per-minute", "60")
    token = done.out.strip()
    assert (done.code, done.out) == (0, f"{token}\n")
    assert token.startswith("wane_")
    assert "which is shown only now" in done.err
    for command in (("proxy", "tokens"), ("proxy", "tokens", "--json"), ("proxy", "log"), ("proxy", "log", "--json")):
        again = run(*command)
        assert token not in again.out + again.err
        assert "alice" in again.out
    stored = b"".join(path.read_bytes() for path in (tmp_path / "sessions").rglob("*") if path.is_file())
    assert token.encode() not in stored


def test_names_limits_and_spend_are_listed(run: Run) -> None:
    assert "no name has a token" in run("proxy", "tokens").err
    run("proxy", "tokens", "add", "alice", "--max-cost", "20", "--requests-per-minute", "60")
    run("proxy", "tokens", "add", "bob")
    run("proxy", "tokens", "limit", "bob", "--max-cost", "5", "--max-cost-per", "month")
    limited = run("proxy", "tokens", "limit", "alice", "--requests-per-minute", "none")
    assert "alice: $20.00 a day (UTC), any number of requests a minute\n" in limited.err
    run("proxy", "tokens", "revoke", "bob")
    lines = [line.split() for line in run("proxy", "tokens").out.splitlines()]
    assert lines[0] == ["name", "token", "today", "in", "all", "cost", "limit", "req/min"]
    assert [line[:2] for line in lines[1:]] == [["alice", "made"], ["bob", "revoked"]]
    assert lines[1][3:] == ["$0.00", "$0.00", "$20.00", "a", "day", "(UTC)", "-"]
    assert lines[2][3:] == ["$0.00", "$0.00", "$5.00", "a", "month", "(UTC)", "-"]
    data = json.loads(run("proxy", "tokens", "--json").out)
    assert data[0]["limits"] == {"max_cost": 20.0, "cost_period": "day", "requests": None}
    assert [entry["revoked"] for entry in data] == [False, True]
    actions = [event["action"] for event in json.loads(run("proxy", "log", "--json").out)]
    assert actions == ["token made", "token made", "limits changed", "limits changed", "token revoked"]
    assert len(run("proxy", "log", "--name", "bob").out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tokens", "add", "a b"), "must be 1 to 64 letters"),
        (("tokens", "add", "operator"), "choose another"),
        (("tokens", "add", "alice", "--max-cost", "-1"), "above 0, or none"),
        (("tokens", "add", "alice", "--max-cost-per", "day"), "give both"),
        (("tokens", "add", "alice", "--requests-per-minute", "1.5"), "give a whole number"),
        (("tokens", "limit", "alice"), "give a limit"),
        (("tokens", "limit", "alice", "--max-cost", "3"), "there is no name 'alice'"),
        (("tokens", "revoke", "alice"), "alice has no token"),
        (("forget", "alice"), "there is no name 'alice'"),
        (("--team", "--no-store", "--upstream", "http://127.0.0.1:1"), "leave out --no-store"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], words: str, run: Run) -> None:
    done = run("proxy", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.full
def test_all_that_belongs_to_a_name_is_deleted(run: Run, tmp_path: Path) -> None:
    run("proxy", "tokens", "add", "alice")
    ids: list[str] = []

    async def begin() -> None:
        store = open_store(str(tmp_path / "sessions"))
        for owner in ("alice", ""):
            log = await store.create(new_root(), "openai", owner)
            await add(log, note(1))
            await log.close()
            ids.append(log.id)
            await AuditLog(store).write(owner or "?", "session begun", log.id)
        await store.close()

    asyncio.run(begin())
    assert f"session begun   {short_id(ids[0])}\n" in run("proxy", "log").out, "as wane show takes it"
    refused = run("proxy", "forget", "alice")
    assert (refused.code, "revoke it first" in refused.err) == (2, True)
    run("proxy", "tokens", "revoke", "alice")
    done = run("proxy", "forget", "alice")
    assert done.code == 0
    assert "1 session of alice deleted" in done.err
    assert len(list((tmp_path / "sessions").rglob("*Z-*.jsonl"))) == 1
    assert "no name has a token" in run("proxy", "tokens").err
    assert "deletion        alice: 1 session\n" in run("proxy", "log").out
