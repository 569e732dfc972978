"""The summary that a scripted model writes when it is asked for one.

A summary cannot hold everything. This one holds only the newest of the user's tasks, word for word, as many as fit into
`SUMMARY_TOKENS`, and the model's place in its plan. Its cost and its loss follow from that figure, not from a language
model. A shortened tool output keeps the blocks that share the most words with the task.
"""

from __future__ import annotations

import re
from typing import Final

from wane.core import Kind
from wane.strategies.acon import OBSERVATION
from wane.testing import Reply, Request

SUMMARY_TOKENS: Final = 2_000
"""The most tokens of a summary: as many as those of common harnesses have."""

SHARE: Final = 0.5
"""The largest share of its characters that a shortened output keeps."""

_SAID: Final = re.compile(r"^(?:User: )?(Task (\d+)\. .*)$", re.MULTILINE)
_AT: Final = re.compile(r"^(?:Assistant: |I am at )(\d+\.\S+) ", re.MULTILINE)
_WORD: Final = re.compile(r"[A-Za-z_]{4,}")
_BEGINS: Final = re.compile(r"(?: *\d+\t)?\S")
_BEFORE, _AFTER = OBSERVATION.split("{output}")


def summarise(request: Request) -> Reply:
    """Return the summary of a request's content, or the shortened form of the output in it."""
    turns: dict[int, str] = {}
    at = ""
    for part in request.parts:
        if part.kind is Kind.USER:
            if _BEFORE in part.text:
                output, _, messages = part.text.partition(_BEFORE)[2].partition(_AFTER)
                return Reply(_shorten_output(output, messages.rpartition("User: ")[2]))
            turns |= {int(number): text for text, number in _SAID.findall(part.text)}
            at = next(iter(_AT.findall(part.text)[-1:]), at)
    room, recent = 4 * SUMMARY_TOKENS, list[str]()
    for number in sorted(turns, reverse=True):
        room -= len(turns[number]) + 1
        if room < 0:
            break
        recent.append(turns[number])
    progress = [f"I am at {at} of my plan."] if at else []
    return Reply("\n".join(["What the user has asked for:", *reversed(recent), *progress]))


def _shorten_output(output: str, task: str) -> str:
    """The blocks of an output that share the most words with the task, as many as it may keep, in their order.

    A block begins with a line that is not indented: a function or class of a file goes or stays as a whole.
    """
    words = set(_WORD.findall(task.lower()))
    blocks: list[list[str]] = []
    for line in output.splitlines():
        if not blocks or _BEGINS.match(line):
            blocks.append([])
        blocks[-1].append(line)
    named = [len(words.intersection(_WORD.findall("\n".join(block).lower()))) for block in blocks]
    room, chosen = int(len(output) * SHARE), set[int]()
    for index in sorted(range(len(blocks)), key=lambda index: -named[index]):
        size = sum(len(line) + 1 for line in blocks[index])
        if named[index] and size <= room:
            chosen.add(index)
            room -= size
    gone = sum(len(block) for index, block in enumerate(blocks) if index not in chosen)
    lines = [line for index in sorted(chosen) for line in blocks[index]]
    return "\n".join([*lines, f"[{gone} lines left out]"])
