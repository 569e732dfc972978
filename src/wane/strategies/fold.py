"""Context-Folding (Sun et al. 2025): a finished episode collapses at once to its opening call and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wane.core import Added, ContextWindow, Episode, Item, Kind
from wane.core.policy import MAX_BUDGET
from wane.formats.message_format import Part
from wane.strategies.groups import Groups
from wane.strategies.strategy import Fitted, Resumable, Slot, StrategySettings, Traits

FOLDING: Final = (
    "As soon as an episode ends, its steps leave. What stays is the call that started it and the message in which you "
    "end it: say there all that you will need. User messages never leave; what your acts did is in the environment."
)
"""How folded episodes leave, for the model's guidance (`wane.core.guidance`)."""


class Fold(Resumable):
    """Leaves out the steps of an episode as soon as it has ended and its calls have been answered.

    This is branch and return, with the `delimiter` protocol in place of that paper's two tools. The call that opened
    the episode stays with its result (the branch), and so does the whole assistant message that closed it, with its
    results (the return). User turns and work outside episodes stay. It acts at each episode's end, whatever the budget,
    and does nothing else when the view is over the budget.

    An inferred episode has no return: its last text stays instead, or its last message if it has no text.

    Args:
        settings: `annotate` says whose episodes it folds; the budget only limits what is inferred.
    """

    name = "fold"
    summary = "a finished episode collapses at once to its end (Context-Folding)"
    traits = Traits(marked=True, takes="folded", leaving=FOLDING)

    def __init__(self, settings: StrategySettings) -> None:
        super().__init__(settings)
        # The window follows the protocol, unless the episodes come from elsewhere; it never evicts anything.
        self._window = ContextWindow(MAX_BUDGET, tool_classes=settings.tool_classes)
        self._annotator = settings.annotator()
        self._groups = Groups()
        self._needs: dict[int, list[int]] = {}
        self._held: set[int] = set()  # items of folded episodes that a remaining item still needs
        self._texts: set[int] = set()
        # What stands, in force or not (R15), and a person's answers with their calls (R21).
        self._staying: set[int] = set()
        # Episodes not folded yet; by episode, the call that opened it and the message that closed it.
        self._live: list[Episode] = []
        self._openings: dict[Episode, int] = {}
        self._closings: dict[Episode, int] = {}

    def add(self, item: Item, part: Part) -> Added:
        """Take in the next item.

        Raises:
            HistoryError: as `ContextWindow.add` does.
        """
        window, annotator = self._window, self._annotator
        added = window.add(item) if annotator is None else annotator.add_to(window, item, part)
        self.follow(item, part, added)
        return added

    def follow(self, item: Item, part: Part, added: Added) -> None:  # noqa: ARG002 - the interface's
        """Take in the next item with the episodes of another window."""
        index = added.index
        group = self._groups.add(item)
        self._view.append(index)
        if item.kind is Kind.TEXT:
            self._texts.add(index)
        if item.standing:
            self._staying.add(index)
        if item.person or item.loads:
            self._staying.update((self._groups.call[index], index))
        if item.needs:
            self._needs[index] = [index + offset for offset in item.needs]
        for offset in item.needed_by:
            self._needs.setdefault(index + offset, []).append(index)
        opened, closed = added.opened, added.closed
        if opened is not None and not opened.implicit:
            self._live.append(opened)
            if not opened.inferred:
                self._openings[opened] = index
        if closed is not None and not closed.implicit and not closed.inferred:
            self._closings[closed] = group

    def fit(self, *, cold: bool = False) -> Fitted:  # noqa: ARG002 - the interface's
        """Fold the episodes that have ended since."""
        gone = set(self._held)
        for episode in [episode for episode in self._live if episode.complete]:
            steps = self._steps(episode)
            # The model has not seen the results of its latest message.
            if all(self._groups.of[index] != self._groups.latest for index in steps):
                gone |= steps
                self._live.remove(episode)
        if gone:
            # They leave with what needs them, as if all had been folded at once (R14).
            self._held = self._find_needed(gone)
            gone -= self._held
        if not gone:
            return Fitted(self._view)
        self._view = [slot for slot in self._view if slot not in gone]
        return Fitted(self._view, ran=True)

    def current(self) -> Sequence[Slot]:
        """Return the view without the steps of episodes that have ended: there is nothing else to repeat."""
        return self.fit().view

    def _steps(self, episode: Episode) -> set[int]:
        """The items of an episode that go: all but the call that opened it and the message that closed it."""
        of, call = self._groups.of, self._groups.call
        spans = (range(first, stop) for first, stop in episode.spans)
        members = [index for span in spans for index in span if index not in self._staying]
        opening = self._openings.get(episode)
        if (closing := self._closings.get(episode)) is not None:
            return {index for index in members if of[index] != closing and call[index] != opening}
        texts = [index for index in members if index in self._texts]
        if texts:
            return {index for index in members if index != texts[-1] and call[index] != opening}
        last = max((of[index] for index in members), default=-1)
        return {index for index in members if of[index] != last and call[index] != opening}

    def _find_needed(self, gone: set[int]) -> set[int]:
        """The items of these that must stay because a remaining item needs them (R12), or the other of a pair."""
        call = self._groups.call
        there = [index for index in self._view if isinstance(index, int)]
        results = {call[index]: index for index in there if call[index] != index}
        closure: set[int] = set()
        pending = [index for index in there if index not in gone]
        while pending:
            index = pending.pop()
            if index not in closure:
                closure.add(index)
                pending += [call[index], results.get(index, index), *self._needs.get(index, ())]
        return gone & closure
