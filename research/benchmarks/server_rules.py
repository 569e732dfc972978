"""What it costs to keep beside a call what a server demands, and to join turns of one role: docs/servers.md.

    python research/benchmarks/server_rules.py SESSIONS…

An engine takes in each session as it was recorded, with inferred episodes, and prepares each of its requests: with R12
and R12b, with R12 alone, and as if no item needed another. Tokens are counted by `chars`. R12b costs the answers that
stay between turns and, for a joined turn, the blank line between both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from frame import parser_of_sessions, print_table, recorded_sessions
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.core import Item, Kind, chars
from wane.formats.message_format import Part, TurnReader, order_of, speaker_of
from wane.formats.roles import Order, join_neighbours
from wane.lab.counting import Material, count
from wane.strategies.strategy import Fitted

BUDGETS = (80_000, 50_000, 20_000)
SEPARATOR = chars("\n\n")


class Speakers:
    """Messages of which only the speaker is known, in the place of a format."""

    def speaker(self, message: str | None) -> str | None:
        return message

    def merge(self, first: str | None, second: str | None) -> str | None:
        return second or first

    def divide(self, message: str | None) -> None:
        """No call is known to be one of Wane's own."""

    def is_index(self, message: str | None) -> bool:  # noqa: ARG002 - the view has none
        return False


@dataclass
class Run:
    """The requests of a session at a budget.

    Attributes:
        tokens: of all requests.
        passes: requests before which content left the view.
        alternating: whether roles take turns in the session.
        joined: requests in which turns are joined.
        joins: how often, in all requests.
        moved: requests in which turns were joined anew without a pass, so that the cached prefix is lost.
    """

    tokens: int = 0
    requests: int = 0
    passes: int = 0
    alternating: bool = False
    joined: int = 0
    joins: int = 0
    moved: int = 0

    @classmethod
    def of(cls, material: Material, items: Sequence[Item], budget: int) -> Run:
        engine = Engine(ContextSettings(budget, overhead=material.overhead, annotate="infer"))
        parts, run, taken = material.session.parts, cls(), 0
        whole = list_speakers(material, range(len(material.items)))
        run.alternating = Order.ALTERNATING in order_of(whole, lambda speaker: speaker)
        before: list[str | None] = []
        for call in material.session.calls:
            while taken < call.first:
                engine.add(items[taken], parts[taken])
                taken += 1
            fitted = engine.fit()
            assert isinstance(fitted, Fitted)
            engine.mark_sent()
            run.requests += 1
            run.passes += fitted.ran
            run.tokens += engine.tokens
            if run.alternating:
                visible = [slot for slot in fitted.view if isinstance(slot, int)]
                speakers = list_speakers(material, visible)
                turns = join_neighbours(speakers, Speakers(), Order.ALTERNATING)
                run.joins += len(speakers) - len(turns)
                run.joined += len(turns) < len(speakers)
                run.moved += not fitted.ran and turns[: len(before)] != before
                before = turns
        return run


def coupled_items(material: Material) -> list[Item]:
    """Return the items of a session with what they need of other messages (R12b)."""
    reader, items = TurnReader(), list[Item]()
    for _, group in groupby(range(len(material.items)), lambda index: material.items[index].message):
        indexes = list(group)
        speaker = speaker_of([material.session.parts[index] for index in indexes])
        items += reader.couple(speaker, [material.items[index] for index in indexes], indexes[0])
    return items


def list_speakers(material: Material, items: Sequence[int]) -> list[str | None]:
    """Return the speakers of the messages that these items are from, in order."""
    messages: dict[int, list[Part]] = defaultdict(list)
    for index in items:
        messages[material.items[index].message].append(material.session.parts[index])
    return [speaker_of(parts) for parts in messages.values()]


def main() -> None:
    sessions = recorded_sessions(parser_of_sessions(__doc__).parse_args().sessions)
    materials = [count(session) for session in sessions]
    reasoning = 0
    for material in materials:
        reasoning += Kind.REASONING in {item.kind for item in material.items}
    print(f"{len(materials)} sessions, {reasoning} with reasoning\n")
    columns = (
        "budget",
        "requests",
        "both: tokens",
        "R12",
        "neither",
        "R12b more",
        "R12 more",
        "passes",
        "R12",
        "neither",
    )
    columns += ("sessions in turns", "requests with joined turns", "joins", "tokens of joins", "prefixes lost")
    rows = []
    for budget in BUDGETS:
        kept = [Run.of(material, coupled_items(material), budget) for material in materials]
        alone = [Run.of(material, material.items, budget) for material in materials]
        free = []
        for material in materials:
            uncoupled = [replace(item, needs=()) for item in material.items]
            free.append(Run.of(material, uncoupled, budget))
        tokens, passes = list[int](), list[int]()
        for runs in (kept, alone, free):
            tokens.append(sum(run.tokens for run in runs))
            passes.append(sum(run.passes for run in runs))
        joins = sum(run.joins for run in kept)
        requests = sum(run.requests for run in kept)
        row = [f"{number:,}" for number in (budget, requests, *tokens)]
        row += [f"{tokens[0] / tokens[1] - 1:+.2%}", f"{tokens[1] / tokens[2] - 1:+.2%}", *map(str, passes)]
        row += [f"{sum(run.alternating for run in kept)}", f"{sum(run.joined for run in kept)}", f"{joins}"]
        row += [f"{joins * SEPARATOR}", f"{sum(run.moved for run in kept)}"]
        rows.append(row)
    print_table(columns, rows, 0)


if __name__ == "__main__":
    main()
