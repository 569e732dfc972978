"""Groups of messages with their results, and what the strategies share that cut whole groups off.

A group is what providers take whole or not at all: an answer with the results of its calls, and what goes on with it.
An answer goes on in another one where the provider ran a tool between both: Anthropic ends an answer with a call of its
own (`pause_turn`, or beside calls of the client's tools), and begins the next one with its result. So it does where the
next one needs its reasoning (R12), as a call needs reasoning that came in a message of its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from wane.core import Item, Kind
from wane.core.errors import HistoryError
from wane.core.items import ASSISTANT, WORK
from wane.core.standing import InForce
from wane.core.view import MessageStarts
from wane.formats.message_format import Part
from wane.strategies.strategy import Resumable, StrategySettings


class Groups:
    """Numbers the messages of a history, in order; a result is in the group of its call, wherever it stands.

    So is an answer that begins with it. A view of whole groups therefore has valid pairs and keeps coupled items (R12)
    together.

    Attributes:
        of: by item, the number of its group.
        tokens: by item, its tokens.
        first: by group, its first item.
        call: by item, the index of the call that a result answers; itself for every other item.
        latest: group of the latest assistant message, -1 before the first.
        served: results that stand in an answer, because the provider ran the tool.
    """

    def __init__(self) -> None:
        self.of = array("L")
        self.tokens: list[int] = []
        self.first = array("L")
        self.call = array("L")
        self.latest = -1
        self.served: set[int] = set()
        self._thoughts: set[int] = set()  # reasoning of the latest answer
        self._starts = MessageStarts()
        self._open: dict[str, list[int]] = {}
        self._message: int | None = None  # that of the latest item, if it is no work
        # The results of the newest message that has some, and their group.
        self._results_in: int | None = None
        self._results: list[int] = []
        self._answered = 0

    def add(self, item: Item) -> int:
        """Take in the next item and return its group.

        Raises:
            HistoryError: for a result without an open call.
        """
        index = len(self.tokens)
        begins, call = self._starts.begins(item), index
        if item.kind is Kind.RESULT:
            call = self._find_call(item, index)
            group = self._answered = self.of[call]
            if item.message != self._results_in:
                self._results_in, self._results = item.message, []
            self._results.append(index)
            if item.message is not None and item.message == self._starts.ordinal:
                self.served.add(index)
        elif item.kind in ASSISTANT and not begins:
            group = self.latest
        elif begins and item.message is not None and item.message == self._results_in:
            group = self.latest = self._answered
            self.served.update(self._results)
        elif begins and any(index + offset in self._thoughts for offset in item.needs):
            group = self.latest
        elif item.kind not in ASSISTANT and item.message is not None and item.message == self._message:
            group = len(self.first) - 1  # an image beside the user's words
        else:
            group = len(self.first)
            self.first.append(index)
            if begins:
                self.latest = group
                self._thoughts.clear()
        if item.kind is Kind.REASONING:
            self._thoughts.add(index)
        self._message = None if item.kind in WORK else item.message
        self.of.append(group)
        self.tokens.append(item.tokens)
        self.call.append(call)
        if item.kind is Kind.CALL and item.call_id is not None:
            self._open.setdefault(item.call_id, []).append(index)
        return group

    def _find_call(self, item: Item, index: int) -> int:
        waiting = self._open.get(item.call_id or "")
        if not waiting:
            raise HistoryError(f"item {index} is a result for the call {item.call_id!r}, but no such call is open")
        call = waiting.pop(0)
        if not waiting:
            del self._open[item.call_id or ""]
        return call

    @property
    def waits(self) -> bool:
        """Whether a call of the latest answer has no result, so that no turn may stand behind it."""
        return any(self.of[call] == self.latest for waiting in self._open.values() for call in waiting)

    @property
    def ends_with_answer(self) -> bool:
        """Whether nothing has followed the latest answer, so that calls of the same turn may need it (R12b)."""
        return self._starts.growing

    def at(self, index: object) -> int:
        """Return the number of groups ahead of a recorded cut, which names the item at which the rest begins.

        The rest may begin with the next item to come, and that one may be a late result of a group that was cut off.

        Raises:
            HistoryError: if no group begins there.
        """
        if isinstance(index, int) and 0 <= index <= len(self.of):
            group = bisect_left(self.first, index)
            if index == len(self.of) or self.first[self.of[index]] == index or self.call[index] != index:
                return group
        raise HistoryError(f"a cut was recorded at item {index!r}, where no message of this history begins")


class Cutting(Resumable):
    """Cuts the oldest groups off the view; those of the system, and what stands, stay (R15)."""

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        self._groups = Groups()
        self._held = 0  # tokens of the view
        self._cut = 0  # number of groups that were cut off
        self._pinned: set[int] = set()  # items that stay
        self._pinned_tokens = 0
        self._weights: list[int] = []  # by group, the tokens that go with it
        self._standing = InForce()
        self._released = False  # whether what no longer stands has left the view since the last request
        self._needs: dict[int, list[int]] = {}
        self._results: dict[int, int] = {}  # by call, its result
        self._loads: dict[int, set[str]] = {}  # by result, the tools that it loaded and that are still offered
        self._head_pairs: set[int] = set()  # calls and results that stay with the head
        self._needed: set[int] = set()  # items that stay for these, also those to come in the same message
        self._partings: dict[int, int] = {}  # by item that later groups need, the last of these groups
        self._open_parting: int | None = None  # the one of the turn that goes on
        self._questions: dict[int, int] = {}  # by item of the user, the last group of the turn that it begins
        self._has_head = False  # whether the first messages stay, whatever they hold
        self._turn: list[int] = []  # the items with which the user's latest turn began
        self._begun = False  # whether an answer to it came

    def add(self, item: Item, part: Part) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item; a late result of a call that was cut off goes too."""
        index, of = len(self._groups.tokens), self._groups.of
        group = self._groups.add(item)
        if item.needs:
            self._needs[index] = [index + offset for offset in item.needs]
        # An answer of an earlier group that this item needs parts two turns of the user (R12b).
        for needed in (index + offset for offset in item.needs if offset < 0):
            if of[needed] != group and (of[needed] >= self._cut or needed in self._pinned):
                self._partings[needed], self._open_parting = group, needed
        for offset in item.needed_by:
            self._needs.setdefault(index + offset, []).append(index)
        if self._has_head and item.kind is Kind.USER:
            self._turn = [index] if self._begun else [*self._turn, index]
            self._begun = False
        elif self._has_head and item.kind in ASSISTANT:
            self._begun = True
            self._questions.update((at, group) for at in self._turn if of[at] >= self._cut or at in self._pinned)
        if group == len(self._weights):
            self._weights.append(0)
        pinned = self._stays(item, index, group)
        if pinned:
            self._needed.discard(index)
            self._pinned.add(index)
            self._pinned_tokens += item.tokens
        else:
            self._weights[group] += item.tokens
        if pinned or group >= self._cut:
            self._view.append(index)
            self._held += item.tokens
        for replaced in self._standing.enter(index, item.standing):
            self._release(replaced)
        self._keep_needed(item, index)
        if item.kind is Kind.USER:
            self._open_parting = None
            self._keep_for(self._cut)

    def _keep_needed(self, item: Item, index: int) -> None:
        """Keep all that calls and results need which stay (R12).

        What loaded tools stays until none of its tools is offered any more (R15).
        """
        call = self._groups.call[index]
        if item.kind is Kind.RESULT:
            self._results[call] = index
        changed = call in self._needed or index in self._needed
        changed |= any(index + offset in self._pinned for offset in item.needed_by)
        if item.loads and (self._groups.of[index] >= self._cut or index in self._pinned):
            self._loads[index] = set(item.loads)
            changed = True
        for result, tools in list(self._loads.items()) if item.withdraws else ():
            tools.difference_update(item.withdraws)
            if not tools:
                del self._loads[result]
                changed = True
        if changed:
            self._set_needed(self._find_needed_at(self._cut), index)

    def _find_needed_at(self, cut: int) -> set[int]:
        """Return all items that would stay for others if the groups ahead of a cut went (R12).

        Results that stay need their calls, what these need, and what answers these.
        """
        groups, needed = self._groups, set[int]()
        pending = [*self._head_pairs, *self._loads]
        for parting, last in self._partings.items():
            if groups.of[parting] >= cut:
                break
            if last >= cut or parting == self._open_parting:
                pending.append(parting)
        # Answers behind the cut would go on with the turn of the head otherwise.
        pending += [at for at, last in self._questions.items() if groups.of[at] < cut <= last]
        while pending:
            index = pending.pop()
            if index not in needed:
                needed.add(index)
                pending += self._needs.get(index, ())
                if index < len(groups.call):
                    pending.append(groups.call[index])
                if (result := self._results.get(index)) is not None:
                    pending.append(result)
        return needed

    def _keep_for(self, cut: int) -> None:
        """Keep what later groups need of those about to go, and let go of what only the latter needed (R12)."""
        of = self._groups.of
        first = next(iter(self._partings), None)
        if not self._has_head and (first is None or of[first] >= cut):
            return
        self._set_needed(self._find_needed_at(cut), len(of) - 1)
        for question in [at for at, last in self._questions.items() if last < cut]:
            del self._questions[question]
        for needed in [at for at, last in self._partings.items() if last < cut and at != self._open_parting]:
            del self._partings[needed]

    def _set_needed(self, needed_now: set[int], index: int) -> None:
        """Let the items stay that others need, of those in view and of those to come behind an index."""
        for released in self._needed - needed_now:
            self._release(released)
        there = self._groups.of
        added = {at for at in needed_now - self._pinned if at > index or there[at] >= self._cut}
        for needed in added:
            if needed <= index:
                self._pinned.add(needed)
                self._pinned_tokens += self._groups.tokens[needed]
                self._weights[self._groups.of[needed]] -= self._groups.tokens[needed]
        self._needed = (self._needed & needed_now) | added

    def _stays(self, item: Item, index: int, group: int) -> bool:  # noqa: ARG002 - for subclasses
        """Note the next item; return whether it stays when its group goes."""
        return item.kind is Kind.SYSTEM or bool(item.standing)

    def _release(self, index: int) -> None:
        """Let an item that no longer stands go with its group, at once if that has gone (R15)."""
        group, tokens = self._groups.of[index], self._groups.tokens[index]
        self._pinned.discard(index)
        self._pinned_tokens -= tokens
        if group >= self._cut:
            self._weights[group] += tokens
        else:
            self._view.remove(index)
            self._held -= tokens
            self._released = True
