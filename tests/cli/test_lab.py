"""The lab's commands on small sessions made here."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import COMMAND, SOURCE, Run
from tests.cli.test_main import WITHOUT
from tests.lab.browser import Browser, needs_chromium
from tests.lab.readers.test_claude_code import Transcript, text_block
from tests.lab.readers.writing import write_lines
from tests.lab.test_report import Page
from tests.lab.test_rereads import rollout
from tests.marks import first_quick
from wane.agent.config import load_settings
from wane.agent.options import AgentOptions
from wane.budgets import AutoBudget
from wane.cli.command_registry import AGENT, find_commands
from wane.cli.lab.common import range_of, round_tokens
from wane.cli.lab.lab_commands import ReplayOptions
from wane.cli.lab.pareto import PlottedPoint, letters_for, pareto_picture
from wane.cli.lab.replay import REPLAYED
from wane.cli.lab.tune import PROGRAMS, command_for, compare_others, reasons
from wane.cli.parser import parse
from wane.core import Policy, parse_budget
from wane.flags import declare_flags
from wane.installing import installation
from wane.lab.loss import LossTotals
from wane.lab.replaying.jobs import ENGINES
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.verdict import Baselines
from wane.lab.tuning import RIVALS, Alternative, Candidate, Tuning
from wane.money import dollars, share
from wane.prices import Cost
from wane.proxy.agents.known import AGENTS
from wane.strategies.registry import STRATEGY_NAMES
from wane.words import PURPOSES, name_strategy

pytest.importorskip("genai_prices", reason="needs the extra lab")

KEYS = {
    *("name", "cost_usd", "ratio", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"),
    *("own_calls", "view_tokens", "peak_tokens", "over", "over_reasons", "breaks"),
    *("recall", "recall_at_best", "grounding", "turns", "broken_pairs", "own_time_ms"),
}


def rows_of(out: str) -> dict[str, list[str]]:
    """Return the rows of a table of strategies, by the strategy: its name, and the figures."""
    rows = {}
    for line in out.splitlines():
        for name in STRATEGY_NAMES:
            title = name_strategy(name)
            if re.match(rf"{title} +\$", line):
                rows[name] = [title, *line.removeprefix(title).split()]
    return rows


def messages(rounds: int = 30, size: int = 600) -> Iterator[dict[str, Any]]:
    """A chat that reads and edits file after file, a new turn of the user with every tenth."""
    yield {"role": "system", "content": "You are a careful programmer."}
    for number in range(rounds):
        path = f"src/module_{number % 5}.py"
        if number % 10 == 0:
            yield {"role": "user", "content": f"Please see to {path} now, and to all that depends on it."}
        for tool, output in (("read_file", f"def function_{number}(): ...\n" * (size // 24)), ("edit_file", "ok")):
            call = {"name": tool, "arguments": json.dumps({"path": path, "text": f"function_{number}"})}
            call_id = f"{tool}-{number}"
            yield {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": call}]}
            yield {"role": "tool", "tool_call_id": call_id, "content": output}
    yield {"role": "assistant", "content": "All is done."}


def pi_lines(requests: int = 6, fixed: int = 5_000) -> Iterator[dict[str, Any]]:
    """A session of pi, whose requests carry a number of tokens besides what was said."""
    stamp = "2026-01-02T03:04:{:02}.000Z"
    yield {"type": "session", "version": 3, "id": "s", "cwd": "/w", "timestamp": stamp.format(0)}
    yield {"type": "message", "id": "u", "timestamp": stamp.format(0), "message": {"role": "user", "content": "go on"}}
    parent = "u"
    for number in range(requests):
        call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": "a.py"}}
        usage = {"input": 3, "output": 20, "cacheRead": fixed + 100 * number if number else 0, "cacheWrite": 100}
        usage["cacheWrite"] += 0 if number else fixed
        answer = {"role": "assistant", "content": [call], "model": "claude-sonnet-4-5", "usage": usage}
        result = {"role": "toolResult", "toolCallId": f"c{number}", "content": [{"type": "text", "text": "x" * 320}]}
        for place, message in enumerate(({**answer, "stopReason": "toolUse"}, result)):
            name = f"{number}-{place}"
            line = {"type": "message", "id": name, "parentId": parent, "message": message}
            yield line | {"timestamp": stamp.format(number + 1)}
            parent = name


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(list(messages())), encoding="utf-8")
    return path


@pytest.fixture
def pi(tmp_path: Path) -> Path:
    path = tmp_path / "pi.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in pi_lines()), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three sessions: one short, one long, one without a model call; and a file that is none."""
    place = tmp_path / "runs"
    place.mkdir()
    for name, rounds in (("short", 5), ("long", 20)):
        (place / f"{name}.json").write_text(json.dumps(list(messages(rounds))), encoding="utf-8")
    (place / "idle.json").write_text(json.dumps([{"role": "user", "content": "hello?"}]), encoding="utf-8")
    (place / "broken.json").write_text("{", encoding="utf-8")
    return place


def run_replay(run: Run, *args: str | Path) -> dict[str, Any]:
    done = run("replay", *args, "--json", "--workers", "1")
    assert (done.code, done.err) == (0, ""), done.err
    data: dict[str, Any] = json.loads(done.out)
    return data


def flat(text: str) -> str:
    return " ".join(text.split())


class TestReplay:
    def test_what_the_harness_put_in_is_told_apart(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "chat.json"
        reminder = {"role": "user", "content": f"<system-reminder>{'Keep the list. ' * 800}</system-reminder>"}
        path.write_text(json.dumps([*messages(3), reminder, {"role": "assistant", "content": "So."}]))
        assert "(3k of them notices), 1 turn of the user." in flat(run("replay", path, "--workers", "1").out)

    def test_json(self, run: Run, chat: Path) -> None:
        data = run_replay(run, chat, "--budget", "2k")
        assert (data["budget"], data["price"]) == (2000, "anthropic:claude-sonnet-4-5")
        assert [row["name"] for row in data["strategies"]] == list(STRATEGY_NAMES)
        for row in data["strategies"]:
            assert row.keys() >= KEYS
        by_name = {row["name"]: row for row in data["strategies"]}
        assert by_name["none"]["ratio"] == 1.0
        assert by_name["cwl"]["turns"] == 1.0
        assert by_name["cwl"]["view_tokens"] < by_name["none"]["view_tokens"]
        assert by_name["compact"]["own_calls"] > 0
        assert by_name["compact"]["recall"] < by_name["compact"]["recall_at_best"]
        [session] = data["sessions"]
        expected = {"name": "chat", "source": "openai", "path": str(chat), "model_calls": 61, "user_turns": 3}
        assert {key: session[key] for key in expected} == expected
        assert (session["annotation"], session["problems"], session["sidechains"]) == ("inferred", [], [])

        def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [row | {"own_time_ms": 0} for row in rows]

        assert timeless(session["strategies"]) == timeless(data["strategies"])
        assert timeless(run_replay(run, chat, "--budget", "2k")["strategies"]) == timeless(data["strategies"])

    def test_what_was_read_and_what_was_not(self, run: Run, folder: Path) -> None:
        data = run_replay(run, folder, "--strategy", "cwl,truncate")
        assert [entry["name"] for entry in data["sessions"]] == ["long", "short"]
        assert [row["name"] for row in data["strategies"]] == ["truncate", "cwl"]
        assert [entry["name"] for entry in data["left_out"]] == ["idle"]
        assert [entry["path"] for entry in data["unread"]] == [str(folder / "broken.json")]
        text = flat(run("replay", folder, "--strategy", "cwl,truncate", "--workers", "1").out)
        assert text.startswith(f"{PURPOSES['replay']} 2 sessions: 52 model calls, ")
        assert "Episodes are inferred from tool calls: the agent marked none." in text
        assert "1 session left out, because no model answered in it: idle" in text
        assert "1 file skipped: " in text
        assert str(folder / "broken.json") in text.replace(" ", "")

    def test_a_session_that_only_repeats_another_one_is_left_out(self, run: Run, tmp_path: Path) -> None:
        script = Transcript("go")
        script.answer("a", text_block("done"))
        for name in ("a", "b"):
            write_lines(tmp_path / f"{name}.jsonl", *script.lines)
        data = run_replay(run, tmp_path, "--strategy", "none")
        assert (data["recorded"]["model_calls"], data["strategies"][0]["model_calls"]) == (1, 1)
        [entry] = data["left_out"]
        assert (entry["name"], entry["why"]) == ("b", "all of its calls count for another one")
        text = flat(run("replay", tmp_path, "--strategy", "none").out)
        assert "1 session left out: all of its calls count for another one: b" in text

    def test_the_table(self, run: Run, chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("COLUMNS")
        done = run("replay", chat, "--budget", "2k", "--workers", "1")
        assert (done.code, done.err) == (0, "")
        rows = rows_of(done.out)
        assert rows["none"][1] == rows["none"][3], "its cost is its total"
        assert rows["none"][4] == "1.00"
        assert rows["none"][7:10] == ["100%", "100%", "100%"]
        low, high = rows["compact"][7].removesuffix("%").split("-")
        assert float(low) < float(high)
        text = flat(done.out)
        assert "fetched cost in still in the file messages cache" in text
        assert "still in view: share still in view of" in text
        assert "compact called the model" in text
        assert "The floor is $" in text

    @pytest.mark.parametrize("columns", [40, 50, 70, 80, 200])
    def test_no_figure_is_cut(self, run: Run, chat: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        """At 80 columns "2,01" stood for 2,015: a narrow terminal gets fewer columns, never parts of figures."""
        args = ("replay", chat, "--budget", "2k", "--workers", "1")
        monkeypatch.delenv("COLUMNS")
        whole = rows_of(run(*args).out)
        heads = ["strategy", *(column.title for column in REPLAYED)]
        monkeypatch.setenv("COLUMNS", str(columns))
        out = run(*args).out
        rows = rows_of(out)
        named = re.search(r"No room for: (.*?)\. A wider", flat(out))
        missing = named[1].split(", ") if named else []
        assert {*missing} <= {*heads} - {"strategy", "cost in all", "still in view"}
        head = [column for column in heads if column not in missing]
        for name in STRATEGY_NAMES:
            assert rows[name] == [whole[name][heads.index(column)] for column in head]

    def test_a_failed_write_leaves_the_old_report(self, run: Run, chat: Path, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        page.write_text("old")
        tmp_path.joinpath("limited.py").write_text(
            "import resource, signal, sys\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
            "from wane.cli.main import main\n"
            "sys.exit(main(sys.argv[1:]))\n"
        )
        command = [sys.executable, tmp_path / "limited.py", "replay", chat, "--report", page, "--workers", "1"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        assert done.returncode == 1, done.stderr
        assert page.read_text() == "old"
        assert [entry.name for entry in tmp_path.glob("*page.html*")] == ["page.html"]

    def test_joined(self, run: Run, folder: Path) -> None:
        data = run_replay(run, folder, "--join", "--strategy", "none")
        [session] = data["sessions"]
        assert (session["name"], session["joined"], session["model_calls"]) == ("2 sessions joined", 2, 52)

    def test_a_file_that_is_named_twice_is_read_once_and_that_is_said(self, run: Run, folder: Path) -> None:
        patterns = (folder / "long.json", folder, str(folder / "*o*.json"))
        done = run("replay", *patterns, "--strategy", "none", "--json", "--workers", "1")
        assert [session["name"] for session in json.loads(done.out)["sessions"]] == ["long", "short"]
        files = ", ".join(str(folder / f"{name}.json") for name in ("long", "broken", "short"))
        assert done.err == f"wane: 3 files are named more than once, and read once: {files}\n"
        for command in ("sweep", "tune", "doctor"):
            done = run(command, folder / "long.json", folder / "long.json")
            assert done.err == f"wane: 1 file is named more than once, and read once: {folder / 'long.json'}\n"

    def test_a_session_and_its_sub_agent_are_two_files(self, run: Run, tmp_path: Path) -> None:
        main, sub = rollout(tmp_path, "main"), rollout(tmp_path, "sub", "main")
        assert len(run_replay(run, main, sub, "--sidechains", "--strategy", "none")["sessions"]) == 2

    def test_a_budget_below_what_every_request_carries_is_said(self, run: Run, pi: Path) -> None:
        text = flat(run("replay", pi, "--budget", "4k").out)
        assert "Budget 4,000; " in text
        assert " tokens always stay (" in text
        assert "always stay" not in run("replay", pi, "--budget", "30k").out
        text = flat(run("replay", pi, "--budget", "4k", "--min-room", "0").out)
        assert "The budget of 4,000 tokens leaves too little room: " in text
        swept = flat(run("sweep", pi, "--budgets", "4k,30k", "--strategy", "cwl").out)
        assert "Budget 4,000; " in swept

    def test_the_budget_auto_is_chosen_for_each_session(self, run: Run, pi: Path, chat: Path, tmp_path: Path) -> None:
        heavy = write_lines(tmp_path / "heavy.jsonl", *pi_lines(requests=8, fixed=50_000))
        data = run_replay(run, pi, heavy, "--budget", "auto", "--strategy", "cwl")
        assert [session["budget"] for session in data["sessions"]] == [80_000, 126_000]
        assert data["budget"] == data["advised"]["tokens"] == 126_000
        assert data["advised"]["reason"] == "the larger of 80,000 and 126,000 for 2 sessions"
        text = flat(run("replay", pi, heavy, "--budget", "auto", "--strategy", "cwl").out)
        assert "Budget 80,000 to 126,000 tokens, prices " in text
        text = flat(run("replay", heavy, "--strategy", "cwl").out)
        assert "Budget 80,000 tokens, prices " in text
        assert "Budget auto: 126,000 tokens, 2.5 times the 50,103 that never leave." in text

    def test_of_a_folder_it_is_said_whose_figures_are_printed(self, run: Run, chat: Path, tmp_path: Path) -> None:
        folder = tmp_path / "several"
        folder.mkdir()
        for name in ("a.json", "b.json"):
            shutil.copy(chat, folder / name)
        (folder / "broken.json").write_text("no session")
        text = run("view", folder, "--output", tmp_path / "v.html").err
        assert f"wane: session 1 of 2 in {folder}: " in text
        assert f"wane: 1 file skipped:\nwane:   {folder / 'broken.json'}: " in text
        assert "; the page has the others, too, and figures of this one" in text
        assert f"name another by its file, such as {folder / 'b.json'}" in text
        assert "session 1 of" not in run("view", folder / "b.json", "--output", tmp_path / "v.html").err
        for number in range(6):
            (folder / f"broken-{number}.json").write_text("no session")
        assert "wane:   and 2 more\n" in run("view", folder, "--output", tmp_path / "v.html").err

    def test_a_share_may_be_written_in_percent(self, run: Run, chat: Path) -> None:
        def view_tokens(low_water: str) -> object:
            options = ("--budget", "2k", "--strategy", "cwl", "--low-water", low_water)
            [row] = run_replay(run, chat, *options)["strategies"]
            return row["view_tokens"]

        assert view_tokens("30%") == view_tokens("0.3") != view_tokens("0.9")

    def test_a_budget_may_be_a_share_of_the_models_window(self, run: Run, chat: Path, tmp_path: Path) -> None:
        priced = ("--price", "anthropic:claude-sonnet-4-5", "--strategy", "cwl")  # a window of 200,000 tokens
        assert run_replay(run, chat, "--budget", "20%", *priced)["budget"] == 40_000
        assert "Budget 40,000 tokens, prices " in flat(run("replay", chat, "--budget", "20%", *priced).out)
        assert "into 40,000 tokens" in run("view", chat, "--budget", "20%", "--output", tmp_path / "v.html").err
        swept = json.loads(run("sweep", chat, "--budgets", "1%..2%", "--steps", "2", *priced, "--json").out)
        assert {point["budget"] for point in swept["points"]} >= {2_000, 4_000}
        swept = json.loads(run("sweep", chat, "--budgets", "1%..4k", "--steps", "2", *priced, "--json").out)
        assert {point["budget"] for point in swept["points"]} >= {2_000, 4_000}
        for command in ("sweep", "tune"):
            assert "budget '150%' is more than the whole window" in run(command, chat, "--budgets", "5%,150%").err

    def test_a_plan_takes_a_share_of_the_window_that_a_replay_takes(self, run: Run, tmp_path: Path) -> None:
        recording = Path(__file__).parents[1] / "lab/readers/recordings/opencode.json"
        session = tmp_path / "opencode.json"
        session.write_text(recording.read_text().replace("claude-sonnet-4-5", "claude-opus-4-6"))  # a million tokens
        planned = json.loads(run("plan", session, "--budget", "10%", "--json").out)["room"]
        assert planned["budget"] == run_replay(run, session, "--budget", "10%")["budget"] == 100_000
        assert planned["window"] == 1_000_000

    def test_the_report(self, run: Run, chat: Path, tmp_path: Path) -> None:
        page = tmp_path / "out.html"
        done = run("replay", chat, "--strategy", "cwl", "--budget", "2k", "--report", page)
        assert done.code == 0, done.err
        assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
        assert "function_7" in page.read_text(encoding="utf-8")
        run("replay", chat, "--strategy", "cwl", "--budget", "2k", "--report", page, "--redact")
        assert "function_7" not in page.read_text(encoding="utf-8")
        done = run("sweep", chat, "--budgets", "1k,2k", "--strategy", "cwl", "--report", tmp_path / "sweep.html")
        assert done.code == 0, done.err
        assert (tmp_path / "sweep.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")

    @pytest.mark.full
    def test_damaged_lines_make_the_recorded_cost_a_bound(self, run: Run, pi: Path, tmp_path: Path) -> None:
        assert run_replay(run, pi, "--strategy", "cwl")["recorded"]["complete"]
        lines = pi.read_text(encoding="utf-8").splitlines()
        lines[4] = lines[4][: len(lines[4]) // 2]
        pi.write_text("\n".join(lines), encoding="utf-8")
        recorded = run_replay(run, pi, "--strategy", "cwl")["recorded"]
        assert (recorded["complete"], recorded["unread_records"]) == (False, 1)
        text = flat(run("replay", pi, "--strategy", "cwl").out)
        assert "as recorded ≥$" in text
        assert " as recorded (without what 1 unreadable record held); $" in text
        assert "2 things could not be read and left out" in flat(run("tune", pi, "--budgets", "1k,2k").out)
        viewed = run("view", pi, "--output", tmp_path / "page.html")
        assert " as recorded (without what 1 unreadable record held)" in flat(viewed.err)
        assert "what 1 unreadable record held" in (tmp_path / "page.html").read_text(encoding="utf-8")

    def test_sessions_that_never_fill_the_budget_are_said_to(self, run: Run, chat: Path) -> None:
        told = "These sessions never fill the budget"
        assert told in flat(run("replay", chat, "--budget", "80k").out)
        assert told not in flat(run("replay", chat, "--budget", "2k").out)

    def test_options_reach_the_replay(self, run: Run, chat: Path) -> None:
        plain = run_replay(run, chat, "--strategy", "compact", "--budget", "3k")
        [short_] = run_replay(run, chat, "--strategy", "compact", "--budget", "3k", "--summary-tokens", "9")[
            "strategies"
        ]
        assert short_["output_tokens"] < plain["strategies"][0]["output_tokens"]
        data = run_replay(run, chat, "--price", "openai:gpt-5.2", "--annotate", "model", "--strategy", "cwl")
        assert (data["price"], data["cache"]["rules"]) == ("openai:gpt-5.2", "openai")
        assert data["sessions"][0]["annotation"] == "agent"
        hour = run_replay(run, chat, "--cache-hour", "--strategy", "none")
        assert hour["cache"]["lifetime_seconds"] == 3600
        low = run_replay(run, chat, "--low-water", "0.3", "--strategy", "truncate", "--budget", "3k")
        assert low["strategies"][0]["passes"] > 0

    def test_sub_agents_have_a_budget_of_their_own(self, run: Run, tmp_path: Path) -> None:
        long = "word " * 2_000
        main = rollout(tmp_path, "main", text=long)
        rollout(tmp_path, "sub", "main", text=long)

        def over(*budgets: str) -> int:
            [row] = run_replay(run, tmp_path, "--strategy", "truncate", "--sidechains", *budgets)["strategies"]
            return int(row["over"])

        assert (over(), over("--agent-budget", "1k"), over("--budget", "1k")) == (0, 1, 2)
        assert over("--budget", "1k", "--agent-budget", "9k") == 1
        told = run("replay", tmp_path, "--sidechains", "--strategy", "cwl", "--agent-budget", "30k").out
        assert "Budget 80,000 tokens (30,000 for sub-agents), prices" in flat(told)
        page = tmp_path / "page.html"
        assert run("view", main, "--output", page, "--agent-budget", "30k").code == 0
        for arguments in (("replay", tmp_path), ("view", rollout(tmp_path / "alone", "alone"), "--output", page)):
            refused = run(*arguments, "--agent-budget", "1k")
            assert (refused.code, refused.out) == (2, "")
            assert "there is no session of one here" in refused.err

    @pytest.mark.parametrize(
        ("args", "why"),
        [
            (["nowhere.json"], "there is no file or folder nowhere.json"),
            (["chta.json"], "there is no file or folder chta.json; did you mean chat.json?"),
            (["chat.json", "--report", "/proc/wane.html"], "cannot write the report /proc/wane.html: "),
            (["chat.json", "--strategy", "best"], "strategy 'best' is unknown; known: none, truncate"),
            (["chat.json", "--strategy", "compact,Wane"], "did you mean cwl?"),
            (["chat.json", "--strategy", "nothing set aside"], "did you mean none?"),
            (["chat.json", "--strategy", "cwl,cwl"], "'cwl,cwl' names the strategy cwl twice"),
            (["chat.json", "--budget", "lots"], "budget 'lots' is not understood"),
            (["chat.json", "--price", "anthropic:claude-sonet-4-5"], "did you mean anthropic:claude-sonnet-4-5"),
            (["chat.json", "--low-water", "7"], "--low-water is '7'; it must be a share above 0 and at most 1"),
            (["chat.json", "--workers", "0"], "the number of workers is 0; it must be at least 1"),
            (["chat.json", "--summary-tokens", "0"], "the length of a summary is 0 tokens"),
            (["chat.json", "--counter", "fingers"], "fingers"),
            (["chat.json", "--format", "pi"], "chat.json"),
            (["chat.json", "--report", "no/such/place.html"], "its directory does not exist"),
            (["chat.json", "--report="], "--report is empty; give it a value, or leave it out"),
            (["chat.json", "--redact"], "--redact is for the page of --report: give both"),
            (["chat.json", "--engine", "steam"], "--engine is 'steam'; it must be "),
            ([], "no agent has a session of "),
        ],
    )
    def test_what_makes_no_sense_is_told_in_a_line(
        self, run: Run, chat: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], why: str
    ) -> None:
        monkeypatch.chdir(chat.parent)
        done = run("replay", *args)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("wane: ")
        assert done.err.count("\n") == 1
        assert why in done.err

    def test_a_session_whose_calls_all_failed_is_left_out(self, run: Run, chat: Path, tmp_path: Path) -> None:
        failed = tmp_path / "failed.json"
        lines = [{"role": "user", "content": "hello?"}, {"role": "assistant", "content": ""}]
        failed.write_text(json.dumps(lines), encoding="utf-8")
        alone = run("replay", failed)
        assert (alone.code, alone.err) == (2, "wane: there is nothing to replay: no model answered in failed\n")
        data = json.loads(run("replay", chat, failed, "--strategy", "cwl", "--json", "--workers", "1").out)
        assert [entry["name"] for entry in data["sessions"]] == [chat.stem]
        assert [(entry["name"], entry["why"]) for entry in data["left_out"]] == [("failed", "no answer")]

    @pytest.mark.full
    @pytest.mark.parametrize("command", ["replay", "sweep", "tune"])
    def test_without_the_extra_the_install_command_is_printed(self, spawn: Run, chat: Path, command: str) -> None:
        done = spawn("genai_prices", command, chat, code=WITHOUT)
        assert (done.code, done.out) == (1, "")
        assert done.err.endswith(f"Install it with: {installation().extras_line('lab')}\n")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are watched in /proc")
class TestStopping:
    @pytest.mark.full
    def test_ctrl_c_ends_it_and_its_workers(self, tmp_path: Path) -> None:
        path = tmp_path / "long.json"
        path.write_text(json.dumps(list(messages(2_500))), encoding="utf-8")
        command = [sys.executable, "-c", COMMAND, "replay", str(path), "--budget", "4k", "--workers", "2"]
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            workers = self.workers(process.pid)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (130, b"", b"")
        assert len(workers) == 2
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)

    def workers(self, pid: int) -> list[str]:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for _ in range(600):
            found = children.read_text().split()
            if len(found) == 2:
                return found
            time.sleep(0.05)
        raise AssertionError("no workers came up")


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="there are no pseudo terminals here")
def test_progress_is_shown_on_a_terminal_and_nowhere_else(spawn: Run, chat: Path) -> None:
    ours, theirs = pty.openpty()
    done = spawn("replay", chat, "--strategy", "cwl", stderr=theirs, env={"TERM": "xterm"})
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # Linux says so at the end
        pass
    os.close(ours)
    assert done.code == 0
    assert b"Reading" in shown
    assert b"Replaying" in shown
    assert "Replaying" not in done.out
    assert spawn("replay", chat, "--strategy", "cwl").err == ""


class TestSweep:
    def test_json(self, run: Run, chat: Path) -> None:
        done = run("sweep", chat, "--budgets", "1k..3k", "--steps", "3", "--strategy", "none,cwl", "--json")
        data = json.loads(done.out)
        assert data["budgets"] == [1000, 2000, 3000]
        assert [(entry["strategy"], entry["budget"]) for entry in data["points"]] == [
            ("none", None),
            ("cwl", 1000),
            ("cwl", 2000),
            ("cwl", 3000),
        ]
        assert data["points"][1].keys() >= KEYS - {"name"}
        recalls = [entry["recall"] for entry in data["points"][1:]]
        assert recalls == sorted(recalls)

    def test_the_table_and_the_picture(self, run: Run, chat: Path) -> None:
        done = run("sweep", chat, "--budgets", "1k,2k", "--strategy", "all", "--workers", "1")
        assert (done.code, done.err) == (0, "")
        assert max(map(len, done.out.splitlines())) <= 80
        text = flat(done.out)
        assert "ratio" in text
        assert "No room for: " in text
        assert "N nothing set aside T truncate " in text
        assert all(f" {name_strategy(name)} " in text for name in STRATEGY_NAMES)
        assert "capitals: on the frontier" in text
        assert re.search(
            r"Recommended: a budget of 2,000 tokens\. No other that was tried keeps more\. wane tune tries",
            text,
        )

    def test_it_weighs_what_tune_weighs(self, run: Run, tmp_path: Path) -> None:
        heavy = write_lines(tmp_path / "heavy.jsonl", *pi_lines(requests=8, fixed=50_000))
        data = json.loads(run("sweep", heavy, "--strategy", "truncate,cwl", "--json").out)
        assert data["budgets"] == [30_000, 60_000, 90_000, 120_000, 126_000, 150_000]
        assert data["recommended"] in {126_000, 150_000}
        named = json.loads(run("sweep", heavy, "--strategy", "cwl", "--budgets", "30k,60k", "--json").out)
        assert named["recommended"] in {30_000, 60_000}


class TestTune:
    @pytest.mark.full
    def test_what_is_recommended_can_be_pasted(self, run: Run, chat: Path, tmp_path: Path) -> None:
        done = run("tune", chat, "--budgets", "1k,2k,3k", "--json", "--workers", "1")
        assert (done.code, done.err) == (0, "")
        data = json.loads(done.out)
        assert all(isinstance(reason, str) for reason in data["reasons"])
        (tmp_path / "home").mkdir()
        (tmp_path / ".wane.toml").write_text(data["config"], encoding="utf-8")
        settings = load_settings(AgentOptions(cwd=tmp_path), {"WANE_CONFIG_DIR": str(tmp_path / "home")})
        assert settings.budget == data["recommended"]["budget"]
        assert settings.context.policy == Policy(**data["recommended"]["policy"])

    @pytest.mark.quick(1)
    @pytest.mark.parametrize("budgets", first_quick("auto", None))
    def test_it_advises_what_replay_and_view_advise_and_keeps_it(
        self, run: Run, tmp_path: Path, budgets: str | None
    ) -> None:
        path = tmp_path / "heavy.json"
        chat = list(messages(rounds=30, size=20_000))
        chat[0]["content"] = "Mind this. " * 16_000
        path.write_text(json.dumps(chat), encoding="utf-8")

        def advice() -> str:
            text = flat(run("replay", path, "--strategy", "cwl", "--workers", "1").out)
            [said] = re.findall(r"Budget (auto: [\d,]+ tokens, .*?)\. cost: ", text)
            viewed = run("view", path, "--budget", "auto", "--output", tmp_path / "page.html").err
            assert f"wane: budget {said}\n" in viewed
            assert f" at {said.split()[1]} tokens" in viewed
            return said

        first = advice()
        assert first == "auto: 111,000 tokens, 2.5 times the 44,051 that never leave"
        options = () if budgets is None else ("--budgets", budgets)
        done = run("tune", path, *options, "--save", "--workers", "1")
        assert done.code == 0, done.err
        text = flat(done.out)
        [best] = re.findall(r"Recommended: a budget of ([\d,]+) tokens, ", text)
        others = "no other budget that was tried is" if best == "111,000" else f"here {best} was"
        assert f"Budget {first}; {others} better" in text
        swept = json.loads(run("sweep", path, "--strategy", "cwl", "--workers", "1", "--json").out)
        assert swept["reason"].startswith(f"Budget {first}; ")
        assert 111_000 in swept["budgets"]
        assert swept["recommended"] >= 111_000, "what never leaves would fill too much of less"
        assert swept["recommended"] == int(best.replace(",", ""))
        assert "This is the smallest budget" not in text
        assert "Kept for --budget auto, in " in text
        assert advice() == f"auto: {best} tokens, tuned on your session"

    def test_sessions_that_fill_nothing_leave_nothing_to_keep(self, run: Run, pi: Path, tmp_path: Path) -> None:
        done = run("tune", pi, "--budgets", "auto", "--save", "--workers", "1")
        assert (done.code, done.err) == (0, "")
        assert "There is nothing to keep for --budget auto." in flat(done.out)
        assert not (tmp_path / "config").exists()

    def test_the_text(self, run: Run, chat: Path) -> None:
        done = run("tune", chat, "--budgets", "1k,2k", "--workers", "1")
        assert (done.code, done.err) == (0, "")
        text = flat(done.out)
        assert "Recommended: a budget of " in text
        assert re.search(r"^only this changed +cost +kept of what was needed", done.out, re.MULTILINE)
        assert re.search(r"^truncate +\$[\d.]+ (more|less) |^truncate +about as much ", done.out, re.MULTILINE)
        config, _, end = done.out.partition("config.toml):")[2].partition("To work with it")
        assert tomllib.loads(config)["budget"] in {1000, 2000}
        assert re.search(r"\n\n  wane run --budget (1000|2000)( --low-water 0\.\d+)? claude\n$", end)

    @pytest.mark.parametrize("low_water", [0.3, 0.55])
    def test_it_ends_in_a_command_that_does_what_is_recommended(self, low_water: float) -> None:
        chosen = Candidate(50_000, Policy(low_water=low_water, order="paper"), Totals())
        command, options = parse(shlex.split(command_for(chosen, "claude-code"))[1:], AGENT, find_commands())
        assert (command.name, options.agent) == ("run", "claude")
        assert parse_budget(options.context.budget) == 50_000
        assert options.context.policy_settings.applied_to("default") == Policy(low_water=low_water)

    def test_its_programs_are_those_that_run_knows(self) -> None:
        # An editor's bridge writes the sessions of the agent that it starts; aider's hold nothing to evict.
        known = {agent.program for agent in AGENTS if not agent.program.endswith("-acp")}
        assert set(PROGRAMS.values()) == known - {"aider"}

    @needs_chromium
    def test_its_page_marks_what_is_recommended(self, run: Run, chat: Path, tmp_path: Path) -> None:
        page = tmp_path / "tune.html"
        done = run("tune", chat, "--budgets", "1k,2k", "--workers", "1", "--report", page)
        assert (done.code, done.err) == (0, "")
        data = Page(page).data
        (chosen,) = [point for point in data["points"] if point["chosen"]]
        assert data["command"].startswith(f"wane run --budget {chosen['budget']} ")
        budget, cost, in_view = data["tiles"]
        assert (budget["value"], budget["beside"]) == (f"{chosen['budget']:,}", "tokens")
        assert [label for label, _, is_sum in budget["lines"] if is_sum] == [f"{chosen['budget']:,} tokens"]
        assert " with Wane at " in cost["bound"]
        assert in_view["what"] == "Of what was needed later, still in view"
        assert in_view["value"] == share(chosen["kept"]), "the share of the chart"
        named = {name for name, *_ in data["others"]}
        explained = {*data["settings"], "budget", *RIVALS}
        assert not [name for name in named if not name.startswith(tuple(explained))]
        with Browser(390, 800) as browser:
            browser.open(page)
            marks = "[...document.querySelectorAll('.dotmark')].map(it => it.getAttribute('aria-label'))"
            assert len([mark for mark in browser.run(marks) if mark.endswith(", recommended")]) == 1
            labels = "[...document.querySelectorAll('.pointlabel')].map(it => it.textContent)"
            assert any(label.startswith("recommended: ") for label in browser.run(labels))
            assert browser.run("document.documentElement.scrollWidth") <= 390
            assert not browser.errors

    @pytest.mark.full
    def test_a_choice_at_the_edge_of_what_was_tried_says_how_to_try_more(self, run: Run, chat: Path) -> None:
        done = json.loads(run("tune", chat, "--budgets", "2k,20k", "--json", "--workers", "1").out)
        edge = "smallest" if done["recommended"]["budget"] == 2000 else "largest"
        more = {"smallest": "--budgets 1000..2000", "largest": "--budgets 20000..40000"}[edge]
        (told,) = [reason for reason in done["reasons"] if "budget that was tried" in reason]
        assert f"This is the {edge} budget that was tried" in told
        assert told.endswith(f"may be better still: try {more}.")

    def test_sessions_that_fill_no_window(self, run: Run, folder: Path) -> None:
        text = flat(run("tune", folder, "--budgets", "60k,70k", "--workers", "1").out)
        assert "These sessions never fill the smallest budget" in text
        assert "Recommended" not in text
        assert "budget = " not in text, "nothing speaks for another budget than the default"
        data = json.loads(run("tune", folder, "--budgets", "60k,70k", "--workers", "1", "--json").out)
        assert (data["unfilled"], data["config"]) == (True, "")

    def test_the_cheapest_choice_is_told_as_such(self) -> None:
        def candidate(budget: int, cost: float, kept: int) -> Candidate:
            loss = LossTotals(uses=10, in_view=kept, edits=10, grounded=kept)
            return Candidate(budget, Policy(low_water=0.4), Totals(cost=Cost(fresh=cost), passes=1, loss=loss))

        tried = cheap, dear = candidate(60_000, 1.0, 8), candidate(80_000, 3.0, 9)
        text = list(reasons(Tuning((), cheap, tried, tried, (), dear.totals, Baselines())))
        assert (
            "No other budget or policy that was tried is cheaper. Keeping most costs $2.00 more, for 10.0 points: "
            "$3.00 and 90% kept (80k, low water 0.4, order last_use)."
        ) in text
        text = list(reasons(Tuning((), dear, tried, tried, (), dear.totals, Baselines())))
        assert any("that were tried, the cheapest is $1.00 and 80% kept (60k" in line for line in text)

    def test_a_cheaper_strategy_is_named_beside_the_cheapest_budget(self) -> None:
        def totals(cost: float) -> Totals:
            return Totals(cost=Cost(fresh=cost), passes=1, loss=LossTotals(uses=10, in_view=8))

        chosen = Candidate(101_000, Policy(), totals(6.05))
        rivals = Alternative("strategy", "truncate", totals(6.5)), Alternative("strategy", "fold", totals(5.94))
        text = list(reasons(Tuning((), chosen, (chosen,), (chosen,), rivals, totals(9.0), Baselines())))
        assert "Fold at 101,000 tokens would have cost $5.94; wane replay compares all strategies." in text
        (closer,) = [Alternative("strategy", "fold", totals(6.02))]
        text = list(reasons(Tuning((), chosen, (chosen,), (chosen,), (closer,), totals(9.0), Baselines())))
        assert not [line for line in text if "would have cost" in line]

    def test_another_budget_than_auto_is_called_better_by_how_much(self) -> None:
        def candidate(budget: int, cost: float, kept: int) -> Candidate:
            loss = LossTotals(uses=1000, in_view=kept, edits=1000, grounded=kept)
            return Candidate(budget, Policy(), Totals(cost=Cost(fresh=cost), passes=1, loss=loss))

        auto = AutoBudget(81_000, "2.5 times the 32,400 that never leave")
        tried = chosen, advised = candidate(100_000, 6.40, 904), candidate(81_000, 6.48, 900)
        result = Tuning((), chosen, tried, tried, (), advised.totals, Baselines(), advised=auto)
        said = "Budget auto: 81,000 tokens, 2.5 times the 32,400 that never leave; "
        assert f"{said}here 100,000 was better: it costs $0.08 less and keeps 0.4 points more." in list(reasons(result))
        result = replace(result, chosen=advised)
        assert f"{said}no other budget that was tried is better." in list(reasons(result))

    def test_what_is_recommended_has_a_cost_of_its_own_and_the_defaults_name_each_difference(self) -> None:
        def candidate(budget: int, policy: Policy, cost: float, kept: int) -> Candidate:
            loss = LossTotals(uses=10, in_view=kept, edits=10, grounded=kept)
            return Candidate(budget, policy, Totals(cost=Cost(fresh=cost), passes=1, loss=loss))

        chosen = candidate(60_000, Policy(low_water=0.2, order="paper", guard=0.45), 1.0, 8)
        default = candidate(80_000, Policy(), 3.0, 9)
        only_larger = Alternative("budget", 80_000, candidate(80_000, chosen.policy, 2.0, 7).totals)
        tried = chosen, default
        result = Tuning((), chosen, tried, tried, (only_larger,), default.totals, Baselines())
        text = list(reasons(result))
        assert (
            "Simulated over all calls, these settings cost $1.00 and keep 80% (60k, low water 0.2, order paper, guard "
            "0.45)."
        ) in text
        assert (
            "The defaults, $3.00 and 90% kept (80k, low water 0.3, order last_use): $2.00 more, keeps 10.0 points more."
        ) in text
        assert compare_others(result) == [("budget 80k", "$1.00 more", "10.0 points less", "")]

    def test_steps_go_with_a_range(self, run: Run, chat: Path) -> None:
        assert "--steps goes with a range" in run("tune", chat, "--steps", "3").err


def test_choices_are_those_that_there_are() -> None:
    choices = {option.key: option.choices for option in declare_flags(ReplayOptions)}
    assert choices["engine"] == ENGINES


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (round_tokens(940), "940"),
        (round_tokens(65_600), "66k"),
        (round_tokens(999_600), "1.0M"),
        (dollars(None), "cost unknown"),
        (dollars(0), "$0.00"),
        (dollars(0.7), "$0.70"),
        (dollars(0.0042), "$0.0042"),
        (dollars(0.04231), "$0.0423"),
        (dollars(0.00001), "$1.0e-05"),
        (dollars(1234.5), "$1,234.50"),
        (dollars(15551.4), "$15,551"),
        (share(1), "100%"),
        (share(0.99999), "99.9%"),
        (share(0.963), "96.3%"),
        (range_of(0.5, 0.5), "50%"),
        (range_of(0.881, 0.949), "88.1-94.9%"),
    ],
)
def test_figures_as_people_read_them(shown: str, text: str) -> None:
    assert shown == text


class TestPicture:
    def test_a_letter_for_each_and_capitals_on_the_frontier(self) -> None:
        marks = [
            PlottedPoint("none", 9.0, 1.0, True),
            PlottedPoint("noisy", 5.0, 0.5, False),
            PlottedPoint("on", 1.0, 0.5, True),
        ]
        rows = pareto_picture(marks, 60, "cost", "recall", dollars).plain.splitlines()
        assert letters_for(mark.name for mark in marks) == {"none": "N", "noisy": "O", "on": "A"}
        assert rows[0] == "recall"
        assert rows[1].startswith("100.0% |")
        assert rows[1].endswith("N")
        assert rows[14].startswith(" 50.0% |A")
        assert "o" in rows[14]
        assert rows[16].split() == ["$1.00", "cost,", "logarithmic", "$9.00"]

    def test_one_point_and_one_that_costs_nothing(self) -> None:
        assert "N none" in pareto_picture([PlottedPoint("none", 2.0, 1.0, True)], 60, "cost", "recall", dollars).plain
        assert pareto_picture([PlottedPoint("none", 0.0, 1.0, True)], 60, "cost", "recall", dollars).plain == ""
