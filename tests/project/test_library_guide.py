"""The examples of the guides on the library, run as they stand there, loops against a scripted model."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from scripts import check_docs

import wane
from tests.cli import sample
from wane import Kind, Policy
from wane.conversation.context import REMIND_AT
from wane.core.guidance import guidance
from wane.formats import get_format
from wane.formats.message_format import WritingFormat
from wane.testing import Call, Reply, Request, ScriptedServer

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"
GUIDE = DOCS / "library.md"
CONVERSATION = DOCS / "conversation.md"
OWN = DOCS / "frameworks" / "own.md"


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


PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def use(name: str, arguments: str) -> str:
    assert name == "read"
    return "Buy milk." if json.loads(arguments)["path"] == "notes.txt" else "Error: no such file"


LOOPS = [block for block in blocks_of(CONVERSATION) if "def run(task" in block.text]
FORMATS = ("openai", "openai", "openai_responses", "openai_responses", "anthropic", "anthropic", "gemini", "gemini")


def point_to_server(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, url in (("OPENAI", f"{server.url}/v1"), ("ANTHROPIC", server.url), ("GOOGLE_GEMINI", server.url)):
        monkeypatch.setenv(f"{name}_BASE_URL", url)
        monkeypatch.setenv(f"{name.removesuffix('_GEMINI')}_API_KEY", "scripted")


@pytest.mark.quick(3)
@pytest.mark.parametrize(("number", "format_name"), [*enumerate(FORMATS)])
def test_the_loops_of_the_conversation_guide_run(
    number: int, format_name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block = LOOPS[number]
    package = "google" if format_name == "gemini" else format_name.partition("_")[0]
    pytest.importorskip("google.genai" if package == "google" else package, reason=f"needs the extra {package}")
    format_ = get_format(format_name)
    assert isinstance(format_, WritingFormat)
    streams = "async def run" in block.text
    with ScriptedServer(SCRIPT) as server:
        point_to_server(server, monkeypatch)
        answered = run(CONVERSATION, [block])["run"](
            "What is in notes.txt?", [format_.tool("read", "Read a file.", PATH)], use
        )
        if inspect.isawaitable(answered):
            answered = asyncio.run(_await_answer(answered))
        assert {request.stream for request in server.requests} == {streams}
        last: Request = server.requests[-1]
    assert (server.refusals, server.remaining) == ((), 0)
    assert answered == "It says: buy milk."
    assert capsys.readouterr().out == (answered if streams else "")
    assert [text[:14] for text in sorted(last.results.values())] == [
        "Buy milk.",
        "Ended explorat",
        "Error: episode",
        "Error: no such",
        "Started explor",
    ]
    assert last.texts(Kind.USER) == ("What is in notes.txt?",)
    assert last.system == guidance(Policy())


async def _await_answer(answer: Any) -> Any:
    return await answer


def test_there_is_a_loop_of_each_kind_for_each_api() -> None:
    assert [("async def run" in block.text) for block in LOOPS] == [False, True] * 4
    assert all(f'"{name}"' in block.text for block, name in zip(LOOPS, FORMATS, strict=True) if name != "openai")


def test_the_calls_of_an_answer_can_run_in_threads() -> None:
    (block,) = (block for block in blocks_of(CONVERSATION) if "ThreadPoolExecutor" in block.text)
    answer = run(CONVERSATION, [block])["answer"]
    both = threading.Barrier(2)

    def waits(name: str, arguments: str) -> str:
        both.wait(timeout=30)  # each call needs the other one to run at the same time
        return f"{name} {arguments}"

    conversation = wane.Conversation(budget="80k")
    conversation.append({"role": "user", "content": "Read both."})
    functions = [{"name": "read", "arguments": json.dumps({"path": path})} for path in ("a.py", "b.py")]
    calls = [{"id": f.get("arguments"), "type": "function", "function": f} for f in functions]
    answer(conversation, conversation.append({"role": "assistant", "tool_calls": calls}), waits)
    assert conversation.calls == []
    assert [message["content"] for message in conversation.messages[2:]] == [
        'read {"path": "a.py"}',
        'read {"path": "b.py"}',
    ]


def test_the_loop_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai", reason="the openai extra is not installed")
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("Buy milk.")
    (block,) = (block for block in blocks_of(README) if "wane.Conversation" in block.text)
    script = [
        Reply(calls=(delimiter(action="start", name="look", type="expl"), Call("read", {"path": "README.md"}))),
        Reply(calls=(delimiter(action="end", description="milk is to be bought"), Call("read", {"path": "none"}))),
        Reply("It says: buy milk."),
    ]
    with ScriptedServer(script) as server:
        point_to_server(server, monkeypatch)
        run(README, [block])
        last: Request = server.requests[-1]
    assert (server.refusals, server.remaining) == ((), 0)
    assert capsys.readouterr().out == "It says: buy milk.\n"
    assert {"Buy milk.", "There is no such file."} <= set(last.results.values())


def test_the_other_examples_of_the_conversation_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in blocks_of(CONVERSATION) if "conversation = wane.Conversation(" in block.text]
    saved, summary = (run(CONVERSATION, [block]) for block in blocks if block not in LOOPS)
    framework = run(OWN, blocks_of(OWN)[:1])
    assert saved["again"].messages == [{"role": "user", "content": "Go."}]
    assert framework["change"].added == 1
    assert framework["conversation"].tokens == 1_234
    assert not summary["request"].for_summary
    assert "The user wants it done." in summary["request"].messages[0]["content"]


def test_what_the_guide_says_the_model_is_told_is_what_it_is_told() -> None:
    (shown,) = (block.text for block in check_docs.parse(GUIDE).blocks if block.language == "text")
    assert shown == guidance(Policy(), recall=True)
    assert (REMIND_AT, REMIND_AT / 4) == (0.20, 0.05)
