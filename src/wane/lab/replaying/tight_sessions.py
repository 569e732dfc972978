"""Sessions for which a budget leaves too little room, and how much the advised budget would have kept, by replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.core import ContextWindow, Room
from wane.lab.counting import Material
from wane.lab.replaying.jobs import Job, JobEngine
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.verdict import OURS
from wane.money import dollars, share
from wane.strategies.strategy import StrategySettings

NAMED: Final = 5
"""Number of sessions to name; the others are counted."""

_TITLE: Final = 60
"""Characters of a session's title."""


@dataclass(frozen=True, slots=True)
class TightSession:
    """A session whose budget leaves too little room.

    Attributes:
        name: its name.
        room: the room at its last call.
        totals: its figures at the budget; None if it was not replayed.
        advised: its figures at the advised budget; None if it was not replayed, as for a model with a smaller window.
        title: what it is about, in the user's words; empty if that is not known.
    """

    name: str
    room: Room
    totals: Totals | None = None
    advised: Totals | None = None
    title: str = ""

    def __str__(self) -> str:
        """Return what the room lacks and, from the replays, how much the advised budget would have kept."""
        if self.totals is None or self.advised is None or not self.totals.loss.uses:
            return self.room.remark
        before, after = self.totals, self.advised
        return (
            f"{self.room.warning} Replayed at {self.room.advised:,} tokens, {_recall(after)} of what later calls used "
            f"was still in view instead of {_recall(before)}, for {dollars(after.full_cost)} instead of "
            f"{dollars(before.full_cost)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data; both figures are null if it was not replayed."""
        return {
            "name": self.name,
            **self.room.to_dict(),
            "at_budget": None if self.totals is None else self.totals.to_dict(),
            "at_advised": None if self.advised is None else self.advised.to_dict(),
        }


def last_room(material: Material, settings: StrategySettings) -> Room:
    """Return the room at a session's last call."""
    return _at_last_call(material, settings).room


def room_of(material: Material, settings: StrategySettings) -> Room | None:
    """Return the room at a session's last call; None if nothing had to be evicted."""
    window = _at_last_call(material, settings)
    return window.room if window.tokens > settings.budget else None


def _at_last_call(material: Material, settings: StrategySettings) -> ContextWindow:
    window = ContextWindow(settings.budget, settings.policy, overhead=material.overhead, window=settings.window)
    window.extend(material.items[: max((call.first for call in material.session.calls), default=0)])
    return window


def tight_sessions(
    studied: Sequence[Studied], settings: StrategySettings, engine: JobEngine | None = None
) -> list[TightSession]:
    """Return the sessions for which the settings' budget leaves OURS too little room, the tightest first.

    These include those for which OURS works with a larger budget for that reason (R22). An engine replays the others at
    both budgets; without one, there are no replays.
    """
    tight: list[tuple[Studied, Room]] = []
    for prepared in studied:
        room = room_of(prepared.subject.material, prepared.under(settings))
        if room is not None and room.remark:
            tight.append((prepared, room))
    tight.sort(key=lambda pair: -pair[1].fixed)
    jobs: list[Job] = []
    for number, (prepared, room) in enumerate(tight):
        if room.tight and room.attainable:
            for budget in (room.budget, room.advised):
                budgeted = replace(prepared.under(settings), budget=budget)
                jobs.append(Job(number, OURS, budgeted, prepared.pricing))
    totals: dict[tuple[int, int], Totals] = {}
    if engine is not None:
        for job, replay in engine.run([prepared.subject for prepared, _ in tight], jobs):
            totals[job.subject, job.settings.budget] = replay.totals
    sessions: list[TightSession] = []
    for number, (prepared, room) in enumerate(tight):
        at_budget, at_advised = totals.get((number, room.budget)), totals.get((number, room.advised))
        session = prepared.recording.session
        sessions.append(TightSession(session.name, room, at_budget, at_advised, session.title))
    return sessions


def tight_lines(tight: Sequence[TightSession], sessions: int) -> list[str]:
    """Return lines about the tight ones among a number of sessions, the tightest first; none if no session is tight."""
    if sessions == 1 or not tight:
        return [str(session) for session in tight]
    have = "has" if len(tight) == 1 else "have"
    lines = [f"{len(tight):,} of {sessions:,} sessions {have} too little room for the work:"]
    titles = Counter(session.title for session in tight)
    for session in tight[:NAMED]:
        text = session.title if len(session.title) <= _TITLE else f"{session.title[: _TITLE - 1].rstrip()}…"
        title = f'"{text}"' if text else session.name
        named = f"{title} ({session.name})" if session.title and titles[session.title] > 1 else title
        lines.append(f"  {named}: {session}")
    if len(tight) > NAMED:
        lines.append(f"  and {len(tight) - NAMED:,} more; --json names all of them")
    return lines


def _recall(totals: Totals) -> str:
    return share(totals.loss.reference_recall)
