from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai_harness", reason="the agent extra is not installed")

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes what belongs to the user that runs it."""
    monkeypatch.setenv("WANE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "sessions"))
