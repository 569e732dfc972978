"""Lines that name a command to type name one that the user's shell finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wane.cli.terminal.program import program


@pytest.fixture
def local_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The command of an environment in the current directory."""
    monkeypatch.chdir(tmp_path)
    command = tmp_path / ".venv" / "bin" / "wane"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\necho found\n")
    command.chmod(0o755)
    return str(Path(".venv/bin/wane"))


def test_what_the_shell_finds_is_named_by_its_name_and_all_else_by_its_path(local_command: str, tmp_path: Path) -> None:
    other = tmp_path / "other" / "wane"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    folder = str((tmp_path / local_command).parent)
    for path, name in (("elsewhere", local_command), (folder, "wane"), (str(other.parent), local_command)):
        assert program(local_command, {"PATH": path}) == program(str(tmp_path / local_command), {"PATH": path}) == name
    assert program(local_command, {"PATH": folder, "UV": "/usr/bin/uv"}) == local_command, (
        "the path that uv sets is not the shell's"
    )
    assert subprocess.run([local_command], capture_output=True, text=True, check=True).stdout == "found\n"


def test_elsewhere_the_whole_path_is_given_as_a_shell_reads_it(
    tmp_path: Path, local_command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "my work"
    (tmp_path / ".venv").rename(tmp_path / "my venv")
    work.mkdir()
    monkeypatch.chdir(work)
    whole = str(tmp_path / "my venv" / "bin" / "wane")
    assert program(whole, {"PATH": ""}) == f"'{whole}'"


def test_a_module_is_run_by_its_interpreter_and_another_program_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program("/x/wane/__main__.py", {}) == f"{sys.executable} -m wane"
    assert program("/usr/bin/pytest", {}) == "wane"
