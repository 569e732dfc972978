"""Reminds a model to mark its work.

A reminder is at the end of one request and never in the history, so it changes neither the view nor the cached prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from wane.core import Added, Episode, Item, Kind
from wane.core.delimiter import quote
from wane.core.errors import ConfigError
from wane.core.items import ASSISTANT

REMIND_AT: Final = 0.2
"""Share of the budget that unannotated work may fill by default before the model is reminded."""

_FIRST: Final = 0.25  # part of the share that must fill before the first reminder, if no episode was started
_WORK: Final = ASSISTANT | {Kind.RESULT}

_NEVER: Final = (
    "you have not started an episode yet. Start one with `delimiter`, in the same message as your next tool call, "
    "so that finished work can leave the window."
)

_LATER: Final = (
    "no episode is active, and much has been done outside of one. Start one with `delimiter`, in the same message as "
    "your next tool call."
)

_STATE: Final = ("text", "_asked", "_asking", "_started", "_unmarked", "_since", "_wait", "_warned")


class Reminder:
    """Counts a model's work, and decides what the next request reminds it of.

    It reminds a model that has filled a share of the budget outside any episode (a quarter of that share the first
    time, if it has started none), and a model with an active episode when a pass had to take unfinished work (R16).
    Each reminder doubles what must fill before the next one; after the early one it is the share. An accepted start
    sets it back to the share. Work before the first request is not counted: the model did not know about episodes then.

    Args:
        share: the share; None never reminds.

    Attributes:
        text: the reminder of the request that goes out now; usually None.

    Raises:
        ConfigError: for a share that is not above 0 and at most 1.
    """

    def __init__(self, share: float | None = REMIND_AT) -> None:
        if share is not None and not 0 < share <= 1:
            raise ConfigError(
                f"remind_at is {share!r}; it must be a share of the budget above 0 and at most 1, or None"
            )
        self._share = share
        self.text: str | None = None
        self._asked = False
        self._asking = True  # whether an item was noted since the last `ask`
        self._started = False
        self._unmarked = 0  # tokens of work outside episodes, since the last mark or reminder
        self._since: int | None = None  # tokens of work since the last reminder
        self._wait = _FIRST  # shares that must fill before the next reminder
        self._warned = False

    def export(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `export` returned."""
        for name in _STATE:
            setattr(self, name, state[name])

    def note(self, item: Item, added: Added, active: Episode | None) -> None:
        """Take in the next item of the history.

        Args:
            item: the item.
            added: the outcome of adding it to the window.
            active: the active episode after it.
        """
        self._asking = True
        if item.kind not in _WORK:
            return
        if self._since is not None:
            self._since += item.tokens
        if added.verdict is not None and added.verdict.accepted:
            self._started = True
            self._unmarked = 0
            self._wait = self._wait if active is None else 1.0
        elif active is None and added.episode is not None and added.episode.implicit:
            # A result belongs to the episode of its call (R4), whatever has ended since.
            self._unmarked += item.tokens

    def ask(
        self,
        budget: int,
        *,
        overflowed: bool = False,
        active: Episode | None = None,
        fits: Callable[[str], bool] = lambda _: True,
    ) -> str | None:
        """Return the reminder of the request that goes out now, if one is due, and keep it as `text`.

        Asking again before a new item, as for a request that is sent again, returns the same.

        Args:
            budget: tokens that the view may hold.
            overflowed: whether the pass before it had to take unfinished work (R16).
            active: the active episode; the model cannot end an inferred one.
            fits: whether the request has room for a text; a reminder without room waits for a later request.
        """
        if self._share is None or not self._asking:
            return self.text
        self.text, self._asking = None, False
        if not self._asked:
            self._asked, self._unmarked = True, 0
        words, full = None, self._share * budget * self._wait
        if overflowed and active is not None and not active.inferred:
            if self._since is None or self._since >= full:
                words = _open(active)
        elif self._unmarked and self._unmarked >= full:
            words = _LATER if self._started else _NEVER
        if words is not None and fits(text := _note(words)):
            self.text, self._unmarked, self._since = text, 0, 0
            self._wait = max(1.0, 2 * self._wait)
        return self.text

    def warn(self, words: str, *, full: bool, fits: Callable[[str], bool] = lambda _: True) -> str | None:
        """Return a warning for the next request if the window has become full, and keep it as `text`.

        It warns once, and again only after the window was no longer full.

        Args:
            words: the warning.
            full: whether the window is full.
            fits: whether a warning has room.
        """
        if self._asking:
            self.text, self._asking = None, False
            if full and not self._warned and fits(text := _note(words)):
                self.text, self._warned = text, True
            self._warned = self._warned and full
        return self.text


def _note(words: str) -> str:
    return f"[Automatic note on the context window, not from the user: {words}]"


def _open(active: Episode) -> str:
    assert active.name is not None
    return (
        "the window is full, and unfinished work has begun to leave it. End the episode "
        f"{quote(active.name)} with `delimiter` as soon as you can, or what it holds goes first."
    )
