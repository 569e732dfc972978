"""The script that makes root file systems finds a Python 3.13 where pyenv and uv keep theirs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "eval_bases.sh"
PROGRAMS = "/usr/bin:/bin"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script for a POSIX shell")


def found(home: Path, **env: str) -> str:
    function = re.search(r"^find_python\(\) \{.*?^\}", SCRIPT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert function is not None
    shell = ["sh", "-euc", f"{function[0]}\nfind_python"]
    done = subprocess.run(
        shell, env={"HOME": str(home), "PATH": PROGRAMS, **env}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def fake(prefix: Path, *, works: bool = True) -> Path:
    """A Python 3.13 that says where it is, or a shim without one."""
    program = prefix / "bin" / "python3.13"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{f'echo {prefix}' if works else 'exit 127'}\n")
    program.chmod(0o755)
    return prefix


@pytest.mark.parametrize("place", [".pyenv/versions/3.13.0", ".local/share/uv/python/cpython-3.13.1-linux-x86_64-gnu"])
def test_python_of_pyenv_or_uv_is_found(tmp_path: Path, place: str) -> None:
    prefix = fake(tmp_path / place)
    assert found(tmp_path) == str(prefix)


def test_python_on_the_path_comes_first_unless_it_is_a_shim(tmp_path: Path) -> None:
    fake(tmp_path / ".pyenv/versions/3.13.0")
    mine, shim = fake(tmp_path / "mine"), fake(tmp_path / "shims", works=False)
    assert found(tmp_path, PATH=f"{mine}/bin:{PROGRAMS}") == str(mine)
    assert found(tmp_path, PATH=f"{shim}/bin:{PROGRAMS}") == str(tmp_path / ".pyenv/versions/3.13.0")


def test_folders_of_pyenv_and_uv_may_be_named(tmp_path: Path) -> None:
    ours = fake(tmp_path / "envs/versions/3.13.2")
    theirs = fake(tmp_path / "uv/cpython-3.13.3-linux")
    assert found(tmp_path, PYENV_ROOT=str(tmp_path / "envs")) == str(ours)
    assert found(tmp_path, UV_PYTHON_INSTALL_DIR=str(tmp_path / "uv")) == str(theirs)
    assert found(tmp_path) == ""
