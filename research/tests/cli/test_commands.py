"""What holds for the commands that this distribution adds to `wane`, and what is said without it."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest

from tests.cli.conftest import Run
from wane.cli.command_registry import find_commands
from wane.cli.parser import Command
from wane.installing import installation
from wane_research.cli.commands import EVAL, LAB

GROUPS = {"lab": LAB, "eval": EVAL}
COMMANDS = (*LAB.commands, *EVAL.commands)


class TestInstalled:
    @pytest.mark.parametrize("name", [*GROUPS, *(command.name for command in COMMANDS)])
    def test_a_page_of_help_fits_into_80_columns(self, run: Run, name: str) -> None:
        done = run(*name.split(), "--help")
        assert (done.code, done.err) == (0, "")
        assert max(map(len, done.out.splitlines())) <= 80

    def test_the_help_of_wane_lists_them(self, run: Run) -> None:
        page = run("--help").out
        assert all(f"\n  {group} " in page for group in GROUPS)
        for command in COMMANDS:
            group, _, name = command.name.partition(" ")
            assert f"{command.name} " in run(group, "--help").out or f"\n  {name} " in run(group, "--help").out

    @pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
    def test_each_runs_a_function_that_takes_its_options(self, command: Command) -> None:
        types = get_type_hints(command.run)
        assert types.pop("return") is int
        assert list(types.values()) == [command.options]

    def test_wane_knows_the_groups(self) -> None:
        known = find_commands()
        assert {name: known.groups[name] for name in GROUPS} == {name: group.text for name, group in GROUPS.items()}
        assert not known.refused
        names = [command.name for command in known.commands]
        assert [name for name in names if name.partition(" ")[0] in GROUPS] == [
            *(command.name for command in EVAL.commands),
            *(command.name for command in LAB.commands),
        ]


# The command in an environment of everything but this distribution.
WITHOUT_RESEARCH = """
import os, sys, tempfile
with tempfile.TemporaryDirectory() as others:
    for folder in [folder for folder in sys.path if os.path.basename(folder) == "site-packages"]:
        for name in os.listdir(folder):
            if not name.startswith("wane_research"):
                os.symlink(os.path.join(folder, name), os.path.join(others, name))
        sys.path[sys.path.index(folder)] = others
    sys.path[:] = [folder for folder in sys.path if not os.path.exists(os.path.join(folder, "wane_research"))]
    from wane.cli.main import main
    sys.exit(main())
"""


class TestNotInstalled:
    @pytest.mark.parametrize(
        ("args", "name"),
        [
            (("eval",), "wane-research[eval]"),
            (("eval", "run", "tb2.yaml"), "wane-research[eval]"),
            (("eval", "report", "--help"), "wane-research[eval]"),
            (("lab", "closed-loop"), "wane-research"),
        ],
    )
    def test_a_line_says_how_to_install_it(self, spawn: Run, args: tuple[str, ...], name: str) -> None:
        done = spawn(*args, code=WITHOUT_RESEARCH)
        assert (done.code, done.out) == (1, "")
        line = installation().package_line(name)
        assert done.err == f"wane: wane {args[0]} needs {name}. Install it with: {line}\n"

    def test_the_help_of_wane_lists_its_own_commands_alone(self, spawn: Run) -> None:
        done = spawn("--help", code=WITHOUT_RESEARCH)
        assert done.code == 0
        assert "\n  demo " in done.out
        assert not any(f"\n  {group} " in done.out for group in GROUPS)

    def test_a_command_of_wane_needs_it_not(self, spawn: Run, chat: Path) -> None:
        assert spawn("plan", chat, code=WITHOUT_RESEARCH).code == 0
