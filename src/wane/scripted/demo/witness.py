"""Watches the demo's session, and counts how its model found again what it had seen before. The model sees none of it.

A fact that the model has seen before is still in view, or in the description of an evicted exploration, or the model
reads it again or recalls it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from wane.agent.session import AgentSession
from wane.conversation.events import BudgetUnmet, Event, MessageTaken, PassRan
from wane.core import Episode, FitReport, Item, Level
from wane.scripted import witness as scripted
from wane.scripted.demo.mind import Decision
from wane.scripted.demo.sight import Finding
from wane.testing import Request


@dataclass(slots=True)
class Passes:
    """The counts of passes.

    Attributes:
        ran: passes that ran.
        evicted_tokens: tokens that they took.
        unmet: requests that went out over the budget because nothing more could be evicted (R13).
        rejected: `delimiter` calls that were refused.
    """

    ran: int = 0
    evicted_tokens: int = 0
    unmet: int = 0
    rejected: int = 0


class Witness(scripted.Witness):
    """Watches the requests of a run, and listens to the session that they come from.

    Attributes:
        passes: the counts of the passes; `on_pass` is called with each pass.
        items: the history's items, in order.
        had: how often a step used a fact seen before: `in view`, still there from an earlier task; `described`,
            from the description of an exploration that was stripped.
    """

    def __init__(self, budget: int, session: AgentSession, on_pass: Callable[[FitReport], None]) -> None:
        super().__init__(budget)
        self.passes = Passes()
        self.items: list[Item] = []
        self.had: Counter[str] = Counter()
        self._on_pass = on_pass
        self._tasks: dict[str, int] = {}
        # By call id, the episode that a call belongs to.
        self._owners: dict[str, Episode | None] = {}
        session.conversation.listeners.append(self._note)

    def decided(self, request: Request, decision: Decision) -> None:
        """Take in a request and the model's decision on it."""
        for part in request.parts:
            if part.call_id is not None:
                self._tasks.setdefault(part.call_id, len(self.turns))
        sources = {source.call_id: source for source in decision.knowledge.values()}
        self.had.update(how for source in sources.values() if (how := self._how(source)))

    def _how(self, source: Finding) -> str:
        if source.described:
            owner = self._owners.get(source.call_id)
            return "described" if owner is not None and owner.level is not Level.NONE else ""
        return "in view" if self._tasks[source.call_id] < len(self.turns) else ""

    def _note(self, event: Event) -> None:
        match event:
            case MessageTaken(_, _, items, added):
                self.items += items
                for item, outcome in zip(items, added, strict=True):
                    if item.tool is not None and item.call_id is not None:
                        self._owners[item.call_id] = outcome.episode
                    self.passes.rejected += outcome.verdict is not None and not outcome.verdict.accepted
            case PassRan(report):
                self.passes.ran += 1
                self.passes.evicted_tokens += report.tokens_before - report.tokens_after
                self._on_pass(report)
            case BudgetUnmet():
                self.passes.unmet += 1
