"""A scripted model's view: the messages of one request, and nothing else. Evicted content is not in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.formats.notices import INDEX_CLOSING, INDEX_OPENING
from wane.testing import Part, Request

_TASK: Final = re.compile(r"^Task (\d+)\.", re.MULTILINE)
_PLACE: Final = re.compile(r"(\d+)\.(\S+) ")
_NOTED: Final = re.compile(r"^I am at (\d+)\.(\S+) ", re.MULTILINE)
"""Where the model was, by its own summary."""

_NOTE: Final = "<"


@dataclass(frozen=True, slots=True)
class Heard:
    """Words of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """Words of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A call with its result, if that is in view.

    Attributes:
        raw: its arguments, as JSON text.
        result: its result; None if it has none.
        words: the model's words in the same reply.
        latest: whether it belongs to the latest reply.
    """

    call_id: str
    tool: str
    raw: str
    result: str | None
    words: str
    latest: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments; empty if they are no JSON object."""
        return _arguments(self.raw)

    @property
    def path(self) -> str:
        """The file in its arguments, if any."""
        return str(self.arguments.get("path", ""))

    @property
    def edited(self) -> bool:
        """Whether it changed a file."""
        return self.result is not None and self.result.startswith(("Edited ", "Wrote ", "Created "))


SightEntry: TypeAlias = Heard | Said | Seen


class Sight:
    """A request, as a scripted model reads it.

    A model begins each reply with its place in its plan, such as `9.look` or `3.5?`: the task's number and what it is
    at. It knows its place only from there, and from the user's latest task.

    Attributes:
        tools: names of the tools that it may call.
        entries: words, calls and results, in order.
        seen: the calls among them.
        tried: the calls since the latest task was given.
        number: number of its present task; 0 if it sees none.
        at: its place in that task, by its own latest words; "" if it has not begun.
        words: those words, without the place.
    """

    def __init__(self, request: Request) -> None:
        self.tools = frozenset(request.tools)
        self.entries = tuple(_entries(request))
        self.seen = [entry for entry in self.entries if isinstance(entry, Seen)]
        self.tried: list[Seen] = []
        self.number = 0
        self.at = self.words = ""
        for entry in self.entries:
            if isinstance(entry, Seen):
                self.tried.append(entry)
            elif isinstance(entry, Said):
                if match := _PLACE.match(entry.text):
                    self.number, self.at, self.words = int(match[1]), match[2], entry.text[match.end() :]
            elif tasks := _TASK.findall(entry.text):
                self.number, self.at, self.words, self.tried = int(tasks[-1]), "", "", []
                if (noted := _NOTED.search(entry.text)) and int(noted[1]) == self.number:
                    self.at = noted[2]

    @property
    def latest(self) -> list[Seen]:
        """The calls of the latest reply."""
        return [call for call in self.seen if call.latest]


def asks_for_summary(request: Request) -> bool:
    """Whether a request asks for a summary: unlike a step of the work, it offers no tools."""
    return not request.tools


def is_note(part: Part) -> bool:
    """Whether a part is a note for one request, such as the git status: it is in no history and no part of the view."""
    if part.text.startswith(INDEX_OPENING):
        return False  # an index stays in the view until the next pass
    return part.kind is Kind.NOTICE or (part.kind is Kind.USER and part.text.startswith(_NOTE))


def words_of(part: Part) -> str:
    """Return what the user said in a part; "" for nothing. An index may stand ahead of it in one text."""
    if part.kind is not Kind.USER or is_note(part):
        return ""
    return part.text.partition(INDEX_CLOSING)[2].strip() if part.text.startswith(INDEX_OPENING) else part.text


def view_tokens(request: Request) -> int:
    """Return the tokens of a request without its notes."""
    return request.tool_tokens + sum(part.tokens for part in request.parts if not is_note(part))


def _entries(request: Request) -> Iterator[SightEntry]:
    results = request.results
    last = next((m for m in reversed(request.messages) if m.role == "assistant"), None)
    for message in request.messages:
        text = " ".join(part.text for part in message.parts if part.kind is Kind.TEXT)
        for part in message.parts:
            if words := words_of(part):
                yield Heard(words)
            elif part.kind is Kind.TEXT:
                yield Said(part.text)
            elif part.kind is Kind.CALL:
                result = results.get(part.call_id or "")
                yield Seen(part.call_id or "", part.tool or "", part.text, result, text, message is last)


# The same calls are read again in every request that shows them.
@lru_cache(maxsize=20_000)
def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text or "{}")
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
