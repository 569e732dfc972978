"""The loss of one strategy over one session, call by call."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from wane.lab.cache.prefix import common_prefix
from wane.lab.loss.need_index import NONE, Index
from wane.strategies.strategy import Slot, Substitute


@dataclass(frozen=True, slots=True)
class Reread:
    """Content to fetch again: the number of results, each a tool call that costs a turn, and their tokens."""

    results: int = 0
    tokens: int = 0

    def __add__(self, other: Reread) -> Reread:
        return Reread(self.results + other.results, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class CallLoss:
    """The content that one model call needed, and how much of it the view held; see research/docs/loss.md.

    Attributes:
        uses: number of identifiers in its output that occurred in the history before it.
        in_view: how many of them the view held.
        edits: number of files that it edits and that had been read before.
        grounded: how many of them have their latest read unchanged in the view.
        reread: content to fetch again.
        repeats: number of tool calls that had been made before with the same arguments.
        faults: how many of them lack their earlier result, unchanged, in the view.
        user_turns: user turns before the call.
        invalid_pairs: calls in view without their result, and results without their call.
    """

    uses: int = 0
    in_view: int = 0
    edits: int = 0
    grounded: int = 0
    reread: Reread = Reread()
    repeats: int = 0
    faults: int = 0
    user_turns: int = 0
    invalid_pairs: int = 0


@dataclass(frozen=True, slots=True)
class LossTotals(CallLoss):
    """The loss over all model calls: sums, but `user_turns` are those before the last call. Sessions add up with `+`.

    Attributes:
        in_view_at_best: `in_view` if each summary of unknown text held the most useful identifiers that fit its length.
        user_turns_lost: user turns that were missing or changed at some call.
    """

    in_view_at_best: float = 0
    user_turns_lost: int = 0

    def __add__(self, other: LossTotals) -> LossTotals:
        names = [field.name for field in fields(self)]
        return LossTotals(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def reference_recall(self) -> float:
        """Share of the uses that the view held; 1.0 if there were none."""
        return _share(self.in_view, self.uses)

    @property
    def reference_recall_at_best(self) -> float:
        """The same if each summary of unknown text were the best of its length."""
        return _share(self.in_view_at_best, self.uses)

    @property
    def edit_grounding(self) -> float:
        """Share of the edits for which the view held the latest read of the file; 1.0 if there were none."""
        return _share(self.grounded, self.edits)

    @property
    def user_turns_intact(self) -> float:
        """Share of the user turns that every view held unchanged; 1.0 if there were none."""
        return _share(self.user_turns - self.user_turns_lost, self.user_turns)


def _share(part: float, total: int) -> float:
    return part / total if total else 1.0


class ViewContents:
    """The current view of one run.

    A view usually begins like the previous one, except where a strategy acted. So the shared beginning is skipped, and
    only the slots after it are compared.

    Attributes:
        unchanged: by item, 1 if the view holds it unchanged, else 0.
        in_texts: identifiers in the texts of substitutes.
        summaries: summaries whose text is unknown.
        lost_users: user turns that were missing or changed in this view or an earlier one.
        broken: calls whose pair is broken: the view holds them or their result alone.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._view: list[Slot] = []
        self._before = 0
        self._standing: set[int] = set()
        self._holds: dict[str, frozenset[int]] = {}
        self._is_user = bytearray(len(index.partner))
        for user in index.users:
            self._is_user[user] = 1
        self.unchanged = bytearray(len(index.partner))
        self.in_texts: set[int] = set()
        self.summaries: list[Substitute] = []
        self.lost_users: set[int] = set()
        self.broken: set[int] = set()

    def show(self, view: Sequence[Slot], before: int, same: int = 0) -> None:
        """Take the view of the next model call, which has `before` items ahead of it.

        `same` leading slots are known to be those of the last view.
        """
        same = common_prefix(self._view, view, same)
        removed, removed_texts = _split(self._view[same:])
        entered, entered_texts = _split(view[same:])
        self._view[same:] = view[same:]
        changed = removed ^ entered
        for item in removed - entered:
            self.unchanged[item] = 0
        for item in entered - removed:
            self.unchanged[item] = 1
        if removed_texts != entered_texts:
            changed |= self._take_substitutes([slot for slot in self._view if isinstance(slot, Substitute)])
        changed.update(range(self._before, before))
        self._before = before
        self._check(changed)

    def _take_substitutes(self, substitutes: list[Substitute]) -> set[int]:
        """Note the texts in the view, and return the items whose substitutes came or went."""
        texts = {slot.text for slot in substitutes}
        standing = {slot.index for slot in substitutes if slot.index is not None}
        changed = standing ^ self._standing
        self._standing = standing
        # Texts that left the view are forgotten: shortened results can be many and long.
        cached, self._holds = self._holds, {}
        for text in texts:
            self._holds[text] = cached[text] if text in cached else self._index.holds(text)
        self.in_texts = set().union(*self._holds.values())
        self.summaries = [slot for slot in substitutes if not slot.text and slot.tokens and slot.index is None]
        return changed

    def _check(self, changed: set[int]) -> None:
        """Check the pairs and user turns among items that changed or are new."""
        partners, unchanged, standing = self._index.partner, self.unchanged, self._standing
        for item in changed:
            partner = partners[item]
            if partner != NONE:
                alone = (unchanged[item] or item in standing) != (unchanged[partner] or partner in standing)
                # A call whose result has not come yet is pending.
                if alone and max(item, partner) < self._before:
                    self.broken.add(min(item, partner))
                else:
                    self.broken.discard(min(item, partner))
            elif self._is_user[item] and not unchanged[item]:
                self.lost_users.add(item)


def _split(slots: Sequence[Slot]) -> tuple[set[int], list[Substitute]]:
    texts = [slot for slot in slots if isinstance(slot, Substitute)]
    return {slot for slot in slots if not isinstance(slot, Substitute)}, texts


_CHARACTERS_PER_TOKEN: Final = 4


class Loss:
    """The loss of one run of a strategy over the session of an index, which runs share."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._contents = ViewContents(index)
        self._reread = _Rereading(index, self._contents.unchanged)
        self._summaries = _Summaries(index)
        self._judged: list[CallLoss] = []

    def observe(self, call: int, view: Sequence[Slot], same: int = 0) -> CallLoss:
        """Judge a view by the needs of the model call.

        Args:
            call: number of the model call in the session, from 0; calls are observed in order.
            view: the view that the strategy gave it; each item at most once.
            same: leading slots that are known to be those of the last view.
        """
        before = self._index.session.calls[call].first
        contents = self._contents
        contents.show(view, before, same)
        uses, missing = self._missing(call)
        if missing and contents.summaries and not self._index.session.calls[call].inherited:
            self._summaries.want(contents.summaries, [word for word, _ in missing])
        needed = self._index.needed_reads[call]
        gone = [item for item in needed if not contents.unchanged[item]]
        repeated = self._index.repeats.get(call, ())
        loss = CallLoss(
            uses=uses,
            in_view=uses - len(missing),
            edits=len(needed),
            grounded=len(needed) - len(gone),
            reread=self._reread.fetch(before, gone, missing),
            repeats=len(repeated),
            faults=sum(not contents.unchanged[item] for item in repeated),
            user_turns=bisect_left(self._index.users, before),
            invalid_pairs=len(contents.broken),
        )
        self._judged.append(loss)
        return loss

    def totals(self) -> LossTotals:
        """Return the figures over all calls observed, without those that count for another session."""
        calls = self._index.session.calls
        judged = [loss for loss, call in zip(self._judged, calls, strict=False) if not call.inherited]
        sums: dict[str, Any] = {}
        for field in fields(CallLoss):
            values = [getattr(loss, field.name) for loss in judged]
            sums[field.name] = sum(values, getattr(CallLoss(), field.name))
        sums["user_turns"] = judged[-1].user_turns if judged else 0
        best = sums["in_view"] + self._summaries.held_at_best()
        return LossTotals(**sums, in_view_at_best=best, user_turns_lost=len(self._contents.lost_users))

    def _missing(self, call: int) -> tuple[int, list[tuple[int, int]]]:
        """Return how many identifiers a call uses, and which of them its view lacks, as `uses` of the index does."""
        in_view, in_texts, postings = self._contents.unchanged, self._contents.in_texts, self._index.postings
        uses = 0
        missing = []
        for word, count in self._index.uses(call):
            uses += 1
            # The latest item is the likeliest to be in view.
            if in_view[postings[word][count - 1]] or word in in_texts:
                continue
            if not any(map(in_view.__getitem__, postings[word][:count])):
                missing.append((word, count))
        return uses, missing


class _Rereading:
    """The fetches of one run.

    A fetch brings back one whole item: the latest result that held an identifier, or the latest read of a file. The
    copy is added at the end of the view. It shares the fate of its companion, the first result recorded after it: once
    the strategy evicts or changes that one, the copy is gone too, and is fetched again when it is next needed.

    Args:
        index: the session.
        in_view: by item, 1 if the current view holds it unchanged.
    """

    def __init__(self, index: Index, in_view: bytearray) -> None:
        self._index = index
        self._in_view = in_view
        self._back: dict[int, int | None] = {}  # fetched items, with their companions

    def fetch(self, before: int, reads: Sequence[int], missing: Sequence[tuple[int, int]]) -> Reread:
        """Fetch the content that one model call needs and that neither the view nor an earlier fetch holds.

        Args:
            before: number of items before the call.
            reads: items that last showed a file that the call edits, and that are not in view.
            missing: identifiers that the view does not hold, each with the number of its postings before the call.
        """
        if not self._back and not reads and not missing:
            return Reread()
        for item, companion in list(self._back.items()):
            if companion is not None and companion < before and not self._in_view[companion]:
                del self._back[item]
        needed = list(dict.fromkeys(item for item in reads if item not in self._back))
        self._back.update(dict.fromkeys(needed, self._companion(before)))
        # Oldest first: an old result often holds what later results held too.
        for item, word, count in sorted((self._latest(word, count), word, count) for word, count in missing):
            if item >= 0 and self._back.keys().isdisjoint(self._index.postings[word][:count]):
                self._back[item] = self._companion(before)
                needed.append(item)
        return Reread(len(needed), sum(self._index.tokens[item] for item in needed))

    def _companion(self, before: int) -> int | None:
        results = self._index.results
        position = bisect_left(results, before)
        return results[position] if position < len(results) else None

    def _latest(self, word: int, count: int) -> int:
        """Return the latest result that held an identifier; -1 if none did and no fetch brings it back."""
        is_result = self._index.is_result
        return next((item for item in reversed(self._index.postings[word][:count]) if is_result[item]), -1)


class _Summaries:
    """Identifiers that calls needed while their views held summaries of unknown text."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # By identity, because two summaries of unknown text and equal length are still two. The value keeps them alive,
        # so that no identity is used again.
        self._wanted: dict[tuple[int, ...], tuple[list[Substitute], Counter[int]]] = {}

    def want(self, summaries: Sequence[Substitute], words: Iterable[int]) -> None:
        """Note identifiers that a call used and that only these summaries may have held."""
        key = tuple(map(id, summaries))
        self._wanted.setdefault(key, (list(summaries), Counter()))[1].update(words)

    def held_at_best(self) -> float:
        """Return the most uses that texts of these lengths could have served.

        An identifier takes its characters and one separator, at four characters per token. If the last one fits only in
        part, it counts in part.
        """
        served = 0.0
        for summaries, counts in self._wanted.values():
            room = _CHARACTERS_PER_TOKEN * sum(summary.tokens for summary in summaries)
            costs = {word: self._index.lengths[word] + 1 for word in counts}
            best_first = sorted((-number / costs[word], word) for word, number in counts.items())
            for _, word in best_first:
                served += min(1.0, room / costs[word]) * counts[word]
                room -= costs[word]
                if room <= 0:
                    break
        return served
