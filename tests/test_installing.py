"""The commands that add to Wane or update it, by how it was installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import wane
from wane.core.errors import MissingExtraError
from wane.installing import Installation, installation, pip_command

FOLDER = '{"url": "file:///my%20work/wane", "dir_info": {}}'
EDITABLE = '{"url": "file:///w/wane", "dir_info": {"editable": true}}'
REPOSITORY = '{"url": "https://host.example/wane", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}'
RECEIPT = '[tool]\nrequirements = [{ name = "other", extras = ["x"] }, { name = "wane", extras = ["lab"] }]\n'
UVX = 'uvx --from "wane[agent]" wane'
METADATA = '{"main_package": {"package_or_url": "/w/wane[lab,proxy]"}}'


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, 'pip install "wane[agent]"'),
        (FOLDER, 'pip install "/my work/wane[agent]"'),
        (EDITABLE, 'pip install -e "/w/wane[agent]"'),
        (REPOSITORY, 'pip install "wane[agent] @ git+https://host.example/wane"'),
    ],
)
def test_pip_takes_it_from_where_wane_came_from(tmp_path: Path, origin: str | None, line: str) -> None:
    assert Installation.of(tmp_path, origin).extras_line("agent") == line


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("uv-receipt.toml", RECEIPT, 'uv tool install --force "/my work/wane[lab,agent]" --with "other[x]"'),
        ("uv-receipt.toml", "", 'uv tool install --force "/my work/wane[agent]"'),
        ("pipx_metadata.json", METADATA, 'pipx install --force "/my work/wane[lab,proxy,agent]"'),
    ],
)
def test_a_tool_is_installed_again_with_the_extras_that_it_had(
    tmp_path: Path, name: str, content: str, line: str
) -> None:
    (tmp_path / name).write_text(content)
    assert Installation.of(tmp_path, FOLDER).extras_line("agent") == line


def test_uvx_is_told_to_bring_the_extra(tmp_path: Path) -> None:
    assert Installation.of(tmp_path / "archive-v0" / "Eq9x", None).extras_line("agent") == UVX


@pytest.mark.parametrize(
    ("name", "content", "package", "update"),
    [
        ("", "", 'pip install "pydantic-ai-slim[groq]"', "pip install --upgrade wane"),
        (
            "uv-receipt.toml",
            RECEIPT,
            'uv tool install --force "wane[lab]" --with "other[x]" --with "pydantic-ai-slim[groq]"',
            "uv tool upgrade wane",
        ),
        ("pipx_metadata.json", METADATA, 'pipx inject wane "pydantic-ai-slim[groq]"', "pipx upgrade wane"),
    ],
)
def test_another_package_and_an_update_come_the_same_way(
    tmp_path: Path, name: str, content: str, package: str, update: str
) -> None:
    if name:
        (tmp_path / name).write_text(content)
    installed = Installation.of(tmp_path, None)
    assert (installed.package_line("pydantic-ai-slim[groq]"), installed.update_line()) == (package, update)


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (FOLDER, 'git -C "/my work/wane" pull && pip install "/my work/wane"'),
        (EDITABLE, 'git -C "/w/wane" pull'),
        (REPOSITORY, 'pip install --upgrade "wane @ git+https://host.example/wane"'),
    ],
)
def test_an_update_comes_from_where_wane_came_from(tmp_path: Path, origin: str, line: str) -> None:
    assert Installation.of(tmp_path, origin).update_line() == line


def test_in_passing_uvx_brings_another_package_and_the_newest() -> None:
    installed = Installation("uvx")
    assert installed.package_line("six") == 'uvx --from "wane" --with "six" wane'
    assert installed.update_line() == "uvx wane@latest"


def test_a_missing_extra_is_explained_by_how_wane_was_installed() -> None:
    error = MissingExtraError("Pricing", "lab")
    assert error.command == installation().extras_line("lab")
    assert str(error) == f'Pricing needs the "lab" extra. Install it with: {error.command}'


@pytest.mark.parametrize(
    ("active", "first", "by_uv", "command"),
    [
        ("v", "v", False, "pip install"),
        ("", "other", False, "{v}/bin/python -m pip install"),
        ("", "", False, "{v}/bin/python -m pip install"),
        ("v", "other", True, "uv pip install"),
        ("other", "", True, 'uv pip install --python "{v}/bin/python"'),
    ],
)
def test_what_installs_into_the_environment_that_runs(
    tmp_path: Path, active: str, first: str, by_uv: bool, command: str
) -> None:
    """The first `pip` of a shell may belong to another environment, and one that uv made has none."""
    for name in ("v", "other"):
        pip = tmp_path / name / "bin" / "pip"
        pip.parent.mkdir(parents=True)
        pip.write_text("#!/bin/sh\n")
        pip.chmod(0o755)
    variables = {"PATH": str(tmp_path / first / "bin")} if first else {"PATH": ""}
    if active:
        variables["VIRTUAL_ENV"] = str(tmp_path / active)
    prefix = tmp_path / "v"
    assert pip_command(str(prefix / "bin" / "python"), prefix, variables, by_uv=by_uv) == command.format(v=prefix)


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, 'pip install "wane-research[eval]"'),
        (FOLDER, 'pip install "/my work/wane/research[eval]"'),
        (REPOSITORY, 'pip install "wane-research[eval] @ git+https://host.example/wane#subdirectory=research"'),
    ],
)
def test_research_comes_from_the_same_place(tmp_path: Path, origin: str | None, line: str) -> None:
    assert Installation.of(tmp_path, origin).package_line("wane-research[eval]") == line


LINES = re.compile(r"pip install(?! -)")


def test_only_this_module_writes_install_lines() -> None:
    """A line of pip's adds nothing to the environment of a tool."""
    sources = Path(wane.__file__).parent
    # What a program of one's own needs is installed by pip, or as its author likes.
    others = [path for path in sorted(sources.rglob("*.py")) if path.name != "installing.py"]
    assert not [path for path in others if LINES.search(path.read_text(encoding="utf-8"))]
