"""The figures of loss: of one model call, and of many."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Reread:
    """Content to fetch again.

    Attributes:
        results: number of fetches; each is a tool call that costs the agent a turn.
        tokens: tokens that they add to the view.
    """

    results: int = 0
    tokens: int = 0

    def __add__(self, other: Reread) -> Reread:
        return Reread(self.results + other.results, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class CallLoss:
    """The content that one model call needed, and how much of it the view held; see docs/lab/loss.md.

    Attributes:
        uses: identifiers in its output that occurred in the history before it, each once.
        in_view: identifiers of these that the view held.
        edits: files that it edits and that had been read before.
        grounded: files of these whose latest read the view held unchanged.
        reread: content to fetch again.
        repeats: calls of tools that had been made before, with the same arguments.
        faults: calls of these whose earlier result the view did not hold unchanged.
        user_turns: user turns before the call.
        invalid_pairs: calls in view without their result, and results without their call.
    """

    uses: int
    in_view: int
    edits: int
    grounded: int
    reread: Reread
    repeats: int
    faults: int
    user_turns: int
    invalid_pairs: int


@dataclass(frozen=True, slots=True)
class LossTotals:
    """The loss over all model calls; totals of several sessions add up with `+`.

    Attributes:
        uses: uses of identifiers that had occurred before, each identifier once per call.
        in_view: uses that the view held.
        in_view_at_best: the same if each summary without text held the most useful identifiers that fit its length.
        edits: edits of files that had been read before.
        grounded: edits of these whose file's latest read the view held.
        reread: content to fetch again.
        repeats: calls of tools that had been made before, with the same arguments.
        faults: calls of these whose earlier result the view did not hold unchanged.
        user_turns: user turns before the last call.
        user_turns_lost: user turns of these that were missing or changed at some call.
        invalid_pairs: calls without their result and results without their call, over all views.
    """

    uses: int = 0
    in_view: int = 0
    in_view_at_best: float = 0
    edits: int = 0
    grounded: int = 0
    reread: Reread = Reread()
    repeats: int = 0
    faults: int = 0
    user_turns: int = 0
    user_turns_lost: int = 0
    invalid_pairs: int = 0

    def __add__(self, other: LossTotals) -> LossTotals:
        names = [field.name for field in fields(self)]
        return LossTotals(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def reference_recall(self) -> float:
        """Share of the uses that the view held; 1.0 if there were none."""
        return _share(self.in_view, self.uses)

    @property
    def reference_recall_at_best(self) -> float:
        """The same if each summary without text were the best of its length; equal if all summaries had texts."""
        return _share(self.in_view_at_best, self.uses)

    @property
    def edit_grounding(self) -> float:
        """Share of the edits whose file's latest read the view held; 1.0 if there were none."""
        return _share(self.grounded, self.edits)

    @property
    def user_turns_intact(self) -> float:
        """Share of the user turns that every view held unchanged; 1.0 if there were none."""
        return _share(self.user_turns - self.user_turns_lost, self.user_turns)


def _share(part: float, total: int) -> float:
    return part / total if total else 1.0
