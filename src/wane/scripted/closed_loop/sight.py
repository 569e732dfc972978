"""What the closed loop's model understands of a request: facts, and the user's tasks.

Of two texts that say different things the later one counts, as for a reader; but what the user ordered to be changed
counts as changed once that task is over, whatever was read on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from wane.core import DELIMITER
from wane.scripted import sight as scripted
from wane.scripted.closed_loop.job import Turn, handed_in, turns_in
from wane.scripted.sight import Heard, Seen
from wane.testing import Request

About: TypeAlias = Literal["quota", "exports", "listing", "ticket", "finding", "surcharge"]
"""What a fact is about: the QUOTA or the exports of a path, the modules, the ticket or the highest QUOTA of an area,
the surcharge of a topic."""

Need: TypeAlias = tuple[About, str]
"""A fact that is needed."""

Fact: TypeAlias = tuple[About, str, str]
"""What it is about, of what, and its value."""

_QUOTA: Final = re.compile(r"^(?: *\d+\t)?QUOTA: Final = (\d+)$", re.MULTILINE)
_EXPORTS: Final = re.compile(r"^(?: *\d+\t)?(__all__ = \[.*\])$", re.MULTILINE)
_TICKET: Final = re.compile(r"\bticket for (?:the )?(\w+)(?:: | is )(\d+)")
_FINDING: Final = re.compile(r"The highest QUOTA of the (\w+) is (\d+)")


class Sight(scripted.Sight):
    """A request, as the closed loop's model reads it.

    Args:
        request: the request.

    Attributes:
        facts: what it knows, by need.
        turns: the user's tasks that are in view, by number.
        task: the latest of them; None if there is none.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.facts: dict[Need, str] = {}
        self.turns: dict[int, Turn] = {}
        self.task: Turn | None = None
        self._understand()

    def _understand(self) -> None:
        for entry in self.entries:
            if isinstance(entry, Heard):
                self._hear(entry.text)
            elif isinstance(entry, Seen) and entry.result is not None:
                self.facts |= {(about, of): value for about, of, value in _told(entry.tool, entry.raw, entry.result)}
        if self.task is None or self.task.number != self.number:
            # Its latest words are about a task that it no longer sees.
            self.at = self.words = ""

    def _hear(self, text: str) -> None:
        for area, value in handed_in(text):
            self.facts["ticket", area] = str(value)
        for turn in turns_in(text):
            if self.task and self.task.change is not None:
                self.facts["quota", self.task.target] = str(self.task.change)
            for topic, surcharge in turn.decided:
                self.facts["surcharge", topic] = str(surcharge)
            self.turns[turn.number] = self.task = turn


# The same call and result tell the same, whenever they are in view: so each is read once.
@lru_cache(maxsize=20_000)
def _told(tool: str, call: str, result: str) -> tuple[Fact, ...]:
    return tuple(_facts(Seen("", tool, call, result, "", latest=False)))


def _facts(seen: Seen) -> Iterator[Fact]:
    tool, arguments, result, path = seen.tool, seen.arguments, seen.result or "", seen.path
    if tool == "read_file":
        yield from _of_file(path, result)
    elif tool == "edit_file" and result.startswith("Edited"):
        for entry in arguments.get("replacements") or [arguments]:
            yield from _of_file(path, str(entry.get("new_text", "")))
    elif tool in ("list_files", "find_files"):
        paths = sorted(set(re.findall(r"\bdepot/\w+/[a-z]+\.py\b", result)))
        for area in {found.split("/")[1] for found in paths}:
            yield "listing", area, " ".join(found for found in paths if found.split("/")[1] == area)
    elif tool in ("shell", "recall"):
        yield from (("ticket", area, value) for area, value in _TICKET.findall(result))
    elif tool == DELIMITER:
        description = str(arguments.get("description", ""))
        yield from (("ticket", area, value) for area, value in _TICKET.findall(description))
        yield from (("finding", area, value) for area, value in _FINDING.findall(description))


def _of_file(path: str, text: str) -> Iterator[Fact]:
    for match in _QUOTA.finditer(text):
        yield "quota", path, match[1]
    for match in _EXPORTS.finditer(text):
        yield "exports", path, match[1]
