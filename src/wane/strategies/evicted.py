"""What has left the view, and the index that tells the model of it (R20).

No model writes it: it is put together from the files, commands and names of the items that left.
"""

from __future__ import annotations

import marshal
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

from wane.core import DELIMITER, Added, Counter, Episode, Kind, Mark, chars
from wane.core.items import ASSISTANT
from wane.formats.message_format import Part
from wane.formats.notices import INDEX_CLOSING, INDEX_OPENING
from wane.identifiers import candidates, is_identifier, spoken
from wane.strategies.host import without_tags
from wane.tools.calls import command_of, judge_call
from wane.tools.judgement import Activity

_RECALLED: Final = "; `recall` brings it back, by an episode's name (in brackets here) or by a search"

_LONGEST_NAME: Final = 120  # characters
_LONGEST_COMMAND: Final = 60
_LONGEST_DESCRIPTION: Final = 160
# How much of what has left is kept in memory; no index has room for more.
_MOST_NAMES: Final = 4_096
_MOST_TOPICS: Final = 1_024
_OUTCOME: Final = re.compile(r"(?:exit(?:ed)?(?: with)?|return)[ _-]?(?:code|status)?\W{0,3}(\d{1,3})\b", re.IGNORECASE)
_FRAME: Final = re.compile(r"</?system-reminder>|[\n\r]")
_ENDS: Final = 200  # characters of a result in which its exit code may stand, at either end
_UNPACKED: Final = 16 * 1024  # bytes of content that are worth it to be packed
_ITEM: Final = 512  # bytes that an item takes besides its content


class IndexLine(NamedTuple):
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
class _Topic:
    """A file that was changed or read, a command that ran, or a description.

    Attributes:
        heading: the heading of its lines.
        text: the path, the command, or the description.
        visible: number of items in view that it is about.
        latest: the latest such item that has left the view; -1 if none has.
        handle: name of that item's episode, if the agent gave it.
        outcome: how the command ended at last, as far as its result tells.
        ended: the call that ended so.
    """

    heading: str
    text: str
    visible: int = 0
    latest: int = -1
    handle: str = ""
    outcome: str = ""
    ended: int = -1

    def line(self) -> IndexLine:
        """Its line."""
        text = f"{self.text}: {self.outcome}" if self.outcome else self.text
        return IndexLine((True, self.latest), self.heading, text, self.handle)


@dataclass(slots=True, eq=False)
class _Entry:
    """What the index may say of an item in view once it leaves."""

    names: Sequence[_Name]
    episode: Episode | None
    topics: list[_Topic] = field(default_factory=list)


class _Packed(NamedTuple):
    """Items in a row, in little memory.

    Attributes:
        first: the index of the first.
        content: what the index may need of their content, compressed.
        episodes: the episode of each.
        marked: how those were added that are more than a part of an episode, by index.
    """

    first: int
    content: bytes
    episodes: Sequence[Episode | None]
    marked: dict[int, Added]

    @classmethod
    def of(cls, items: Sequence[tuple[Part, Added]]) -> _Packed:
        """Pack items."""
        rows = [(part.kind.value, part.text, part.call_id, part.tool, part.arguments) for part, _ in items]
        marked = {added.index: added for _, added in items if added.marks or added.verdict is not None}
        # Not JSON, which has no lone surrogates.
        content = zlib.compress(marshal.dumps(rows), 1)
        return cls(items[0][1].index, content, [added.episode for _, added in items], marked)

    def items(self) -> Iterator[tuple[Part, Added]]:
        """Yield the items."""
        rows = marshal.loads(zlib.decompress(self.content))  # noqa: S302 - our own bytes, which never leave memory
        for index, (row, episode) in enumerate(zip(rows, self.episodes, strict=True), self.first):
            kind, text, call_id, tool, arguments = row
            part = Part(Kind(kind), text, call_id, tool, arguments)
            yield part, self.marked.get(index) or Added(index, episode)


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
        # Items that were not looked at yet: first those that are packed.
        self._packed: list[_Packed] = []
        self._pending: list[tuple[Part, Added]] = []
        self._gone: list[int] = []  # items that have left, likewise
        self._names: dict[str, _Name] = {}
        self._entries: dict[int, _Entry] = {}
        self._calls: dict[str, tuple[int, _Entry]] = {}  # without a result, by id
        self._left: dict[str, _Name] = {}
        self._topics: dict[tuple[str, str], _Topic] = {}

    def add(self, part: Part, added: Added) -> None:
        """Take in the next item of the history. It is looked at when something leaves, which may never happen."""
        self._pending.append((part, added))

    def pack(self) -> None:
        """Compress the content of items that were not looked at yet, if there is enough of it.

        To a fifth: this takes time, and saves memory if nobody else keeps their content.
        """
        size = sum(_ITEM + len(part.text) + len(part.arguments or "") for part, _ in self._pending)
        if size >= _UNPACKED:
            self._packed.append(_Packed.of(self._pending))
            self._pending = []

    def _look_at(self, part: Part, added: Added) -> None:
        index, own = added.index, part.kind in ASSISTANT
        for mark in added.marks:
            self._describe(mark)
        described = any(mark.action == "describe" for mark in added.marks)
        names = self._names_in(replace(part, text=without_tags(part.text)) if described else part)
        for name in names:
            name.visible += 1
            name.latest = index
            if own:
                name.used = index
            self._left.pop(name.text, None)
        if part.kind in (Kind.SYSTEM, Kind.USER):
            return
        entry = self._entries[index] = _Entry(names, added.episode)
        if part.tool == DELIMITER:
            closed = added.closed if added.verdict is not None else None
            if closed is not None and closed.description:
                entry.topics = [self._topic(_topic_of(str(closed.name), closed.description))]
        elif part.kind is Kind.CALL:
            entry.topics = [*map(self._topic, _about(part))]
            self._calls[part.call_id or ""] = index, entry
        elif part.kind is Kind.RESULT and (call := self._calls.pop(part.call_id or "", None)) is not None:
            called, ended = call
            for topic in ended.topics:
                if topic.heading == "Ran" and called > topic.ended:
                    topic.ended, topic.outcome = called, _outcome(part.text)
        for topic in entry.topics:
            topic.visible += 1

    def _describe(self, mark: Mark) -> None:
        """Note the description with which a host ends an exploration or a task, at the item that holds it (R18)."""
        entry = None if mark.closing is None else self._entries.get(mark.closing)
        if entry is not None and mark.description:
            topic = self._topic(_topic_of(mark.name, mark.description))
            topic.visible += 1
            entry.topics.append(topic)

    def note_gone(self, indexes: Iterable[int]) -> None:
        """Note that items had left the view before a restart. They are looked at when something else leaves."""
        self._gone += indexes

    def leave(self, indexes: Iterable[int]) -> None:
        """Note that items have left the view."""
        pending = [*chain.from_iterable(map(_Packed.items, self._packed)), *self._pending]
        self._packed, self._pending = [], []
        for part, added in pending:
            self._look_at(part, added)
        leaving, self._gone = sorted([*self._gone, *indexes]), []
        for index in leaving:
            entry = self._entries.pop(index, None)
            if entry is None:
                continue
            episode = entry.episode
            handle = "" if episode is None or episode.name is None or episode.inferred else episode.name
            for topic in entry.topics:
                topic.visible -= 1
                if index > topic.latest:
                    topic.latest, topic.handle = index, handle
            for name in entry.names:
                name.visible -= 1
                if not name.visible:
                    self._left[name.text] = name
        if len(self._left) > 2 * _MOST_NAMES:
            for name in sorted(self._left.values(), key=_rank)[:-_MOST_NAMES]:
                del self._left[name.text], self._names[name.text]
        if len(self._topics) > 2 * _MOST_TOPICS:
            gone = sorted((topic for topic in self._topics.values() if not topic.visible), key=_Topic.line)
            for topic in gone[:-_MOST_TOPICS]:
                del self._topics[topic.heading, topic.text]

    def lines(self) -> list[IndexLine]:
        """Return all lines of the index: what the agent used ahead of what it only saw, and the latest first.

        A path, command or description that would end the index or a line of it is left out.
        """
        left = [topic for topic in self._topics.values() if not topic.visible and not _FRAME.search(topic.text)]
        changed = {topic.text for topic in left if topic.heading == "Changed"}
        listed = [topic for topic in left if topic.heading != "Read" or topic.text not in changed]
        files = {topic.text for topic in listed}
        names = [IndexLine(_rank(name), "Names", text) for text, name in self._left.items() if text not in files]
        return sorted([*map(_Topic.line, listed), *names], reverse=True)

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

    def _text(self, lines: Sequence[IndexLine]) -> str:
        by_heading: dict[str, list[str]] = {}
        for line in lines:
            handle = f" [{line.handle}]" if line.handle and self._recall and line.heading != "Learned" else ""
            by_heading.setdefault(line.heading, []).append(f"{line.text}{handle}")
        body = "".join(
            f"\n{heading}: {separator.join(by_heading[heading])}"
            for heading, separator in _HEADINGS.items()
            if heading in by_heading
        )
        return f"{INDEX_OPENING}{_RECALLED if self._recall else ''}.{body}{INDEX_CLOSING}"

    def _topic(self, about: tuple[str, str]) -> _Topic:
        """The topic of a heading and a text; a new one is made."""
        topic = self._topics.get(about)
        if topic is None:
            topic = self._topics[about] = _Topic(*about)
        return topic

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


def _topic_of(name: str, description: str) -> tuple[str, str]:
    """The topic of the description of an exploration or a task."""
    return "Learned", f"{name}: {_cut(description, _LONGEST_DESCRIPTION)}"


def _about(call: Part) -> Iterator[tuple[str, str]]:
    """What a call is about: headings and texts."""
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
    """The first line of a text, cut to `length` characters."""
    line = text.partition("\n")[0]
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _outcome(text: str) -> str:
    match = _OUTCOME.search(f"{text[:_ENDS]}\n{text[-_ENDS:]}")
    return f"exit {match[1]}" if match else ""
