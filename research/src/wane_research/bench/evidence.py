"""Evidence recall, as ctxkernel measures itself: the metric of `ctxkernel/eval.py`, written anew from its source.

At each step at which the agent acted: the share, still in view, of the names that its calls use, that the history
holds and that neither the user nor the system said; then the mean over steps. docs/lab/loss.md says more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wane.core import Kind
from wane.formats.base import Part
from wane.lab.session import RecordedSession
from wane.strategies.base import Slot, Substitute

_TOKEN: Final = re.compile(r"[A-Za-z0-9_./\-]{4,}")
_CAMEL: Final = re.compile(r"[a-z][A-Z]")
_PINNED: Final = frozenset({Kind.SYSTEM, Kind.USER, Kind.NOTICE})
_SHORTEST: Final = 4


def names(text: str) -> set[str]:
    """Return the name-shaped words of a text: with `/`, `.`, `_`, a digit, or a capital after a small letter."""
    words = {word.strip("./-") for word in _TOKEN.findall(text)}
    return {word for word in words if len(word) >= _SHORTEST and is_name(word)}


def is_name(word: str) -> bool:
    """Return whether a word is no plain one."""
    return any(mark in word for mark in "/._") or any(map(str.isdigit, word)) or bool(_CAMEL.search(word))


def rendered(part: Part) -> str:
    """Return what a model would read of a part."""
    return f"{part.tool} {part.arguments or ''}" if part.kind is Kind.CALL else part.text


class Evidence:
    """What the calls of a session needed; runs of strategies share it.

    Args:
        session: the session.

    Attributes:
        needed: by model call, the names that it needed; empty for a call that is no step.
    """

    def __init__(self, session: RecordedSession) -> None:
        parts = session.parts
        words = [names(rendered(part)) for part in parts]
        self.needed: list[frozenset[str]] = []
        self._holders: dict[str, list[int]] = {}
        self._texts: dict[str, frozenset[str]] = {}  # by text of a substitute: the needed names in it
        history: set[str] = set()
        pinned: set[str] = set()
        added = 0
        for call in session.calls:
            for index in range(added, call.first):
                history |= words[index]
                if parts[index].kind in _PINNED:
                    pinned |= words[index]
            added = max(added, call.first)
            output = range(call.first, call.stop)
            used = set().union(*(words[index] for index in output if parts[index].kind is Kind.CALL))
            self.needed.append(frozenset() if call.inherited else frozenset((used & history) - pinned))
        every = frozenset().union(*self.needed)
        for index, held in enumerate(words):
            for word in held & every:
                self._holders.setdefault(word, []).append(index)

    def recall(self, call: int, view: Sequence[Slot]) -> float | None:
        """Return the share of the names that a model call needed and that its view holds; None if it is no step."""
        needed = self.needed[call]
        if not needed:
            return None
        items = {slot for slot in view if not isinstance(slot, Substitute)}
        texts = frozenset().union(*(self._in_text(slot.text) for slot in view if isinstance(slot, Substitute)))
        in_view = sum(word in texts or not items.isdisjoint(self._holders[word]) for word in needed)
        return in_view / len(needed)

    def _in_text(self, text: str) -> frozenset[str]:
        if text not in self._texts:
            self._texts[text] = frozenset(names(text) & self._holders.keys())
        return self._texts[text]
