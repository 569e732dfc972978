"""Loads a saved session for display, with the view of its next request under any strategy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wane.account import NOTHING, Account
from wane.cli.terminal import layout
from wane.cli.terminal.picture import Band, Role
from wane.core import Episode, Item, Kind
from wane.core.errors import JournalError
from wane.formats import get_format
from wane.journal import MessageRecord, PassRecord, SessionFile, model_calls, read
from wane.journal.store import id_of
from wane.journal.titles import TITLE_LENGTH, title_of
from wane.lab.readers.kin import descendants
from wane.rebuilding import Rebuilt, rebuild
from wane.strategies.base import Substitute


@dataclass(frozen=True, slots=True)
class NextView:
    """The view of the next request.

    Attributes:
        tokens: tokens of the view, by the provider's count as far as known.
        evicted: tokens of the history that it does not hold, by our own count.
        visible: indexes of the items that it holds unchanged.
        instead: by item, the tokens of its substitute.
    """

    tokens: int
    evicted: int
    visible: Sequence[int]
    instead: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rebuilt: Rebuilt) -> NextView:
        """Return the view of a session's next request."""
        engine, slots = rebuilt.engine, rebuilt.engine.view
        instead = {slot.index: slot.tokens for slot in slots if isinstance(slot, Substitute) and slot.index is not None}
        visible = [slot for slot in slots if isinstance(slot, int)]
        return cls(engine.tokens, engine.evicted, visible, instead)


@dataclass(frozen=True, slots=True)
class Turn:
    """A user turn: the index of its item, and its beginning."""

    item: int
    text: str


@dataclass(frozen=True, slots=True)
class SavedAgent:
    """A session of a sub-agent that a saved session, or another sub-agent of it, started.

    Attributes:
        id: its id.
        usage: the usage of its model calls; None if it cannot be read.
    """

    id: str
    usage: Account | None

    @classmethod
    def read(cls, path: Path) -> SavedAgent:
        """Return the sub-agent with this file."""
        try:
            return cls(id_of(path), Account.of(read(path).records))
        except JournalError:
            return cls(id_of(path), None)


@dataclass(frozen=True, slots=True)
class Session:
    """A saved session, loaded, with its sub-agents."""

    file: SessionFile
    rebuilt: Rebuilt
    turns: tuple[Turn, ...]
    view: NextView
    agents: tuple[SavedAgent, ...] = ()

    @property
    def usage_of_agents(self) -> Account:
        """The usage of its sub-agents' model calls, without those of sub-agents that cannot be read."""
        return sum((agent.usage for agent in self.agents if agent.usage is not None), NOTHING)

    @property
    def items(self) -> list[Item]:
        """The items of its history."""
        return [item for item, _ in self.rebuilt.items]

    @property
    def blocks(self) -> list[Band]:
        """Its history as blocks; those in the view are kept."""
        items = self.items
        kinds, tokens = [item.kind for item in items], [item.tokens for item in items]
        view = self.view
        parts = layout.blocks(kinds, tokens, self.rebuilt.episodes, view.visible, view.instead)
        # Instructions, tools, and differences in counting, so that the picture adds up to what the provider reported.
        parts += layout.index_block(self.rebuilt.window)
        besides = view.tokens - sum(part.tokens for part in parts if part.stays)
        return [Band(Role.SYSTEM, max(0, besides)), *parts]

    @property
    def history_tokens(self) -> int:
        """Tokens of the view with everything that was evicted."""
        return self.view.tokens + self.view.evicted

    @property
    def passes(self) -> list[PassRecord]:
        """Its passes, in order."""
        return [record for record in self.file.records if isinstance(record, PassRecord)]

    @property
    def usage(self) -> Account:
        """The usage of its model calls."""
        return Account.of(self.file.records)

    @property
    def models(self) -> list[str]:
        """The models that answered, in order."""
        return list(dict.fromkeys(call.model for call in model_calls(self.file.records) if call.model))

    def turn_of(self, episode: Episode) -> int:
        """Number of the user turn in which an episode began, from 0; -1 before the first."""
        within = (one for one in self.rebuilt.episodes if one.spans and episode in one.lineage())
        first = min((one.spans[0][0] for one in within), default=0)  # a task that was not a call has no items
        return bisect_right(self.turns, first, key=lambda turn: turn.item) - 1


def load_session(path: Path) -> Session:
    """Read a session and rebuild it.

    Raises:
        JournalError: if it cannot be read, or does not replay.
        FormatError: if a message is not in its format.
        MissingExtraError: if its message format or its strategy needs an extra that is not installed.
    """
    file = read(path)
    rebuilt = rebuild(file.records, get_format(file.header.format))
    messages = [record.message for record in file.records if isinstance(record, MessageRecord)]
    agents = tuple(map(SavedAgent.read, descendants(path)))
    return Session(file, rebuilt, tuple(_turns(messages, rebuilt)), NextView.of(rebuilt), agents)


def _turns(messages: Sequence[Mapping[str, Any]], rebuilt: Rebuilt) -> Iterator[Turn]:
    turned: set[int] = set()  # messages
    for index, (item, part) in enumerate(rebuilt.items):
        if item.kind is Kind.USER and (number := rebuilt.transcript.message_of(index)) not in turned:
            turned.add(number)
            # A turn that an agent wrote for its user, in tags, is better than nothing.
            yield Turn(index, title_of(messages[number]) or part.text[:TITLE_LENGTH])
