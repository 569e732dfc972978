"""Searches the texts of a history for a pattern. Pure, with bounded work for any pattern.

A pattern is a regular expression, matched line by line, or plain text where that is not safe (`wane.patterns`). The
steps that a line can cost have an upper bound, and lines are tried only as long as the sum stays under `STEPS`.

Most texts never reach the matcher: they lack a plain text or a run of characters that every match contains. The others
are looked at as a whole, which tells whether they match. Only texts that are shown are matched line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from wane.patterns import Core, Pattern

STEPS: Final = 2_000_000_000
"""Upper bound of the matcher's steps in one search: seconds at worst, usually milliseconds."""

MOST_IN_A_TEXT: Final = 1_000
"""Most matches that are counted in one text."""

_WINDOW: Final = 500  # characters of a line that are matched at a time
_OVERLAP: Final = 125  # of neighbouring windows, so that shorter matches are not cut
_ANY_CASE: Final = "(?i)"
_OTHER: Final = ord("?")  # stands for a character beyond Latin-1
_CREDIT: Final = 200  # texts with a run of characters, after which runs are no longer looked for if few lack it
_BEYOND_ASCII: Final = re.compile(r"\\[sSxuUN]|[^\0-\x7f]")  # with `re.ASCII` these match ASCII texts differently


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
    plan = Pattern.of(pattern.removeprefix(_ANY_CASE))
    order = range(len(texts)) if order is None else order
    ways = [(plan, True)]
    if not pattern.startswith(_ANY_CASE):
        as_text = [(Pattern.as_text(pattern, "nothing matches it as a regular expression"), False)]
        any_case = ways if plan.has_letters else []
        ways = [(plan, False), *(as_text if plan.plain is None else []), *any_case]
    outcomes = (_Matcher(way, any_case=any_case).over(texts, order) for way, any_case in ways)
    first = next(outcomes)
    return first if first.indexes else next((other for other in outcomes if other.indexes), first)


class _Matcher:
    """Finds a pattern in texts, with or without case.

    Attributes:
        left: steps left for matching line by line.
    """

    def __init__(self, pattern: Pattern, *, any_case: bool) -> None:
        self._pattern = pattern
        self._any_case = any_case
        flags = re.MULTILINE | (re.IGNORECASE if any_case else re.NOFLAG)
        self._regex = re.compile(re.escape(pattern.text) if pattern.core is None else pattern.text, flags)
        # Finds the lines worth trying.
        self._hints = re.compile("|".join(map(re.escape, pattern.hints)), flags) if pattern.hints else None
        self._needs = [tuple(it.lower() for it in need) if any_case else need for need in pattern.needs]
        self._core = None if pattern.core is None else _CoreMatcher(pattern.core, flags)
        self.left = STEPS

    def over(self, texts: Sequence[str], order: Sequence[int]) -> Findings:
        """Find the texts with a match."""
        found: list[int] = []
        lower, needs = self._any_case, self._needs
        for index in order:
            text = texts[index]
            if needs and _lacks(text.lower() if lower else text, needs):
                continue
            if self._is_in(text):
                found.append(index)
            if self.left <= 0:
                break
        return Findings(tuple(found), self._pattern.plain or "", lower, self.left > 0, self)

    def _is_in(self, text: str) -> bool:
        if self._core is None:
            return not self._any_case or self._regex.search(text) is not None
        span = self._core.look(text)
        if span is None:
            return False
        # Windows cut long matches, and an empty one does not count.
        return 0 < span[1] - span[0] <= _OVERLAP or next(self._spans(text), None) is not None

    def matches(self, index: int, text: str) -> Found:
        """Return the matches in a text that has one."""
        count, start, stop = 0, 0, 0
        for span in self._spans(text):
            if not count:
                start, stop = span
            count += 1
            if count == MOST_IN_A_TEXT:
                break
        if not count and self._core is not None:
            # Too many steps to match it line by line.
            start, stop = self._core.look(text) or (0, 0)
        return Found(index, start, stop, max(1, count))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self._core is None:
            yield from (match.span() for match in self._regex.finditer(text))
            return
        reached = 0
        for begin, end in self._windows(text):
            self.left -= _steps(self._pattern, end - begin)
            if self.left <= 0:
                return
            for match in self._regex.finditer(text, begin, end):
                if match.start() >= reached and match.end() > match.start():
                    reached = match.end()
                    yield match.span()

    def _windows(self, text: str) -> Iterator[tuple[int, int]]:
        """The pieces of a text that are matched one by one: lines, and overlapping parts of long lines."""
        at = 0
        while at < len(text):
            if self._hints is not None:
                hint = self._hints.search(text, at)
                if hint is None:
                    return
                at = max(at, text.rfind("\n", at, hint.start()) + 1, hint.start() - _WINDOW // 2)
            line = text.find("\n", at)
            line = len(text) if line < 0 else line
            end = min(line, at + _WINDOW)
            yield at, end
            at = line + 1 if end == line else end - _OVERLAP


class _CoreMatcher:
    """Looks at whole texts; see `Core`."""

    def __init__(self, core: Core, flags: re.RegexFlag) -> None:
        self._cost = core
        self._regexes = [re.compile(regex, flags) for regex in core.regexes]
        self._in_ascii: list[re.Pattern[str]] = []  # the same in ASCII texts, and faster
        self._folds = bool(flags & re.IGNORECASE)
        if not any(_BEYOND_ASCII.search(regex) for regex in core.regexes):
            ascii_flags = (flags & ~re.IGNORECASE) | re.ASCII
            self._in_ascii = [re.compile(it, ascii_flags) for it in (core.folded if self._folds else core.regexes)]
        self._run = b"\x01" * core.least
        self._table = _table(core.run, flags) if core.run else b""
        self._credit = _CREDIT
        self._left = STEPS

    def look(self, text: str) -> tuple[int, int] | None:
        """Return a match; None if there is none, (0, 0) if the look could take too many steps."""
        if self._table and self._credit > 0:
            if self._run not in text.encode("latin-1", "replace").translate(self._table):
                self._credit += 1
                return None
            self._credit -= 2
        longest = max(map(len, text.split("\n"))) if self._cost.open_ended else 0
        steps = (len(text) + 1) * (longest + 1) ** self._cost.open_ended * self._cost.factor
        if steps > self._left:
            return (0, 0)
        self._left -= steps
        regexes = self._regexes
        if self._in_ascii and text.isascii():
            regexes = self._in_ascii
            text = text.lower() if self._folds else text
        for regex in regexes:
            if match := regex.search(text):
                return match.span()
        return None


def _lacks(text: str, needs: Sequence[tuple[str, ...]]) -> bool:
    """Whether a text lacks something that every match needs."""
    for need in needs:
        # Loops, since a call of `any` would cost more than the tests themselves.
        for piece in need:
            if piece in text:
                break
        else:
            return True
    return False


def _steps(pattern: Pattern, length: int) -> int:
    """The most steps that a line of `length` characters can cost."""
    return int((length + 1) ** (pattern.open_ended + 1)) * pattern.factor


def _table(run: str, flags: re.RegexFlag) -> bytes:
    """A table of Latin-1 characters: 1 for those of a class, and for the one that stands for all others."""
    regex = re.compile(run, flags)
    return bytes(byte == _OTHER or regex.fullmatch(chr(byte)) is not None for byte in range(256))
