"""Summarising compaction, as in common harnesses: the model writes a summary that replaces all but a recent tail."""

from __future__ import annotations

from typing import Final

from wane.strategies.strategy import Traits
from wane.strategies.summarised import Summarised

KEPT_TOKENS: Final = 20_000
"""Most tokens of recent messages that stay, as in pi."""

KEPT_SHARE: Final = 0.25
"""Largest share of the budget that they may hold: KEPT_TOKENS at the default budget of 80,000."""

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


class Compact(Summarised):
    """Lets the model summarise the conversation when the view is over the budget.

    The view then holds the system items, the summary as a user turn, and the most recent messages. Earlier user turns
    are gone, except for what the summary says about them; so are earlier summaries.

    With a low water, the view with a tail and a summary of SUMMARY_TOKENS fills it; without one, the tail holds
    KEPT_TOKENS or KEPT_SHARE of the budget, whichever is less. In either case the tail is no longer than there is room
    for beside the summary, if there is any.
    """

    name = "compact"
    summary = "the model writes a summary that replaces all but the most recent messages"
    traits = Traits(summarises=True, takes="summary")
    instructions = INSTRUCTIONS
    reads_all = True

    def _tail_start(self, summary: int) -> int:
        low = self._low_water
        tail_tokens = min(KEPT_TOKENS, self.budget * KEPT_SHARE) if low is None else self._kept_at(low)
        return self._tail(tail_tokens, summary)
