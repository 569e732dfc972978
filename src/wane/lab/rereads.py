"""What sub-agents read again that their parent, which started them, or a sibling had read before.

A result repeats an earlier one if both calls read the same file, or are the same call of the same tool (for a shell,
the same command line). Which one is earlier is not known if a call has no time, or the clock of its session went back.
A file may have changed in between; only results that are identical to the byte certainly held nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any

from wane.core import DELIMITER, Kind, chars
from wane.formats.message_format import Part
from wane.lab.recorded_session import RecordedSession
from wane.tools.calls import command_of, judge_call
from wane.tools.judgement import Activity
from wane.tools.paths import FileMap


@dataclass(frozen=True, slots=True)
class Rereads:
    """Counts of the results of sub-agents' calls that explore or run a command.

    Empty results do not count, nor do those of calls that a sub-agent inherited.

    Attributes:
        results: all results.
        repeated: results that repeat an earlier one of the parent or a sibling.
        identical: results that are identical to an earlier one to the byte.
        undated: further results that repeat one that may be earlier or later.
        tokens: tokens of all results, by characters.
        repeated_tokens: tokens of the repeated ones.
        identical_tokens: tokens of the identical ones.
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
    """Return what the sub-agents of a session, theirs, and so on, read again."""
    results = [list(_results(agent)) for agent in (session, *session.sidechains)]
    total = Rereads()
    for number, side in enumerate(session.sidechains, start=1):
        known = _Known(chain(*results[:number], *results[number + 1 :]))
        for result in results[number]:
            total += known.count_result(result)
        total += rereads(side)
    return total


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a call.

    Attributes:
        reads: the files that its call reads.
        call: the call as text, to compare it.
        text: its text.
        at: when the call was made, in seconds since 1970; None if unknown.
    """

    reads: tuple[str, ...]
    call: str
    text: str
    at: float | None

    def is_after(self, other: _Result) -> bool | None:
        """Whether its call was made after another one; None if unknown."""
        if self.at is None or other.at is None:
            return None
        return other.at < self.at


def _results(session: RecordedSession) -> Iterator[_Result]:
    """Yield the results, with text, of a session's own calls that explore or run a command."""
    times = [call.at for call in session.own_calls if call.at is not None]
    dated = all(before <= after for before, after in pairwise(times))
    asked: dict[str | None, tuple[Part, float | None]] = {}
    for call in session.own_calls:
        for part in session.parts[call.first : call.stop]:
            if part.kind is Kind.CALL and part.tool != DELIMITER:
                asked[part.call_id] = (part, call.at if dated else None)
    for part in session.parts:
        if part.kind is Kind.RESULT and part.text and part.call_id in asked:
            made, at = asked[part.call_id]
            judgement = judge_call(made.tool or "", made.arguments)
            command = command_of(made.tool or "", made.arguments).strip()
            if command or judgement.activity is Activity.EXPLORE:
                yield _Result(judgement.reads, command or f"{made.tool} {made.arguments}", part.text, at)


class _Known:
    def __init__(self, results: Iterable[_Result]) -> None:
        self._by_file: FileMap[list[_Result]] = FileMap()
        self._by_call: dict[str, list[_Result]] = {}
        for result in results:
            for path in result.reads:
                readers = self._by_file.get(path)
                if readers is None:
                    readers = self._by_file[path] = []
                readers.append(result)
            self._by_call.setdefault(result.call, []).append(result)

    def count_result(self, result: _Result) -> Rereads:
        same: list[_Result] = [*self._by_call.get(result.call, ())]
        for path in result.reads:
            same += self._by_file.get(path) or ()
        after = [result.is_after(other) for other in same]
        tokens = chars(result.text)
        counted = Rereads(results=1, tokens=tokens)
        if True in after:
            counted += Rereads(repeated=1, repeated_tokens=tokens)
        elif None in after:
            counted += Rereads(undated=1)
        if any(result.is_after(other) for other in same if other.text == result.text):
            counted += Rereads(identical=1, identical_tokens=tokens)
        return counted
