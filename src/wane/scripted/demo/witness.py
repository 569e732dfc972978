"""How the demo's model came by what had been seen before, which the whole history tells, and the model does not see.

It is still in view, it is known from the description of an exploration that was evicted, it is read again, or it is
recalled.
"""

from __future__ import annotations

from collections import Counter

from wane.core import Level
from wane.scripted import witness as scripted
from wane.scripted.demo.mind import Decision
from wane.scripted.demo.sight import Found
from wane.scripted.watch import Watch
from wane.testing import Request


class Witness(scripted.Witness):
    """Watches the requests of a run, and the session that they come from.

    Args:
        budget: tokens that a view may hold.
        watch: listens to the session.

    Attributes:
        had: times that a step used what had been seen before: `kept`, in view only because the unfinished act builds
            on it; `in view`, still there from an earlier task; `described`, from the description of an exploration
            that was stripped.
    """

    def __init__(self, budget: int, watch: Watch) -> None:
        super().__init__(budget)
        self.watch = watch
        self.had: Counter[str] = Counter()
        self._tasks: dict[str, int] = {}

    def decided(self, request: Request, decision: Decision) -> None:
        """Take in what the model makes of a request."""
        for part in request.parts:
            if part.call_id is not None:
                self._tasks.setdefault(part.call_id, len(self.turns))
        sources = {found.call_id: found for found in decision.found.values()}
        self.had.update(how for found in sources.values() if (how := self._how(found)))

    def _how(self, found: Found) -> str:
        owner, active = self.watch.owners.get(found.call_id), self.watch.session.window.active
        if found.described:
            return "described" if owner is not None and owner.level is not Level.NONE else ""
        if owner and active and owner.number in self.watch.spared and owner.name in active.dependencies:
            return "kept"
        return "in view" if self._tasks[found.call_id] < len(self.turns) else ""
