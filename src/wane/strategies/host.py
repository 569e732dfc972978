"""Marks of the program around the model (R18): by the scopes in which items come, and the calls of sub-agents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wane.core import ContextWindow, Episode, EpisodeType, Item, Kind, Mark
from wane.core.items import ASSISTANT
from wane.formats.message_format import Part

_OUTSIDE: Final = ""  # the scope in which the host has nothing open
_TASK: Final = EpisodeType.TASK
_LONGEST: Final = 500  # characters of a description

OPENING: Final = "<system-reminder>"
CLOSING: Final = "</system-reminder>"
"""Text between them is a notice in every format (R15), as which a host writes a description of its own."""


@dataclass(frozen=True, slots=True)
class HostScope:
    """Work that the host makes an episode or a task.

    Attributes:
        id: tells it from other work of the same name.
        name: the name. If the history has used it before, a number is added.
        type: whether the work explores or acts, or is a task.
        dependencies: for an act, names of the explorations that it builds on; names unknown to the history are left
            out.
    """

    id: str
    name: str
    type: EpisodeType
    dependencies: tuple[str, ...] = ()


class HostMarker:
    """Decides the marks ahead of each item, by the scope in which the item comes.

    An episode begins ahead of the first item of its scope, and ends ahead of the first item of the model after the
    scope has ended. If the last item of an exploration is a text of the model, it is its description and stays. A call
    of a sub-agent is an episode with its result; of an exploration, both stay as its description.

    Args:
        subagents: names of tools that are sub-agents, with the type of the episode that a call is.

    Attributes:
        path: the scopes in which the next items come, the outer ones first. Only the last may be an episode.
        told: whether the message itself tells the path. A notice in it then belongs to its episode even ahead of the
            model's first answer; any other is a system item there (R15).
        live: ids of other scopes that have not ended.
        describing: whether the next item holds the description of the last scope.
        used: names of the episodes and tasks that were started.
        explored: those of the explorations that have ended.
    """

    def __init__(self, subagents: Mapping[str, EpisodeType]) -> None:
        self._subagents = subagents
        self.path: Sequence[HostScope] = ()
        self.told = False
        self.live: Collection[str] = ()
        self.describing = False
        self.used: set[str] = set()
        self.explored: set[str] = set()
        # What is open, by name: the id of its scope, or of the call of a sub-agent; None once that has its result.
        self._scopes: dict[str, str] = {}
        self._calls: dict[str, str | None] = {}
        self._last: dict[str, _LastItem] = {}

    def ahead(self, window: ContextWindow, item: Item) -> list[Mark]:
        """Return the marks ahead of the next item of the history. Only items of the model and notices have an owner."""
        owned = item.kind is Kind.NOTICE and not item.standing and (window.latest >= 0 or self.told)
        if not owned and item.kind not in ASSISTANT:
            return []
        changes = _Changes(window)
        for episode in reversed([*window.open_marks]):
            if self._is_over(str(episode.name)):
                changes.end(episode, self._last.get(str(episode.name)))
        type_ = self._subagents.get(item.tool or "")
        # A sub-agent's episode stands beside that in which it is called.
        path = self.path
        if type_ is not None:
            path = tuple(scope for scope in path if scope.type is _TASK)
        around = self._enter(path, changes)
        if type_ is not None:
            changes.start(Mark("start", self._number_name(str(item.tool)), type_, host=True))
        elif self.describing and around:
            changes.marks.append(Mark("describe", around, host=True))
        return changes.marks

    def note(self, item: Item, part: Part, owner: Episode | None, marks: Iterable[Mark]) -> None:
        """Take in an item.

        Args:
            item: the item.
            part: its content.
            owner: the episode that it belongs to.
            marks: the marks that the host made ahead of it, now or when it was recorded.
        """
        described = False
        for mark in marks:
            described |= mark.action == "describe"
            if mark.action == "start":
                self.used.add(mark.name)
                if mark.scope:
                    self._scopes[mark.name] = mark.scope
                elif item.call_id is not None:
                    self._calls[mark.name] = item.call_id
            elif mark.action == "end":
                if mark.type is EpisodeType.EXPL:
                    self.explored.add(mark.name)
                self._scopes.pop(mark.name, None)
                self._calls.pop(mark.name, None)
                self._last.pop(mark.name, None)
        self.describing = False
        if owner is None or (owner.name not in self._scopes and owner.name not in self._calls):
            return
        if item.kind is Kind.RESULT and self._calls.get(owner.name) == item.call_id:
            self._calls[owner.name], described = None, True
        last = self._last.get(owner.name)
        if described or not (last and last.described):
            describes = described or item.kind is Kind.TEXT
            self._last[owner.name] = _LastItem(owner.last, _description(part.text) if describes else None, described)

    def open_scope(self, name: str) -> str | None:
        """Return the id of the scope of an open episode or task."""
        return self._scopes.get(name)

    def _enter(self, path: Sequence[HostScope], changes: _Changes) -> str:
        """Enter scopes, and start what is not open of them; return the name of the innermost."""
        names = {id_: name for name, id_ in self._scopes.items()}
        around = _OUTSIDE
        for scope in path:
            name = names.get(scope.id)
            if name is None:
                changes.enter(around)
                explored = self.explored | changes.explored
                needed = tuple(name for name in scope.dependencies if name in explored)
                name = self._number_name(scope.name)
                changes.start(Mark("start", name, scope.type, needed, host=True, scope=scope.id))
            around = name
        changes.enter(around)
        return around

    def _is_over(self, name: str) -> bool:
        """Whether the scope of what is open has ended, or the sub-agent has answered."""
        if name in self._calls:
            return self._calls[name] is None
        scope = self._scopes.get(name)
        return scope is not None and scope not in self.live and all(scope != entered.id for entered in self.path)

    def _number_name(self, name: str) -> str:
        number, unused = 1, name
        while unused in self.used:
            number += 1
            unused = f"{name} {number}"
        return unused


@dataclass(frozen=True, slots=True)
class _LastItem:
    """The latest item of an open episode.

    Attributes:
        index: its index.
        text: its text if it may be the description.
        described: whether it is the description, whatever comes after it.
    """

    index: int
    text: str | None
    described: bool


class _Changes:
    """Marks ahead of one item, in order.

    Args:
        window: the window, as it stands before them.

    Attributes:
        marks: the marks.
        explored: names of the explorations that they end.
    """

    def __init__(self, window: ContextWindow) -> None:
        self.marks: list[Mark] = []
        self.explored: set[str] = set()
        self._tasks = {str(episode.name): episode.task for episode in window.open_marks}
        self._scope = _name(window.active or window.task)

    def enter(self, name: str) -> None:
        """Go on in the scope of what is open."""
        if name != self._scope:
            self.marks.append(Mark("enter", name, host=True))
            self._scope = name

    def start(self, mark: Mark) -> None:
        """Start an episode or a task in the present scope."""
        self.marks.append(mark)
        self._scope = mark.name

    def end(self, episode: Episode, last: _LastItem | None) -> None:
        """End an open episode or task, unless something in it is still open."""
        name = str(episode.name)
        if any(_name(task) == name for task in self._tasks.values()):
            return
        self.enter(name)
        stays = last is not None and last.text is not None and episode.type is not EpisodeType.ACT
        text, closing = (last.text, last.index) if last and stays else (None, None)
        self.marks.append(Mark("end", name, episode.type, description=text, host=True, closing=closing))
        if episode.type is EpisodeType.EXPL:
            self.explored.add(name)
        self._scope = _name(self._tasks.pop(name))


def without_tags(text: str) -> str:
    """A text without the tags that make it a notice."""
    return text.removeprefix(OPENING).removesuffix(CLOSING)


def _description(text: str) -> str:
    """The description in an item's text; the item has the whole of it."""
    text = " ".join(without_tags(text).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _name(episode: Episode | None) -> str:
    return _OUTSIDE if episode is None else str(episode.name)
