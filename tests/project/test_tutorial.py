"""The tutorial, run as it stands there: it prints what it says that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripts import check_docs

from wane.testing import Reply, ScriptedServer

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai", reason="the openai extra is not installed")
    monkeypatch.chdir(tmp_path)
    *blocks, real = (b for b in check_docs.parse(TUTORIAL).blocks if b.language in ("python", "text"))
    names: dict[str, Any] = {}
    compared = 0
    for block in blocks:
        if block.language == "python":
            exec(compile(block.text, f"{TUTORIAL}:{block.line}", "exec"), names)
        else:
            assert capsys.readouterr().out.rstrip("\n") == block.text.rstrip("\n")
            compared += 1
    assert compared == 3
    assert capsys.readouterr().out == ""
    assert names["server"].refusals == ()

    with ScriptedServer([Reply("Hello.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        exec(real.text, names)
        assert names["ask"](names["client"], "Hello?") == "Hello."
        assert server.refusals == ()
