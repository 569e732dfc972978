"""What holds for every command: help, errors, exit codes, and how little is loaded."""

from __future__ import annotations

import io
import os
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import wane
from tests.cli import sample
from tests.cli.conftest import Outcome, Run
from tests.cli.snapshots import matches_snapshot
from tests.marks import cross_quick
from wane.agent.options import CHOOSE, AgentOptions
from wane.cli.command_registry import AGENT, COMMANDS, find_commands
from wane.cli.main import agent_options, main
from wane.cli.parser import Command, parse
from wane.installing import installation

# Runs the command and then prints which modules it loaded.
LOADED = """
import sys
before = set(sys.modules)
from wane.cli.main import main
code = main()
print(*sorted(set(sys.modules) - before), file=sys.stderr)
sys.exit(code)
"""
# As if a module were not installed: the import system takes None for that.
WITHOUT = """
import sys
missing, sys.argv[1:] = sys.argv[1].split(","), sys.argv[2:]
sys.modules.update(dict.fromkeys(missing))
from wane.cli.main import main
sys.exit(main())
"""


# The command in a process that begins without one of the standard streams, as after `>&-` in a shell.
CLOSED = """
import os, sys
number, sys.argv[1:] = int(sys.argv[1]), sys.argv[2:]
os.close(number)
stream = ("stdin", "stdout", "stderr")[number]
code = f"import sys; assert sys.{stream} is None; from wane.cli.main import main; sys.exit(main())"
os.execv(sys.executable, [sys.executable, "-c", code, *sys.argv[1:]])
"""
# The command in a directory that has been removed.
GONE = """
import os, sys, tempfile
from wane.cli.main import main
with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
sys.exit(main())
"""

# The command as its script starts it, with a Ctrl-C when a module is about to be imported.
INTERRUPTED = """
import signal, sys
class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(signal.SIGINT)
module, sys.argv[1:] = sys.argv[1], sys.argv[2:]
sys.meta_path.insert(0, Interrupter())
from wane.__main__ import main
sys.exit(main())
"""


class TestHelp:
    def test_version(self, run: Run) -> None:
        assert run("--version").out == f"wane {wane.__version__}\n"

    @pytest.mark.quick(6)
    @pytest.mark.parametrize("name", ["", *(command.name for command in COMMANDS)])
    def test_it_fits_into_80_columns(self, run: Run, name: str) -> None:
        done = run(*name.split(), "--help")
        assert (done.code, done.err) == (0, "")
        assert run(*name.split(), "-h").out == done.out
        assert max(map(len, done.out.splitlines())) <= 80

    def test_the_word_help_shows_it_as_well(self, run: Run) -> None:
        assert run("help") == run("--help")
        assert run("help", "proxy", "tokens") == run("proxy", "tokens", "--help")
        assert "75   the model's provider" in run("help").out

    def test_it_says_what_there_is(self, run: Run) -> None:
        page = run("--help").out
        for command in COMMANDS:
            group = command.name.partition(" ")[0]
            listed = page if command.name == group else run(group, "--help").out
            assert f"\n  {command.name} " in listed
            assert f"\n  {group} " in page
        assert all(flag.usage in page for flag in AGENT.flags)

    @pytest.mark.parametrize("command", [AGENT, *COMMANDS], ids=lambda command: command.name or "agent")
    def test_each_runs_a_function_that_takes_its_options(self, command: Command) -> None:
        types = get_type_hints(command.run)
        assert types.pop("return") is int
        assert list(types.values()) == [command.options]

    @pytest.mark.parametrize("command", ["plan", "replay"])
    def test_the_snapshot(self, run: Run, command: str) -> None:
        assert matches_snapshot(f"help-{command}", run(command, "--help").out)


class TestCommandLine:
    @pytest.mark.parametrize(
        ("args", "why"),
        [
            (["plna"], "unknown command 'plna'; did you mean plan? See wane --help"),
            (["chat"], "unknown command 'chat'; wane alone starts the chat, and wane -p TASK does one task."),
            (["hlep", "replay"], "unknown command 'hlep'"),
            (["hlep", "replay", "--budget", "3"], "unknown command 'hlep'"),
            (["proxy", "forget"], "for example: wane proxy forget "),
            (["plan", "x.json", "--policy", "papr"], "it must be default or paper; did you mean paper?"),
            (["view", "https://example.com/x.json"], "https://example.com/x.json is an address, and Wane reads files"),
            (["plan", "x", "--low-water", "130%"], "--low-water is '130%'; it must be a share above 0 and at most 1"),
            (["chat", "--budjet", "3"], "unknown option --budjet; did you mean --budget? See wane --help"),
            (["demo", "--strategy", "wane"], "strategy 'wane' is unknown; known: none, truncate"),
            (["demo", "--strategy", "wane"], "; did you mean cwl?"),
            (["demo", "--strategy", "trunkate"], "; did you mean truncate?"),
            (["words", "gaurd"], "no word 'gaurd' is explained; did you mean guard? Without a word, all are listed"),
            (["proxy", "--port", "8000"], "unknown option --port; did you mean --listen?"),
            (["view", "--html", "x"], "unknown option --html; did you mean --output?"),
            (["report", "--since", "3d"], "unknown option --since; did you mean --days?"),
            (["sessions", "clear"], "unknown command 'clear'; did you mean prune?"),
            (["view", "--port", "1"], "unknown option --port. See wane view --help"),
            (["--budjet=3"], "unknown option --budjet; did you mean --budget?"),
            (["plan", "--budjet", "3", "chat.json"], "unknown option --budjet; did you mean --budget? See wane plan"),
            (["plan", "chat.json", "--jsn"], "unknown option --jsn; did you mean --json?"),
            (["proxy", "--upstraem", "x"], "unknown option --upstraem; did you mean --upstream?"),
            (["sessions", "prun"], "unknown command 'prun'; did you mean prune? See wane sessions --help"),
            (["sessions", "prune", "--older", "3d"], "unknown option --older; did you mean --older-than?"),
            (["-yz"], "unknown option -z. See wane --help"),
            (["plan", "--json=3", "x"], "--json takes no value, but is given '3'"),
            (["fix the bug"], "wane -p TASK does one task"),
            (["--fast"], "unknown option --fast. See wane --help"),
            (["-p"], "--print needs a value"),
            (["plan", "x", "--counter=--"], "--counter=-- gives an option the value '--'"),
            (["proxy", "--upstream", "http://x", "--keep", "-1d"], "--keep is '-1d'; write a number with a unit"),
            (["proxy", "--upstream", "http://x", "--token="], "--token is empty; give it a value, or leave it out"),
            (["plan", "x", "--tool-class", ""], "--tool-class is empty"),
            (["-yp--"], "-yp-- gives an option the value '--'"),
            (["-p", " \n"], "the task is empty"),
            (["-p", "-"], "the task is empty"),
            (["-c", "-r"], "give -c/--continue or -r/--resume, not both"),
            (["-c", "--no-session"], "--no-session cannot be used with -c or -r: a resumed session is"),
            (["-r", "a1", "--no-session"], "--no-session cannot be used with -c or -r: a resumed session is"),
            (["--no-wane", "--strategy", "compact"], "give --no-wane or --strategy compact, not both"),
            (["--output-format", "json"], "--output-format goes with -p/--print"),
            (["-p", "x", "--output-format", "xml"], "--output-format is 'xml'; it must be text, json or stream-json"),
            (
                ["report", "--days", "9999999999"],
                "--days is '9999999999'; it must be a whole number of days, from 1 to",
            ),
            (["report", "--days", "999999"], "--days is '999999'; it must be a whole number of days, from 1 to 36500"),
            (["report", "--days", "0000365009"], "--days is '0000365009'; it must be a whole number of days"),
            (["report", "--days", "0"], "--days is '0'; it must be a whole number of days, from 1 to 36500"),
            (["sessions", "prune", "--older-than", "999999w"], "--older-than is '999999w'; it must be at most 36500d"),
            (["proxy", "log", "--since", "900000d"], "--since is '900000d'; it must be at most 36500d"),
            (
                ["proxy", "--upstream", "http://x", "--timeout", "1e300"],
                "it must be a number of seconds above 0, at most",
            ),
            (["-l", "\u0661"], "--cost-limit is '\u0661'; it must be a number"),
            (["-l", "much"], "--cost-limit is 'much'; it must be a number"),
            (["-p", "x", "--time-limit", "inf"], "the time limit is inf; it must be a number of minutes from 0.01"),
            (["-p", "x", "--patience", "-1"], "the patience is -1.0; it must be a number of minutes from 0 to"),
            (["sweep", "x.jsonl", "--steps", "some"], "--steps is 'some'; it must be a whole number"),
            (["-C", "/no/such/directory"], "cannot work in /no/such/directory: it is not a directory"),
            (["--budget", "4k", "plan", "x.json"], "before a command; write: wane plan --budget 4k x.json"),
            (["--strategy", "none", "run", "claude"], "before a command; write: wane run --strategy none claude"),
            (["-C", "run", "sessions", "prune"], "before a command; see wane sessions prune --help"),
            (
                ["show"],
                "SESSION is missing: the session's id or the beginning of it, or the path of",
            ),
            (["sessions", "delete"], "for example: wane sessions delete 3f9c; see wane sessions delete --help"),
            (["plan", "a", "b"], "wane plan takes no more arguments, but there is 'b'"),
        ],
    )
    def test_what_makes_no_sense_is_told_in_a_line(self, run: Run, args: list[str], why: str) -> None:
        done = run(*args)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("wane: ")
        assert done.err.count("\n") == 1
        assert why in done.err

    @pytest.mark.full
    @pytest.mark.parametrize(
        ("module", "args"),
        cross_quick(
            ("pydantic_ai", "pydantic_ai_harness", "genai_prices", "prompt_toolkit"), ((), ("-p", "hello"), ("demo",))
        ),
    )
    def test_without_the_agent_extra_the_install_command_is_printed(
        self, spawn: Run, module: str, args: tuple[str, ...]
    ) -> None:
        done = spawn(module, *args, code=WITHOUT)
        assert (done.code, done.out) == (1, "")
        assert done.err.count("\n") == 1
        assert done.err.endswith(f"Install it with: {installation().extras_line('agent')}\n")


class TestAgentOptions:
    def options(self, *args: str) -> AgentOptions:
        command, options = parse(args, AGENT, find_commands())
        assert command is AGENT
        return agent_options(options)

    @pytest.mark.parametrize(
        ("args", "changes"),
        [
            ([], {}),  # what was not given is left to the settings
            (["--no-wane"], {"strategy": "none"}),
            (["--no-wane", "--strategy", "none"], {"strategy": "none"}),
            (["-r"], {"resume": CHOOSE}),
            (["--resume"], {"resume": CHOOSE}),
            (["-r", "-y"], {"resume": CHOOSE, "yolo": True}),
            (["-y", "-r"], {"resume": CHOOSE, "yolo": True}),
            (["-r", "5a3e"], {"resume": "5a3e"}),
            (["-c"], {"continue_last": True}),
            (["-p", "- fix the bug", "--no-session"], {"prompt": "- fix the bug", "save": False}),
            (
                ["-m", "openai:gpt-5", "-C", "/", "-l", "1.5"],
                {"model": "openai:gpt-5", "cwd": Path("/"), "cost_limit": 1.5},
            ),
            (["--budget", "50%", "--policy", "paper"], {"budget": "50%", "policy": "paper"}),
            (["-p", "x", "--output-format", "stream-json"], {"prompt": "x", "output_format": "stream-json"}),
        ],
        ids=" ".join,
    )
    def test_what_a_command_line_says(self, args: list[str], changes: dict[str, Any]) -> None:
        assert self.options(*args) == replace(AgentOptions(cwd=Path.cwd()), **changes)

    def test_a_task_from_standard_input_is_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pipes = [io.TextIOWrapper(io.BytesIO(b"\xc3\xa9 \xff"), encoding=name) for name in ("utf-8", "ascii")]
        for stdin in (*pipes, io.StringIO("é \ufffd")):
            monkeypatch.setattr(sys, "stdin", stdin)
            assert self.options("-p", "-").prompt == "é \ufffd"


class TestLoading:
    """A command loads what it needs: what the user waits for, and what must be installed."""

    def module_names(self, done_err: str) -> set[str]:
        return {name.partition(".")[0] for name in done_err.split()}

    def test_help_loads_no_package_of_others(self, spawn: Run) -> None:
        done = spawn("--help", code=LOADED)
        assert done.code == 0
        assert self.module_names(done.err) - set(sys.stdlib_module_names) <= {"wane", "wane_research"}

    def test_a_command_makes_the_options_of_no_other_folder(self, spawn: Run) -> None:
        done = spawn("doctor", "missing.jsonl", code=LOADED)
        assert done.code == 2, done.err
        commands = {name for name in done.err.split() if name.endswith("commands")}
        assert commands <= {"wane.cli.lab.lab_commands", "wane_research.cli.commands"}
        assert "rich.progress" not in done.err.split(), "nobody looks"

    @pytest.mark.full
    def test_a_plan_loads_rich_alone_and_only_for_the_picture(self, spawn: Run, tmp_path: Path) -> None:
        path = tmp_path / "chat.json"
        path.write_text('[{"role": "user", "content": "Hi."}]')
        picture, data = spawn("plan", path, code=LOADED), spawn("plan", path, "--json", code=LOADED)
        heavy = {"pydantic", "pydantic_ai", "platformdirs", "filelock", "tiktoken", "asyncio"}
        assert "rich" in self.module_names(picture.err)
        assert not self.module_names(picture.err) & heavy
        assert not self.module_names(data.err) & {*heavy, "rich"}


class TestEnding:
    def test_ctrl_c_ends_quietly(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        class Interrupted(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                raise KeyboardInterrupt

        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted()))
        assert main(["plan", "-"]) == 130
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize("module", ["wane.core", "argparse", "wane.cli.command_registry"])
    def test_ctrl_c_ends_quietly_while_modules_are_imported(self, spawn: Run, module: str) -> None:
        assert spawn(module, "--version", code=INTERRUPTED) == Outcome(130, "", "")

    def test_the_script_imports_nothing_before_it_can_catch_ctrl_c(self, spawn: Run) -> None:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        module = project["scripts"]["wane"].partition(":")[0]
        done = spawn(code=f"import sys, {module}; print(*sys.modules)")
        assert {name for name in done.out.split() if name.startswith("wane")} == {"wane", module}

    @pytest.mark.full
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
    @pytest.mark.parametrize("options", [[], ["--json"]], ids=["picture", "json"])
    def test_a_reader_that_has_gone_is_no_error_and_a_full_disk_is(
        self, spawn: Run, tmp_path: Path, options: list[str]
    ) -> None:
        path = sample.save(tmp_path, cwd=tmp_path)
        reader, writer = os.pipe()
        os.close(reader)
        done = spawn("plan", path, *options, stdout=writer)
        os.close(writer)
        assert (done.code, done.err) == (0, "")
        with Path("/dev/full").open("wb") as full:
            done = spawn("plan", path, *options, stdout=full)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "No space left on device" in done.err

    def test_an_output_that_is_closed(self, spawn: Run, tmp_path: Path) -> None:
        path = sample.save(tmp_path, cwd=tmp_path)
        done = spawn("1", "plan", path, code=CLOSED)
        assert (done.code, done.err) == (0, "")
        assert spawn("2", "plan", "no such file", code=CLOSED).code == 2, "the output for errors, too"

    @pytest.mark.full
    @pytest.mark.parametrize(
        ("args", "why"),
        [
            (["plan", "-"], "standard input: it is empty"),
            (["-p", "-"], "the task is empty"),
            ([], "the interactive session needs a terminal"),
        ],
        ids=["plan", "print", "chat"],
    )
    def test_an_input_that_is_closed(self, spawn: Run, args: list[str], why: str) -> None:
        done = spawn("0", *args, code=CLOSED)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert why in done.err

    @pytest.mark.full
    @pytest.mark.skipif(os.name == "nt", reason="Windows keeps a directory that is in use")
    @pytest.mark.parametrize("args", [("sessions",), ("-p", "go")], ids=["sessions", "print"])
    def test_a_directory_that_is_gone(self, spawn: Run, args: tuple[str, ...]) -> None:
        done = spawn(*args, code=GONE)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "the current directory no longer exists" in done.err


@pytest.mark.parametrize("command", ["sessions", "run"])
def test_a_command_has_no_folder_of_the_project_on_path_unless_it_starts_what_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's `webbrowser` and others start programs by name, with the keys in their environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    monkeypatch.setenv("WANE_USER_PATH", "")
    main([command])
    assert (os.environ["PATH"] == os.defpath) is (command != "run")
