"""The loss of one strategy over one session, call by call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from wane.core.errors import HistoryError
from wane.lab.loss.figures import CallLoss, LossTotals, Reread
from wane.lab.loss.index import Index
from wane.lab.loss.rereading import Rereading
from wane.lab.loss.summaries import Summaries
from wane.lab.loss.view import ViewContents
from wane.strategies.base import Slot


class Loss:
    """What one run of a strategy lost.

    Args:
        index: the session; runs share it.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._shown = ViewContents(index)
        self._reread = Rereading(index, self._shown.whole)
        self._reread_at_best = Rereading(index, self._shown.whole)
        self._summaries = Summaries(index)
        self._next = 0
        self._lost_users: set[int] = set()
        self._judged: list[CallLoss] = []

    def observe(self, call: int, view: Sequence[Slot], same: int = 0) -> CallLoss:
        """Judge a view by what the model call needed.

        Args:
            call: number of the model call in the session, from 0; calls are observed in order.
            view: what the strategy showed it; each item at most once.
            same: leading slots that are known to be those of the last view.

        Raises:
            HistoryError: if this call or a later one was observed already.
        """
        if call < self._next:
            raise HistoryError(f"call {call} is observed after call {self._next - 1}: observe calls in order")
        self._next = call + 1
        before = self._index.session.calls[call].first
        self._shown.show(view, before, same)
        self._lost_users |= self._shown.lost_users
        loss = self._judge(call, before)
        self._judged.append(loss)
        return loss

    def totals(self) -> LossTotals:
        """Return the figures over all calls observed."""
        judged = self._judged
        found = sum(it.found for it in judged)
        return LossTotals(
            calls=len(judged),
            uses=sum(it.uses for it in judged),
            found=found,
            found_at_best=found + self._summaries.held_at_best(),
            edits=sum(it.edits for it in judged),
            grounded=sum(it.grounded for it in judged),
            reread=_sum(it.reread for it in judged),
            reread_at_best=_sum(it.reread_at_best for it in judged),
            user_turns=judged[-1].user_turns if judged else 0,
            user_turns_lost=len(self._lost_users),
            invalid_pairs=sum(it.invalid_pairs for it in judged),
            invalid_views=sum(it.invalid_pairs > 0 for it in judged),
        )

    def _judge(self, call: int, before: int) -> CallLoss:
        shown = self._shown
        uses, missing = self._missing(call)
        unknown = missing if shown.summaries else []
        if unknown:
            self._summaries.want(shown.summaries, [word for word, _ in unknown])
        needed = self._index.needed_reads(call)
        gone = [item for item in needed if not shown.whole[item]]
        users = bisect_left(self._index.users, before)
        return CallLoss(
            uses=uses,
            found=uses - len(missing),
            unknown=len(unknown),
            edits=len(needed),
            grounded=len(needed) - len(gone),
            reread=self._reread.fetch(before, gone, missing),
            reread_at_best=self._reread_at_best.fetch(before, gone, [] if unknown else missing),
            user_turns=users,
            user_turns_intact=users - len(shown.lost_users),
            invalid_pairs=len(shown.broken),
        )

    def _missing(self, call: int) -> tuple[int, list[tuple[int, int]]]:
        """Return how many identifiers a call uses, and those that its view does not hold."""
        whole, held, postings = self._shown.whole, self._shown.held, self._index.postings
        uses = 0
        missing = []
        for word, count in self._index.uses(call):
            uses += 1
            # The latest place is the likeliest to be in view.
            if whole[postings[word][count - 1]] or word in held:
                continue
            if not any(map(whole.__getitem__, postings[word][:count])):
                missing.append((word, count))
        return uses, missing


def _sum(fetched: Iterable[Reread]) -> Reread:
    return sum((it for it in fetched if it.results), Reread())
