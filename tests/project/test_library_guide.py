"""The examples of the library guide, run in the order in which they stand there, against a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripts import check_docs

from tests.cli import sample
from wane import Kind, Policy
from wane.conversation.reminder import REMIND_AT
from wane.core.guidance import guidance
from wane.testing import Call, Reply, Request, ScriptedServer

GUIDE = Path(__file__).parents[2] / "docs" / "library.md"


def delimiter(**arguments: Any) -> Call:
    return Call("delimiter", arguments)


def test_the_guides_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai", reason="the openai extra is not installed")
    monkeypatch.chdir(tmp_path)
    Path("session.json").write_text(json.dumps(sample.messages()))
    Path("notes.txt").write_text("Buy milk.")
    script = [
        Reply(calls=(delimiter(action="start", name="look", type="expl"), Call("read", {"path": "notes.txt"}))),
        Reply(calls=(delimiter(action="start", name="more", type="expl"), Call("read", {"path": "none.txt"}))),
        Reply(calls=(delimiter(action="end", description="milk is to be bought"),)),
        Reply("It says: buy milk."),
    ]
    names: dict[str, Any] = {}
    with ScriptedServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        for block in check_docs.parse(GUIDE).blocks:
            if block.language == "python":
                exec(compile(block.text, f"{GUIDE}:{block.line}", "exec"), names)
        last: Request = server.requests[-1]
    assert server.refusals == ()
    assert capsys.readouterr().out.endswith("It says: buy milk.\n")
    started, read, refused, missing, ended = last.results.values()
    assert started.startswith('Started exploration "look"')
    assert read == "Buy milk."
    assert refused.startswith('Error: episode "look" is still active')
    assert missing.startswith("Error: ")
    assert ended.startswith('Ended exploration "look"')
    assert last.texts(Kind.USER) == ("What is in notes.txt?",)
    assert "Buy milk." in names["text"]
    assert last.texts(Kind.SYSTEM) == (guidance(Policy()),)


def test_what_the_guide_says_the_model_is_told_is_what_it_is_told() -> None:
    (shown,) = (block.text for block in check_docs.parse(GUIDE).blocks if block.language == "text")
    assert shown == guidance(Policy(), recall=True)
    assert (REMIND_AT, REMIND_AT / 4) == (0.20, 0.05)
