"""What no pass may ever take, and its tokens (R22)."""

from __future__ import annotations

from collections.abc import Iterable

from wane.core.episodes import EpisodeGraph
from wane.core.items import Kind
from wane.core.view import View


class FixedItems:
    """Counts what no pass may ever take.

    Members of episodes are among it: a person's answers (R21), what loaded tools (R15), and all that must stay as long
    as these and the user's turns do (R12).

    Attributes:
        tokens: by what it is: system and user items, notices that count as system items, what loaded tools (`CALL`).
        members: the members of episodes among it, by index, and the user's turns that need some: `USER` for good,
            `CALL` as long as the tools are offered.
    """

    __slots__ = ("_graph", "_view", "members", "tokens")

    def __init__(self, graph: EpisodeGraph, view: View) -> None:
        self._graph = graph
        self._view = view
        self.tokens = {Kind.SYSTEM: 0, Kind.USER: 0, Kind.NOTICE: 0, Kind.CALL: 0}
        self.members: dict[int, Kind] = {}

    def hold(self, indexes: Iterable[int], kind: Kind) -> None:
        """Count members of episodes, and what they need, as fixed."""
        for index in self._view.find_needed(indexes):
            known = self.members.get(index)
            if known in (kind, Kind.USER):
                continue
            tokens = self._view.tokens[index]
            self.members[index] = kind
            self.tokens[kind] += tokens
            if known is None:
                self._give_owner(index, -tokens)
            else:
                self.tokens[known] -= tokens

    def follow(self, index: int) -> None:
        """Count a new member as fixed if one that is fixed needs it."""
        kinds = {self.members[needer] for needer in self._view.needers(index) if needer in self.members}
        if kinds:
            self.hold([index], Kind.USER if Kind.USER in kinds else Kind.CALL)

    def release(self, indexes: Iterable[int], standing: Iterable[int]) -> None:
        """Count what loaded tools, and what it needs, as fixed no longer.

        Args:
            indexes: the calls and results whose tools are no longer offered.
            standing: those whose tools still are.
        """
        for index in self._view.find_needed(indexes) - self._view.find_needed(standing):
            if self.members.get(index) is Kind.CALL:
                tokens = self._view.tokens[index]
                del self.members[index]
                self.tokens[Kind.CALL] -= tokens
                self._give_owner(index, tokens)

    def _give_owner(self, index: int, tokens: int) -> None:
        if (owner := self._graph.find_owner(index)) is not None:
            owner.tokens += tokens
