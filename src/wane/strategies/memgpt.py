"""MemGPT's queue: a warning at memory pressure, and a flush of the oldest messages into a recursive summary.

After Packer et al., "MemGPT: Towards LLMs as Operating Systems", 2023, arXiv 2310.08560, section 2.2.
"""

from __future__ import annotations

from typing import Final

from wane.strategies.strategy import Traits
from wane.strategies.summarised import Summarised

WARN_AT: Final = 0.7
"""Share of the budget above which the model is warned: the paper's example of a warning token count."""

FLUSH_TO: Final = 0.5
"""Share of the budget that a flush leaves: the paper's example evicts half of the context window."""

WARNING: Final = (
    "the context window is nearly full. The oldest messages will soon leave it, for a summary of them; what they held "
    "can then be found with `recall`, by a search. Write down now, in your answer, whatever of them you must not lose."
)
"""The warning, as a note at the end of one request."""

INSTRUCTIONS: Final = """\
These messages are about to leave the context, and your summary takes their place. If they begin with a summary of \
what was before them, the new one takes the place of that too.

Keep what the rest of the conversation may build on: the user's requests, what was found, decided and done, names and \
values that will be needed, and what is not finished. What you leave out can still be found, but only by whoever knows \
that it exists. Call no tool. Answer with the summary alone."""
"""Instructions of the summarising call."""


class MemGPT(Summarised):
    """Flushes the oldest messages into a recursive summary when the view is over the budget.

    A flush goes down to the low water, FLUSH_TO of the budget by default, beside a summary of SUMMARY_TOKENS. The
    summary is made of the one before it and of what is flushed, whoever said it: the user's turns are in the queue as
    any other. The latest assistant message with its results stays. The conversation warns the model ahead of a flush
    (WARN_AT), and gives it the tool `recall` to search what was flushed.
    """

    name = "memgpt"
    summary = "the oldest messages are flushed into a recursive summary, and searchable (MemGPT)"
    traits = Traits(searches=True, summarises=True, takes="summary")
    instructions = INSTRUCTIONS

    def _tail_start(self, summary: int) -> int:
        return self._tail(self._kept_at(self._low_water or FLUSH_TO), summary)
