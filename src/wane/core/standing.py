"""Standing notices: those in force, and the episode that each one joins when it no longer is (R15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


class StandingNotices:
    """The standing notices after the first assistant message.

    Attributes:
        in_force: the notices in force.
        stood_in: by notice in force, the episode that began last before it.
        overdue: notices no longer in force whose episode had already lost its notices, with that episode.
    """

    __slots__ = ("in_force", "overdue", "stood_in")

    def __init__(self) -> None:
        self.in_force = InForce()
        self.stood_in: dict[int, Episode] = {}
        self.overdue: dict[int, Episode] = {}

    def enter(self, index: int, states: Sequence[Standing], episode: Episode) -> list[tuple[int, Episode]]:
        """Take in the next standing notice, and return the notices that are no longer in force, with their episodes.

        Args:
            index: its index in the history.
            states: what it states.
            episode: the episode that began last before it.
        """
        self.stood_in[index] = episode
        return [(replaced, self.stood_in.pop(replaced)) for replaced in self.in_force.enter(index, states)]

    def overdue_by_episode(self) -> Iterator[tuple[Episode, list[int]]]:
        """Yield the episodes that have overdue notices, in order of start, each with its notices."""
        episodes = {episode.number: episode for episode in self.overdue.values()}
        for number, episode in sorted(episodes.items()):
            yield episode, [index for index, owner in self.overdue.items() if owner.number == number]
