"""ACON: guidelines compress long observations as they come, and the history at a threshold.

After Kang et al., "ACON: Optimizing Context Compression for Long-horizon LLM Agents", 2025, arXiv 2510.00615.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from wane.core import Item, Kind
from wane.core.errors import ConfigError, HistoryError
from wane.formats.message_format import Part
from wane.strategies.strategy import Fitted, Slot, StrategySettings, Substitute, SummaryNeeded, Traits
from wane.strategies.summarised import Summarised

LONG: Final = 1_024
"""Tokens above which an observation is compressed: the threshold reported for the paper's experiments."""

SHARE: Final = 0.5
"""Assumed share of its tokens that a compressed observation has where nobody compresses it, as in a replay."""

GUIDELINE: Final = """\
You maintain the working memory of an agent. Only your answer and the agent's latest turn will be left of its work.

Keep a record under these headings, and take over from an earlier record what still holds:
## Progress - what is done, in order, each step with its outcome
## Facts - identifiers, paths, values, signatures and results that later steps may need, exactly as they were seen
## State - what the environment is in now: files changed, processes running, where things are
## Errors - what failed, why, and what avoids it
## Next - what is left of the user's request

Drop what was only on the way. Keep no opinion. Call no tool. Answer with the record alone."""
"""Guideline by which the history is compressed."""

OBSERVATION: Final = """\
You shorten what a tool has returned to an agent, before the agent reads it. The agent is working on the user's \
request.

Keep word for word whatever it may act on: identifiers, paths, line numbers, values, signatures, errors, and the lines \
that the request is about. Keep the order. Say in brackets what kind of thing was left out, and how much of it. Add \
nothing. Call no tool. Answer with the shortened output alone.

<output>
{output}
</output>"""
"""Guideline by which an observation, {output}, is compressed."""


class Acon(Summarised):
    """Lets the model compress long observations before it first sees them, and the history over the budget.

    An observation is a tool result that no person gave. One that is longer than `long` is replaced by what the model
    makes of it, if that is shorter. When the view is over the budget nevertheless, everything but the system items, the
    question and the latest assistant message with its results is replaced by a summary.

    Args:
        settings: budget and overhead.
        long: tokens above which an observation is compressed.

    Raises:
        ConfigError: for a negative number of tokens.
    """

    name = "acon"
    summary = "guidelines compress long tool results as they come, and then the history (ACON)"
    traits = Traits(summarises=True, takes="compressed")
    instructions = GUIDELINE
    keeps_question = True

    def __init__(self, settings: StrategySettings, *, long: int = LONG) -> None:
        if long < 0:
            raise ConfigError(f"observations longer than {long} tokens cannot be compressed; it must be at least 0")
        super().__init__(settings)
        self._long = long
        self._texts: dict[int, str] = {}  # of long observations that the model has not seen
        self._asked: int | None = None
        self._fresh: dict[int, Substitute] = {}  # compressed since the last view

    def add(self, item: Item, part: Part) -> None:
        """Take in the next item."""
        index = len(self._groups.tokens)
        super().add(item, part)
        # What a person said (R21), and what loaded tools (R15), stays as it is.
        stays = item.person or item.loads
        if item.kind is Kind.RESULT and item.tokens > self._long and part.text and not stays:
            self._texts[index] = part.text

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        """Ask for each long observation to be compressed, and then for a summary if the view is over the budget."""
        groups = self._groups
        # Once the model has spoken, it has seen what was there.
        answered = groups.first[groups.latest] if groups.latest >= 0 else 0
        # What a provider's own tool returned, within an answer, is not ours to change.
        self._texts = {
            at: text
            for at, text in self._texts.items()
            if at > answered and groups.of[at] >= self._cut and at not in groups.served
        }
        self._asked = next(iter(self._texts), None)
        if (index := self._asked) is not None:
            task: list[Slot] = [slot for slot in self._view if slot in self._pinned or slot in self._question]
            return SummaryNeeded(
                task, OBSERVATION.replace("{output}", self._texts[index]), max(1, int(groups.tokens[index] * SHARE))
            )
        return self._with_compressions(super().fit(cold=cold))

    def take_summary(self, text: str, tokens: int) -> Fitted | SummaryNeeded:
        """Replace an observation or the history with what the model made of it."""
        if self._asked is None:
            return self._with_compressions(super().take_summary(text, tokens))
        index, self._asked = self._asked, None
        del self._texts[index]
        if tokens < self._groups.tokens[index]:
            self._fresh[index] = Substitute(text, tokens, index)
            self._compress([self._fresh[index]])
        return self.fit()

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """Place and text of the latest summary, and the compressed observations in view."""
        compressed = [slot for slot in self._view if isinstance(slot, Substitute) and slot.index is not None]
        return _record(self._done, compressed) if self._done or compressed else None

    def redo(self, done: Mapping[str, Any]) -> None:
        """Put an earlier summary and compressed observations back in their places.

        Raises:
            HistoryError: if no message begins there, or an item is not a result.
        """
        compressed = [Substitute(str(text), int(tokens), at) for at, text, tokens in done.get("compressed", ())]
        for substitute in compressed:
            at = substitute.index
            if not isinstance(at, int) or not 0 <= at < len(self._groups.of) or self._groups.call[at] == at:
                raise HistoryError(f"item {at!r} was recorded as compressed, but it is no tool result here")
        self._compress(compressed)
        if "from" in done or not compressed:
            super().redo(done)

    def _tail_start(self, summary: int) -> int:  # noqa: ARG002 - nothing is weighed against it
        return self._groups.latest

    def _with_compressions(self, outcome: Fitted | SummaryNeeded) -> Fitted | SummaryNeeded:
        """Say of a view what was compressed for it."""
        if isinstance(outcome, SummaryNeeded) or not self._fresh:
            return outcome
        fresh, self._fresh = self._fresh, {}
        return Fitted(outcome.view, ran=True, done=_record(self._done if outcome.ran else None, fresh.values()))

    def _compress(self, observations: Iterable[Substitute]) -> None:
        instead = {observation.index: observation for observation in observations}
        for number, slot in enumerate(self._view):
            if isinstance(slot, int) and slot in instead:
                self._view[number] = instead[slot]
                self._held += instead[slot].tokens - self._groups.tokens[slot]


def _record(done: Mapping[str, Any] | None, compressed: Iterable[Substitute]) -> dict[str, Any]:
    return {
        **(done or {}),
        "compressed": [[text.index, text.text, text.tokens] for text in compressed],
    }
