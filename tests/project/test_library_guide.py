"""The examples of the guides on the library, run as they stand there, loops against a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripts import check_docs

from tests.cli import sample
from wane import Kind, Policy
from wane.conversation.engine import REMIND_AT
from wane.core.guidance import guidance
from wane.formats import get_format
from wane.formats.writing import WritingFormat
from wane.testing import Call, Reply, Request, ScriptedServer

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "library.md"
CONVERSATION = DOCS / "conversation.md"


def delimiter(**arguments: Any) -> Call:
    return Call("delimiter", arguments)


def blocks_of(page: Path) -> list[check_docs.Block]:
    return [block for block in check_docs.parse(page).blocks if block.language == "python"]


def run(page: Path, blocks: list[check_docs.Block], names: dict[str, Any] | None = None) -> dict[str, Any]:
    names = {} if names is None else names
    for block in blocks:
        exec(compile(block.text, f"{page}:{block.line}", "exec"), names)
    return names


def test_the_library_guides_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("session.json").write_text(json.dumps(sample.messages()))
    names = run(GUIDE, blocks_of(GUIDE))
    assert names["view"] == sample.messages()
    assert names["text"].startswith("[call delimiter] ")


SCRIPT = [
    Reply(calls=(delimiter(action="start", name="look", type="expl"), Call("read", {"path": "notes.txt"}))),
    Reply(calls=(delimiter(action="start", name="more", type="expl"), Call("read", {"path": "none.txt"}))),
    Reply(calls=(delimiter(action="end", description="milk is to be bought"),)),
    Reply("It says: buy milk."),
]


def use(name: str, arguments: str) -> str:
    assert name == "read"
    return "Buy milk." if json.loads(arguments)["path"] == "notes.txt" else "Error: no such file"


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_the_loops_of_the_conversation_guide_run(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package, reason=f"the {package} extra is not installed")
    (block,) = (block for block in blocks_of(CONVERSATION) if f"from {package} import" in block.text)
    assert len(block.text[block.text.index("def run") :].strip().splitlines()) <= 12
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    format_ = get_format(package)
    assert isinstance(format_, WritingFormat)
    with ScriptedServer(SCRIPT) as server:
        for name, url in (("OPENAI", f"{server.url}/v1"), ("ANTHROPIC", server.url)):
            monkeypatch.setenv(f"{name}_BASE_URL", url)
            monkeypatch.setenv(f"{name}_API_KEY", "scripted")
        names = run(CONVERSATION, [block])
        told = names["run"]("What is in notes.txt?", [format_.tool("read", "Read a file.", path)], use)
        last: Request = server.requests[-1]
    assert server.refusals == ()
    assert told == "It says: buy milk."
    results = sorted(last.results.values())
    assert [text[:14] for text in results] == [
        "Buy milk.",
        "Ended explorat",
        "Error: episode",
        "Error: no such",
        "Started explor",
    ]
    assert last.texts(Kind.USER) == ("What is in notes.txt?",)
    assert last.texts(Kind.SYSTEM) == (guidance(Policy()),)


def test_the_other_examples_of_the_conversation_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in blocks_of(CONVERSATION) if "def run(task" not in block.text]
    assert len(blocks) == 3
    saved, framework, summary = (run(CONVERSATION, [block]) for block in blocks)
    assert saved["again"].messages == [{"role": "user", "content": "Go."}]
    assert framework["change"].added == 1
    assert framework["conversation"].tokens == 1_234
    assert not summary["request"].for_summary
    assert "The user wants it done." in summary["request"].messages[0]["content"]


def test_what_the_guide_says_the_model_is_told_is_what_it_is_told() -> None:
    (shown,) = (block.text for block in check_docs.parse(GUIDE).blocks if block.language == "text")
    assert shown == guidance(Policy(), recall=True)
    assert (REMIND_AT, REMIND_AT / 4) == (0.20, 0.05)
