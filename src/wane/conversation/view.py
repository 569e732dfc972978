"""Turns the items of a view into messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Generic

from wane.conversation.engine import Engine
from wane.formats.base import Format, MessageT, Transcript, keep_some
from wane.formats.turns import required_opening
from wane.formats.writing import writing
from wane.strategies.base import Slot, Substitute, item_of


def places(view: Iterable[Slot]) -> list[int]:
    """Return the items of a view that are unchanged."""
    return [slot for slot in view if isinstance(slot, int)]


def opening(transcript: Transcript[MessageT], visible: Collection[int]) -> list[int]:
    """Return the items that a view must add so that the model's current turn begins with its reasoning.

    Empty if the turn begins with reasoning anyway, or began without it. See `wane.formats.turns`.

    Args:
        transcript: the whole history.
        visible: the items of the view.
    """
    shown = (
        (
            number,
            [part for index, part in enumerate(transcript.parts(number), transcript.first(number)) if index in visible],
        )
        for number in range(len(transcript.messages) - 1, -1, -1)
    )
    needed = required_opening(transcript.parts, len(transcript.messages), shown)
    items = {transcript.first(number) + place for number, positions in needed.items() for place in positions}
    return sorted(items.difference(visible))


class ViewMessages(Generic[MessageT]):
    """The messages of the latest view. Only new messages cost time, unless something left the view.

    Args:
        transcript: the messages of the history.
        engine: the engine that decides the view.
    """

    def __init__(self, transcript: Transcript[MessageT], engine: Engine) -> None:
        self._transcript = transcript
        self._engine = engine
        self._built: list[MessageT] = []
        self._built_to = 0
        self._stale = False

    def changed(self) -> None:
        """Note that something left the view, or a message was replaced."""
        self._stale = True

    def now(self) -> list[MessageT]:
        """Return the messages of the next request if nothing more is evicted."""
        return self.read(self._engine.view)

    def of(self, view: Sequence[Slot], *, keep_opening: bool = False) -> list[MessageT]:
        """Return the messages of the latest view; whole messages are the same objects.

        Args:
            view: the view.
            keep_opening: whether the current turn must begin with its reasoning; see `opening`.
        """
        transcript = self._transcript
        if keep_opening and len(view) < transcript.item_count:
            kept = set(places(view))
            if more := opening(transcript, kept):
                return self.read(sorted([*view, *more], key=lambda slot: item_of(slot) or 0))
        if not self._engine.evicts and any(isinstance(slot, Substitute) for slot in view):
            return self.read(view)
        if self._stale:
            self._stale = False
            self._built = transcript.view(places(view))
        else:
            new = range(self._built_to, len(transcript.messages))
            whole = len(view) == transcript.item_count
            # A message without items, such as an empty answer, stays only if every item is visible.
            self._built += [transcript.messages[n] for n in new if whole or transcript.size(n)]
        self._built_to = len(transcript.messages)
        return list(self._built)

    def read(self, view: Sequence[Slot]) -> list[MessageT]:
        """Return the messages of any view, in which texts may replace items.

        Raises:
            ConfigError: if it has such texts, and the format cannot write messages.
        """
        if not any(isinstance(slot, Substitute) for slot in view):
            return self._transcript.view(places(view))
        built: list[MessageT] = []
        for number, slots in groupby(view, self._number):
            if number < 0:
                format_ = writing(self._transcript.format, f"the strategy {self._engine.name!r}")
                built += [format_.turn(slot.text) for slot in slots if isinstance(slot, Substitute)]
            elif (kept := self._kept(number, slots)) is not None:
                built.append(kept)
        return built

    def _number(self, slot: Slot) -> int:
        item = item_of(slot)
        return -1 if item is None else self._transcript.message_of(item)

    def _kept(self, number: int, slots: Iterable[Slot]) -> MessageT | None:
        transcript = self._transcript
        placed = {transcript.position(item_of(slot) or 0): slot for slot in slots}
        message, size = transcript.messages[number], transcript.size(number)
        return shown_of(transcript.format, message, placed, size, self._engine.name)


def shown_of(
    format: Format[MessageT],  # noqa: A002 - the field's word
    message: MessageT,
    slots: Mapping[int, Slot],
    size: int,
    strategy: str,
) -> MessageT | None:
    """Return the visible part of a message; None if only reasoning is left of it.

    Args:
        format: the message's format.
        message: the message.
        slots: its visible parts by position, at least one, ascending.
        size: number of its parts.
        strategy: name of the strategy that decided the view.

    Raises:
        ConfigError: if a part is replaced by another text, and the format cannot write messages.
    """
    for position, slot in slots.items():
        if isinstance(slot, Substitute):
            message = writing(format, f"the strategy {strategy!r}").cleared(message, position, slot.text)
    return message if len(slots) == size else keep_some(format, message, [*slots])
