"""Searches the texts of a history for a pattern. Pure, with bounded work for any pattern.

A pattern is a regular expression, matched line by line, or plain text where that is not safe (`wane.patterns`). The
steps that a line can cost have an upper bound, and lines are tried only as long as the sum stays under `STEPS`.

Most texts never reach the matcher: they lack a plain text or a run of characters that every match contains. The others
are looked at as a whole, which tells whether they match. Only texts that are shown are matched line by line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from wane.patterns import Pattern, folded, has_case

STEPS: Final = 2_000_000_000
"""Upper bound of the matcher's steps in one search: seconds at worst, usually milliseconds."""

MOST_IN_A_TEXT: Final = 1_000
"""Most matches that are counted in one text."""

_WINDOW: Final = 500  # characters of a line that are matched at a time
_OVERLAP: Final = 125  # of neighbouring windows, so that shorter matches are not cut
_STRIDE: Final = _WINDOW - _OVERLAP
_ANY_CASE: Final = "(?i)"


@dataclass(frozen=True, slots=True)
class Found:
    """The matches of a pattern in one text.

    Attributes:
        index: index of the text.
        start: position of the first match, in characters.
        stop: position of its end.
        count: number of matches, at most `MOST_IN_A_TEXT`.
    """

    index: int
    start: int
    stop: int
    count: int


@dataclass(frozen=True, slots=True)
class Findings:
    """The outcome of a search.

    Attributes:
        indexes: indexes of the texts with a match, in the order of the search.
        plain: why a regular expression was searched as plain text; else empty.
        any_case: whether case was ignored.
        complete: whether all texts were searched.
    """

    indexes: tuple[int, ...]
    plain: str = ""
    any_case: bool = False
    complete: bool = True
    _matcher: _Matcher | None = field(default=None, repr=False, compare=False)

    def found(self, texts: Sequence[str], start: int = 0, stop: int | None = None) -> list[Found]:
        """Return the matches in some of the texts that have one.

        Args:
            texts: the texts that were searched.
            start: first position in `indexes`.
            stop: the position after the last one; None for all.
        """
        if self._matcher is None:
            return []
        self._matcher.left = STEPS
        return [self._matcher.matches(index, texts[index]) for index in self.indexes[start:stop]]


def search(pattern: str, texts: Sequence[str], order: Sequence[int] | None = None) -> Findings:
    """Search for a pattern as it is, then as plain text, then ignoring case, until something is found.

    Args:
        pattern: the pattern; not empty.
        texts: the texts.
        order: indexes of the texts to search, in this order; None for all.
    """
    ways = [Pattern.of(pattern.removeprefix(_ANY_CASE), any_case=True)]
    if not pattern.startswith(_ANY_CASE):
        ways = [Pattern.of(pattern, any_case=False), *(ways if has_case(pattern) else [])]
        if ways[0].plain is None:
            ways.insert(1, Pattern.as_text(pattern, "nothing matches it as a regular expression"))
    order = range(len(texts)) if order is None else order
    outcomes = (_Matcher(way).over(texts, order) for way in ways)
    first = next(outcomes)
    return first if first.indexes else next((other for other in outcomes if other.indexes), first)


class _Matcher:
    """Finds a pattern in texts.

    Attributes:
        left: steps left for matching line by line.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._alternatives = list(pattern.alternatives.items())
        self._any_case = pattern.any_case
        self._left_to_look = STEPS
        self.left = STEPS

    def over(self, texts: Sequence[str], order: Sequence[int]) -> Findings:
        """Find the texts with a match."""
        found: list[int] = []
        for index in order:
            text = texts[index]
            span = self._look(text)
            # An empty match does not count, but there may be another one.
            if span and (span[0] < span[1] or next(self._spans(text), None)):
                found.append(index)
            if self.left <= 0:
                break
        return Findings(tuple(found), self._pattern.plain or "", self._any_case, self.left > 0, self)

    def matches(self, index: int, text: str) -> Found:
        """Return the matches in a text that has one."""
        spans = list(islice(self._spans(text), MOST_IN_A_TEXT))
        # None: a match is longer than a part of a line, or matching line by line takes too many steps.
        start, stop = spans[0] if spans else self._look(text) or (0, 0)
        return Found(index, start, stop, max(1, len(spans)))

    def _look(self, text: str) -> tuple[int, int] | None:
        """A match in the whole text; None if there is none, (0, 0) if the look could take too many steps."""
        in_ascii = text.isascii()
        folding = text if not self._any_case else text.lower() if in_ascii else folded(text)
        empty = None
        for need, alternatives in self._alternatives:
            if need not in folding:
                continue
            for each in alternatives:
                if each.needs and any(more not in folding for more in each.needs):
                    continue
                if each.table and each.run not in text.encode("latin-1", "replace").translate(each.table):
                    continue
                longest = max(map(len, text.split("\n"))) if each.cost.open_ended else 0
                steps = each.cost.steps(len(text), longest)
                if steps > self._left_to_look:
                    return (0, 0)
                self._left_to_look -= steps
                if match := each.in_ascii.search(folding) if in_ascii else each.look.search(text):
                    if match[0]:
                        return match.span()
                    empty = match.span()
        return empty

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self._pattern.plain is not None:
            yield from (match.span() for match in self._pattern.regex.finditer(text))
            return
        reached = 0
        for begin, limit, end in self._windows(text):
            self.left -= self._pattern.cost.steps(end - begin, end - begin)
            if self.left <= 0:
                return
            for match in self._pattern.regex.finditer(text, max(begin, reached), end):
                if match.start() >= limit:
                    break
                if match[0]:
                    reached = match.end()
                    yield match.span()

    def _windows(self, text: str) -> Iterator[tuple[int, int, int]]:
        """The pieces of a text that are matched one by one: lines, and overlapping parts of long lines.

        Each is where it begins, the position before which its matches begin, and where it ends.
        """
        at = 0
        while at < len(text):
            if self._pattern.hints is not None:
                hint = self._pattern.hints.search(text, at)
                if hint is None:
                    return
                at = max(at, text.rfind("\n", at, hint.start()) + 1)
                at += max(0, hint.start() - _OVERLAP - at) // _STRIDE * _STRIDE
            line = text.find("\n", at)
            line = len(text) if line < 0 else line
            if line <= at + _STRIDE + _OVERLAP:
                yield at, line, line
                at = line + 1
            else:
                yield at, at + _STRIDE, at + _STRIDE + _OVERLAP
                at += _STRIDE
