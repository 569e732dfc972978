"""aider's chat history (`.aider.chat.history.md`): Markdown, as `aider/io.py` writes it.

It holds the user's turns, the answers, and aider's own output. Each line of a turn begins with `#### `. Aider's output
begins with `> ` and ends with exactly two spaces, however many lines it has. All other text is the model's. The
prompts, the files and the map of the repository that aider sent are not recorded, but counted in the tokens that it
printed. Costs are those that it printed, because calls have no times by which to price them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from wane.core import Kind
from wane.formats.base import Part
from wane.lab.readers.building.blocks import Content
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.values import usage_of
from wane.lab.session import RecordedSession, Usage

NAME: Final = "aider"

_STARTED: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_MODEL: Final = re.compile(r"(?:Main model|Model): (\S+)(?: with |$)")
_TOKENS: Final = re.compile(r"Tokens: ([\d.,]+[kM]?) sent(.*?), ([\d.,]+[kM]?) received")
_CACHE: Final = re.compile(r"([\d.,]+[kM]?) cache (write|hit)")
_COST: Final = re.compile(r"Cost: \$([\d.,]+) message")
_UNITS: Final = {"k": 1_000, "M": 1_000_000}
_ASKING: Final = ("/ask", "/code", "/architect", "/context")
"""Commands whose words go to the model."""
_CLEARING: Final = ("/clear", "/reset")
"""Commands after which the model sees nothing of what was said before."""
_LOOKED_AT: Final = 200


class _Passage(NamedTuple):
    """A run of text: `started`, `typed`, `printed` or `answered`."""

    line: int
    kind: str
    text: str


def is_history(beginning: bytes) -> bool:
    """Return whether a file begins as aider's chat history does."""
    return beginning[:_LOOKED_AT].lstrip().startswith(b"# aider chat started at ")


def read(path: Path) -> list[RecordedSession]:
    """Return the sessions of a file: each start of aider begins one, and so does each command that clears the history.

    Sessions without a model call are left out; if there are only such, the last one is returned.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        blocks = list(_blocks(file))
    bounds = [index for index, block in enumerate(blocks) if block.kind == "started"] + [len(blocks)]
    sessions: list[RecordedSession] = []
    for start, stop in pairwise(bounds):
        sessions += _sessions(blocks[start:stop])
    called = [session for session in sessions if session.calls]
    return called or sessions[-1:]


def _blocks(lines: Iterable[str]) -> Iterator[_Passage]:
    kind, first, body = "", 0, list[str]()
    printing = False  # whether the printed text goes on in the next line
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")
        content = line
        if printing:
            line_kind, begins = "printed", False
        elif _STARTED.match(line):
            line_kind, begins = "started", True
        elif line.startswith("> "):
            line_kind, begins, content = "printed", True, line[2:]
        elif line.startswith("#### "):
            line_kind, begins, content = "typed", kind != "typed", line[5:]
        else:
            line_kind, begins = "answered", kind != "answered"
        if begins:
            if body:
                yield _Passage(first, kind, "\n".join(body).strip())
            kind, first, body = line_kind, number, []
        body.append(content.removesuffix("  ") if line_kind in ("printed", "typed") else content)
        # Its last line ends with exactly two spaces; others may end with more.
        printing = line_kind == "printed" and line != f"{line.rstrip()}  "
    if body:
        yield _Passage(first, kind, "\n".join(body).strip())


def _sessions(blocks: Iterable[_Passage]) -> Iterator[RecordedSession]:
    """Yield the sessions of one start of aider, in order."""
    name, number = "aider", 1
    builder = SessionBuilder(name, NAME)
    model: str | None = None
    answer: _Passage | None = None
    for block in blocks:
        if block.kind == "answered":
            answer = block if block.text else answer
            continue
        usage = _usage(block.text) if block.kind == "printed" else None
        if answer is not None:
            # aider writes the counts right after the answer.
            cost = _cost(block.text) if usage is not None else None
            builder.answer([Part(Kind.TEXT, answer.text)], usage=usage, model=model, line=answer.line, cost=cost)
            answer = None
        if block.kind == "started" and (match := _STARTED.match(block.text)):
            name = f"aider {match[1]}"
            builder = SessionBuilder(name, NAME)
        elif block.kind == "typed" and block.text in _CLEARING:
            yield builder.build()
            number += 1
            builder = SessionBuilder(f"{name}, {number}", NAME)
        elif block.kind == "typed" and (request := _request(block.text)):
            builder.user(Content(request))
        elif match := _MODEL.match(block.text):
            model = match[1].rpartition("/")[2]
        elif block.kind == "printed" and block.text.startswith("# "):
            # Why an edit failed, or output of the linter or the tests, which aider sends to the model.
            builder.user(Content(block.text), notice=True)
    if answer is not None:
        builder.answer([Part(Kind.TEXT, answer.text)], model=model, line=answer.line)
    yield builder.build()


def _request(typed: str) -> str:
    """Return a person's words to the model; empty for a command of aider."""
    if not typed.startswith("/"):
        return typed
    command, _, request = typed.partition(" ")
    return request.strip() if command in _ASKING else ""


def _usage(printed: str) -> Usage | None:
    """Return the usage that aider printed, in rounded numbers; the tokens sent include those read from the cache."""
    match = _TOKENS.search(printed)
    if match is None:
        return None
    cache = {what: _number(amount) for amount, what in _CACHE.findall(match[2])}
    read, written = cache.get("hit", 0), cache.get("write", 0)
    return usage_of(max(_number(match[1]), read + written), read=read, written=written, output=_number(match[3]))


def _cost(printed: str) -> float | None:
    match = _COST.search(printed)
    try:
        return float(match[1].replace(",", "")) if match else None
    except ValueError:
        return None


def _number(printed: str) -> int:
    unit = _UNITS.get(printed[-1], 1)
    try:
        return round(float(printed.rstrip("kM").replace(",", "")) * unit)
    except ValueError:
        return 0
