"""What stands: notices in force and loaded tools, and the episode that each joins when it no longer stands (R15)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from wane.core.episodes import Episode
from wane.core.items import Standing


class InForce:
    """The standing notices in force: by kind, the latest one that stated it, and those that have added to it since."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        self.kinds: dict[str, list[int]] = {}

    def enter(self, index: int, states: Sequence[Standing]) -> list[int]:
        """Take in the next standing notice, and return the notices that are no longer in force.

        Args:
            index: its index in the history.
            states: what it states.
        """
        replaced: dict[int, None] = {}
        for state in states:
            if not state.adds:
                replaced.update(dict.fromkeys(self.kinds.pop(state.kind, ())))
        for kind in dict.fromkeys(state.kind for state in states):
            self.kinds.setdefault(kind, []).append(index)
        stated = {standing for indexes in self.kinds.values() for standing in indexes}
        return [earlier for earlier in replaced if earlier not in stated]


@dataclass(slots=True)
class Load:
    """A call and its result that brought tools into the model's view.

    Attributes:
        owner: their episode.
        rank: rank of the level that takes them once they no longer stand.
        call: index of the call.
        result: index of the result.
        tools: names of its tools that are still offered.
    """

    owner: Episode
    rank: int
    call: int
    result: int
    tools: set[str]


class StandingItems:
    """What stands after the first assistant message.

    Attributes:
        in_force: the notices in force.
        stood_in: by notice in force, the episode that began last before it.
        loads: the loads of which a tool is still offered, in order.
        overdue: what no longer stands, but whose episode had passed its level by then: the episode, and the level's
            rank.
    """

    __slots__ = ("in_force", "loads", "overdue", "stood_in")

    def __init__(self) -> None:
        self.in_force = InForce()
        self.stood_in: dict[int, Episode] = {}
        self.loads: list[Load] = []
        self.overdue: dict[int, tuple[Episode, int]] = {}

    def enter(self, index: int, states: Sequence[Standing], episode: Episode) -> list[tuple[int, Episode]]:
        """Take in the next standing notice, and return the notices that are no longer in force, with their episodes.

        Args:
            index: its index in the history.
            states: what it states.
            episode: the episode that began last before it.
        """
        self.stood_in[index] = episode
        return [(replaced, self.stood_in.pop(replaced)) for replaced in self.in_force.enter(index, states)]

    def withdraw(self, tools: Collection[str]) -> list[Load]:
        """Take in that tools are no longer offered, and return the loads that no longer stand."""
        standing, ended = list[Load](), list[Load]()
        for load in self.loads:
            load.tools.difference_update(tools)
            (standing if load.tools else ended).append(load)
        self.loads = standing
        return ended

    def overdue_by_step(self) -> Iterator[tuple[Episode, int, list[int]]]:
        """Yield what is overdue: by episode in order of start, and by level, its items."""
        steps: dict[tuple[int, int], tuple[Episode, int, list[int]]] = {}
        for index, (episode, rank) in self.overdue.items():
            steps.setdefault((episode.number, rank), (episode, rank, []))[2].append(index)
        for _, step in sorted(steps.items()):
            yield step
