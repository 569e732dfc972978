"""What has left the view, and the index that tells the model of it (R20).

No model writes it: it is put together from the files, commands and names of the items that left.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wane.core import DELIMITER, Added, Counter, Episode, Item, Kind, chars
from wane.core.items import ASSISTANT
from wane.formats.base import Part
from wane.identifiers import candidates, is_identifier, spoken
from wane.tools.calls import command_of, judge_call
from wane.tools.judgement import Activity

OPENING: Final = "<system-reminder>\nThis has left your context window"
"""How an index begins."""

CLOSING: Final = "\n</system-reminder>"
"""How it ends."""

_RECALLED: Final = "; `recall` brings it back, by an episode's name (in brackets here) or by a search"

_LONGEST_NAME: Final = 120  # characters
_LONGEST_COMMAND: Final = 60
_LONGEST_DESCRIPTION: Final = 160
# Of those that have left, to be kept in memory; no index has room for more.
_MOST_NAMES: Final = 4_096
_MOST_LINES: Final = 1_024
_OUTCOME: Final = re.compile(r"(?:exit(?:ed)?(?: with)?|return)[ _-]?(?:code|status)?\W{0,3}(\d{1,3})\b", re.IGNORECASE)
_ENDS: Final = 200  # characters of a result in which its exit code may stand, at either end


class Line(NamedTuple):
    """A line of the index.

    Attributes:
        rank: what comes first, as a key for sorting; see `Evicted.lines`.
        heading: what the line is about.
        text: its text.
        handle: name of the episode by which it can be recalled; empty if it can be found by a search alone.
    """

    rank: tuple[bool, int]
    heading: str
    text: str
    handle: str = ""


@dataclass(slots=True, eq=False)
class _Name:
    """A name in the history.

    Attributes:
        text: the name.
        visible: number of items in view that hold it.
        latest: the latest item that holds it.
        used: the latest item of the model that holds it; -1 if it has not used it.
    """

    text: str
    visible: int = 0
    latest: int = -1
    used: int = -1


@dataclass(slots=True, eq=False)
class _Entry:
    """What the index may say of an item in view once it leaves."""

    names: Sequence[_Name]
    episode: Episode | None
    lines: list[tuple[str, str]] = field(default_factory=list)


class Evicted:
    """Follows which names, files and commands the view of a history holds.

    It keeps no content but those of items in view, and the names that left last.

    Args:
        counter: counts the tokens of the index.
        recall: whether the model can recall what has left.
    """

    def __init__(self, counter: Counter = chars, *, recall: bool = False) -> None:
        self._counter = counter
        self._recall = recall
        self._pending: list[tuple[Item, Part, Added]] = []  # not looked at yet
        self._names: dict[str, _Name] = {}
        self._entries: dict[int, _Entry] = {}
        self._calls: dict[str, _Entry] = {}  # without a result, by id
        self._left: dict[str, _Name] = {}
        self._lines: dict[tuple[str, str], Line] = {}

    def add(self, item: Item, part: Part, added: Added) -> None:
        """Take in the next item of the history. It is looked at when something leaves, which may never happen."""
        self._pending.append((item, part, added))

    def _look_at(self, item: Item, part: Part, added: Added) -> None:
        index, own = added.index, item.kind in ASSISTANT
        names = self._names_in(part)
        for name in names:
            name.visible += 1
            name.latest = index
            if own:
                name.used = index
            self._left.pop(name.text, None)
        if item.kind in (Kind.SYSTEM, Kind.USER):
            return
        entry = self._entries[index] = _Entry(names, added.episode)
        if item.tool == DELIMITER:
            entry.lines = [*_learned(added)]
        elif item.kind is Kind.CALL:
            entry.lines = [*_lines(part)]
            for line in entry.lines:
                self._lines.pop(line, None)
            self._calls[item.call_id or ""] = entry
        elif item.kind is Kind.RESULT and (call := self._calls.pop(item.call_id or "", None)) is not None:
            outcome = _outcome(part.text)
            call.lines = [
                (heading, f"{text}: {outcome}" if heading == "Ran" and outcome else text)
                for heading, text in call.lines
            ]

    def leave(self, indexes: Iterable[int]) -> None:
        """Note that items have left the view."""
        for pending in self._pending:
            self._look_at(*pending)
        self._pending.clear()
        for index in sorted(indexes):
            entry = self._entries.pop(index, None)
            if entry is None:
                continue
            episode = entry.episode
            handle = "" if episode is None or episode.name is None or episode.inferred else episode.name
            for heading, text in entry.lines:
                self._lines.pop((heading, text), None)
                self._lines[heading, text] = Line((True, index), heading, text, handle)
            for name in entry.names:
                name.visible -= 1
                if not name.visible:
                    self._left[name.text] = name
        if len(self._left) > 2 * _MOST_NAMES:
            for name in sorted(self._left.values(), key=_rank)[:-_MOST_NAMES]:
                del self._left[name.text], self._names[name.text]
        if len(self._lines) > 2 * _MOST_LINES:
            for line in sorted(self._lines.values())[:-_MOST_LINES]:
                del self._lines[line.heading, line.text]

    def lines(self) -> list[Line]:
        """Return all lines of the index: what the agent used ahead of what it only saw, and the latest first."""
        changed = {line.text for line in self._lines.values() if line.heading == "Changed"}
        listed = [line for line in self._lines.values() if line.heading != "Read" or line.text not in changed]
        files = {line.text for line in listed}
        names = [Line(_rank(name), "Names", text) for text, name in self._left.items() if text not in files]
        return sorted([*listed, *names], reverse=True)

    def write(self, limit: int) -> tuple[str, int] | None:
        """Return the longest index that holds at most `limit` tokens, with its tokens; None if there is none."""
        lines = self.lines()[:limit]
        count = bisect_right(
            range(1, len(lines) + 1), limit, key=lambda count: self._counter(self._text(lines[:count]))
        )
        if not count:
            return None
        text = self._text(lines[:count])
        return text, self._counter(text)

    def _text(self, lines: Sequence[Line]) -> str:
        by_heading: dict[str, list[str]] = {}
        for line in lines:
            handle = f" [{line.handle}]" if line.handle and self._recall and line.heading != "Learned" else ""
            by_heading.setdefault(line.heading, []).append(f"{line.text}{handle}")
        body = "".join(
            f"\n{heading}: {separator.join(by_heading[heading])}"
            for heading, separator in _HEADINGS.items()
            if heading in by_heading
        )
        return f"{OPENING}{_RECALLED if self._recall else ''}.{body}{CLOSING}"

    def _names_in(self, part: Part) -> list[_Name]:
        """The names in a part, each once; new ones are made."""
        words = {word for text in spoken(part) for stretch in candidates(text) for word in stretch}
        names, by_text = [], self._names
        for word in words:
            if (name := by_text.get(word)) is not None:
                names.append(name)
            elif len(word) <= _LONGEST_NAME and is_identifier(word):
                name = by_text[word] = _Name(word)
                names.append(name)
        return names


_HEADINGS: Final = {"Learned": "; ", "Changed": ", ", "Read": ", ", "Ran": "; ", "Names": ", "}
"""What the entries of each heading are separated by; descriptions and commands may hold commas."""


def _rank(name: _Name) -> tuple[bool, int]:
    return name.used >= 0, max(name.used, name.latest if name.used < 0 else -1)


def _learned(added: Added) -> Iterator[tuple[str, str]]:
    """The description of an exploration, at the call that ended it."""
    episode = added.closed
    if episode is not None and episode.description and added.verdict is not None:
        yield "Learned", f"{episode.name}: {_cut(episode.description, _LONGEST_DESCRIPTION)}"


def _lines(call: Part) -> Iterator[tuple[str, str]]:
    judgement = judge_call(call.tool or "", call.arguments)
    raw = call.arguments or ""
    for heading, paths in (("Changed", judgement.writes), ("Read", judgement.reads)):
        for path in dict.fromkeys(paths):
            # A path that was put together from a directory is no name that the history holds.
            if len(path) <= _LONGEST_NAME and path in raw:
                yield heading, path
    if judgement.activity is Activity.VERIFY and (command := command_of(call.tool or "", call.arguments)):
        yield "Ran", _cut(command.strip(), _LONGEST_COMMAND)


def _cut(text: str, length: int) -> str:
    """The first line of a text, or what of it has at most this many characters."""
    line = text.partition("\n")[0]
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _outcome(text: str) -> str:
    match = _OUTCOME.search(f"{text[:_ENDS]}\n{text[-_ENDS:]}")
    return f"exit {match[1]}" if match else ""
