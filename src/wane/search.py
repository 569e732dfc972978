"""Searches the texts of a history for a pattern. Pure, with bounded work for any pattern.

Models write the patterns, so the matcher must take linear time: RE2 does, Python's `re` does not. Without RE2, and for
what RE2 refuses, a pattern is searched as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

try:
    import re2
except ImportError:  # the extra `search` is not installed
    re2 = None

STEPS: Final = 8_000_000_000
"""Most steps of one search, characters times instructions of the pattern: usually milliseconds, 20 s at worst."""

MOST_IN_A_TEXT: Final = 1_000
"""Most matches that are counted in one text."""

_ANY_CASE: Final = "(?i)"


@dataclass(frozen=True, slots=True)
class TextMatches:
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
class SearchResult:
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

    def matches(self, texts: Sequence[str], start: int = 0, stop: int | None = None) -> list[TextMatches]:
        """Return the matches in some of the texts that have one.

        Args:
            texts: the texts that were searched.
            start: first position in `indexes`.
            stop: the position after the last one; None for all.
        """
        if self._matcher is None:
            return []
        return [self._matcher.matches(index, texts[index]) for index in self.indexes[start:stop]]


def search(pattern: str, texts: Sequence[str], order: Sequence[int] | None = None) -> SearchResult:
    """Search for a pattern as it is, then as plain text, then ignoring case, until something matches.

    Args:
        pattern: the pattern; not empty.
        texts: the texts.
        order: indexes of the texts to search, in this order; None for all.
    """
    if order is None:
        order = range(len(texts))
    results: list[SearchResult] = []
    for matcher in _matchers(pattern):
        result = matcher.search(texts, order)
        if result.indexes:
            return result
        results.append(result)
    return results[0]


def _matchers(pattern: str) -> Iterator[_Matcher]:
    """Yield a matcher for each way to read a pattern, in the order in which they are tried."""
    own = pattern.removeprefix(_ANY_CASE)
    case_counts = own == pattern
    plain = _why_refused(own) if re.search(r"[\\.^$*+?{}\[\]|()]", own) else ""
    if plain is None and case_counts:
        yield _Matcher(own)
        yield _Matcher(own, plain="nothing matches it as a regular expression")
    elif case_counts:
        yield _Matcher(own, plain=plain)
    if not case_counts or own != own.swapcase() or "[" in own:  # a set may hold letters that it does not name
        yield _Matcher(own, plain=plain, any_case=True)


def _why_refused(pattern: str) -> str | None:
    """Return why a pattern is not used as a regular expression; None if it is."""
    if re2 is None:
        from wane.installing import installation

        return f"regular expressions need RE2, which `{installation().extras_line('search')}` installs"
    try:
        regex = _compile_pattern(pattern)
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode()
        return f"it is not a regular expression: {reason}"
    return "it matches any text" if regex.search(b"") else None


def _compile_pattern(pattern: str, *, literal: bool = False, any_case: bool = False) -> Any:
    """Compile plain text, or a regular expression whose matches stay within a line, for texts in UTF-8."""
    if re2 is None:
        return re.compile(re.escape(pattern.encode(errors="replace")), re.IGNORECASE if any_case else re.NOFLAG)
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not any_case
    options.literal = literal
    options.never_nl = not literal
    return re2.compile((pattern if literal else f"(?m){pattern}").encode(errors="replace"), options)


class _Matcher:
    """Matches a pattern, read in one way.

    Args:
        pattern: a regular expression, or plain text.
        plain: why the pattern is read as plain text, empty if it can be nothing else; None for a regular expression.
        any_case: whether case is ignored.
    """

    def __init__(self, pattern: str, *, plain: str | None = None, any_case: bool = False) -> None:
        self._plain = plain
        self._any_case = any_case
        self._regex = _compile_pattern(pattern, literal=plain is not None, any_case=any_case)
        self._cost = 1 if plain is not None else self._regex.programsize

    def search(self, texts: Sequence[str], order: Sequence[int]) -> SearchResult:
        """Return the texts with a match."""
        steps = STEPS
        indexes = []
        for index in order:
            steps -= len(texts[index]) * self._cost
            if steps < 0:
                break
            match = self._regex.search(texts[index].encode(errors="replace"))
            # An empty match does not count, but another one may follow.
            if match and (match[0] or next(self._spans(texts[index]), None)):
                indexes.append(index)
        return SearchResult(tuple(indexes), self._plain or "", self._any_case, steps >= 0, self)

    def matches(self, index: int, text: str) -> TextMatches:
        """Return the matches in a text that has one."""
        spans = list(self._spans(text))
        return TextMatches(index, *spans[0], len(spans))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the matches that are not empty, in characters."""
        data = text.encode(errors="replace")
        reached = chars = 0
        for match in islice(self._regex.finditer(data), MOST_IN_A_TEXT):
            start, stop = match.span()
            if start < stop:
                chars += len(data[reached:start].decode())
                reached = start
                yield chars, chars + len(data[start:stop].decode())
