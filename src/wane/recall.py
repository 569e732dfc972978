"""The tool `recall`: the exact content of an episode, page by page, or excerpts around a pattern in the history.

For a task it returns what came of it and the names of its episodes and tasks, which can be recalled in turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wane.core import RECALL, ContextWindow, Episode, Kind
from wane.core.errors import UnknownEpisodeError
from wane.formats.message_format import Part, readable
from wane.search import MOST_IN_A_TEXT, SearchResult, TextMatches, search

RECALL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the episode to read again."},
        "search": {
            "type": "string",
            "description": "Text or regular expression to look for, in the whole conversation or in the episode named.",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "Where to go on: characters to skip or, of a search, places; 0 if left out.",
        },
    },
    "additionalProperties": False,
}
"""JSON schema of the arguments of `recall`."""

RECALL_DESCRIPTION: Final = (
    "Read again, exactly, what has left your context window: one of your episodes by its `name`, or excerpts from "
    "wherever a `search` is found in this conversation. Long answers come in pages; the end of a page says how to get "
    "the next."
)
"""What the model reads about `recall`."""

PAGE_SHARE: Final = 0.1
"""Share of the budget that one page of a recall may take."""

_MIN_PAGE: Final = 400
_EXCERPT: Final = 700  # characters, at most
_LEAST_EXCERPT: Final = 200
_MOST_PLACES: Final = 8  # on a page
_LONGEST: Final = 1_000  # characters of a search
_SHORT: Final = 100  # characters shown of a call's arguments
_CHARS_PER_TOKEN: Final = 4


def page_size(budget: int) -> int:
    """Return the number of characters of a page, for a budget in tokens."""
    return max(_MIN_PAGE, int(budget * PAGE_SHARE) * _CHARS_PER_TOKEN)


def page(name: str, text: str, offset: int, budget: int, *, what: str = "Episode") -> str:
    """Return a page of an episode's content, with a heading, and at its end the call for the next page.

    Args:
        name: name of the episode.
        text: all of its content.
        offset: first character of the page.
        budget: tokens that the view may hold.
        what: word for it in the heading.
    """
    quoted = _json(name)
    if not 0 <= offset < max(1, len(text)):
        return f"{what} {quoted} has {len(text)} characters; offset {offset} is outside it. Begin with offset 0."
    stop = min(len(text), offset + page_size(budget))
    if offset == 0 and stop == len(text):
        return f"{what} {quoted}, whole:\n\n{text}"
    head = f"{what} {quoted}, characters {offset} to {stop} of {len(text)}:"
    if stop == len(text):
        return f"{head}\n\n{text[offset:stop]}\n\n[End of the {what.lower()}.]"
    call = {"name": name, "offset": stop}
    return f"{head}\n\n{text[offset:stop]}\n\n[There is more. Go on with: {_json(call)}]"


@dataclass(frozen=True, slots=True)
class Archive:
    """A whole history for recalls: items by index, evicted or not.

    Attributes:
        window: the history's window; it may have taken in more items since.
        budget: tokens that the view may hold, by our own count, which pages are measured by.
        parts: the items with their content; an item without content is an empty text.
        episodes: all episodes so far.
        message: returns the ordinal of an item's message.
        messages: number of messages.
        visible: returns the items in view.
    """

    window: ContextWindow
    budget: int
    parts: Sequence[Part]
    episodes: Sequence[Episode]
    message: Callable[[int], int]
    messages: int
    visible: Callable[[], Collection[int]]

    def members(self, name: str) -> list[int]:
        """Return the items of a named episode, in order; of a task, with those of all that it holds.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        indexes: set[int] = set()
        for span in self.window.members(name):
            indexes.update(span)
        task = self._task(name)
        if task is not None:
            for episode in self.episodes:
                if any(around.number == task.number for around in episode.lineage()):
                    indexes.update(_members(episode))
        return sorted(index for index in indexes if index < len(self.parts))

    def texts(self) -> list[str]:
        """Return the text of each item for searches; empty for calls of `recall` and their results."""
        texts: list[str] = []
        unanswered: set[str | None] = set()  # ids of calls of `recall` without a result yet
        for part in self.parts:
            text = _searched_text(part)
            if part.tool == RECALL:
                unanswered.add(part.call_id)
                text = ""
            elif unanswered and part.kind is Kind.RESULT and part.call_id in unanswered:
                unanswered.remove(part.call_id)
                text = ""
            texts.append(text)
        return texts

    def read(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, evicted or not; of a task, what came of it and what it holds.

        Args:
            name: name of the episode or task.
            offset: first character of the page.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        if (task := self._task(name)) is not None:
            return page(name, self._contents(task), offset, self.budget, what="Task")
        return page(name, "\n\n".join(self._blocks(self.members(name))), offset, self.budget)

    def find(self, pattern: str, offset: int = 0, name: str | None = None) -> str:
        """Return excerpts around a pattern with their places: first from what has left the view, the latest first.

        Args:
            pattern: text, or a regular expression that is matched line by line.
            offset: number of places to skip.
            name: the episode to look in; None for the whole history.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        texts = self.texts()
        visible = set(self.visible())
        members = list(range(len(texts))) if name is None else self.members(name)
        latest_first = members[::-1]
        order = [index for index in latest_first if index not in visible]
        order += [index for index in latest_first if index in visible]
        result = search(pattern, texts, order)
        room = page_size(self.budget)
        matches = result.matches(texts, offset, offset + min(_MOST_PLACES, room // _LEAST_EXCERPT))
        if not matches:
            return _nothing(pattern, result, offset)
        size = room // len(matches)
        entries: list[str] = []
        for number, match in enumerate(matches, offset + 1):
            location = self._location(match, visible=match.index in visible)
            entries.append(f"{number}. {location}\n{_excerpt(texts[match.index], match, size)}")
        next_offset = offset + len(matches)
        remaining = len(result.indexes) - next_offset
        if remaining:
            arguments = {"search": pattern} if name is None else {"name": name, "search": pattern}
            next_call = _json({**arguments, "offset": next_offset})
            entries.append(f"[{remaining} more. Go on with: {next_call}]")
        return "\n\n".join([_heading(pattern, result), *entries])

    def _task(self, name: str) -> Episode | None:
        for episode in self.episodes:
            if episode.is_task and episode.name == name:
                return episode
        return None

    def _contents(self, task: Episode) -> str:
        """Return what came of a task, and a line for each of its episodes and tasks."""
        state = "Ended" if task.closed else "Open"
        if task.abandoned:
            state = "Abandoned"
        lines: list[str] = []
        for episode in self.episodes:
            if episode.name is not None and episode.task is not None and episode.task.number == task.number:
                description = f": {episode.description}" if episode.description else ""
                lines.append(f"- {episode.type} {_json(episode.name)}{description}")
        head = f"{state}. {task.description or ''}".rstrip()
        return "\n".join([head, "Recall what it holds by name:" if lines else "It holds no episode.", *lines])

    def _blocks(self, indexes: Iterable[int]) -> list[str]:
        parts = [self.parts[index] for index in indexes]
        # A format may give a signature as a part of its own, without text.
        return [readable(part) for part in parts if part.text or part.kind in (Kind.CALL, Kind.RESULT)]

    def _location(self, match: TextMatches, *, visible: bool) -> str:
        """Say where an item is, and how to read on around it."""
        index = match.index
        details = [f"Message {self.message(index) + 1} of {self.messages}", self._role(index)]
        owners = [episode for episode in self.episodes if episode.owns(index)]
        episode = owners[0] if owners else None
        if episode is not None and episode.name is not None:
            details.append(f"in {'task' if episode.is_task else 'episode'} {_json(episode.name)}")
        details.append("in view" if visible else "not in view")
        if match.count > 1:
            most = "at least " if match.count == MOST_IN_A_TEXT else ""
            details.append(f"{most}{match.count} matches")
        location = ", ".join(details)
        if episode is None or episode.name is None or episode.is_task:
            return f"{location}:"
        around = {"name": episode.name, "offset": self._offset(episode, match)}
        return f"{location}; read on there with {_json(around)}:"

    def _role(self, index: int) -> str:
        """Say what an item is."""
        part = self.parts[index]
        if part.kind is Kind.CALL:
            return f"call of `{part.tool}`"
        if part.kind is not Kind.RESULT:
            return {Kind.USER: "the user", Kind.SYSTEM: "system"}.get(part.kind, str(part.kind))
        for before in range(index - 1, -1, -1):
            call = self.parts[before]
            if call.kind is Kind.CALL and call.call_id == part.call_id:
                return f"result of `{call.tool}` {_short(call.arguments or '')}".rstrip()
        return "result"

    def _offset(self, episode: Episode, match: TextMatches) -> int:
        """Return the position of a match in the text that a recall of its episode returns."""
        blocks = self._blocks(index for index in _members(episode) if index <= match.index)
        before = sum(len(block) + 2 for block in blocks[:-1])
        part = self.parts[match.index]
        return before + len(readable(part)) - len(_searched_text(part)) + match.start


def answer(arguments: str, archive: Archive) -> str:
    """Return the result of a `recall` call. If the arguments are wrong, the result shows a right call.

    Args:
        arguments: the raw JSON arguments, as the model wrote them.
        archive: the history.
    """
    try:
        options = json.loads(arguments)
    except (ValueError, RecursionError):
        options = None
    name, pattern = _field(options, "name"), _field(options, "search")
    if name is None and pattern is None:
        return (
            "Error: `recall` needs the name of an episode, or a text to search for. "
            'Right calls: {"name": "my-episode"}, {"search": "connection refused"}'
        )
    if pattern is not None and len(pattern) > _LONGEST:
        return f"Error: a search has at most {_LONGEST} characters, and this one {len(pattern)}. Look for a part of it."
    offset = options.get("offset")
    if offset is not None and (isinstance(offset, bool) or not isinstance(offset, int)):
        right = {"search": pattern} if name is None else {"name": name}
        return f'Error: "offset" must be a whole number. A right call: {_json({**right, "offset": 0})}'
    try:
        if pattern is not None:
            return archive.find(pattern, max(0, offset or 0), name)
        assert name is not None
        return archive.read(name, offset or 0)
    except UnknownEpisodeError as error:
        return f"Error: {error}"


def _field(options: object, key: str) -> str | None:
    value = options.get(key) if isinstance(options, Mapping) else None
    if not isinstance(value, str) or not value.strip():
        return None
    # A pattern may begin or end with a space; a name is stripped.
    return value if key == "search" else value.strip()


def _members(episode: Episode) -> list[int]:
    return [index for first, stop in episode.spans for index in range(first, stop)]


def _searched_text(part: Part) -> str:
    return (part.arguments or "") if part.kind is Kind.CALL else part.text


def _count(result: SearchResult) -> str:
    count = len(result.indexes)
    return "1 place" if count == 1 else f"{count} places"


def _heading(pattern: str, result: SearchResult) -> str:
    sentences = [f"{_json(pattern)} was found in {_count(result)}."]
    if len(result.indexes) > 1:
        sentences.append("What has left your view comes first, the latest first.")
    if result.plain:
        sentences.append(f"Searched as plain text: {result.plain}.")
    if result.any_case:
        sentences.append("Case is ignored.")
    if not result.complete:
        sentences.append("The search was cut short because it takes too long; be more exact.")
    return " ".join(sentences)


def _nothing(pattern: str, result: SearchResult, offset: int) -> str:
    if result.indexes:
        return f"{_json(pattern)} was found in {_count(result)}; offset {offset} is beyond them. Begin with offset 0."
    where = "in this conversation" if result.complete else "in the part searched before it took too long"
    plain = f" It was searched as plain text: {result.plain}." if result.plain else ""
    return f"Nothing matches {_json(pattern)} {where}, with or without case.{plain} Try a shorter text."


def _excerpt(text: str, match: TextMatches, size: int) -> str:
    """Return a match with its surroundings, in whole lines if they are short enough."""
    size = min(_EXCERPT, size)
    room = max(0, size - (match.stop - match.start))
    start = max(0, match.start - room // 3)
    stop = min(len(text), start + size)
    if start and (newline := text.find("\n", start, match.start)) >= 0:
        start = newline + 1
    if stop < len(text) and (newline := text.rfind("\n", match.stop, stop)) >= 0:
        stop = newline
    if start == 0 and stop == len(text):
        return text
    return f"[characters {start} to {stop} of {len(text)}]\n{text[start:stop]}"


def _short(arguments: str) -> str:
    line = " ".join(arguments.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
