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
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Content
from wane.lab.readers.building.values import usage_of
from wane.lab.recorded_session import CallUsage, RecordedSession

NAME: Final = "aider"
TITLE: Final = "aider"

_STARTED: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_MARK: Final = re.compile(r"\n(> |#### |# aider chat started at (?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*(?:\n|$)))")
"""How a line begins that is not the model's."""
_KINDS: Final = {"> ": "printed", "#### ": "typed", "# aider chat started at ": "started"}
_MODEL: Final = re.compile(r"(Main |Editor |)[Mm]odel: (\S+)(?: with |$)")
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
    history = path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n")
    blocks = list(_passages(f"\n{history}"))
    bounds = [index for index, block in enumerate(blocks) if block.kind == "started"] + [len(blocks)]
    sessions: list[RecordedSession] = []
    for start, stop in pairwise(bounds):
        sessions += _sessions(blocks[start:stop])
    called = [session for session in sessions if session.calls]
    return called or sessions[-1:]


def _passages(history: str) -> Iterator[_Passage]:
    """Yield the passages of a history that begins with a line break, in order, without empty ones of the model.

    Only lines that begin as aider's own do are looked at one by one; all between them is the model's.
    """
    position, line = 0, 0
    while position < len(history):
        mark = _MARK.search(history, position)
        start = len(history) if mark is None else mark.start() + 1
        if words := history[position:start].strip():
            yield _Passage(line + 1, "answered", words)
        if mark is None:
            return
        line += history.count("\n", position, start)
        kind, stop = _KINDS[mark[1]], _line_end(history, start)
        if kind == "printed":
            # Its last line ends with exactly two spaces; others may end with more.
            while stop < len(history) and not _is_end(history[max(start, stop - 3) : stop]):
                stop = _line_end(history, stop + 1)
        elif kind == "typed":
            while history.startswith("#### ", stop + 1):
                stop = _line_end(history, stop + 1)
        words = history[start:stop] if kind == "started" else history[mark.end() : stop].replace("  \n", "\n")
        yield _Passage(line, kind, words.replace("\n#### ", "\n").strip() if kind == "typed" else words.strip())
        position = stop


def _is_end(tail: str) -> bool:
    """Whether a line ends with exactly two spaces, by its last three characters, or the line break before them."""
    return tail.endswith("  ") and (len(tail) < 3 or tail[0] == "\n" or not tail[0].isspace())


def _line_end(history: str, start: int) -> int:
    """Return where the line ends that holds a position, before its line break."""
    end = history.find("\n", start)
    return len(history) if end < 0 else end


def _sessions(blocks: Iterable[_Passage]) -> Iterator[RecordedSession]:
    """Yield the sessions of one start of aider, in order."""
    name, number = "aider", 1
    builder = SessionBuilder(name, NAME)
    model: str | None = None
    editor: str | None = None
    asked: str | None = None  # the model that answers next
    plan = ""  # the latest answer
    answer: _Passage | None = None
    for block in blocks:
        if block.kind == "answered":
            answer = block if block.text else answer
            continue
        usage = _usage(block.text) if block.kind == "printed" and "Tokens: " in block.text else None
        if answer is not None:
            # aider writes the counts right after the answer.
            _answer(builder, answer, asked or model, usage, _cost(block.text) if usage is not None else None)
            plan, answer, asked = answer.text, None, None
        if block.kind == "started" and (match := _STARTED.match(block.text)):
            name = f"aider {match[1]}"
            builder = SessionBuilder(name, NAME)
        elif block.kind == "typed" and block.text in _CLEARING:
            yield builder.build()
            number += 1
            builder = SessionBuilder(f"{name}, {number}", NAME)
        elif block.kind == "typed" and plan and block.text.split() == plan.split():
            # The architect's plan, which aider hands to the editor in the user's place.
            builder.user(Content(block.text), notice=True)
            asked = editor
        elif block.kind == "typed" and (request := _request(block.text)):
            builder.user(Content(request))
        elif match := _MODEL.match(block.text):
            editor = match[2]
            model = model if match[1] == "Editor " else editor
        elif block.kind == "printed" and block.text.startswith("# "):
            # Why an edit failed, or output of the linter or the tests, which aider sends to the model.
            builder.user(Content(block.text), notice=True)
    if answer is not None:
        _answer(builder, answer, asked or model)
    yield builder.build()


def _answer(
    builder: SessionBuilder,
    answer: _Passage,
    model: str | None,
    usage: CallUsage | None = None,
    cost: float | None = None,
) -> None:
    # aider names models as LiteLLM does, with the provider in front.
    provider, slash, name = (model or "").partition("/")
    if not slash:
        provider, name = "", provider
    parts = [Part(Kind.TEXT, answer.text)]
    builder.answer(parts, usage=usage, model=name or None, line=answer.line, provider=provider, cost=cost)


def _request(typed: str) -> str:
    """Return a person's words to the model; empty for a command of aider."""
    if not typed.startswith("/"):
        return typed
    command, _, request = typed.partition(" ")
    return request.strip() if command in _ASKING else ""


def _usage(printed: str) -> CallUsage | None:
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
