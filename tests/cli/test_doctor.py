"""`wane doctor` on small sessions made here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from tests.cli.conftest import Run
from tests.cli.test_lab import pi_lines
from tests.lab.browser import Browser, needs_chromium
from tests.lab.readers.writing import write_lines
from tests.lab.test_report import Page
from wane.rewrites import CauseTotals, Certainty
from wane.testing import Reply, ScriptedServer, Usage

if TYPE_CHECKING:
    from wane.proxy.server.running import Running

pytest.importorskip("genai_prices", reason="needs the extra lab")

BROKEN = 3
"""The request that reads nothing, though the one before had cached 5,300 tokens."""


def write_session(path: Path, *broken: int) -> Path:
    """Write a session of pi in which some requests read nothing."""
    lines: list[dict[str, Any]] = list(pi_lines())
    usages = [line["message"]["usage"] for line in lines if line.get("message", {}).get("role") == "assistant"]
    for number in broken:
        usages[number]["cacheWrite"] += usages[number]["cacheRead"]
        usages[number]["cacheRead"] = 0
    write_lines(path, lines)
    return path


def test_names_the_request_the_cause_and_the_price(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("doctor", write_session(tmp_path / "pi.jsonl", BROKEN))
    assert done.code == 0, done.err
    assert "1 request paid again for 5k tokens" in done.out
    assert "The beginning was not read" in done.out
    assert "head" not in done.out
    assert f"call {BROKEN + 1}" in done.out
    assert "nothing was read, though 5,300 were cached 1 s before" in done.out


@pytest.mark.parametrize("command", [("doctor",), ("report", "--days", "36500")], ids=["doctor", "report"])
def test_tables_fit_a_narrow_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = run(*command, write_session(tmp_path / "pi.jsonl", BROKEN))
    assert done.code == 0, done.err
    assert "The beginning" in done.out
    assert not [line for line in done.out.splitlines() if len(line) > 40]


def test_the_page_says_the_same_as_the_terminal(run: Run, tmp_path: Path) -> None:
    session, page = write_session(tmp_path / "pi.jsonl", BROKEN), tmp_path / "cache.html"
    rewrites = json.loads(run("doctor", session, "--json").out)["sessions"][0]["rewrites"]
    assert run("doctor", session, "--report", page).code == 0
    data = Page(page).data
    (shown,) = data["sessions"]
    assert [(it["call"], it["tokens"], it["cause"]) for it in shown["breaks"]] == [
        (it["call"], it["tokens"], it["cause"]) for it in rewrites
    ]
    assert data["total"]["tokens"] == sum(it["tokens"] for it in rewrites)
    assert shown["read"][BROKEN] == 0 < shown["read"][BROKEN + 1]


def two_providers(folder: Path) -> list[Path]:
    """Write two sessions: one whose writes and prices are known, and one without either, in which more was lost."""
    other = write_session(folder / "other.jsonl", 1, BROKEN)
    lines: list[dict[str, Any]] = json.loads(other.read_text())
    for line in lines:
        # With the same ids it would be a fork, whose copied calls count once.
        line |= {key: f"other {line[key]}" for key in ("id", "parentId") if line.get(key)}
        message = line.get("message", {})
        if message.get("role") == "assistant":
            usage = message["usage"]
            usage |= {"input": usage["input"] + usage["cacheWrite"], "cacheWrite": 0}
            message |= {"model": "no-such-model", "provider": "nobody"}
    # A summary ahead of the second loss.
    at = [at for at, line in enumerate(lines) if line.get("message", {}).get("role") == "assistant"][BROKEN]
    before, after = lines[at - 1], lines[at]
    summary = {"type": "compaction", "id": "summary", "parentId": before["id"], "summary": "All so far."}
    summary |= {"firstKeptEntryId": before["id"], "tokensBefore": 5_000}
    after["parentId"] = "summary"
    write_lines(other, [*lines[:at], summary, *lines[at:]])
    return [write_session(folder / "pi.jsonl", BROKEN), other]


def test_a_share_and_a_sum_name_what_they_are_of(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    sessions, page = two_providers(tmp_path), tmp_path / "cache.html"
    first, other = json.loads(run("doctor", *sessions, "--json").out)["sessions"]
    assert (other["written"], {entry["dollars"] for entry in other["rewrites"]}) == (0, {None})
    assert "compaction" in {entry["cause"] for entry in other["rewrites"]}
    done = run("doctor", *sessions, "--report", page)
    share = f"{100 * first['tokens'] / first['written']:.1f}%"
    assert f"tokens written to a cache, at most 5k ({share}) were written again, in the 1 of 2 sessions" in done.out
    times = 1 + len(other["rewrites"])
    (said,) = re.findall(r"(≥\$\S+) in all, for 1 of the (\d+) requests: no price is known for the others\.", done.out)
    assert said[1] == str(times)
    data = Page(page).data
    assert (data["total"]["cost"], data["total"]["priced_tokens"]) == (said[0], first["tokens"])
    assert {it["cause"]: it["cost"] for it in data["causes"]}["compaction"] == ""
    assert sorted(bool(it["cost"]) for it in data["sessions"]) == [False, True]


def test_causes_come_in_order_of_their_dollars_and_without_prices_of_their_tokens() -> None:
    dear, large = CauseTotals(), CauseTotals()
    dear.add(Certainty.INFERRED, 10, 2.0)
    large.add(Certainty.INFERRED, 1_000, 0.5)
    assert max(dear, large, key=lambda totals: totals.weight) is dear
    few, more = CauseTotals(), CauseTotals()
    few.add(Certainty.INFERRED, 10, None)
    more.add(Certainty.INFERRED, 1_000, None)
    assert max(few, more, key=lambda totals: totals.weight) is more


def test_the_page_can_be_shared_without_titles(run: Run, tmp_path: Path) -> None:
    session, page = write_session(tmp_path / "secret-name.jsonl", BROKEN), tmp_path / "cache.html"
    assert run("doctor", session, "--report", page, "--redact").code == 0
    (shown,) = Page(page).data["sessions"]
    assert shown["title"] == "Session 1"
    assert "secret-name" not in page.read_text()
    assert run("doctor", "--live", "--report", page).code == 2


@needs_chromium
def test_the_timeline_reads_its_breaks(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "cache.html"
    run("doctor", write_session(tmp_path / "pi.jsonl", BROKEN), "--report", page)
    with Browser(390, 800) as browser:
        browser.open(page)
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.text("#times .value").startswith("1 of ")
        assert browser.run("[...document.querySelectorAll('.tile .value')].every(it => it.clientHeight < 40)")
        browser.run("document.querySelector('.timeline .chart').focus()")
        browser.press("ArrowRight")
        said = browser.text("#said")
        assert said.startswith(f"Call {BROKEN + 1}: The beginning was not read. 5,300 tokens paid again")
        assert not browser.errors
        assert [address for address in browser.requested if not address.startswith("file:")] == []


def test_finds_nothing_where_nothing_changed(run: Run, tmp_path: Path) -> None:
    done = run("doctor", write_session(tmp_path / "pi.jsonl"))
    assert done.code == 0, done.err
    assert "No request paid again" in done.out


def test_json_has_every_rewrite(run: Run, tmp_path: Path) -> None:
    done = run("doctor", write_session(tmp_path / "pi.jsonl", 2, 4), "--json")
    assert done.code == 0, done.err
    (session,) = json.loads(done.out)["sessions"]
    assert [(entry["call"], entry["cause"], entry["certainty"]) for entry in session["rewrites"]] == [
        (2, "head", "unknown"),
        (4, "head", "unknown"),
    ]
    assert session["tokens"] == sum(entry["tokens"] for entry in session["rewrites"])


def test_without_cache_reads_it_is_not_known(run: Run, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    (tmp_path / "chat.json").write_text(json.dumps(said * 2))
    done = run("doctor", tmp_path / "chat.json")
    assert done.code == 0, done.err
    assert "Not known for 1 session that recorded no cache reads: chat." in done.out
    (tmp_path / "chat.json").write_text(json.dumps(said))
    done = run("doctor", tmp_path / "chat.json")
    assert "Nothing to compare in 1 session of a single request." in done.out
    assert "paid again" not in done.out


@pytest.mark.parametrize("command", ["doctor", "view", "replay", "sweep", "tune"])
def test_without_sessions_here_it_says_what_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    done = run(command)
    assert done.code == 2
    assert "no agent has a session of" in done.err
    assert "wane demo" in done.err
    folder = tmp_path / "agent" / "sessions" / "--elsewhere--"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    elsewhere = write_session(folder / "2026-01-02T03-04-05-000Z_5a3eb0c1.jsonl")
    listed = json.loads(run("sessions", "--all", "--json").out)
    (session,) = [entry for entry in listed if entry["path"] == str(elsewhere)]
    done = run(command)
    assert done.code == 2
    assert f"The newest is {session['id']}; wane sessions --all lists them all" in done.err


@pytest.mark.parametrize("command", ["view", "replay", "doctor"])
def test_without_a_session_those_of_this_directory_are_taken_and_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    work, folder = tmp_path / "work", tmp_path / "agent" / "sessions" / "--work--"
    work.mkdir()
    folder.mkdir(parents=True)
    monkeypatch.chdir(work)
    for age, name in enumerate(("newest", "older", "oldest")):
        header, *lines = pi_lines()
        header |= {"cwd": str(work if name != "newest" else tmp_path), "id": name}
        path = write_lines(folder / f"{name}.jsonl", header, *lines)
        os.utime(path, (1e9 - age, 1e9 - age))
    options = {"view": ["--output", tmp_path / "v.html"], "replay": ["--strategy", "none"], "doctor": []}
    said = "2 sessions of this directory, of any agent" if command == "doctor" else "session older, the newest of this"
    done = run(command, *options[command])
    assert done.code == 0, done.err
    assert said in done.err


@contextmanager
def serving(tmp_path: Path, *usages: Usage) -> Iterator[Running]:
    """A proxy whose provider reports these usages, one for each request."""
    pytest.importorskip("uvicorn", reason="needs the extra proxy")
    from wane.cli.proxy.proxy_commands import ContextOptions, ProxyCommandOptions
    from wane.cli.proxy.proxy_options import proxy_options
    from wane.proxy.server.running import in_thread

    with ScriptedServer([Reply(f"Answer {number}.", usage=usage) for number, usage in enumerate(usages)]) as server:
        context = ContextOptions(store=str(tmp_path / "store"))
        options = proxy_options(ProxyCommandOptions(upstream=server.url, listen="127.0.0.1:0", context=context), {})
        with in_thread(options) as running:
            yield running


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Running]:
    """A proxy whose provider caches nothing of the second request, which brings a further tool."""
    usages = [Usage(10_000, 5, 0, 10_000), Usage(10_200, 5, 0, 10_200), Usage(10_400, 5, 10_200, 200)]
    with serving(tmp_path, *usages) as running:
        messages: list[dict[str, Any]] = []
        for tools in (["read"], ["read", "mcp__search"], ["read", "mcp__search"]):
            messages.append({"role": "user", "content": f"Turn {len(messages)}."})
            messages.append({"role": "assistant", "content": _ask_model(running.url, messages, tools)})
        yield running


def _ask_model(url: str, messages: list[dict[str, Any]], tools: list[str]) -> list[dict[str, Any]]:
    definitions = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages, "tools": definitions}
    headers = {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
    request = Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)
    with urlopen(request) as answer:
        content: list[dict[str, Any]] = json.load(answer)["content"]
    return content


def test_a_running_proxy_tells_the_cause_and_so_does_the_session_that_it_keeps(
    run: Run, proxy: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("doctor", "--live", proxy.url)
    assert done.code == 0, done.err
    assert "1 session in memory, with 3 requests." in done.out
    assert re.search(r"The tools changed +1 +10k +100% +\$0\.0345 +recorded", done.out)
    assert "The cause is recorded or reported for 100% of these tokens." in done.out
    with urlopen(f"{proxy.url}/wane/metrics") as answer:
        metrics = answer.read().decode()
    assert 'wane_rewritten_tokens_total{api="anthropic",cause="tools"} 10000.0' in metrics
    assert 'wane_rewritten_dollars_total{api="anthropic",cause="tools"} 0.0345' in metrics
    (path,) = (tmp_path / "store").rglob("*.jsonl")
    done = run("doctor", path)
    assert done.code == 0, done.err
    assert "1 request paid again for 10k tokens" in done.out
    assert "The tools changed: tools added: mcp__search" in done.out


def test_without_a_proxy_there_is_nothing_live(run: Run) -> None:
    done = run("doctor", "--live", "http://127.0.0.1:9")
    assert (done.code, done.out) == (2, "")
    assert "no proxy answers there" in done.err
    for ignored in (["3f9c"], ["--full"], ["--format", "pi"]):
        done = run("doctor", "--live", "http://127.0.0.1:9", *ignored)
        assert (done.code, done.out) == (2, "")
        assert "give no SESSION, --full, --report or --format with it" in done.err


def test_requests_that_the_proxy_recorded_too_count_once(run: Run, proxy: Running, tmp_path: Path) -> None:
    (journal,) = (tmp_path / "store").rglob("*.jsonl")
    lines: list[dict[str, Any]] = list(pi_lines())
    answers = [line for line in lines if line.get("message", {}).get("role") == "assistant"]
    for line, (fresh, read, written) in zip(answers, [(0, 0, 10_000), (0, 0, 10_200), (0, 10_200, 200)], strict=False):
        line["message"]["usage"] |= {"input": fresh, "cacheRead": read, "cacheWrite": written, "output": 5}
    own = [line for line in lines if line not in answers[3:]]
    write_lines(tmp_path / "pi.jsonl", own)
    done = run("doctor", journal, tmp_path / "pi.jsonl")
    assert done.code == 0, done.err
    assert "1 session left out: Wane's proxy recorded the same requests." in done.out
    assert "1 request paid again for 10k tokens" in done.out


def test_a_branch_that_the_proxy_saw_is_compared_with_what_it_branched_off_from(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    usages = [Usage(10_000 * number, 5, 10_000 * (number - 1), 10_000) for number in (1, 2, 3)]
    usages.append(Usage(21_000, 5, 0, 21_000))
    with serving(tmp_path, *usages) as running:
        messages: list[dict[str, Any]] = []
        for number in range(4):
            del messages[4 if number == 3 else len(messages) :]
            messages.append({"role": "user", "content": f"Turn {number}."})
            messages.append({"role": "assistant", "content": _ask_model(running.url, messages, ["read"])})
    done = run("doctor", *(tmp_path / "store").rglob("*.jsonl"))
    assert done.code == 0, done.err
    assert "You went back to an earlier message: message 5 of the 5 sent before is not the same" in " ".join(
        done.out.split()
    )
