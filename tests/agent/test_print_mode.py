from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from wane.cli.chat.print_mode import with_stdin
from wane.cli.main import main
from wane.testing import Call, HttpError, Kind, Reply, ScriptedServer


class Told(NamedTuple):
    """What the command wrote."""

    out: str
    err: str


Do: TypeAlias = Callable[..., Told]

JSON = "--output-format", "json"
STREAM = "--output-format", "stream-json"

RESULT_FIELDS = {
    "type", "session_id", "cwd", "model", "outcome", "result", "error", "fault", "waited_seconds",
    "refused_actions", "usage", "session_usage", "view_tokens", "budget", "budget_reason", "room",
}  # fmt: skip


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def do(repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Do:
    """Does a task in print mode, checks the exit code, and returns what was written."""
    monkeypatch.setattr(sys, "stdin", None)

    def run(server: ScriptedServer, *flags: str, task: str = "do it", code: int = 0) -> Told:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        assert main(["-p", task, "-m", "openai-chat:gpt-4.1", "-C", str(repository), *flags]) == code
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return Told(told.out, told.err)

    return run


def test_the_answer_alone_is_printed(do: Do) -> None:
    replies = [Reply("Let me see.", calls=(Call("read_file", {"path": "app.py"}),)), Reply("It is 41.")]
    with ScriptedServer(replies) as server:
        assert do(server) == ("It is 41.\n", "")


def test_without_cwl(do: Do) -> None:
    with ScriptedServer([Reply("ok")]) as server:
        assert do(server, "--no-wane").out == "ok\n"
        assert "delimiter" not in server.requests[0].tools


def test_what_would_need_approval_is_refused_with_a_reason_and_counted(repository: Path, do: Do) -> None:
    calls = (Call("shell", {"command": "touch made"}), Call("write_file", {"path": "app.py", "content": ""}))
    with ScriptedServer([Reply(calls=calls), Reply("I could not.")] * 3) as server:
        refused = "1 command and 1 file change were refused because nobody could be asked for approval"
        words = f"wane: {refused}; --allow or -y/--yolo allows them\n"
        assert do(server) == ("I could not.\n", words)
        assert all("--yolo" in result for result in server.requests[1].results.values())
        assert not (repository / "made").exists()
        out, err = do(server, *JSON)
        assert err == words
        (result,) = lines(out)
        assert result["refused_actions"] == 2
        assert do(server, "-y") == ("I could not.\n", "")
        assert (repository / "made").exists()


def test_rules_allow_and_deny_without_asking(repository: Path, do: Do) -> None:
    commands = ("touch a", "touch b && rm a", "touch $(touch c; seq 2)")
    calls = tuple(Call("shell", {"command": command}) for command in commands)
    with ScriptedServer([Reply(calls=calls), Reply("Done.")]) as server:
        do(server, "--allow", "touch *", "--allow", "rm *", "--deny", "rm *")
        ran, denied, unasked = server.requests[1].results.values()
    assert ran == "(no output)"
    assert "a rule of the user denies it: rm *" in denied
    assert "--allow" in unasked, "seq is not allowed"
    assert {path.name for path in repository.iterdir() if len(path.name) == 1} == {"a"}


@pytest.mark.parametrize(
    ("model", "words"),
    [([], "ANTHROPIC_API_KEY, OPENAI_API_KEY"), (["-m", "openai:gpt-6.1-sol"], "OPENAI_API_KEY")],
    ids=["no model", "no key"],
)
def test_no_key_and_no_model_are_said_and_exit_with_1(
    repository: Path,
    model: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    assert main(["-p", "go", *model, "-C", str(repository)]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_json_is_one_object_at_the_end(do: Do) -> None:
    with ScriptedServer([Reply(calls=(Call("list_files"),)), Reply("ok")]) as server:
        (result,) = lines(do(server, *JSON).out)
    assert set(result) == RESULT_FIELDS
    assert (result["type"], result["outcome"], result["result"], result["error"]) == ("result", "done", "ok", None)
    assert result["usage"]["model_calls"] == 2
    assert result["usage"]["cost_usd"] > 0
    assert result["refused_actions"] == 0
    assert result["session_id"]


def test_stream_json_is_an_object_an_event(do: Do) -> None:
    start = Call("delimiter", {"action": "start", "name": "look", "type": "expl"})
    end = Call("delimiter", {"action": "end", "description": "seen"})
    unmarked = Reply(calls=(Call("list_files"),))
    with ScriptedServer([Reply(calls=(start,)), Reply(calls=(end,)), unmarked, Reply("ok")]) as server:
        told = lines(do(server, *STREAM).out)
    types = [entry["type"] for entry in told]
    assert types[0] == "session"
    assert types[-1] == "result"
    assert types.count("usage") == 4
    assert {"tool_call", "tool_result", "text"} <= set(types)
    opened = [(e["episode"], e["episode_type"]) for e in told if e["type"] == "episode_opened"]
    assert opened == [("look", "expl"), (None, "expl")]  # work without marks has no name
    closed = next(entry for entry in told if entry["type"] == "episode_closed")
    assert (closed["episode"], closed["description"]) == ("look", "seen")


def test_continue_and_resume(do: Do) -> None:
    with ScriptedServer([Reply("one"), Reply("two"), Reply("three"), Reply("alone")]) as server:
        assert "no session" in do(server, "-c", code=2).err
        assert "no session" in do(server, "-r", "abc", code=2).err
        assert "cannot show a list to choose from" in do(server, "-r", code=2).err
        (first,) = lines(do(server, *JSON, task="first").out)
        (second,) = lines(do(server, "-c", *JSON, task="second").out)
        assert first["session_id"] == second["session_id"]
        (third,) = lines(do(server, "-r", first["session_id"][:6], *JSON, task="third").out)
        assert [text for text in server.requests[2].texts(Kind.USER) if len(text) < 9] == ["first", "second", "third"]
        (alone,) = lines(do(server, "--no-session", *JSON).out)
    assert third["session_usage"]["model_calls"] == 3
    assert alone["session_id"] is None


def test_what_is_piped_in_comes_after_the_task(tmp_path: Path) -> None:
    piped = tmp_path / "piped"
    piped.write_bytes(b"caf\xc3\xa9 \xff\n")
    with piped.open() as stream:
        assert with_stdin("explain", stream) == "explain\n\ncafé \ufffd\n"
    piped.write_text(" \n")
    with piped.open() as stream:
        assert with_stdin("explain", stream) == "explain"
    with open(os.devnull) as stream:
        assert with_stdin("explain", stream) == "explain"
    assert with_stdin("explain", None) == "explain"
    assert with_stdin("explain", io.StringIO("no file behind it")) == "explain"


@pytest.mark.full
def test_the_command_takes_a_pipe_and_ctrl_c_stops_the_turn(repository: Path) -> None:
    asked = threading.Event()

    def script(request: Any) -> Reply:
        asked.set()
        assert "the diff" in request.texts(Kind.USER)[0]
        return Reply("late", delay=60)

    with ScriptedServer(script) as server:
        environ = {**os.environ, "OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{server.url}/v1"}
        flags = ["-m", "openai-chat:gpt-4.1", "-C", str(repository), "-p", "review", *JSON]
        process = subprocess.Popen(
            [sys.executable, "-m", "wane.cli.main", *flags],
            env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write("the diff")
        process.stdin.close()
        process.stdin = None
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (result,) = lines(out)
    assert result["outcome"] == "interrupted"
    assert "Traceback" not in err


@pytest.mark.skipif(os.name == "nt", reason="needs programs of POSIX")
@pytest.mark.parametrize("folder", ["bin", ".", "{}/bin"])
def test_wane_itself_starts_no_program_of_the_project_and_what_is_allowed_does(repository: Path, folder: str) -> None:
    """Python asks `uname` for the client's headers, in the process that has the key."""
    mark, programs = repository.parent / "mark", repository / folder.format(repository)
    programs.mkdir(exist_ok=True)
    for name in ("uname", "git", "rg", "bwrap", "lsb_release", "ldconfig", "gcc", "cc", "ps", "stty"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> '{mark}'\n")
        (programs / name).chmod(0o755)
    (programs / "own").write_text("#!/bin/sh\necho own-was-started\n")
    (programs / "own").chmod(0o755)
    replies = [Reply(calls=(Call("grep", {"pattern": "answer"}), Call("shell", {"command": "own"}))), Reply("done")]
    with ScriptedServer(replies) as server:
        environ = {**os.environ, "OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{server.url}/v1"}
        environ["PATH"] = f"{folder.format(repository)}{os.pathsep}{environ['PATH']}"
        flags = ["-m", "openai-chat:gpt-4.1", "-p", "go", "--allow", "own"]
        command = [sys.executable, "-m", "wane.cli.main", *flags]
        ran = subprocess.run(command, env=environ, cwd=repository, capture_output=True, text=True, check=True)
        results = server.requests[-1].results
        assert any("own-was-started" in text for text in results.values()), (results, ran.stderr)
    assert not mark.exists() or not mark.read_text()


@pytest.mark.full
@pytest.mark.parametrize(
    ("flags", "words", "code"),
    [
        (["-m", "nobody:x"], "unknown", 1),
        (["-m", "openai:x", "--budget", "lots"], "budget 'lots'", 2),
        (["-m", "openai:x", "-r", "zz"], "no session", 2),
        (["-C", "/nowhere/at/all"], "not a directory", 2),
    ],
)
def test_a_failed_start_has_the_fields_of_any_result(
    repository: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: str, code: int
) -> None:
    where = [] if "-C" in flags else ["-C", str(repository)]
    for output_format in ("json", "stream-json"):
        assert main(["-p", "go", *where, *flags, "--output-format", output_format]) == code
        (result,) = lines(capsys.readouterr().out)
        assert words in result["error"]
        assert (result["type"], result["outcome"], result["session_id"]) == ("result", "failed", None)
        assert set(result) == RESULT_FIELDS


@pytest.mark.full
def test_a_server_that_cannot_be_reached_is_named_with_its_setting(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:9/v1")
    assert main(["-p", "go", "-m", "openai-chat:x", "-C", str(repository), "--patience", "0.02"]) == 75
    waits, told = capsys.readouterr().err.strip().rsplit("\n", 1)
    assert "; trying again at once (attempt 2)\n" in f"{waits}\n"
    assert "cannot reach http://127.0.0.1:9/v1/ for openai:x: Connection error (" in told
    assert told.partition("; given up after ")[0].endswith("; the address comes from OPENAI_BASE_URL")
    assert "secret" not in told


def test_a_model_error_exits_with_1_and_names_a_server_that_may_be_wrong_with_its_setting(do: Do) -> None:
    with ScriptedServer([Reply(error=HttpError(404, body="no such page"))]) as server:
        out, err = do(server, code=1)
    assert out == ""
    assert f"answered HTTP 404 at {server.url}/v1/: " in err
    assert err.endswith("; the address comes from OPENAI_BASE_URL\n")


def test_the_package_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "wane", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("wane ")
