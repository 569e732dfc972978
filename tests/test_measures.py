"""Measures of the house that may only fall: names, helpers, doubles, and the files that one step enters.

What is meant: a function is a verb with its object, a helper is worth its jump, a class name stands once, and a reader
follows a message through few files. When a measure falls, lower its ceiling here.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

import wane
from tests.proxy.server import support
from tests.test_architecture import PACKAGE, part_of, sources, tree
from wane import Conversation

ROOT = PACKAGE.parents[1]

# fmt: off
IRREGULAR = frozenset({
    "sent", "shown", "told", "kept", "given", "taken", "held", "made", "known", "seen", "said", "begun", "written",
    "spent", "thought", "caught", "meant", "met", "paid", "chosen", "hidden", "drawn",
})
# fmt: on
NO_PARTICIPLES = frozenset({"feed", "need", "seed", "speed", "embed", "shed", "exceed", "proceed", "succeed"})


class Ceiling(NamedTuple):
    """The most functions of a part that are named by a participle alone, and private ones that are called once."""

    participles: int
    called_once: int


CEILINGS: dict[str, Ceiling] = {
    "agent": Ceiling(0, 95),
    "cli": Ceiling(2, 123),
    "conversation": Ceiling(3, 23),
    "core": Ceiling(0, 44),
    "counters": Ceiling(0, 1),
    "flags": Ceiling(0, 0),
    "formats": Ceiling(0, 62),
    "identifiers": Ceiling(0, 2),
    "inference": Ceiling(0, 8),
    "integrations": Ceiling(0, 75),
    "journal": Ceiling(0, 29),
    "lab": Ceiling(1, 209),
    "planning": Ceiling(0, 2),
    "prices": Ceiling(0, 4),
    "proxy": Ceiling(0, 135),
    "rebuilding": Ceiling(0, 1),
    "recall": Ceiling(0, 8),
    "refusals": Ceiling(0, 1),
    "replacing": Ceiling(0, 1),
    "rewrites": Ceiling(0, 0),
    "savings": Ceiling(0, 1),
    "scripted": Ceiling(0, 18),
    "search": Ceiling(0, 2),
    "strategies": Ceiling(0, 21),
    "testing": Ceiling(0, 42),
    "tools": Ceiling(0, 26),
}

PARTICIPLES_BESIDE = 24
"""Functions named by a participle alone in tests, research, benchmarks and scripts."""

CLASS_NAMES_TWICE = 4
FILE_NAMES_TWICE = 6

FILES_ENTERED = {
    "a message of the user is appended": 15,
    "a request is made": 15,
    "an answer with a call is appended": 24,
    "a step of Pydantic AI is taken": 25,
    "a streamed request goes through the proxy": 42,
}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            yield node


def is_participle(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    name = function.name.strip("_")
    if any("property" in ast.unparse(decorator) for decorator in function.decorator_list):
        return False
    return "_" not in name and (name in IRREGULAR or (name.endswith("ed") and name not in NO_PARTICIPLES))


def names_used(path: Path) -> Counter[str]:
    used: Counter[str] = Counter()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Name):
            used[node.id] += 1
        elif isinstance(node, ast.Attribute):
            used[node.attr] += 1
    return used


def measure_parts() -> dict[str, Ceiling]:
    """What each part of the package has now."""
    parts: dict[str, Ceiling] = {}
    for path in sources():
        used = names_used(path)
        participles, called_once = parts.get(part_of(path), (0, 0))
        for function in functions(path):
            participles += is_participle(function)
            called_once += function.name.startswith("_") and used[function.name] == 1
        parts[part_of(path)] = Ceiling(participles, called_once)
    return parts


def test_names_and_helpers_get_no_worse() -> None:
    above = {
        part: now for part, now in measure_parts().items() if any(map(int.__gt__, now, CEILINGS.get(part, (0, 0))))
    }
    assert not above, "give functions verbs with objects, and put short helpers back where they are called"


def test_names_beside_the_package_get_no_worse() -> None:
    paths = [
        path for folder in ("tests", "research", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")
    ]
    named = [(path.name, function.name) for path in paths for function in functions(path) if is_participle(function)]
    assert len(paths) > 400
    assert len(named) <= PARTICIPLES_BESIDE, named


def test_no_more_names_stand_twice() -> None:
    classes: Counter[str] = Counter()
    files: Counter[str] = Counter(path.name for path in sources() if path.name != "__init__.py")
    for path in sources():
        classes.update(node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef))
    classes_twice = sorted(name for name, count in classes.items() if count > 1 and not name.startswith("_"))
    files_twice = sorted(name for name, count in files.items() if count > 1)
    assert len(classes_twice) <= CLASS_NAMES_TWICE, classes_twice
    assert len(files_twice) <= FILE_NAMES_TWICE, files_twice


class Walk:
    """Notes the files of the package whose functions are entered."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            self.files.add(str(Path(frame.f_code.co_filename).relative_to(PACKAGE)))

    def take(self, step: Callable[[], object]) -> list[str]:
        before = sys.getprofile()
        sys.setprofile(self.note)
        try:
            step()
        finally:
            sys.setprofile(before)
        return sorted(self.files)


def test_a_message_and_a_request_enter_few_files() -> None:
    conversation = Conversation(budget="80k")
    for number in range(3):
        conversation.append({"role": "user", "content": f"Question {number}"})
        conversation.request()
        conversation.append({"role": "assistant", "content": "Answer"})
    function = {"name": "bash", "arguments": json.dumps({"command": "ls"})}
    call = {"id": "1", "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    steps: dict[str, Callable[[], object]] = {
        "a message of the user is appended": lambda: conversation.append({"role": "user", "content": "Look at it."}),
        "a request is made": conversation.request,
        "an answer with a call is appended": lambda: conversation.append(answer, input_tokens=100),
    }
    for name, step in steps.items():
        entered = Walk().take(step)
        assert len(entered) <= FILES_ENTERED[name], (name, entered)


def test_a_step_of_pydantic_ai_enters_few_files() -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from wane.integrations.pydantic_ai import ContextLifecycle

    walks: list[Walk] = []

    async def reply(messages: list[Any], _: object) -> ModelResponse:
        """A model's answer; behind it begins the next step."""
        answers = sum(isinstance(message, ModelResponse) for message in messages)
        walks.append(Walk())
        sys.setprofile(walks[-1].note)
        return ModelResponse([ToolCallPart("read", {"path": f"a{answers}"}) if answers < 4 else TextPart("Done.")])

    agent = pydantic_ai.Agent(FunctionModel(reply), capabilities=[ContextLifecycle(budget=80_000)])

    @agent.tool_plain
    def read(path: str) -> str:
        return "x" * 200

    before = sys.getprofile()
    try:
        agent.run_sync("Go.")
    finally:
        sys.setprofile(before)
    entered = sorted(walks[2].files)
    assert entered
    assert len(entered) <= FILES_ENTERED["a step of Pydantic AI is taken"], entered


async def test_a_streamed_request_enters_few_files() -> None:
    """The third request of a session: it brings the result of a call, and its reply is text in twenty pieces."""
    call = support.call_block("read", {"path": "a"})
    text = [
        support.text_start(),
        *(support.text_delta(f"word {number} ") for number in range(20)),
        support.block_stop(),
    ]
    replies = [[call, support.CALLED], [call, support.CALLED], [*text, support.STOP]]

    async def answer(_: support.Asked, writer: asyncio.StreamWriter) -> None:
        events = [support.START, *replies.pop(0)]
        writer.write(support.stream_head() + b"".join(map(support.chunk, events)) + support.chunk(b""))

    use = {"type": "tool_use", "id": "toolu_read_0_1", "name": "read", "input": {"path": "a"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_read_0_1", "content": "x" * 200}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    walk = Walk()
    before = sys.getprofile()
    async with support.provider(answer) as up, support.proxy(up.url) as running:
        for number in range(3):
            if number == 2:
                sys.setprofile(walk.note)
            try:
                got = await support.ask(running, support.body(messages=messages))
            finally:
                sys.setprofile(before)
            assert got.whole
            assert got.header("x-wane-view")
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    entered = sorted(walk.files)
    assert "proxy/server/exchange.py" in entered
    assert len(entered) <= FILES_ENTERED["a streamed request goes through the proxy"], entered


def test_the_measures_see_what_they_measure() -> None:
    assert wane.__file__ == str(PACKAGE / "__init__.py")
    defined = ast.parse("def answered(): ...\ndef _kept(): ...\ndef need(): ...\ndef note_answered(): ...\n")
    found = [node.name for node in defined.body if isinstance(node, ast.FunctionDef) and is_participle(node)]
    assert found == ["answered", "_kept"]
    assert len(Walk().take(lambda: Conversation(budget="80k").tokens)) > 5
