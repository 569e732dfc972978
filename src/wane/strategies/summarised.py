"""What the strategies share that have a model write a summary in place of messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from wane.core import Item, Kind, chars
from wane.core.errors import HistoryError
from wane.core.items import WORK
from wane.strategies.groups import Cutting
from wane.strategies.strategy import Fitted, Slot, StrategySettings, Substitute, SummaryNeeded, item_of, unasked_error

SUMMARY_TOKENS: Final = 2_000
"""Assumed tokens of a summary that nobody writes, as in a replay."""

PREFIX: Final = "The conversation before this point was replaced by this summary of it:\n\n"
"""Beginning of a summary in the view."""


class Summarised(Cutting):
    """Lets a model summarise the head of the conversation when the view is over the budget.

    The view then holds the system items, the user's question if the strategy keeps it, the summary as a user turn, what
    loaded tools, and the tail. Everything else ahead of the tail is gone, except for what the summary says about it; so
    are earlier summaries. The question is the latest turn of the user.

    Attributes:
        instructions: instructions of the summarising call.
        keeps_question: whether the question stays.
        reads_all: whether the summarising call reads the tail too; more may then go if the summary is longer than
            assumed.
    """

    instructions: ClassVar[str]
    keeps_question: ClassVar[bool] = False
    reads_all: ClassVar[bool] = False

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._low_water = settings.low_water
        self._question: list[int] = []
        self._users: set[int] = set()
        self._asking = False  # whether nothing of the model came since the user's latest item
        self._summary = 0  # tokens of the summary in the view
        self._due: int | None = None
        self._done: dict[str, Any] | None = None

    def _stays(self, item: Item, index: int, group: int) -> bool:
        if item.kind is Kind.USER:
            self._question = [*self._question, index] if self._asking else [index]
            self._users.add(index)
            self._asking = True
        elif item.kind in WORK:
            self._asking = False
        return super()._stays(item, index, group)

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:  # noqa: ARG002 - the interface's
        """Ask for a summary if the view is over the budget and there is anything to summarise.

        It waits while a call has no result: the provider runs it before anything else can be asked.
        """
        self._due = None
        if self._held + self.overhead <= self.budget or self._groups.waits:
            return self._as_it_is()
        cut = self._tail_start(self._summary)
        staying = (self._pinned - self._needed).union(self._find_needed_at(cut), self._kept_question())
        if not any(
            isinstance(slot, int) and slot not in staying and self._groups.of[slot] < cut for slot in self._view
        ):
            return self._as_it_is()
        self._due = cut
        return SummaryNeeded(self._view if self.reads_all else self._ahead(cut), self.instructions)

    def _as_it_is(self) -> Fitted:
        """The view without a new summary; a replaced notice may have left it (R15)."""
        ran, self._released = self._released, False
        return Fitted(self._view, ran=ran, done=self._done if ran else None)

    def take_summary(self, text: str, tokens: int) -> Fitted | SummaryNeeded:
        """Replace the summarised messages with the summary."""
        if self._due is None:
            raise unasked_error(self.name)
        cut = max(self._due, self._tail_start(tokens + chars(PREFIX))) if self.reads_all else self._due
        self._replace(cut, text, tokens, self._kept_question())
        return Fitted(self._view, ran=True, done=self._done)

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """Place and text of the latest summary."""
        return self._done

    def redo(self, done: Mapping[str, Any]) -> None:
        """Put an earlier summary back in its place.

        Raises:
            HistoryError: if no message begins there, or what it kept as the user's question is not the user's.
        """
        cut, question = self._groups.at(done.get("from")), done.get("question", ())
        if wrong := set(question) - self._users:
            raise HistoryError(f"items {sorted(wrong, key=str)} were recorded as the user's, which they are not here")
        self._replace(cut, str(done.get("summary", "")), int(done.get("tokens", 0)), question)

    @abstractmethod
    def _tail_start(self, summary: int) -> int:
        """Return the number of the tail's first group beside a summary of this size in tokens."""

    def _kept_question(self) -> Sequence[int]:
        return self._question if self.keeps_question else ()

    def _ahead(self, cut: int) -> list[Slot]:
        """What the view shows of the groups ahead of a cut, and an earlier summary."""
        of = self._groups.of
        return [slot for slot in self._view if (item := item_of(slot)) is None or of[item] < cut]

    def _replace(self, cut: int, text: str, tokens: int, question: Iterable[int] = ()) -> None:
        self._keep_for(cut)
        groups, staying = self._groups, self._pinned.union(question)
        start = groups.first[cut] if cut < len(groups.first) else len(groups.of)
        self._cut, self._due, self._released = cut, None, False
        self._done = {"from": start, "summary": text, "tokens": tokens}
        if self.keeps_question:
            self._done["question"] = [*question]
        before = [slot for slot in self._view if isinstance(slot, int) and slot in staying and groups.of[slot] < cut]
        tail = [slot for slot in self._view if (item := item_of(slot)) is not None and groups.of[item] >= cut]
        summary = Substitute(PREFIX + text if text else "", tokens + chars(PREFIX))
        self._summary = summary.tokens
        # Ahead of a call that stands (R15), because some providers demand that the user speaks first.
        position = next((n for n, slot in enumerate(before) if slot in self._needed), len(before))
        self._view = [*before[:position], summary, *before[position:], *tail]
        self._held = sum(groups.tokens[slot] if isinstance(slot, int) else slot.tokens for slot in self._view)

    def _tail(self, tail_tokens: float, summary: int) -> int:
        """Return the first group of the longest tail within `tail_tokens`; it holds the latest assistant message.

        Beside a summary of `summary` tokens it takes no more than there is room for.
        """
        cut = self._groups.latest
        least = sum(self._weights[cut:]) if cut >= 0 else 0
        least += sum(
            self._groups.tokens[at] for at in self._find_needed_at(cut) - self._pinned if self._groups.of[at] < cut
        )
        remaining = tail_tokens - least
        room = self.budget - self.overhead - self._pinned_tokens - summary - least
        if room >= 0:
            # If not even the latest message has room, a shorter tail would only mean a summary for each request.
            remaining = min(remaining, room)
        while cut > self._cut and self._weights[cut - 1] <= remaining:
            cut -= 1
            remaining -= self._weights[cut]
        return cut

    def _kept_at(self, share: float) -> float:
        """Tokens of a tail with which the view fills a share of the budget, beside a summary of SUMMARY_TOKENS."""
        return self.budget * share - self.overhead - self._pinned_tokens - SUMMARY_TOKENS
