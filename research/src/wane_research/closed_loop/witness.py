"""Counts of the closed loop, with a comparison of the first request after each restart with the last one before."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from wane.core import Kind
from wane.scripted import witness as scripted
from wane.scripted.sight import is_note
from wane.testing import Request


@dataclass(frozen=True, slots=True)
class Resumption:
    """The first request after a restart, compared with the last one before it.

    Attributes:
        call: number of the request.
        how: how the process before it ended; see `session.How`.
        same: whether it continues the earlier request exactly.
        passed: whether it lacks content that a pass took because the budget would have been exceeded.
        sound: whether nothing came back, moved or changed, and nothing is missing without need.
    """

    call: int
    how: str
    same: bool
    passed: bool
    sound: bool


class Witness(scripted.Witness):
    """Watches the requests of a run."""

    def __init__(self, budget: int) -> None:
        self.resumptions: list[Resumption] = []
        self._restarted = ""
        super().__init__(budget)

    @override
    def begin(self) -> None:
        """A session begins."""
        super().begin()
        self._last: list[int] = []

    def restarted(self, how: str) -> None:
        """The session was closed or killed, and goes on."""
        self._restarted = how

    @override
    def see(self, request: Request) -> None:
        """Take in a request, before it is answered."""
        super().see(request)
        ids = [self._number(part) for part in request.parts if not is_note(part)]
        if self._restarted:
            self._compare(ids, request)
        self._last = ids

    def _compare(self, ids: list[int], request: Request) -> None:
        """Compare the first request after a restart with the last one before it."""
        before = self._last
        same = ids[: len(before)] == before
        # A pass was due if the earlier view and everything since exceed the budget. The agent counts the content since
        # the last report by itself, so its figure may differ a little.
        unevicted = [*before, *(number for number in ids if number > max(before, default=-1))]
        tokens = request.tool_tokens + sum(self._tokens[number] for number in unevicted)
        passed = not same and tokens > 0.995 * self.budget
        # Compare calls and results, which have ids: the same words may occur twice.
        earlier, now = (
            [number for number in numbers if self._kinds[number] in (Kind.CALL, Kind.RESULT)]
            for numbers in (before, ids)
        )
        newest = max(earlier, default=-1)
        old = [number for number in now if number <= newest]
        gone = set(earlier) - set(old)
        ordered = old == [number for number in earlier if number not in gone]
        sound = ordered and (same or passed)
        self.resumptions.append(Resumption(request.number, self._restarted, same, passed, sound))
        self._restarted = ""
