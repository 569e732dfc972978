"""The machinery around the code: what make offers, and how it chooses a Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory of commands that stands for all that is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "touch", "rm", "mkdir", "awk"):
        (folder / name).symlink_to(shutil.which(name) or "")
    return folder


def provide(tools: Path, **commands: str) -> None:
    (tools / "cp").symlink_to(shutil.which("cp") or "")
    for name, text in commands.items():
        script(tools / name, text)


def install(tools: Path, tmp_path: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / "scripts" / "install.sh"), str(tmp_path / "venv"), "agent", *more]
    return subprocess.run(
        command, env={"PATH": str(tools)} | environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )


def test_make_lists_what_there_is() -> None:
    done = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True, text=True, check=True)
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    assert " ".join(targets) == "help demo test test-all check format docs pins site bench release clean"


def test_the_demo_installs_less_and_development_serves_the_demo_too(tmp_path: Path) -> None:
    for folder in ("scripts", "research"):
        (tmp_path / folder).mkdir()
    for name in ("Makefile", "pyproject.toml", "research/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    script(tmp_path / "scripts" / "install.sh", 'mkdir -p "$1" && shift && echo "install $*"')

    def make_targets(*targets: str) -> list[str]:
        command = ["make", "-C", str(tmp_path), "--no-print-directory", *targets]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("install")]

    demo, development = ".venv/.demo-ready", ".venv/.ready"
    assert make_targets(demo) == ["install agent"]
    assert make_targets(demo) == []
    assert make_targets(development, demo) == ["install dev dev"]
    shutil.rmtree(tmp_path / ".venv")
    assert make_targets(development) == ["install dev dev"]
    assert make_targets(demo, development) == []


class TestInstalling:
    """With a `pip` that only says what it would say."""

    PYTHON = """case "$*" in
    *"-m venv"*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python";;
    *"-m pip install"*) echo "Collecting rich>=14.0 (from wane==0.1.0)"; echo "  Using cached rich.whl"
        echo "  Installing build dependencies: started"; echo "Processing /wheels/idna-3.whl"
        echo "Installing collected packages: rich"; test -z "$BROKEN" || { echo "no such package" >&2; exit 1; };;
    esac"""

    def test_it_says_what_it_does(self, tools: Path, tmp_path: Path) -> None:
        provide(tools, python3=self.PYTHON)
        done = install(tools, tmp_path)
        venv = tmp_path / "venv"
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.splitlines() == [
            f"install: making {venv} with python3",
            f"install: installing Wane with its extra agent into {venv}",
            "  rich>=14.0",
            "  idna-3.whl",
            "install: unpacking the packages",
        ]

    def test_a_failure_is_one(self, tools: Path, tmp_path: Path) -> None:
        provide(tools, python3=self.PYTHON)
        done = install(tools, tmp_path, BROKEN="yes")
        assert done.returncode == 1
        assert "no such package\n" in done.stderr
        assert "install: pip could not install Wane" in done.stderr


class TestChoosingAPython:
    """With commands that only write down how they were called."""

    # Answers as an interpreter of the right age would; makes what venv would make.
    NEW = 'echo "$0 $*" >>"$LOG"; case "$*" in *"-m venv"*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python";; esac'
    OLD = 'case "$1" in --version) echo Python 3.9.2;; *) exit 1;; esac'

    UV = 'echo "$0 $*" >>"$LOG"'

    @pytest.mark.parametrize(
        ("commands", "extras", "environment", "calls"),
        [
            ({"python3": NEW}, [], {}, ["{bin}/python3 -m venv --clear {venv}\n", "{venv}/bin/python -m pip install",
                                       "--editable .[agent]\n"]),
            ({"python3": NEW}, ["dev"], {}, ["--editable .[agent] --editable ./research[dev]\n"]),
            ({"python3": OLD, "python3.12": NEW}, [], {}, ["{bin}/python3.12 -m venv"]),
            ({"python3": NEW, "mine": NEW}, [], {"PYTHON": "mine"}, ["{bin}/mine -m venv"]),
            ({"python3": NEW, "uv": UV}, [], {}, ["{bin}/uv venv --quiet --clear --python python3 {venv}\n",
                "{bin}/uv pip install --python {venv}/bin/python --editable .[agent]\n"]),
            ({"uv": UV}, [], {}, ["--python >=3.11"]),
        ],
        ids=["python3", "with the research", "python3 is too old", "the named one", "uv", "uv brings one"],
    )  # fmt: skip
    def test_the_python_that_it_takes(
        self,
        tools: Path,
        tmp_path: Path,
        commands: dict[str, str],
        extras: list[str],
        environment: dict[str, str],
        calls: list[str],
    ) -> None:
        provide(tools, **commands)
        done = install(tools, tmp_path, *extras, LOG=str(tmp_path / "log"), **environment)
        assert done.returncode == 0, done.stderr
        log = (tmp_path / "log").read_text()
        assert all(call.format(bin=tools, venv=tmp_path / "venv") in log for call in calls), log

    @pytest.mark.parametrize(
        ("commands", "environment", "message"),
        [
            ({"python3": OLD}, {}, "Python 3.11 or newer is needed, found Python 3.9.2."),
            ({}, {}, "Python 3.11 or newer is needed, found no python3."),
            ({"python3": NEW, "mine": OLD}, {"PYTHON": "mine"}, "PYTHON=mine is not Python 3.11 or newer"),
            ({"python3": 'case "$2" in *ensurepip*) exit 1;; esac'}, {}, "apt install python3-venv"),
        ],
        ids=["too old", "none", "the named is too old", "without ensurepip"],
    )
    def test_none_that_will_do(
        self, tools: Path, tmp_path: Path, commands: dict[str, str], environment: dict[str, str], message: str
    ) -> None:
        provide(tools, **commands)
        done = install(tools, tmp_path, LOG=os.devnull, **environment)
        assert done.returncode == 1
        assert message in done.stderr
