from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.capabilities import AbstractCapability

from tests.agent.work import call, use
from wane.agent.tools import ripgrep
from wane.agent.tools.toolset import coding_tools
from wane.installing import installation


def test_it_is_found_in_the_scripts_directory_and_shadows_nothing() -> None:
    scripts = sysconfig.get_path("scripts")
    if not shutil.which("rg", path=scripts):
        pytest.skip("ripgrep does not come from a package here")
    environ = {"PATH": "/nowhere"}
    assert ripgrep.enable(environ)
    assert environ["PATH"] == f"/nowhere{os.pathsep}{scripts}"
    once = dict(environ)
    assert ripgrep.enable(environ)
    assert environ == once
    assert ripgrep.undone(environ) == {"PATH": "/nowhere"}


def test_the_users_configuration_is_set_aside_and_given_to_commands(tmp_path: Path) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    before = {"PATH": str(tmp_path), "RIPGREP_CONFIG_PATH": "/home/me/.ripgreprc"}
    environ = dict(before)
    assert ripgrep.enable(environ)
    assert environ["RIPGREP_CONFIG_PATH"].endswith("ripgreprc")
    assert environ["RIPGREP_CONFIG_PATH"] != before["RIPGREP_CONFIG_PATH"]
    assert environ["PATH"] == before["PATH"]
    assert ripgrep.undone(environ) == before


def test_that_of_the_project_is_not_started(repository: Path) -> None:
    program = repository / "bin" / "rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (repository / "sub").mkdir()
    environ = {"PATH": str(program.parent)}
    assert ripgrep.enable(dict(environ), project=program.parent.parent.parent / "other")
    assert not ripgrep.enable(environ, project=repository / "sub")


def test_a_link_of_the_project_to_one_elsewhere_is_not_started(repository: Path, tmp_path: Path) -> None:
    program = tmp_path / "elsewhere" / "rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (repository / "bin").mkdir()
    (repository / "bin" / "rg").symlink_to(program)
    assert not ripgrep.enable({"PATH": str(repository / "bin")}, project=repository)


def test_that_of_the_project_is_not_started_if_it_comes_later(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository / "bin"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    (before,) = use(repository, [call("grep", pattern="answer")])
    assert "app.py:1:" in before

    class Later(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, args: dict[str, Any], **_: Any) -> dict[str, Any]:
            folder.mkdir(exist_ok=True)
            (folder / "rg").write_text(f"#!/bin/sh\ntouch '{repository}/mark'\n")
            (folder / "rg").chmod(0o755)
            return args

    (searched, listed) = use(repository, [call("grep", pattern="answer"), call("list_files")], before=[Later()])
    assert "belongs to this project" in searched
    assert "belongs to this project" in listed
    assert not (repository / "mark").exists()


def test_a_relative_entry_of_path_is_the_projects(repository: Path) -> None:
    assert not ripgrep.enable({"PATH": f"bin{os.pathsep}{os.defpath}"}, project=repository)


def test_there_is_none() -> None:
    environ = {"PATH": "/nowhere"}
    assert not ripgrep.enable(environ, directories=())
    assert environ == {"PATH": "/nowhere"}


def test_without_it_slower_tools_take_its_place(repository: Path) -> None:
    tools = coding_tools(repository, 9_000, with_ripgrep=False)
    assert tools.warning is not None
    assert installation().extras_line("agent") in tools.warning
    assert (tools.search, tools.listing) == ("search_files", "find_files")
    steps = [call("search_files", pattern="answer"), call("find_files", pattern="*.py")]
    found, listed = use(repository, steps, with_ripgrep=False)
    assert "app.py:1:def answer():" in found
    assert "app.py" in listed
