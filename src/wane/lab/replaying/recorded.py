"""Rebuilds the requests of a recorded session: the view of each call, and the size of everything in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence

from wane.core import Kind
from wane.lab.counting import Material
from wane.lab.session import ModelCall, RecordedSession
from wane.strategies.base import Slot, Substitute


def drops_reasoning(model: str) -> bool:
    """Return whether a model's provider leaves out the reasoning of all turns before the user's last one.

    Anthropic does for models before Claude Opus 4.5 and Sonnet 4.6, OpenAI for those before GPT-5.6.
    """
    if "claude" in model:
        named = re.search(r"(opus|sonnet|haiku)-(\d)(?:[-.](\d)(?!\d))?", model)
        kept_since = (4, 5) if named and named[1] == "opus" else (4, 6)
        return "claude-3" in model or bool(named and (int(named[2]), int(named[3] or 0)) < kept_since)
    version = re.search(r"gpt-(\d+)(?:\.(\d+))?", model)
    return bool(version and (int(version[1]), int(version[2] or 0)) < (5, 6))


class RecordedViews:
    """The views of a session's calls, asked for in their order.

    A view holds everything that no pass has removed or, since a compaction, the summary and what was kept.
    """

    def __init__(self, session: RecordedSession, kinds: Sequence[Kind]) -> None:
        self._session = session
        self._kinds = kinds
        self._compactions = sorted(session.compactions, key=lambda it: it.position)
        self._positions = [it.position for it in self._compactions]
        self._turns = session.user_turns
        self._evictions = deque(sorted(session.evictions, key=lambda it: it.position))
        self._left: list[int] = []  # the parts so far without those that a pass removed
        self._seen = 0
        # The number tells apart summaries that were not recorded.
        self._summaries = [Substitute(f"{number} {it.summary}", 0) for number, it in enumerate(self._compactions)]

    def of(self, call: ModelCall, *, drops_reasoning: bool = False) -> list[Slot]:
        """Return the view of a call; the summary of a compaction has no tokens in it.

        Args:
            call: the call, not earlier than the one before.
            drops_reasoning: whether the provider leaves out the reasoning of earlier turns.
        """
        at = bisect_right(self._positions, call.first) - 1
        compaction = self._compactions[at] if at >= 0 else None
        self._advance(call.first)
        turn = bisect_right(self._turns, call.first - 1) - 1
        last_turn = self._turns[turn] if drops_reasoning and turn >= 0 else 0
        kept = bisect_left(self._left, compaction.kept) if compaction else 0
        view: list[Slot] = [
            index for index in self._left[kept:] if index >= last_turn or self._kinds[index] is not Kind.REASONING
        ]
        if compaction is None:
            return view
        system = [index for index in range(compaction.kept) if self._kinds[index] is Kind.SYSTEM]
        # Codex repeats its developer messages after the summary.
        first = 1 if self._session.source == "codex" else len(system)
        return [*system[:first], self._summaries[at], *system[first:], *view]

    def _advance(self, position: int) -> None:
        self._left += range(self._seen, position)
        self._seen = position
        while self._evictions and self._evictions[0].position <= position:
            removed = set(self._evictions.popleft().removed)
            self._left = [index for index in self._left if index not in removed]


class RecordedSizes:
    """Sizes slots so that every request has its recorded size, as far as possible.

    A request that shrank without a recorded compaction keeps the sizes of what it shows.

    Args:
        material: the session, counted.

    Attributes:
        tokens: tokens of the parts, by index; -1 for parts that no request has shown yet.
    """

    def __init__(self, material: Material) -> None:
        self._overhead = material.overhead
        self._estimates = [item.tokens for item in material.items]
        self.tokens = [-1] * len(material.items)
        self._summaries: dict[str, Substitute] = {}

    def fit(self, view: Sequence[Slot], total: int) -> list[Slot]:
        """Give new slots the tokens by which the request grew, and return the view with its summary sized.

        Args:
            view: the view of the request.
            total: its recorded input tokens; 0 if they were not recorded, which leaves the estimates.
        """
        sizes = [self._size(slot) for slot in view]
        new = [slot for slot, size in zip(view, sizes, strict=True) if size < 0]
        known = self._overhead + sum(size for size in sizes if size >= 0)
        estimates = [self._estimates[it] if isinstance(it, int) else -(-len(it.text) // 4) for it in new]
        room = max(0, total - known) if total else sum(estimates)
        done, whole = 0, sum(estimates) or len(new)
        for slot, estimate in zip(new, estimates, strict=True):
            # Cumulative, so that the shares add up.
            before, done = done, done + (estimate if sum(estimates) else 1)
            share = room * done // whole - room * before // whole
            if isinstance(slot, int):
                self.tokens[slot] = share
            else:
                self._summaries[slot.text] = Substitute(slot.text, share)
        return [slot if isinstance(slot, int) else self._summaries[slot.text] for slot in view]

    def _size(self, slot: Slot) -> int:
        """Return the tokens of a slot; -1 for one that no request has shown yet."""
        if isinstance(slot, int):
            return self.tokens[slot]
        return self._summaries[slot.text].tokens if slot.text in self._summaries else -1
