"""The demo's model looks in a request for the newest text that satisfies a need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wane.core import DELIMITER
from wane.scripted.demo.moves import Definition, Fact, Need
from wane.scripted.sight import Seen, Sight

_AT: Final = re.compile(r"(\d*)([?!]*)")
_NUMBERED: Final = re.compile(r" *\d+\t")


@dataclass(frozen=True, slots=True)
class Position:
    """The model's position in its plan, as it states it at the beginning of each reply.

    Attributes:
        task: number of the task, from 1.
        step: number of the step, from 1; 0 before the first.
        detour: "" for the step itself, "!" after a corrected call, and a "?" for each lookup that the step needed.
    """

    task: int
    step: int = 0
    detour: str = ""

    def __str__(self) -> str:
        return f"{self.task}.{self.step}{self.detour}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The text that satisfies a need.

    Attributes:
        text: the text of a block or line, or the match of a fact's pattern.
        call_id: the call that showed it.
        described: whether the text is in the description of an exploration.
    """

    text: str
    call_id: str
    described: bool = False


def position_in(sight: Sight) -> Position:
    """Return the model's position by its own words; task 0 if it sees none."""
    match = _AT.fullmatch(sight.at)
    return Position(sight.number, int(match[1] or 0), match[2]) if match else Position(0)


def find(sight: Sight, need: Need) -> Finding | None:
    """Return the newest text in view that satisfies a need."""
    for call in reversed(sight.seen):
        if (text := _answer(need, call)) is not None:
            return Finding(text, call.call_id, described=call.tool == DELIMITER)
    return None


def knows_episode(sight: Sight, name: str) -> bool:
    """Whether an episode's name is in view, so that the model can recall it."""
    marks = (f"{call.raw} {call.result}" for call in sight.seen if call.tool == DELIMITER)
    return "recall" in sight.tools and any(f'"{name}"' in mark for mark in marks)


def _answer(need: Need, call: Seen) -> str | None:
    if isinstance(need, Fact):
        return _fact(need, call)
    texts = list(_texts(call, need.path))
    if isinstance(need, Definition):
        return next((text for written in texts if (text := _block(written, need.anchor)) is not None), None)
    if call.tool in ("grep", "search_files") and call.result is not None:
        texts += re.findall(rf"^{re.escape(need.path)}:\d+:(.*)", call.result, re.MULTILINE)
    return need.text if any(f"\n{need.text}\n" in f"\n{text}\n" for text in texts) else None


def _fact(need: Fact, call: Seen) -> str | None:
    # A call that names an episode is about that episode, whatever the reply says besides.
    named = call.arguments.get("name")
    if need.episode and named != need.episode and (named is not None or need.episode not in call.words):
        return None
    texts = [_plain(call), *_written(call), str(call.arguments.get("description", ""))]
    matches = (re.search(need.pattern, text, re.MULTILINE) for text in texts)
    return next((match[1] for match in matches if match), None)


def _texts(call: Seen, path: str) -> Iterator[str]:
    """The pieces of a file that a call shows."""
    if call.result is None or call.path != path:
        return
    if call.tool == "read_file":
        yield _plain(call)
    elif call.edited:
        yield from reversed(_written(call))


def _plain(call: Seen) -> str:
    """The result of a call; for a file, without its header and line numbers."""
    if call.tool != "read_file" or call.result is None:
        return call.result or ""
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in call.result.splitlines()[1:])


def _written(call: Seen) -> list[str]:
    """The texts that a call wrote into a file."""
    arguments = call.arguments
    replaced = [str(entry["new_text"]) for entry in arguments.get("replacements") or []]
    return [*replaced, *(str(arguments[name]) for name in ("new_text", "content") if name in arguments)]


def _block(text: str, anchor: str) -> str | None:
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if line.lstrip().startswith(anchor):
            indent = len(line) - len(line.lstrip())
            stop = start + 1
            while stop < len(lines) and (not lines[stop].strip() or _indent(lines[stop]) > indent):
                stop += 1
            return "\n".join(lines[start:stop]).rstrip()
    return None


def _indent(line: str) -> int:
    # A closing bracket belongs to the definition that it closes.
    return 1_000 if line.lstrip().startswith((")", "]", "}")) else len(line) - len(line.lstrip())
