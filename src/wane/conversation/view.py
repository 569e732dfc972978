"""From what a request shows, by item, to its messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Generic

from wane.conversation.engine import Engine
from wane.core.errors import ConfigError
from wane.formats.base import Format, MessageT, Transcript, keep_some
from wane.formats.writing import WritingFormat
from wane.strategies.base import Slot, Substitute


def writing(format: Format[MessageT], what: str) -> WritingFormat[MessageT]:  # noqa: A002 - the field's word
    """Return a format that writes messages.

    Args:
        format: the format.
        what: what needs it, for the error.

    Raises:
        ConfigError: if it writes none.
    """
    if isinstance(format, WritingFormat):
        return format
    raise ConfigError(f"{what} needs messages of Wane's own, and the format {format.name!r} writes none")


def places(view: Iterable[Slot]) -> list[int]:
    """Return the items that stand in a view as they were."""
    return [slot for slot in view if isinstance(slot, int)]


class ViewMessages(Generic[MessageT]):
    """The messages of the latest view. It costs what is new, unless something was taken out of the view.

    Args:
        transcript: the messages of the history.
        engine: says what is shown.
    """

    def __init__(self, transcript: Transcript[MessageT], engine: Engine) -> None:
        self._transcript = transcript
        self._engine = engine
        self._built: list[MessageT] = []
        self._built_to = 0
        self._stale = False

    def changed(self) -> None:
        """Something was taken out of the view, or a message became another object."""
        self._stale = True

    def now(self) -> list[MessageT]:
        """Return the messages that the next request shows if nothing more is taken out of the view."""
        view = self._engine.view
        if any(isinstance(slot, Substitute) for slot in view):
            return self.read(view)
        return self._transcript.view(places(view))

    def of(self, view: Sequence[Slot]) -> list[MessageT]:
        """Return the messages of the latest view; those that are whole are the same objects."""
        transcript = self._transcript
        if not self._engine.evicts and any(isinstance(slot, Substitute) for slot in view):
            return self.read(view)
        if self._stale:
            self._stale = False
            self._built = transcript.view(places(view))
        else:
            new = range(self._built_to, len(transcript.messages))
            whole = len(view) == transcript.item_count
            # A message without items, such as an empty answer, stays only while all else does.
            self._built += [transcript.messages[n] for n in new if whole or transcript.size(n)]
        self._built_to = len(transcript.messages)
        return list(self._built)

    def read(self, view: Sequence[Slot]) -> list[MessageT]:
        """Return the messages of any view, in which other texts may stand in the place of items.

        Raises:
            ConfigError: if there are such, and the format writes no messages.
        """
        built: list[MessageT] = []
        for number, slots in groupby(view, self._number):
            if number < 0:
                format_ = writing(self._transcript.format, f"the strategy {self._engine.name!r}")
                built += [format_.turn(slot.text) for slot in slots if isinstance(slot, Substitute)]
            elif (kept := self._kept(number, list(slots))) is not None:
                built.append(kept)
        return built

    def _number(self, slot: Slot) -> int:
        place = slot if isinstance(slot, int) else slot.index
        return -1 if place is None else self._transcript.message_of(place)

    def _kept(self, number: int, slots: list[Slot]) -> MessageT | None:
        transcript, message = self._transcript, self._transcript.messages[number]
        kept = [transcript.position(slot if isinstance(slot, int) else slot.index or 0) for slot in slots]
        for slot, position in zip(slots, kept, strict=True):
            if isinstance(slot, Substitute):
                format_ = writing(transcript.format, f"the strategy {self._engine.name!r}")
                message = format_.cleared(message, position, slot.text)
        return message if len(kept) == transcript.size(number) else keep_some(transcript.format, message, kept)
