"""When a request reminds the model to mark its work, and in which words.

A reminder stands at the tail of one request and never in the history, so neither the view nor what a provider has
cached of it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.core import Episode, Item, Kind, Verdict
from wane.core.delimiter import quote
from wane.core.errors import ConfigError

REMIND_AT: Final = 0.2
"""Share of the budget that unannotated work may fill by default before the model is reminded."""

_FIRST: Final = 0.25  # of that share, for the first reminder of a model that has started no episode
_WORK: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL, Kind.RESULT})


class Reminder:
    """Counts a model's work, and says what the request that goes out next reminds it of.

    It reminds a model that has filled a share of the budget outside any episode (the first time a quarter of that
    share, if it has started none), and one with an active episode when a pass had to take of what is not finished
    (R16). After a reminder the share must fill before the next one, so as not to nag. What stands ahead of the first
    request is not counted: the model had not been told of episodes then.

    Args:
        share: the share; None never reminds.

    Attributes:
        text: what the request that goes out now is to carry at its tail; None as a rule.

    Raises:
        ConfigError: for a share that is not above 0.
    """

    __slots__ = ("_asked", "_asking", "_inside", "_marked", "_share", "_since", "_started", "_unmarked", "text")

    def __init__(self, share: float | None = REMIND_AT) -> None:
        if share is not None and not share > 0:
            raise ConfigError(f"remind_at is {share!r}; it must be a share of the budget above 0, or None for never")
        self._share = share
        self.reset()

    @property
    def on(self) -> bool:
        """Whether it ever reminds."""
        return self._share is not None

    def reset(self) -> None:
        """Forget all, for a history that begins anew."""
        self.text: str | None = None
        self._asked = False
        self._asking = True  # whether anything has been noted since it was asked
        self._started = self._inside = False
        self._marked: set[str | None] = set()  # ids of calls in episodes that wait for their results
        self._unmarked = 0  # tokens of work outside episodes, since the last mark or reminder
        self._since: int | None = None  # tokens of work since the last reminder

    def export(self) -> dict[str, Any]:
        """Return what is known, as JSON data."""
        data = {name: getattr(self, name) for name in self.__slots__ if name != "_share"}
        return {**data, "_marked": sorted(call_id or "" for call_id in self._marked)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `export` gave."""
        for name in self.__slots__:
            if name != "_share":
                setattr(self, name, state[name])
        self._marked = set(state["_marked"])

    def note(self, item: Item, verdict: Verdict | None = None) -> None:
        """Take in the next item of the history.

        Args:
            item: the item.
            verdict: for a `delimiter` call, what became of it.
        """
        self._asking = True
        if item.kind not in _WORK:
            return
        if self._since is not None:
            self._since += item.tokens
        action = verdict.action if verdict is not None else None
        if action is not None:
            self._started, self._inside, self._unmarked = True, action == "start", 0
        if item.kind is Kind.RESULT and item.call_id in self._marked:
            # It belongs to the episode of its call (R4), whatever has ended since.
            self._marked.remove(item.call_id)
        elif not self._inside and action is None:
            self._unmarked += item.tokens
        elif item.kind is Kind.CALL:
            self._marked.add(item.call_id)

    def ask(self, budget: int, *, overflowed: bool = False, active: Episode | None = None) -> str | None:
        """Return what the request that goes out now is to carry at its tail, which is `text` from here on.

        Asking again before anything has been noted, as for a request that is sent again, gives the same.

        Args:
            budget: tokens that the view may hold.
            overflowed: whether a pass ran ahead of it that had to take of what is not finished (R16).
            active: the active episode; one that was inferred is none that the model could end.
        """
        if self._share is None or not self._asking:
            return self.text
        self.text, self._asking = None, False
        if not self._asked:
            self._asked, self._unmarked = True, 0
        full = self._share * budget
        if overflowed and active is not None and not active.inferred:
            if self._since is None or self._since >= full:
                self._remind(_open(active))
        elif self._unmarked and self._unmarked >= (full if self._started or self._since is not None else _FIRST * full):
            self._remind(_LATER if self._started else _NEVER)
        return self.text

    def _remind(self, words: str) -> None:
        self.text = f"[Automatic note on the context window, not from the user: {words}]"
        self._unmarked = self._since = 0


_NEVER: Final = (
    "you have not started an episode yet. Start one with `delimiter`, in the same message as your next tool call, "
    "so that finished work can leave the window."
)
_LATER: Final = (
    "no episode is active, and much has been done outside of one. Start one with `delimiter`, in the same message as "
    "your next tool call."
)


def _open(active: Episode) -> str:
    assert active.name is not None
    return (
        "the window is full, and unfinished work has begun to leave it. End the episode "
        f"{quote(active.name)} with `delimiter` as soon as you can, or what it holds goes first."
    )
