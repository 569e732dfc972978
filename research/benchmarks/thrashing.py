"""Which recorded sessions thrash, by budget, and how often passes run in them and others: research/docs/warnings.md.

    python research/benchmarks/thrashing.py SESSIONS…

An engine takes in each session as it was recorded, with inferred episodes, and prepares each of its requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frame import parser_of_sessions, recorded_sessions
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.conversation.thrashing import Thrashing
from wane.core import Room
from wane.lab.counting import Material, count
from wane.strategies.strategy import Fitted

BUDGETS = (80_000, 50_000, 20_000)


@dataclass(frozen=True)
class Run:
    """A session at a budget."""

    name: str
    states: Sequence[Thrashing | None]  # the state at each request; None if it did not thrash
    passes: int  # requests before which content left the view
    room: Room | None  # the room at the last request

    @classmethod
    def of(cls, material: Material, budget: int) -> Run:
        engine = Engine(ContextSettings(budget, overhead=material.overhead, annotate="infer"))
        taken = passes = 0
        states: list[Thrashing | None] = []
        for call in material.session.calls:
            while taken < call.first:
                engine.add(material.items[taken], material.session.parts[taken])
                taken += 1
            fitted = engine.fit()
            assert isinstance(fitted, Fitted)
            engine.mark_sent()
            passes += fitted.ran
            states.append(engine.thrashing)
        return cls(material.session.name, states, passes, engine.room)

    @property
    def held(self) -> float:
        return sum(state is not None for state in self.states) / max(1, len(self.states))

    @property
    def rate(self) -> float:
        return 100 * self.passes / max(1, len(self.states))

    def __str__(self) -> str:
        """Return a line with its figures, and the first warning."""
        fixed = 0 if self.room is None else self.room.fixed / self.room.budget
        line = f"  {self.name:28.28} fixed {fixed:4.0%}, thrashes {self.held:4.0%}, passes {self.rate:5.1f} of 100"
        for state in self.states:
            if state is not None:
                return f"{line}: {state.warning}"
        return line


def main() -> None:
    sessions = recorded_sessions(parser_of_sessions(__doc__).parse_args().sessions)
    materials = [count(session) for session in sessions]
    for budget in BUDGETS:
        runs = [Run.of(material, budget) for material in materials]
        print(*runs, sep="\n")
        thrash = sorted(run.rate for run in runs if run.held)
        others = sorted(run.rate for run in runs if not run.held)
        print(
            f"{budget:,}: {len(thrash)} of {len(runs)} thrash, with passes before {_range(thrash)} of 100 requests;",
            end=" ",
        )
        print(f"the others, before {_range(others)}\n")


def _range(rates: Sequence[float]) -> str:
    return f"{rates[0]:.0f} to {rates[-1]:.0f}" if rates else "none"


if __name__ == "__main__":
    main()
