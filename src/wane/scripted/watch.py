"""What the keeper of a session's context tells: passes, episodes, refused marks. Nothing else here listens to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wane.agent.session import AgentSession
from wane.conversation.events import BudgetUnmet, Event, MessageTaken, PassRan
from wane.core import Episode, EpisodeType, FitReport, Item, Level


@dataclass(slots=True)
class Passes:
    """What was done to keep a budget.

    Attributes:
        ran: passes that ran.
        evicted_tokens: what they took.
        unmet: requests that went out over the budget because nothing more could be evicted (R13).
        rejected: `delimiter` calls that were refused.
    """

    ran: int = 0
    evicted_tokens: int = 0
    unmet: int = 0
    rejected: int = 0


class Watch:
    """Listens to a session.

    Args:
        session: the session.
        on_pass: told of each pass.

    Attributes:
        passes: what was done to keep the budget.
        items: the history's items, in order.
        owners: by call id, the episode that a call belongs to.
        spared: numbers of explorations that stayed, though younger ones were stripped, because the active act builds
            on them (R7).
    """

    def __init__(self, session: AgentSession, on_pass: Callable[[FitReport], None] = lambda _: None) -> None:
        self.session = session
        self.passes = Passes()
        self.items: list[Item] = []
        self.owners: dict[str, Episode | None] = {}
        self.spared: set[int] = set()
        self._on_pass = on_pass
        session.conversation.listeners.append(self._note)

    def _note(self, event: Event) -> None:
        match event:
            case MessageTaken(_, _, items, added):
                self.items += items
                for item, outcome in zip(items, added, strict=True):
                    if item.tool is not None and item.call_id is not None:
                        self.owners[item.call_id] = outcome.episode
                    self.passes.rejected += outcome.verdict is not None and not outcome.verdict.accepted
            case PassRan(report):
                self.passes.ran += 1
                self.passes.evicted_tokens += report.tokens_before - report.tokens_after
                self.spared |= set(self._spared_by(report))
                self._on_pass(report)
            case BudgetUnmet():
                self.passes.unmet += 1

    def _spared_by(self, report: FitReport) -> Iterable[int]:
        window = self.session.window
        if window.active is None:
            return
        explorations = {it.number for it in self.session.episodes if it.type is EpisodeType.EXPL}
        stripped = {step.number for step in report.steps} & explorations
        live = {episode.name: episode for episode in window.episodes}
        for name in window.active.dependencies:
            episode = live.get(name)
            if episode and episode.level is Level.NONE and any(number > episode.number for number in stripped):
                yield episode.number
