"""Summarising compaction, as in common harnesses: the model writes a summary that replaces all but a recent tail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wane.core import Item, Kind, chars
from wane.core.errors import ConfigError
from wane.formats.base import Part
from wane.strategies.base import Fitted, Settings, Slot, Substitute, SummaryNeeded
from wane.strategies.groups import Groups

KEPT_TOKENS: Final = 20_000
"""Most tokens of recent messages that stay, as in pi."""

KEPT_SHARE: Final = 0.25
"""Largest share of the budget that they may hold: KEPT_TOKENS at the default budget of 80,000."""

SUMMARY_TOKENS: Final = 2_000
"""Assumed tokens of a summary that nobody writes, as in a replay."""

INSTRUCTIONS: Final = """\
The context is nearly full. Write a summary of the conversation so far; it will replace everything but the most recent \
messages, and another instance of you goes on from it alone.

Use these headings, and leave out one that would be empty:
## Goal - what the user asked for, in all turns, with constraints and preferences in the user's own words
## Done - what has been finished, with the exact names of files, functions, commands and identifiers
## State - what is in progress, and errors that are not solved, quoted
## Decisions - what was decided, and why
## Next - the steps that are left

Be concise and exact. Call no tool. Answer with the summary alone."""
"""Instructions of the summarising call."""

PREFIX: Final = "The conversation before this point was replaced by this summary of it:\n\n"
"""Beginning of a summary in the view."""


class Compact:
    """Lets the model summarise the conversation when the view is over the budget.

    The view then holds the system items, the summary as a user turn, and the most recent messages. Earlier user turns
    are gone, except for what the summary says about them; so are earlier summaries.

    Args:
        settings: budget and overhead. With a low water, the view with a tail and a summary of SUMMARY_TOKENS fills it;
            without one, the tail holds KEPT_TOKENS or KEPT_SHARE of the budget, whichever is less. In either case the
            tail is no longer than there is room for beside the summary, if there is any.
        trigger: share of the budget above which it compacts, above 0 and at most 1.

    Attributes:
        budget: tokens that the view may hold; may be changed between calls.
        overhead: tokens that every request carries besides the items; may be changed between calls.

    Raises:
        ConfigError: for a trigger outside its range.
    """

    name = "compact"

    def __init__(self, settings: Settings, *, trigger: float = 1.0) -> None:
        if not 0 < trigger <= 1:
            raise ConfigError(f"the trigger is {trigger}; it must be above 0 and at most 1, a share of the budget")
        self.budget = settings.budget
        self.overhead = settings.overhead
        self._trigger = trigger
        self._low_water = settings.low_water
        self._groups = Groups()
        self._view: list[Slot] = []
        self._held = 0
        self._system: set[int] = set()
        self._system_tokens = 0
        self._cut = 0
        self._summary = 0  # tokens of the summary in the view
        self._due: int | None = None
        self._done: dict[str, Any] | None = None
        # By group, the tokens that a summary may replace.
        self._weights: list[int] = []

    def add(self, item: Item, part: Part) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item; a late result of a summarised call is left out like its call."""
        index = len(self._groups.tokens)
        group = self._groups.add(item)
        if group == len(self._weights):
            self._weights.append(0)
        if item.kind is Kind.SYSTEM:
            self._system.add(index)
            self._system_tokens += item.tokens
        else:
            self._weights[group] += item.tokens
        if group >= self._cut:
            self._view.append(index)
            self._held += item.tokens

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:  # noqa: ARG002 - the interface's
        """Ask for a summary if the view is over the trigger and there is anything to summarise."""
        self._due = None
        if self._held + self.overhead <= self.budget * self._trigger:
            return Fitted(self._view)
        cut = self._place(self._summary)
        if not any(self._goes(slot, cut) for slot in self._view):
            return Fitted(self._view)
        self._due = cut
        return SummaryNeeded(self._view, INSTRUCTIONS)

    def summarised(self, text: str, tokens: int) -> Fitted:
        """Replace the summarised messages with the summary.

        Args:
            text: the summary; empty if it is not known, as in a replay, and then its text in the view is empty too.
            tokens: its tokens in a request.

        Raises:
            RuntimeError: if `fit` did not ask for one.
        """
        if self._due is None:
            raise RuntimeError("fit did not ask for a summary; call it first")
        # The summary is of the whole view, so more may go if it is longer than assumed.
        self._replace(max(self._due, self._place(tokens + chars(PREFIX))), text, tokens)
        return Fitted(self._view, ran=True, done=self.standing)

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """Place and text of the latest summary."""
        return self._done

    def redo(self, done: Mapping[str, Any]) -> None:
        """Put an earlier summary back in its place.

        Raises:
            HistoryError: if no message begins there.
        """
        self._replace(self._groups.at(done.get("from")), str(done.get("summary", "")), int(done.get("tokens", 0)))

    def _replace(self, cut: int, text: str, tokens: int) -> None:
        self._cut, self._due = cut, None
        self._done = {"from": self._groups.first[cut], "summary": text, "tokens": tokens}
        of, counts = self._groups.of, self._groups.tokens
        kept = [slot for slot in self._view if isinstance(slot, int)]
        before: list[Slot] = [index for index in kept if index in self._system and of[index] < cut]
        tail = [index for index in kept if of[index] >= cut]
        summary = Substitute(PREFIX + text if text else "", tokens + chars(PREFIX))
        self._summary = summary.tokens
        self._view = [*before, summary, *tail]
        self._held = summary.tokens + sum(counts[slot] for slot in self._view if isinstance(slot, int))

    def _goes(self, slot: Slot, cut: int) -> bool:
        return isinstance(slot, int) and slot not in self._system and self._groups.of[slot] < cut

    def _place(self, summary: int) -> int:
        """The first group of the tail: it takes as many as fit, and always the latest assistant message."""
        cut = self._groups.latest
        least = sum(self._weights[cut:]) if cut >= 0 else 0
        if self._low_water is None:
            kept = min(KEPT_TOKENS, self.budget * KEPT_SHARE)
        else:
            kept = self.budget * self._low_water - self.overhead - self._system_tokens - SUMMARY_TOKENS
        left = kept - least
        room = self.budget * self._trigger - self.overhead - self._system_tokens - summary - least
        if room >= 0:
            # If not even the latest message has room, a shorter tail would only mean a summary for each request.
            left = min(left, room)
        while cut > self._cut and self._weights[cut - 1] <= left:
            cut -= 1
            left -= self._weights[cut]
        return cut
