"""`wane plan`: what it prints and what it takes."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wane
from tests.cli import sample
from tests.cli.conftest import Run
from tests.cli.snapshots import matches_snapshot
from tests.formats.convert import to_anthropic, to_responses
from wane.budgets import TunedBudget
from wane.cli.terminal.picture import WORDS_HINT
from wane.formats import get_format
from wane.tuned import save_tuned

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NOTHING = {"role": "user", "content": ""}


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return write(tmp_path / "chat.json", sample.messages())


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def delimiter(call_id: str, **arguments: Any) -> list[dict[str, Any]]:
    function = {"name": "delimiter", "arguments": json.dumps(arguments)}
    calls = [{"id": call_id, "type": "function", "function": function}]
    result = {"role": "tool", "tool_call_id": call_id, "content": "ok"}
    return [{"role": "assistant", "content": None, "tool_calls": calls}, result]


class TestJson:
    def test_it_is_what_the_library_says(self, run: Run, chat: Path) -> None:
        done = run("plan", chat, "--budget", "3200", "--json")
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out) == wane.plan(sample.messages(), budget=3_200).to_dict() | {"session": None}

    def test_it_is_printed_though_the_budget_cannot_be_met(self, run: Run, chat: Path) -> None:
        options = ("plan", chat, "--budget", "0.01k", "--json")
        plain, told = run(*options), run(*options, "--exit-code")
        assert (plain.code, told.code) == (0, 3)
        assert json.loads(plain.out) == json.loads(told.out)
        assert json.loads(told.out)["satisfied"] is False
        assert run("plan", chat, "--exit-code").code == 0, "the default budget can be met"

    def test_numbers_that_json_cannot_write_are_null(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "chat.json"
        path.write_text('[{"role": "user", "content": "go", "logprobs": [NaN, -Infinity, 1e999, 0.5]}]')
        told = run("plan", path, "--json")
        (message,) = json.loads(told.out, parse_constant=pytest.fail)["messages"]
        assert message["logprobs"] == [None, None, None, 0.5]
        assert told.err.startswith("wane: warning: the messages hold NaN or Infinity")

    def test_lone_surrogates_survive(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "chat.json"
        path.write_text('[{"role": "user", "content": "\\ud800"}]')
        assert json.loads(run("plan", path, "--json").out)["messages"] == [{"role": "user", "content": "\ud800"}]


class TestSettings:
    def tokens(self, run: Run, *args: str | Path) -> dict[str, int]:
        done = run("plan", *args, "--json")
        assert done.code == 0, done.err
        tokens: dict[str, int] = json.loads(done.out)["tokens"]
        return tokens

    @pytest.mark.parametrize(
        ("options", "budget"),
        [
            ([], 80_000),
            (["--budget", "40k"], 40_000),
            (["--budget", "1.5m"], 1_500_000),
            (["--budget", "50%"], 100_000),
            (["--budget", "50%", "--window", "128k"], 64_000),
        ],
    )
    def test_the_budget(self, run: Run, chat: Path, options: list[str], budget: int) -> None:
        assert self.tokens(run, chat, *options)["budget"] == budget

    def test_the_budget_auto_is_the_tuned_one_with_its_reason(
        self, run: Run, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path))
        assert "Budget auto: 80,000 tokens, the default." in run("plan", chat, "--budget", "auto").out
        save_tuned(TunedBudget(60_000, 7), os.environ)
        assert "Budget auto: 60,000 tokens, tuned on 7 of your sessions." in run("plan", chat, "--budget", "auto").out
        data = json.loads(run("plan", chat, "--budget", "auto", "--json").out)
        assert data["auto_budget"] == {"tokens": 60_000, "reason": "tuned on 7 of your sessions"}

    @pytest.mark.parametrize("command", ["plan", "view", "replay", "report"])
    def test_a_damaged_tuned_budget_is_named_and_stops_nothing(
        self, run: Run, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path))
        damaged = tmp_path / "tuned.json"
        damaged.write_text('{"tokens": 60000, "sess')
        options = {
            "plan": ("--budget", "auto"),
            "view": ("--output", tmp_path / "view.html"),
            "replay": ("--strategy", "cwl", "--workers", "1"),
            "report": ("--workers", "1", "--output", tmp_path / "report.html"),
        }
        done = run(command, chat, *options[command])
        assert done.code == 0, done.err
        # A report replays at a budget that is given.
        assert (str(damaged) in done.err) == (command != "report")
        assert ("remove it, or run wane tune --save again" in done.err) == (command != "report")

    def test_the_policy_and_what_varies_it(self, run: Run, chat: Path) -> None:
        def after(*options: str) -> int:
            return self.tokens(run, chat, "--budget", "3200", *options)["after"]

        def expected_tokens(policy: wane.Policy) -> int:
            return wane.plan(sample.messages(), budget=3_200, policy=policy).report.tokens_after

        assert after() == after("--policy", "default") == expected_tokens(wane.Policy())
        assert after("--policy", "paper") == expected_tokens(wane.Policy.paper())
        assert after("--low-water", "0.4") == expected_tokens(wane.Policy(low_water=0.4))
        assert after("--policy", "paper", "--low-water", "0.4") == expected_tokens(
            replace(wane.Policy.paper(), low_water=0.4)
        )
        assert after("--low-water", "0.1", "--description-share", "0") == expected_tokens(
            wane.Policy(low_water=0.1, description_share=0)
        )
        assert after("--low-water", "0.1", "--description-share", "none") == expected_tokens(
            wane.Policy(low_water=0.1, description_share=None)
        )

    def test_tool_classes(self, run: Run, chat: Path) -> None:
        def levels(*options: str) -> set[str]:
            steps = json.loads(run("plan", chat, "--budget", "4k", "--json", *options).out)["steps"]
            return {step["level"] for step in steps}

        changed = levels("--tool-class", "bash=bulk", "--tool-class", "Read=bulk")
        assert levels() - changed == {"artifact"}
        assert "bulk" in changed

    def test_a_counter_that_cannot_work_here_is_replaced_and_said_so(self, run: Run, chat: Path) -> None:
        pytest.importorskip("tiktoken", reason='needs the "tiktoken" extra')
        done = run("plan", chat, "--counter", "tiktoken:no-such-encoding", "--json")
        assert done.code == 0
        assert json.loads(done.out)["tokens"] == self.tokens(run, chat)
        assert done.err.startswith("wane: warning: tiktoken does not know the encoding 'no-such-encoding'; known: ")
        assert "Counting with chars" in done.err


class TestRoom:
    def test_too_little_room_is_said_with_the_budget_that_would_help(self, run: Run, tmp_path: Path) -> None:
        messages = sample.messages()
        messages[0]["content"] += " Be good." * 300
        chat = write(tmp_path / "chat.json", messages)
        strict = ("--budget", "1k", "--min-room", "0")
        done = run("plan", chat, *strict)
        room = json.loads(run("plan", chat, *strict, "--json").out)["room"]
        assert room["tight"]
        told = " ".join(done.out.split()).removesuffix(f" {WORDS_HINT}")
        assert told.endswith(f"left for the work. Set a budget of {room['advised']:,}, or load fewer tools.")
        assert "room" not in run("plan", chat, "--budget", f"{room['advised']}").out
        widened = " ".join(run("plan", chat, "--budget", "1k").out.split())
        assert "Budget 1,000; " in widened
        assert "of it always stay (" in widened
        assert "; working with 1," in widened
        assert "room" not in run("plan", chat, "--budget", "80k").out, "nothing had to go"


class TestInput:
    def test_a_transcript_of_cursor_is_refused_by_name(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "agent.jsonl"
        path.write_text('{"role": "user", "message": {"content": [{"type": "text", "text": "Look."}]}}\n')
        done = run("plan", path)
        assert done.code == 2
        assert f"{path}: it is a transcript of Cursor, which Wane does not read" in done.err

    def test_standard_input(self, run: Run, chat: Path) -> None:
        assert run("plan", "-", stdin=chat.read_bytes()).out == run("plan", chat).out

    @pytest.mark.parametrize(
        "text",
        [
            "\r\n\n".join(map(json.dumps, sample.messages())),
            "\n".join(json.dumps(message, indent=2) for message in sample.messages()),
            json.dumps({"model": "gpt-5", "messages": sample.messages()}),
            "\ufeff" + json.dumps(sample.messages()),
        ],
        ids=["a message a line", "as jq prints them", "a request body", "a byte order mark"],
    )
    def test_messages_in_other_wrappings(self, run: Run, chat: Path, tmp_path: Path, text: str) -> None:
        path = tmp_path / "wrapped.json"
        path.write_text(text, encoding="utf-8", newline="")
        assert run("plan", path, "--json").out == run("plan", chat, "--json").out

    def test_one_message(self, run: Run, tmp_path: Path) -> None:
        path = write(tmp_path / "one.jsonl", NOTHING)
        assert json.loads(run("plan", path, "--json").out)["messages"] == [NOTHING]

    @pytest.mark.parametrize("name", ["anthropic", "openai_responses"])
    def test_request_bodies_of_other_formats_are_told_apart(self, run: Run, tmp_path: Path, name: str) -> None:
        messages = to_anthropic(sample.messages()) if name == "anthropic" else to_responses(sample.messages())
        body: Any = {"system": "", "messages": messages}
        if name == "openai_responses":
            body = {"input": get_format(name).dump(messages)}
        done = run("plan", write(tmp_path / "body.json", body), "--budget", "3200", "--json")
        result, expected = json.loads(done.out), wane.plan(sample.messages(), budget=3_200).to_dict()
        assert (result["steps"], result["visible"]) == (expected["steps"], expected["visible"])
        line = "\n".join(json.dumps(message) for message in result["messages"])
        (tmp_path / "view.jsonl").write_text(line, encoding="utf-8")
        assert json.loads(run("plan", tmp_path / "view.jsonl", "--json").out)["messages"] == result["messages"]

    @pytest.mark.full
    def test_a_result_of_50_megabytes(self, run: Run, tmp_path: Path) -> None:
        messages = [NOTHING, *delimiter("d1", action="start", name="look", type="expl")]
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": "{}"}}]}
        )
        messages.append({"role": "tool", "tool_call_id": "c", "content": "x" * 50_000_000})
        messages += [*delimiter("d2", action="end", description="big"), {"role": "assistant", "content": "done"}]
        done = run("plan", write(tmp_path / "big.json", messages), "--json")
        assert done.code == 0, done.err
        tokens = json.loads(done.out)["tokens"]
        assert tokens["before"] > 12_500_000
        assert tokens["after"] < 100


class TestPicture:
    def test_the_snapshot_at_80_columns(self, run: Run, chat: Path) -> None:
        done = run("plan", chat, "--budget", "3200")
        assert done.code == 0, done.err
        assert matches_snapshot("plan", done.out)

    def test_the_snapshot_of_a_budget_that_cannot_be_met(self, run: Run, chat: Path) -> None:
        assert matches_snapshot("plan-over-budget", run("plan", chat, "--budget", "0.7k", "--policy", "paper").out)

    def test_the_snapshot_of_a_session_with_notices(self, run: Run, tmp_path: Path) -> None:
        reminder = {"role": "user", "content": f"<system-reminder>{'Keep the list. ' * 40}</system-reminder>"}
        messages: list[dict[str, Any]] = []
        for number, message in enumerate(sample.messages()):
            if number % 3 == 0 and message["role"] == "assistant":  # never between a call and its result
                messages.append(reminder)
            messages.append(message)
        done = run("plan", write(tmp_path / "chat.json", messages), "--budget", "3200")
        assert done.code == 0, done.err
        assert matches_snapshot("plan-notices", done.out)

    @pytest.mark.parametrize("columns", [60, 80, 120])
    def test_no_line_is_longer_than_the_terminal(
        self, run: Run, chat: Path, monkeypatch: pytest.MonkeyPatch, columns: int
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, run("plan", chat, "--budget", "3200").out.splitlines())) <= columns

    def test_names_can_be_read_on_a_narrow_terminal(
        self, run: Run, chat: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = [episode["name"] for episode in json.loads(run("plan", chat, "--json").out)["episodes"]]
        monkeypatch.setenv("COLUMNS", "40")
        out = run("plan", chat, "--budget", "3200").out
        table = out.partition("The window\n")[0].splitlines()
        assert max(map(len, table)) <= 40
        assert all(name in out for name in names if name is not None and len(name) <= 14)

    def test_nothing_to_do(self, run: Run, chat: Path) -> None:
        out = run("plan", chat).out
        assert "Nothing had to go: the view holds 4,387 tokens, within the budget of 80,000." in out
        assert "What goes" not in out

    def test_what_holds_the_tokens_is_told_where_nothing_can_go(self, run: Run, tmp_path: Path) -> None:
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello " * 100}]
        out = " ".join(run("plan", write(tmp_path / "chat.json", messages), "--budget", "0.02k").out.split())
        assert "151 tokens stay, 131 over the budget of 20, and nothing more may be evicted: " in out
        assert out.endswith(f" 150, user turns 1. {WORDS_HINT}")

    def test_no_messages(self, run: Run, tmp_path: Path) -> None:
        for data in ([], {"messages": []}, [NOTHING | {"role": "assistant"}]):
            path = write(tmp_path / "chat.json", data)
            done = run("plan", path)
            assert (done.code, done.out, done.err) == (2, "", f"wane: {path} holds no messages\n")

    def test_long_tables_leave_out_the_middle_unless_asked(self, run: Run, tmp_path: Path) -> None:
        messages = [NOTHING]
        for number in range(60):
            messages += delimiter(f"s{number}", action="start", name=f"look-{number}", type="expl")
            messages += delimiter(f"e{number}", action="end", description="x" * 90)
        path = write(tmp_path / "chat.json", messages)
        short, full = run("plan", path, "--budget", "1k").out, run("plan", path, "--budget", "1k", "--full").out
        assert "(20 more)" in short
        assert "more)" not in full
        assert "look-30 " in full

    def test_what_a_model_called_an_episode_cannot_command_the_terminal(self, run: Run, tmp_path: Path) -> None:
        name = "\x1b[31mred\x07\n[bold]\ud800"
        messages = [NOTHING, *delimiter("d", action="start", name=name, type="expl")]
        out = run("plan", write(tmp_path / "chat.json", messages)).out
        assert r"\x1b[31mred\x07\n[bold]\ud800" in out
        assert "\x1b" not in out

    def test_a_name_of_100_kilobytes_is_shown_by_its_ends(self, run: Run, tmp_path: Path) -> None:
        names = [f"{'n' * 100_000}-{letter}" for letter in "ab"]
        messages = [NOTHING]
        messages += delimiter("1", action="start", name=names[0], type="expl")
        messages += delimiter("2", action="end", description="x" * 400)
        messages += delimiter("3", action="start", name=names[1], type="act", dependencies=[names[0]])
        path = write(tmp_path / "chat.json", messages)
        for budget in ("1k", "80k"):
            out = run("plan", path, "--budget", budget).out
            assert "-a" in out
            assert "-b" in out
            assert len(out) < 5_000
        told = json.loads(run("plan", path, "--json").out)
        assert [episode["name"] for episode in told["episodes"]] == names


class TestTerminal:
    @pytest.mark.full
    def test_colour_where_it_is_wanted(self, spawn: Run, chat: Path) -> None:
        plain, colour = spawn("plan", chat), spawn("plan", chat, env={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
        assert "\x1b" not in plain.out
        assert "\x1b[" in colour.out
        assert ESCAPE.sub("", colour.out) == plain.out

    @pytest.mark.full
    def test_no_color_is_obeyed(self, spawn: Run, chat: Path) -> None:
        wanted = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"}
        codes: set[str] = set()
        for sequence in ESCAPE.findall(spawn("plan", chat, env=wanted).out):
            codes.update(sequence[2:-1].split(";"))
        assert not codes & {str(code) for code in (*range(30, 50), *range(90, 108))}

    @pytest.mark.full
    def test_an_output_that_takes_ascii_only(self, spawn: Run, chat: Path) -> None:
        done = spawn("plan", chat, "--budget", "3200", env={"PYTHONIOENCODING": "ascii"})
        assert done.code == 0, done.err
        assert "|---" in done.out
        assert done.out.isascii()
