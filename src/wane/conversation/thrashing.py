"""Detects a window that is too small for the work: passes run every few calls, or content is fetched repeatedly.

It takes constant time for each item and keeps only hashes of recent calls. It counts what a history shows, so that a
session that is repeated from its records has the same counts; a state holds those that its messages do not show.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from wane.core import DELIMITER, Item, Kind, Room
from wane.core.delimiter import quote
from wane.core.room import rounded_up
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity

# `research/docs/warnings.md` says how these limits were chosen.

PASSES: Final = 5
"""Number of passes in a row that is too many."""

NEAR: Final = 3
"""Most model calls from one of these passes to the next."""

FETCHES: Final = 4
"""Number of times that the same call is too often, if each time its last result had been evicted."""

WITHIN: Final = 20
"""Most model calls from one of these calls to the next."""

APART: Final = 10
"""Model calls between two passes under the advised budget."""

_KNOWN: Final = 512  # calls whose latest result is known


@dataclass(frozen=True, slots=True)
class Thrashing:
    """A window that evicts what the work needs.

    Attributes:
        budget: tokens that the view may hold.
        advised: the budget that would help, by the growth of this session.
        passes: number of passes in a row, each at most NEAR model calls after the last; 0 if they are not too many.
        calls: number of model calls in which they ran.
        tool: the tool that fetched the same content repeatedly, because it was evicted; None if none did.
        fetches: number of times that it did.
    """

    budget: int
    advised: int
    passes: int = 0
    calls: int = 0
    tool: str | None = None
    fetches: int = 0

    @property
    def warning(self) -> str:
        """Sentences on what happened and what helps."""
        signs = []
        if self.passes:
            signs.append(f"{self.passes} passes ran within {self.calls} model calls")
        if self.tool is not None:
            signs.append(
                f"{quote(self.tool)} fetched the same content {self.fetches} times, as it was evicted each time"
            )
        return (
            f"The budget of {self.budget:,} tokens is too small for this work: {', and '.join(signs)}. "
            f"Set a budget of {self.advised:,}, or have the agent do less at once."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {**asdict(self), "warning": self.warning}


@dataclass(slots=True)
class _Fetch:
    """The latest result of a call.

    Attributes:
        index: the call's index.
        tool: the called tool.
        result: index of the result; None while there is none.
        call: number of the model call that made it.
        times: number of times that it was made in a row, each time after the last result had been evicted.
    """

    index: int
    tool: str
    result: int | None
    call: int
    times: int = 1


class ThrashingDetector:
    """Counts passes and fetches."""

    def __init__(self) -> None:
        self._calls = 0  # model calls so far
        self._work = 0  # tokens of calls, results and the model's words so far
        self._passes = deque[int](maxlen=PASSES)  # model calls ahead of the latest passes in a row
        self._fetches = OrderedDict[int, _Fetch]()
        self._open = dict[str | None, _Fetch]()
        self._worst: _Fetch | None = None

    def note(
        self, item: Item, arguments: str | None, index: int, shows: Callable[[int], bool], *, begins: bool
    ) -> None:
        """Take in the next item of work: a result, or an item of the model's.

        Args:
            item: the item.
            arguments: for a call, its arguments, which the item need not have.
            index: its index.
            shows: whether an item is in the view.
            begins: whether it begins a message of the model's.
        """
        self._work += item.tokens
        self._calls += begins
        if item.kind is Kind.RESULT:
            if (fetch := self._open.pop(item.call_id, None)) is not None:
                fetch.result = index
        elif item.kind is Kind.CALL and item.tool is not None and item.tool != DELIMITER:
            self._open[item.call_id] = self._note_fetch(item.tool, arguments, index, shows)

    def note_pass(self) -> None:
        """Note that content has left the view for the next request."""
        if self._passes and self._calls - self._passes[-1] > NEAR:
            self._passes.clear()
        if not self._passes or self._passes[-1] != self._calls:
            self._passes.append(self._calls)

    def state(self, low_water: float, find_room: Callable[[], Room | None]) -> Thrashing | None:
        """Return the thrashing at the next request; None if there is none.

        Args:
            low_water: share of the budget to which a pass evicts; at 1, frequent passes are intended.
            find_room: returns the room that the budget leaves for the work; there is none without a budget.
        """
        passes = calls = 0
        if low_water < 1 and len(self._passes) == PASSES and self._calls - self._passes[-1] <= NEAR:
            passes = PASSES
            calls = self._passes[-1] - self._passes[0] + 1
        worst = self._worst
        if worst is not None and self._calls - worst.call > WITHIN:
            worst = None
        if not passes and worst is None:
            return None
        room = find_room()
        if room is None:
            return None
        thrashing = Thrashing(room.budget, self._advise_budget(room, low_water), passes, calls)
        return thrashing if worst is None else replace(thrashing, tool=worst.tool, fetches=worst.times)

    def export(self) -> dict[str, Any]:
        """Return what does not follow from the items alone, as JSON data."""
        repeated = [fetch for fetch in self._fetches.values() if fetch.times > 1 and self._calls - fetch.call <= WITHIN]
        return {
            "passes": list(self._passes),
            "fetches": [[fetch.index, fetch.times] for fetch in repeated],
            "worst": None if self._worst is None else self._worst.index,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `export` returned to a detector that has taken in the same items."""
        fetches = {fetch.index: fetch for fetch in self._fetches.values()}
        for index, times in state["fetches"]:
            fetches[index].times = times
        self._passes.extend(state["passes"])
        self._worst = fetches.get(state["worst"])

    def _note_fetch(self, tool: str, arguments: str | None, index: int, shows: Callable[[int], bool]) -> _Fetch:
        """Return a call, with the number of times that it was repeated because its result was evicted."""
        key = hash((tool, arguments))
        fetch = _Fetch(index, tool, None, self._calls)
        before = self._fetches.pop(key, None)
        if before is not None and before.result is not None:
            if not shows(before.result) and self._calls - before.call <= WITHIN:
                fetch.times = before.times + 1
            # A test that is run again after each change fetches nothing that was known.
            if fetch.times >= FETCHES and judge_call(tool, arguments).activity is Activity.EXPLORE:
                self._worst = fetch
            elif before is self._worst:
                self._worst = None  # the window holds its result now
        self._fetches[key] = fetch
        if len(self._fetches) > _KNOWN:
            self._fetches.popitem(last=False)
        return fetch

    def _advise_budget(self, room: Room, low_water: float) -> int:
        """Return the budget under which passes would be APART model calls apart, if the work grows as before."""
        growth = self._work / max(1, self._calls)
        # A pass frees at most the share above low water; half is assumed where a policy takes less at a time.
        needed = room.fixed + growth * APART / (1 - min(low_water, 0.5))
        return max(rounded_up(needed), room.advised, rounded_up(room.budget + 1))
