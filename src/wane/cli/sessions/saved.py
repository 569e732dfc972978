"""Loads a saved session for display."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane.cli.sessions.view import Taken, View, view_of
from wane.cli.terminal import layout
from wane.cli.terminal.picture import Block, Role
from wane.core import Episode, Item, Kind
from wane.formats import Transcript, get_format
from wane.journal import (
    MessageRecord,
    PassRecord,
    Replay,
    SessionFile,
    SessionStore,
    UsageRecord,
    default_root,
    read,
    replay,
)
from wane.journal.titles import TITLE_LENGTH, title_of


@dataclass(frozen=True, slots=True)
class Turn:
    """A user turn: the index of its item, and its beginning."""

    item: int
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a session's model calls, as reported by the provider; `cost` in dollars."""

    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: float | None
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """A saved session, loaded."""

    file: SessionFile
    replayed: Replay
    items: tuple[Item, ...]
    turns: tuple[Turn, ...]
    view: View

    @property
    def blocks(self) -> list[Block]:
        """Its history as blocks; those in the view are kept."""
        kinds, tokens = [item.kind for item in self.items], [item.tokens for item in self.items]
        view = self.view
        parts = layout.blocks(kinds, tokens, self.replayed.episodes, view.visible, view.instead)
        # Instructions, tools, and differences in counting, so that the picture adds up to what the provider reported.
        besides = view.tokens - sum(part.tokens for part in parts if part.kept)
        return [Block(Role.SYSTEM, max(0, besides)), *parts]

    @property
    def whole(self) -> int:
        """Tokens of the view with everything that was evicted."""
        return self.view.tokens + self.view.evicted

    @property
    def passes(self) -> list[PassRecord]:
        """Its passes, in order."""
        return [record for record in self.file.records if isinstance(record, PassRecord)]

    @property
    def usage(self) -> Usage:
        """The usage of its model calls."""
        records = [record for record in self.file.records if isinstance(record, UsageRecord)]
        costs = [record.cost for record in records if record.cost is not None]
        return Usage(
            calls=len(records),
            input_tokens=sum(record.input_tokens for record in records),
            output_tokens=sum(record.output_tokens for record in records),
            cache_read_tokens=sum(record.cache_read_tokens for record in records),
            cache_write_tokens=sum(record.cache_write_tokens for record in records),
            cost=sum(costs) if costs else None,
            models=tuple(dict.fromkeys(record.model for record in records if record.model)),
        )

    def turn_of(self, episode: Episode) -> int:
        """Number of the user turn in which an episode began, from 0; -1 before the first."""
        return bisect_right(self.turns, episode.spans[0][0], key=lambda turn: turn.item) - 1


def find_session(name: str) -> Path:
    """Return the file of a session, by its path, its id or the beginning of it.

    Raises:
        SessionNotFoundError: if there is none, or more than one.
    """
    path = Path(name)
    if path.suffix == ".jsonl" or os.sep in name:
        return path
    return SessionStore(default_root(os.environ)).find(name)


def load_session(path: Path) -> Session:
    """Read a session and restore its window.

    Raises:
        JournalError: if it cannot be read, or does not replay.
        FormatError: if a message is not in its format.
        MissingExtraError: if its message format needs an extra that is not installed.
    """
    file = read(path)
    format_ = get_format(file.header.format)
    transcript = Transcript(format_)
    recorded = [record.message for record in file.records if isinstance(record, MessageRecord)]
    loaded = iter(format_.load(recorded))
    messages: list[Taken] = []
    turns: list[Turn] = []

    def items_of(message: Mapping[str, Any]) -> list[Item]:
        first, taken = transcript.item_count, transcript.take(next(loaded))
        messages.append(taken)
        said = next(((place, part) for place, (item, part) in enumerate(taken) if item.kind is Kind.USER), None)
        if said is not None:
            # A turn that an agent wrote for its user, in tags, is better than nothing.
            turns.append(Turn(first + said[0], title_of(message) or said[1].text[:TITLE_LENGTH]))
        return [item for item, _ in taken]

    replayed = replay(file.records, items_of)
    items = tuple(item for taken in messages for item, _ in taken)
    return Session(file, replayed, items, tuple(turns), view_of(file.records, messages, replayed))
