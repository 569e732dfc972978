"""`wane run`: an agent's terminal, signals and exit code are its own, and the proxy is there as long as it runs."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wane.cli.main import main
from wane.cli.proxy.proxy_commands import split
from wane.prices import prices_of
from wane.testing import Call, Reply, ScriptedServer, Usage

WANE = [sys.executable, "-m", "wane.cli.main", "run"]

# An agent that asks once, with a tool, and shows what it was given.
ASKING = """
    import json, os, sys, urllib.request
    base = os.environ["ANTHROPIC_BASE_URL"]
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": sys.stdin.read()}], "tools": tools}
    headers = {"content-type": "application/json", "x-api-key": "sk-secret", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(base + "/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        print(json.load(answer)["content"][0]["text"], answer.headers["x-wane-budget"], *sys.argv[1:])
    print(base == os.environ["WANE_PROXY_URL"], os.environ.get("WANE_PROXY_TOKEN"))
    sys.exit(7)
"""

# An agent that ends when it is told to, and says how often it was.
WAITING = """
    import signal, sys, time
    seen = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: seen.append(signal.Signals(number).name))
    print("ready", flush=True)
    while not seen:
        time.sleep(0.01)
    time.sleep(0.3)
    print(*seen, flush=True)
    sys.exit(5)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    modules = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {"PATH": path, "HOME": str(tmp_path), "WANE_PROXY_TOKEN": "a-token-of-another-proxy", **modules}


def agent(tmp_path: Path, text: str = ASKING) -> None:
    path = tmp_path / "bin" / "claude"
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    path.chmod(0o755)


@pytest.fixture
def upstream(environ: dict[str, str], tmp_path: Path) -> Iterator[ScriptedServer]:
    """A provider that answers once, and an agent that asks it."""
    agent(tmp_path)
    with ScriptedServer([Reply("Hello.")]) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        yield server


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Run the command with the environment alone, in this process; the agent is one of its own."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        for name in os.environ:
            monkeypatch.delenv(name)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        before = os.dup(0)
        (tmp_path / "said").write_text("Hi")
        with (tmp_path / "said").open() as said:
            os.dup2(said.fileno(), 0)
            try:
                code = main(["run", *arguments])
            finally:
                os.dup2(before, 0)
                os.close(before)
        told = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, told.out, told.err)

    return call


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["run"], "give the agent to run, such as: wane run claude; see wane run --help"),
        (["run", "--"], "give the agent to run"),
        (["run", "--budget", "9k", "--"], "give the agent to run"),
        (["run", "--budget"], "give the agent to run"),
        (["run", "--upstream", "claude"], "such as: wane run claude: --upstream took 'claude' as its value; see"),
        (["run", "--wrong", "--", "claude"], "unknown option --wrong. See wane run --help"),
        (["run", "--listen", "0.0.0.0:8701", "--", "claude"], "or use wane proxy, which asks for a token there"),
        (["run", "--api", "mine", "--", "x"], "--api"),
        (
            ["run", "/usr/bin/claude", "-p", "Hi", "--budget", "40k"],
            "--budget is an option of wane run, and wane's options go before /usr/bin/claude",
        ),
        (["run", "--strict", "codex", "exec", "--max-cost=3"], "--max-cost is an option of wane run"),
        (
            ["run", "--", "sh"],
            "Wane does not know sh (it knows claude, claude-agent-acp, codex, codex-acp, gemini, opencode, pi,",
        ),
        (
            ["run", "--store", "disk", "--no-store", "--upstream", "http://127.0.0.1:1", "--api=openai", "--", "sh"],
            "both",
        ),
        (["run", "--upstream", "nowhere", "--api", "openai", "--", "sh"], "'nowhere' is not understood"),
    ],
)
def test_what_cannot_be_run_is_told(args: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    "agent",
    [
        ["--", "claude", "--budget", "40k"],
        ["claude", "-p", "--", "--budget"],
        ["gemini", "--policy", "mine.toml"],
        ["mine", "--budget", "40k"],
    ],
)
def test_an_agents_own_options_go_to_it(agent: list[str]) -> None:
    words = agent[1:] if agent[0] == "--" else agent
    assert split(["run", "--recall", *agent]) == (["run", "--recall", "--", words[0]], tuple(words[1:]))


def test_help_shows_the_daily_options_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    daily, _, others = capsys.readouterr().out.partition("Daily options:\n")[2].partition("Other options:\n")
    assert re.findall(r"^  (--[\w-]+)", daily, re.MULTILINE) == ["--budget", "--recall", "--shadow", "--max-cost"]
    assert "--strategy STRATEGY" in others


def test_help_needs_no_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "wane run [OPTIONS] AGENT [ARGUMENT ...]" in shown
    assert "--budget TOKENS" in shown
    assert "--token" not in shown


def test_an_agent_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["run", "--", "codex", "exec"]) == 127
    assert "codex is not installed, or not on the PATH; install it with: npm install" in capsys.readouterr().err
    assert main(["run", "--api", "gemini", "--", "my-agent"]) == 127
    assert capsys.readouterr().err.strip().endswith("my-agent is not installed, or not on the PATH")
    assert main(["run", "my-agent"]) == 127
    assert "on the PATH. Wane knows claude, " in (told := capsys.readouterr().err)
    assert "another agent needs --api anthropic, openai or gemini" in told
    assert main(["run", "--budget", "abc", "claude"]) == 2, "which stays wrong once Claude Code is installed"
    assert "budget 'abc' is not understood" in capsys.readouterr().err
    for options, why in (("--price foo:bar", "no prices are known for 'foo:bar'"), ("--upstream ftp://x", "'ftp://x'")):
        assert main(["run", *options.split(), "codex"]) == 2
        first, second = capsys.readouterr().err.splitlines()
        assert why in first
        assert "codex is not installed" in second
    assert main(["run", "claud"]) == 127
    assert "claud is not installed, or not on the PATH; did you mean claude?" in capsys.readouterr().err


def test_a_damaged_tuned_budget_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path))
    (tmp_path / "tuned.json").write_text("{")
    assert main(["run", "--budget", "auto", "codex"]) == 127
    assert capsys.readouterr().err.count("there is no tuned budget") == 1


@pytest.mark.full
def test_an_agent_has_its_input_output_and_exit_code(
    tmp_path: Path, environ: dict[str, str], upstream: ScriptedServer
) -> None:
    log = tmp_path / "run.log"
    command = [*WANE, "--budget", "20k", "--log", str(log), "--", "claude", "-p", "--", "x y"]
    done = subprocess.run(
        command, env=environ, cwd=tmp_path, input="Hi", capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (7, "Hello. 20000 -p -- x y\nTrue None\n")
    page, figures, session = done.stderr.splitlines()
    assert re.fullmatch(r"wane: this run's page, until claude ends: http://127\.0\.0\.1:\d+/wane/#key=[\w-]{16}", page)
    assert figures.startswith("wane: 1 request; the view held ")
    assert figures.endswith(" of 20,000 tokens at most, 0 were evicted; cost unknown (no price is known for m)")
    told = re.fullmatch(r"wane: session (\w+): (wane show \1) prints it, (wane view \1) shows it as a page", session)
    assert told is not None
    for shown in (told[2], f"{told[3]} --output view.html"):
        again = [sys.executable, "-m", "wane", *shown.split()[1:]]
        looked = subprocess.run(again, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert told[1] in looked.stdout or "view.html" in looked.stdout
    (asked,) = upstream.requests
    assert asked.tools == ("read", "delimiter")
    assert asked.texts(asked.parts[-1].kind) == ("Hi",)
    written = log.read_text()
    assert f"which asks {upstream.url}" in written
    assert " view " in written
    assert "sk-secret" not in written
    assert log.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.rglob("*.jsonl"))


def test_the_last_line_says_what_was_spent(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    agent(tmp_path, ASKING.replace('"model": "m"', '"model": "claude-sonnet-4-5"'))
    with ScriptedServer([Reply("Hello.", usage=Usage(100_000, 1_000))]) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        done = run("--", "claude")
    assert "0 were evicted; $0.315 spent\n" in done.stderr, "nothing to compare with"


def test_the_last_line_counts_the_requests_of_this_run_alone(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    agent(tmp_path, ASKING.replace('"model": "m"', '"model": "claude-sonnet-4-5"'))
    with ScriptedServer([Reply("Hello.", usage=Usage(10_000, 1_000))] * 2) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        lines = [run("--", "claude").stderr.splitlines()[1:3] for _ in range(2)]
    assert lines[0] == lines[1], "the second run continues the session of the first"
    assert "1 request; " in lines[0][0]
    assert "$0.045 spent" in lines[0][0]


def test_the_last_line_names_no_model_of_an_earlier_run(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    with ScriptedServer([Reply("Hello.", usage=Usage(10_000, 1_000))] * 2) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        lines = []
        for model in ("m", "claude-sonnet-4-5"):
            agent(tmp_path, ASKING.replace('"model": "m"', f'"model": "{model}"'))
            lines.append(run("--", "claude").stderr.splitlines()[1])
    assert "no price is known for m" in lines[0]
    assert lines[1].endswith("0 were evicted; $0.045 spent"), "of the same session"


@pytest.mark.usefixtures("upstream")
def test_without_a_strategy_the_last_line_says_that_wane_was_off(tmp_path: Path, run: Run) -> None:
    agent(tmp_path, ASKING)
    done = run("--strategy", "none", "--budget", "auto", "--", "claude")
    line = done.stderr.splitlines()[1]
    assert line.startswith("wane: 1 request; Wane was off (--strategy none): requests held ")
    assert " tokens at most, and nothing was evicted" in line
    assert "budget auto" not in done.stderr
    assert "the view held" not in done.stderr


@pytest.mark.usefixtures("upstream")
def test_the_budget_auto_is_that_of_the_session_and_said_with_its_reason(tmp_path: Path, run: Run) -> None:
    agent(tmp_path, ASKING.replace('"name": "read"', '"name": "read", "description": "Reads. " * 40_000'))
    _, line, auto, _ = run("--budget", "auto", "--", "claude").stderr.splitlines()
    said = re.fullmatch(r"wane: budget auto: ([\d,]+) tokens, 2\.5 times the [\d,]+ that never leave", auto)
    assert said is not None, auto
    assert int(said[1].replace(",", "")) > 80_000
    assert f" of {said[1]} tokens at most, 0 were evicted" in line


@pytest.mark.usefixtures("upstream")
def test_a_budget_that_leaves_too_little_room_is_said_at_the_end(tmp_path: Path, run: Run) -> None:
    agent(tmp_path, ASKING.replace('"name": "read"', '"name": "read", "description": "Reads. " * 4_000'))
    log = tmp_path / "run.log"
    done = run("--budget", "9k", "--log", str(log), "--", "claude")
    _, line, _, warning = done.stderr.splitlines()
    assert line.startswith("wane: 1 request; the view held ")
    assert warning.startswith("wane: Budget 9,000; ")
    assert " of it always stay (" in warning
    assert "; working with 1" in warning
    assert warning.removeprefix("wane: ") in log.read_text()


def test_in_the_shadow_nothing_changes_and_the_end_says_what_wane_would_have_done(
    upstream: ScriptedServer, run: Run
) -> None:
    done = run("--shadow", "--", "claude")
    (asked,) = upstream.requests
    assert "Hello. None" in done.stdout, "the reply has no header of Wane"
    assert asked.tools == ("read",)
    assert "shadow: With Wane at 80,000 tokens there would have been 0 passes" in done.stderr


@pytest.mark.usefixtures("upstream")
def test_quiet_and_without_a_store_nothing_is_left_but_the_log(tmp_path: Path, run: Run) -> None:
    done = run("-q", "--no-store", "--", "claude")
    assert (done.returncode, done.stderr) == (7, "")
    assert not list(tmp_path.rglob("*.jsonl"))
    (log,) = tmp_path.rglob("run-*.log")
    assert " view " in log.read_text()


@pytest.mark.parametrize(("options", "told"), [((), 130), (("--usage", "auto"), 230), (("--usage", "sum"), 230)])
def test_an_agent_is_told_the_usage_of_the_last_round(
    tmp_path: Path, environ: dict[str, str], options: tuple[str, ...], told: int, run: Run
) -> None:
    agent(tmp_path, ASKING.replace('["content"][0]["text"]', '["usage"]["input_tokens"]').replace("sys.exit(7)", ""))
    marks = Call("delimiter", {"action": "start", "name": "look", "type": "expl"})
    with ScriptedServer([Reply(calls=(marks,), usage=Usage(100, 1)), Reply("Hello.", usage=Usage(130, 1))]) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        done = run("-q", "--no-store", *options, "--", "claude")
    assert done.stdout.splitlines()[0] == f"{told} 80000"


@pytest.mark.usefixtures("upstream")
def test_warnings_are_named_with_the_log(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    # From its start on sessions cannot be kept there.
    spoiling = 'open(os.environ["WANE_SESSION_DIR"], "x")'
    agent(tmp_path, ASKING.replace("base = ", f"{spoiling}; base = ").replace("sys.exit(7)", ""))
    log = tmp_path / "run.log"
    environ["WANE_SESSION_DIR"] = str(tmp_path / "kept")
    done = run("--log", str(log), "--", "claude")
    assert done.returncode == 0
    assert f" in {log}\n" in done.stderr
    assert " WARNING " in log.read_text()


@pytest.mark.usefixtures("upstream")
def test_without_a_place_for_sessions_the_agent_is_not_started(environ: dict[str, str], run: Run) -> None:
    environ["WANE_SESSION_DIR"] = "/dev/null/nowhere"
    done = run("--", "claude")
    assert (done.returncode, done.stdout) == (1, "")
    assert "sessions cannot be stored: /dev/null is not a writable directory" in done.stderr


@pytest.mark.usefixtures("upstream")
def test_sessions_kept_elsewhere_are_shown_from_there(tmp_path: Path, run: Run) -> None:
    elsewhere = tmp_path / "my sessions"
    done = run("--store", str(elsewhere), "--", "claude")
    assert f"WANE_SESSION_DIR='{elsewhere}' wane show " in done.stderr.splitlines()[-1]


def test_an_agent_that_asks_elsewhere_is_told_of(run: Run) -> None:
    done = run("--api", "openai", "--", "sh", "-c", "echo $OPENAI_BASE_URL; kill -9 $$")
    assert done.returncode == 128 + 9
    assert done.stdout.startswith("http://127.0.0.1:")
    told = done.stderr.splitlines()
    assert told[0].startswith("wane: Wane does not know sh: OPENAI_BASE_URL and OPENAI_API_BASE are set")
    assert told[2] == "wane: no request reached the proxy: the agent sent none, or sent them elsewhere"


@pytest.mark.full
def test_only_a_few_logs_are_kept(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    run("-q", "--api", "openai", "--", "true")
    (log,) = tmp_path.rglob("run-*.log")
    for number in range(30):
        (log.parent / f"run-2020{number:02}.log").touch()
    (log.parent / "mine.log").touch()
    subprocess.run([*WANE, "-q", "--api", "openai", "--", "true"], env=environ, cwd=tmp_path, check=True)  # as another
    kept = sorted(path.name for path in log.parent.iterdir())
    assert len(kept) == 20 + 1
    assert {"mine.log", log.name} < set(kept)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_go_to_the_agent_which_says_when_it_ends(
    tmp_path: Path, environ: dict[str, str], number: signal.Signals
) -> None:
    agent(tmp_path, WAITING)
    process = subprocess.Popen(
        [*WANE, "-q", "--", "claude"],
        env=environ,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.read() == f"{number.name}\n"
    assert process.wait(60) == 5


@pytest.mark.full
def test_ctrl_c_reaches_the_agent_once(tmp_path: Path, environ: dict[str, str]) -> None:
    agent(tmp_path, WAITING)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, [*WANE, "-q", "--", "claude"], environ)
    shown = b""
    while b"ready" not in shown:
        shown += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while b"SIG" not in shown:
        shown += os.read(terminal, 1000)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5
    assert shown.count(b"SIGINT") == 1


def test_a_model_without_a_price_costs_what_another_one_does_if_that_is_asked(
    upstream: ScriptedServer, run: Run
) -> None:
    done = run("--budget", "20k", "--price", "anthropic:claude-opus-4-6", "--", "claude")
    assert done.returncode == 7
    figures = done.stderr.splitlines()[1]
    spent = re.search(r"\$([\d.]+) spent at the prices of anthropic:claude-opus-4-6", figures)
    assert spent is not None
    assert float(spent[1]) > 0
    assert "(no price is known for m)" in figures
    assert prices_of("m") is None, "it is assumed no longer than the run lasts"
    wrong = run("--price", "nobody:nothing", "--", "claude")
    assert wrong.returncode == 2
    assert "no prices are known for 'nobody:nothing'" in wrong.stderr
