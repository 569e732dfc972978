"""Reminders: notes at the end of one request that ask the model to mark its work, or warn it of a full window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from wane.core import Added, Episode, Item
from wane.core.delimiter import quote
from wane.core.items import WORK

_FIRST: Final = 0.25  # part of the share that fills before the first reminder, if no episode was started

_NEVER: Final = (
    "you have not started an episode yet. Start one with `delimiter`, in the same message as your next tool call, "
    "so that finished work can leave the window."
)

_LATER: Final = (
    "no episode is active, and much has been done outside of one. Start one with `delimiter`, in the same message as "
    "your next tool call."
)

_UNFINISHED: Final = (
    "the window is full, and unfinished work has begun to leave it. End the episode {name} with `delimiter` as soon as "
    "you can, or what it holds goes first."
)

_STATE: Final = ("text", "_asked", "_asking", "_started", "_unmarked", "_since", "_wait", "_warned")


class Reminder:
    """Counts a model's work, and decides whether the next request carries a reminder.

    It reminds a model that has filled a share of the budget outside any episode, or a quarter of that share if it has
    never started one. It also reminds a model with an active episode when a pass had to take unfinished work (R16).
    Each reminder doubles the share that must fill before the next one, but the early one only restores it to the full
    share, and so does an accepted start. Work before the first request does not count: the model did not know about
    episodes then.

    Args:
        share: the share of the budget; None for no reminders.

    Attributes:
        text: the reminder of the request that goes out now; usually None.
    """

    def __init__(self, share: float | None) -> None:
        self._share = share
        self.text: str | None = None
        self._asked = False
        self._asking = True  # whether an item was noted since the last `ask`
        self._started = False  # whether an episode was ever started
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
        """Take in the next item of the history."""
        self._asking = True
        if item.kind not in WORK:
            return
        if self._since is not None:
            self._since += item.tokens
        if added.verdict is not None and added.verdict.accepted:
            self._started = True
            self._unmarked = 0
            if active is not None:
                self._wait = 1.0
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
            overflowed: whether the pass before the request had to take unfinished work (R16).
            active: the active episode; the model cannot end an inferred one.
            fits: whether the request has room for a text; a reminder without room waits for a later request.
        """
        if self._share is None or not self._asking:
            return self.text
        self.note_request()
        limit = self._share * budget * self._wait
        message = None
        if overflowed and active is not None and not active.inferred:
            if self._since is None or self._since >= limit:
                message = _UNFINISHED.format(name=quote(str(active.name)))
        elif self._unmarked and self._unmarked >= limit:
            message = _LATER if self._started else _NEVER
        self._send(message, fits)
        return self.text

    def warn(self, message: str, *, full: bool, fits: Callable[[str], bool]) -> str | None:
        """Return a warning for the next request if the window has become full, and keep it as `text`.

        It warns once, and again only after the window was no longer full.
        """
        if self._asking:
            self.note_request(full=full)
            if full and not self._warned:
                self._send(message, fits)
        return self.text

    def note_request(self, *, full: bool = False) -> None:
        """Note a request without a reminder.

        Args:
            full: whether the window is full, as for `warn`.
        """
        if self._asking:
            self.text = None
            self._asking = False
            self._warned = self._warned and full
        if not self._asked:
            self._asked = True
            self._unmarked = 0

    def note_sent(self, text: str) -> None:
        """Note the reminder of the request that goes out now."""
        self.text = text
        self._unmarked = 0
        self._since = 0
        self._wait = max(1.0, 2 * self._wait)
        self._warned = True

    def _send(self, message: str | None, fits: Callable[[str], bool]) -> None:
        text = f"[Automatic note on the context window, not from the user: {message}]"
        if message is not None and fits(text):
            self.note_sent(text)
