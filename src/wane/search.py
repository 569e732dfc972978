"""Searches the texts of a history for a pattern. Pure, with bounded work for any pattern.

A pattern is a regular expression, matched line by line. Models write the patterns, and Python's matcher has no limit: a
repeated group may run practically for ever. So a pattern with a repeated group, a back reference or a look-around is
searched as plain text, and so is one that does not compile. For all others the steps that a line can cost have an upper
bound, and lines are tried only as long as the sum stays under `STEPS`.

Most texts never reach the matcher: a line is tried only if it contains the longest plain piece that every match has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

STEPS: Final = 2_000_000_000
"""Upper bound of the matcher's steps in one search: seconds at worst, usually milliseconds."""

MOST_IN_A_TEXT: Final = 1_000
"""Most matches that are counted in one text."""

_LONGEST: Final = 200  # characters of a regular expression
_WINDOW: Final = 500  # characters of a line that are matched at a time
_OVERLAP: Final = 125  # of neighbouring windows, so that shorter matches are not cut
_TOKEN: Final = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})[?+]?)|(?P<any>[.^$])|(?P<char>.)",
    re.DOTALL,
)
_ANY_CASE: Final = "(?i)"
_BEYOND_A_LINE: Final = re.compile(r"[\n\r]|\\[nrAZ]")


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
        found: the texts with a match, in the order of the search.
        plain: why a regular expression was searched as plain text; else empty.
        any_case: whether case was ignored.
        complete: whether all texts were searched.
    """

    found: tuple[Found, ...]
    plain: str = ""
    any_case: bool = False
    complete: bool = True


def search(pattern: str, texts: Sequence[str], order: Sequence[int] | None = None) -> Findings:
    """Search for a pattern as it is, then as plain text, then ignoring case, until something is found.

    Args:
        pattern: the pattern; not empty.
        texts: the texts.
        order: indexes of the texts to search, in this order; None for all.
    """
    plan = _plan(pattern.removeprefix(_ANY_CASE))
    order = range(len(texts)) if order is None else order
    ways = [(plan, True)]
    if not pattern.startswith(_ANY_CASE):
        as_text = [(_as_text(pattern, "nothing matches it as a regular expression"), False)]
        # Ignoring case finds nothing more for a pattern without letters and sets; a set may hold letters.
        own = re.sub(r"\\[dDwWsSbB\W]", "", pattern) if plan.plain is None else pattern
        any_case = ways if re.search(r"[^\W\d_]|\[", own) else []
        ways = [(plan, False), *(as_text if plan.plain is None else []), *any_case]
    outcomes = (_Run(way, any_case=any_case).over(texts, order) for way, any_case in ways)
    first = next(outcomes)
    return first if first.found else next((other for other in outcomes if other.found), first)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to search for a pattern.

    Attributes:
        pattern: the pattern.
        plain: why it is plain text; None for a regular expression.
        pieces: plain texts of which every match contains one; empty if none are known.
        factor: factor by which the pattern's branches multiply the steps of a line.
        open_ended: number of repeats without an upper bound: each multiplies the steps of a line by its length.
    """

    pattern: str
    plain: str | None
    pieces: tuple[str, ...]
    factor: int = 1
    open_ended: int = 0

    def steps(self, length: int) -> int:
        """Return the most steps that a line of `length` characters can cost."""
        return int((length + 1) ** (self.open_ended + 1)) * self.factor


def _plan(pattern: str) -> _Plan:
    if not re.search(r"[\\.^$*+?{}\[\]|()]", pattern):
        return _as_text(pattern, "")
    why = _refused(pattern)
    return _analysed(pattern) if why is None else _as_text(pattern, why)


def _as_text(pattern: str, why: str) -> _Plan:
    return _Plan(pattern, why, (pattern,))


def _refused(pattern: str) -> str | None:
    """Why a pattern is not used as a regular expression; None if it is."""
    if len(pattern) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if _BEYOND_A_LINE.search(pattern):
        return "a regular expression is matched line by line"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is not a regular expression: {error}"
    before = ""
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup or ""
        if kind == "repeat" and before == "close" and token[0] != "?":
            return "a repeated group may take too long"
        if kind == "escape" and token[0][1].isdigit():
            return "a back reference may take too long"
        if kind == "repeat" and before == "open":
            return "look-arounds and flags are not supported"
        before = kind
    return None


def _analysed(pattern: str) -> _Plan:
    """The cost of a regular expression, and the longest plain piece of each of its branches."""
    factor, open_ended, depth = 1, 0, 0
    pieces = [""]
    run: list[str] = []

    def end_run() -> None:
        pieces[-1] = max(pieces[-1], "".join(run), key=len)
        run.clear()

    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        if kind == "repeat":
            least, most = _bounds(text)
            if most is None:
                open_ended += 1
            else:
                factor *= most - least + 1
            if run and least == 0:
                run.pop()
            end_run()
        elif kind == "bar":
            factor *= 2
            end_run()
            if not depth:
                pieces.append("")
        elif depth == 0 and (kind == "char" or (kind == "escape" and not text[1].isalnum())):
            run.append(text[-1])
        else:
            end_run()
            depth += (kind == "open") - (kind == "close")
    end_run()
    return _Plan(pattern, None, tuple(pieces) if all(pieces) else (), factor, open_ended)


def _bounds(repeat: str) -> tuple[int, int | None]:
    """The least and the most repetitions; None for no limit."""
    sign = repeat[0]
    if sign != "{":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
    least, comma, most = repeat[1 : repeat.index("}")].partition(",")
    low = int(least or 0)
    return low, low if not comma else int(most) if most else None


class _Run:
    """One pass through the texts, with or without case."""

    def __init__(self, plan: _Plan, *, any_case: bool) -> None:
        self._plan = plan
        self._any_case = any_case
        flags = re.MULTILINE | (re.IGNORECASE if any_case else re.NOFLAG)
        self._regex = re.compile(plan.pattern if plan.plain is None else re.escape(plan.pattern), flags)
        # Finds the lines worth trying: every match contains one of the pieces.
        self._hints = re.compile("|".join(map(re.escape, plan.pieces)), flags) if plan.pieces else None
        self._pieces = tuple(piece.lower() for piece in plan.pieces) if any_case else plan.pieces
        self._left = STEPS

    def over(self, texts: Sequence[str], order: Sequence[int]) -> Findings:
        found: list[Found] = []
        pieces, lower = self._pieces, self._any_case
        for index in order:
            text = texts[index]
            if pieces:
                looked = text.lower() if lower else text
                # A single loop over the pieces would cost as much as the test itself.
                if not (pieces[0] in looked or (len(pieces) > 1 and any(piece in looked for piece in pieces[1:]))):
                    continue
            if (one := self._first(index, text)) is not None:
                found.append(one)
            if self._left <= 0:
                break
        return Findings(tuple(found), self._plan.plain or "", self._any_case, self._left > 0)

    def _first(self, index: int, text: str) -> Found | None:
        count, start, stop = 0, 0, 0
        for span in self._spans(text):
            if not count:
                start, stop = span
            count += 1
            if count == MOST_IN_A_TEXT:
                break
        return Found(index, start, stop, count) if count else None

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self._plan.plain is not None:
            yield from (match.span() for match in self._regex.finditer(text))
            return
        whole = self._plan.steps(len(text))
        if self._hints is None and not self._plan.open_ended and whole < self._left // 4:
            # One look at all lines costs no more steps than a look at each, and usually finds that there is nothing.
            self._left -= whole
            if self._regex.search(text) is None:
                return
        reached = 0
        for begin, end in self._windows(text):
            self._left -= self._plan.steps(end - begin)
            if self._left <= 0:
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
