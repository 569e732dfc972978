"""How often recorded sessions thrash, by budget.

    python benchmarks/thrashing.py SESSIONS… [--strategy NAME]

An engine takes in each session as it was recorded, with inferred episodes, and prepares each of its requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from wane.conversation.engine import Engine
from wane.conversation.thrashing import Thrashing
from wane.lab.counting import Material, count
from wane.lab.readers import read_session
from wane.strategies.base import Fitted, Settings

BUDGETS = (80_000, 50_000, 20_000)


def states(material: Material, strategy: str, budget: int) -> Iterator[Thrashing | None]:
    """What is found at each request of a session."""
    engine = Engine(strategy, Settings(budget, overhead=material.overhead, annotate="infer"))
    taken = 0
    for call in material.session.calls:
        while taken < call.first:
            engine.add(material.items[taken], material.session.parts[taken])
            taken += 1
        assert isinstance(engine.fit(), Fitted)
        engine.sent()
        yield engine.thrashing


def main() -> None:
    """Print a line for each strategy, budget and session that thrashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", type=Path, nargs="+", help="recorded sessions, or folders of them")
    parser.add_argument("--strategy", default="cwl", help="the strategy (default: %(default)s)")
    arguments = parser.parse_args()
    materials = [count(session) for path in arguments.sessions for session in read_session(path)]
    for budget in BUDGETS:
        for material in materials:
            every = list(states(material, arguments.strategy, budget))
            begun = sum(now is not None and before is None for before, now in zip([None, *every], every, strict=False))
            held = sum(each is not None for each in every)
            first = next(filter(None, every), None)
            share = material.overhead / budget
            print(f"{budget:>7,} {material.session.name[:28]:28} fixed {share:4.0%} requests {len(every):5,}", end=" ")
            print(f"begun {begun:3} held {held / max(1, len(every)):4.0%} {first.warning if first else ''}")


if __name__ == "__main__":
    main()
