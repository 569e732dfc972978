from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai_harness", reason="the agent extra is not installed")

from pydantic_ai.messages import ModelMessage

from tests.agent.provider import WAYS, Serve, serve
from tests.receipts import verify_all
from wane.agent.config import AgentSettings
from wane.agent.opening import SessionConfig
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.journal import SessionStore


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments],
        cwd=directory,
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="session")
def _committed_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("committed")
    (directory / "app.py").write_text("def answer():\n    return 41\n")
    (directory / ".gitignore").write_text("build/\n*.log\n")
    (directory / "build").mkdir()
    (directory / "build" / "out.py").write_text("answer = 41\n")
    (directory / "debug.log").write_text("answer\n")
    git(directory, "init", "-q", "-b", "main", "--template=")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "First")
    return directory


@pytest.fixture
def repository(_committed_project: Path, tmp_path: Path) -> Path:
    """A git repository with one commit and an ignored file."""
    return shutil.copytree(_committed_project, tmp_path / "project", symlinks=True)


@pytest.fixture
def project(repository: Path) -> Path:
    """The repository, with a file of many lines."""
    (repository / "long.py").write_text("".join(f"value_{number} = {number}\n" for number in range(300)))
    return repository


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or writes what belongs to the user that runs it. All journals that it leaves are verified."""
    monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "sessions"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    verify_all(tmp_path)


@pytest.fixture(params=WAYS)
def serve_model(request: pytest.FixtureRequest) -> Serve:
    """Starts a scripted model: in this process, and in `make test-all` over a wire."""
    return serve(request.param)


def config(directory: Path, model: object, *, keep: bool = True, **settings: object) -> SessionConfig:
    """What a session in a repository needs to know: its journal beside it, and no questions asked."""
    store = SessionStore(directory.parent / "sessions") if keep else None
    return SessionConfig(directory, AgentSettings(model=model, yolo=True).replace(**settings), store)  # type: ignore[arg-type]


def dump_messages(messages: list[ModelMessage]) -> list[object]:
    """Messages as JSON data, but for the instructions, which a request says anew."""
    return [{**data, "instructions": None} for data in PydanticAIFormat().dump(messages)]
