"""A command line to run in this process, and one to run in a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import wane
from wane.cli.main import main
from wane.journal import SessionStore

COMMAND = "import sys; from wane.cli.main import main; sys.exit(main())"
SOURCE = Path(wane.__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """What a run of the command came to."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]

HOMES = "CLAUDE_CONFIG_DIR CODEX_HOME PI_CODING_AGENT_DIR COPILOT_HOME GEMINI_CLI_HOME XDG_DATA_HOME XDG_CACHE_HOME"
"""Variables that say where other agents keep their sessions, and where Wane keeps what can be made again."""


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """80 columns, no terminal, no sessions but the test's own."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "sessions"))
    monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path / "config"))
    for name in HOMES.split():
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """The sessions that the command finds."""
    return SessionStore(tmp_path / "sessions")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process."""

    def call(*args: str | Path, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def spawn(tmp_path: Path) -> Run:
    """Run Python code in a process of its own, by default the command."""

    def call(*args: str | Path, code: str = COMMAND, **options: Any) -> Outcome:
        environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
        environment |= {"PYTHONPATH": str(SOURCE)} | options.pop("env", {})
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | options
        command = [sys.executable, "-c", code, *map(str, args)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, check=False, timeout=60, **options)
        return Outcome(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())

    return call
