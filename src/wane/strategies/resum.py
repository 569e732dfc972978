"""ReSum: at the limit everything becomes the question and a summary, and work starts again from them.

After Wu et al., "ReSum: Unlocking Long-Horizon Search Intelligence via Context Summarization", 2025, arXiv 2509.13313.
"""

from __future__ import annotations

from typing import Final

from wane.strategies.strategy import Traits
from wane.strategies.summarised import Summarised

INSTRUCTIONS: Final = """\
The context is full. Write a summary of all the work on the user's latest request; only that request and your summary \
will be left, and work starts again from these two.

Say:
- what has been established, each with the evidence for it: exact names, values, paths and quotations
- what has been done, and what was tried and failed
- what is still missing or uncertain
- what to do next
- from earlier requests of the user, what still matters, in the user's own words

Guess nothing that is not in the conversation. Call no tool. Answer with the summary alone."""
"""Instructions of the summarising call."""


class ReSum(Summarised):
    """Lets the model summarise the whole conversation when the view is over the budget.

    The view then holds the system items, the question and the summary. Not even the latest message stays, because the
    summarising call has read it, unless it is an answer that nothing has followed: if the model goes on with calls, it
    may be all that parts two turns of the user (R12b).
    """

    name = "resum"
    summary = "everything becomes the question and a summary, and work starts again (ReSum)"
    traits = Traits(summarises=True, takes="summary")
    instructions = INSTRUCTIONS
    keeps_question = True

    def _tail_start(self, summary: int) -> int:  # noqa: ARG002 - nothing is weighed against it
        groups = self._groups
        return groups.latest if groups.ends_with_answer else len(groups.first)
