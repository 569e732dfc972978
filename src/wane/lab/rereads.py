"""What sub-agents read again that the session that started them, or another sub-agent of it, had read before.

A result repeats another one if its call reads a file that the other's call reads, or is the same call of the same tool:
the same command line, for a shell. The other call must have been made before. Times tell that, so it is not known where
a call has none, or a session's clock goes back. A file may have changed in between; only results that are the same to
the byte certainly held nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from wane.core import DELIMITER, Kind, chars
from wane.formats.base import Part
from wane.lab.session import RecordedSession
from wane.tools.calls import command_of, judge_call
from wane.tools.judgement import Activity
from wane.tools.paths import FileMap


@dataclass(frozen=True, slots=True)
class Rereads:
    """Counts of the results of sub-agents' calls that explore or run a command.

    Empty results and those of calls that a sub-agent began with do not count.

    Attributes:
        results: all of them.
        repeated: those that repeat an earlier result of the parent, or of a sibling.
        identical: those of them that are the same to the byte as an earlier one.
        undated: further ones that repeat a result of which it is not known whether it is earlier.
        tokens: tokens of all results, by characters.
        repeated_tokens: those of `repeated`.
        identical_tokens: those of `identical`.
    """

    results: int = 0
    repeated: int = 0
    identical: int = 0
    undated: int = 0
    tokens: int = 0
    repeated_tokens: int = 0
    identical_tokens: int = 0

    def __add__(self, other: Rereads) -> Rereads:
        return Rereads(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def describe(self) -> str:
        """Return the counts in words."""
        at_most = f" to {self.repeated + self.undated:,}" if self.undated else ""
        share = f" ({self.repeated / self.results:.0%})" if self.results and not self.undated else ""
        return (
            f"{self.repeated:,}{at_most} of {self.results:,} results{share} repeat a file or command of the parent or"
            f" a sibling, {self.identical:,} to the byte"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return asdict(self)


def rereads(session: RecordedSession) -> Rereads:
    """Return what the sub-agents of a session, and theirs, read again."""
    sides = session.sidechains
    results = {id(each): list(_results(each)) for each in (session, *sides)}
    total = Rereads()
    for side in sides:
        others = [result for other in (session, *sides) if other is not side for result in results[id(other)]]
        known = _Known(others)
        total = sum((known.counted(result) for result in results[id(side)]), total) + rereads(side)
    return total


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a call.

    Attributes:
        reads: the files that its call reads.
        call: the call, as a text that is the same for the same call.
        text: its text.
        at: when the call was made, in seconds since 1970; None if that is not known.
    """

    reads: tuple[str, ...]
    call: str
    text: str
    at: float | None

    def is_after(self, other: _Result) -> bool | None:
        """Whether its call was made after another one; None if that is not known."""
        return None if self.at is None or other.at is None else other.at < self.at


def _results(session: RecordedSession) -> Iterator[_Result]:
    """The results with a text of a session's own calls that explore or run a command."""
    times = [call.at for call in session.own_calls if call.at is not None]
    dated = all(before <= after for before, after in pairwise(times))
    asked: dict[str | None, tuple[Part, float | None]] = {}
    for call in session.own_calls:
        for part in session.parts[call.first : call.stop]:
            if part.kind is Kind.CALL and part.tool != DELIMITER:
                asked[part.call_id] = part, call.at if dated else None
    for part in session.parts:
        if part.kind is Kind.RESULT and part.text and part.call_id in asked:
            made, at = asked[part.call_id]
            judgement = judge_call(made.tool or "", made.arguments)
            command = command_of(made.tool or "", made.arguments).strip()
            if command or judgement.activity is Activity.EXPLORE:
                yield _Result(judgement.reads, command or f"{made.tool} {made.arguments}", part.text, at)


class _Known:
    """Results, by what their calls read and by the calls."""

    def __init__(self, results: Iterable[_Result]) -> None:
        self._by_file: FileMap[list[_Result]] = FileMap()
        self._by_call: dict[str, list[_Result]] = {}
        for result in results:
            for path in result.reads:
                if (there := self._by_file.get(path)) is None:
                    self._by_file[path] = there = []
                there.append(result)
            self._by_call.setdefault(result.call, []).append(result)

    def counted(self, result: _Result) -> Rereads:
        """Return the counts of one result."""
        same: list[_Result] = [*self._by_call.get(result.call, ())]
        for path in result.reads:
            same += self._by_file.get(path) or ()
        after = [result.is_after(other) for other in same]
        repeats = True in after
        identical = any(result.is_after(other) for other in same if other.text == result.text)
        undated, tokens = not repeats and None in after, chars(result.text)
        return Rereads(1, repeats, identical, undated, tokens, repeats * tokens, identical * tokens)
