"""The command that adds an extra, by how Wane was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from wane.cli.installing import install_line

FOLDER = '{"url": "file:///my%20work/wane", "dir_info": {}}'
EDITABLE = '{"url": "file:///w/wane", "dir_info": {"editable": true}}'
REPOSITORY = '{"url": "https://host.example/wane", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}'
RECEIPT = '[tool]\nrequirements = [{ name = "other", extras = ["x"] }, { name = "wane", extras = ["lab"] }]\n'
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
    assert install_line("agent", tmp_path, origin) == line


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("uv-receipt.toml", RECEIPT, 'uv tool install --force "/my work/wane[lab,agent]"'),
        ("uv-receipt.toml", "", 'uv tool install --force "/my work/wane[agent]"'),
        ("pipx_metadata.json", METADATA, 'pipx install --force "/my work/wane[lab,proxy,agent]"'),
    ],
)
def test_a_tool_is_installed_again_with_the_extras_that_it_had(
    tmp_path: Path, name: str, content: str, line: str
) -> None:
    (tmp_path / name).write_text(content)
    assert install_line("agent", tmp_path, FOLDER) == line


def test_uvx_is_told_to_bring_the_extra(tmp_path: Path) -> None:
    assert install_line("agent", tmp_path / "archive-v0" / "Eq9x", None) == 'uvx --from "wane[agent]" wane'
