"""Reads the pattern of a search: whether it is safe as a regular expression, its cost, and what its matches need.

Models write the patterns, and Python's matcher has no limit: a repeated group may run practically for ever. So a
pattern with a repeated group, a back reference or a look-around counts as plain text, and so does one that does not
compile. Python's own parser is private, changes between versions, and cannot write a pattern back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Final

_LONGEST: Final = 200  # characters of a regular expression
_TOKEN: Final = re.compile(
    r"(?P<anchor>[\^$]|\\[bB])|(?P<escape>\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|.))|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>(?:[*+?]|\{(?!\})\d*(?:,\d*)?\})[?+]?)|(?P<any>\.)|(?P<char>.)",
    re.DOTALL,
)
# What Python warns of, because it may mean a set within the set one day.
_NESTED: Final = re.compile(r"\A\[|--|&&|\|\||~~")
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_MOST_ALTERNATIVES: Final = 64
_MOST_BOUNDED: Final = 100  # repeats; more cost as much as repeats without a bound
_SHORT: Final = 2  # characters of a plain text that stands in many texts
_LEAST_BITS: Final = 10.0  # of information in a run of characters that is worth looking for
_LATIN: Final = list(map(chr, range(256)))
_OTHER: Final = "?"  # stands for a character beyond Latin-1


@dataclass(frozen=True, slots=True)
class Cost:
    """The most steps that the matcher takes.

    Attributes:
        factor: factor by which alternatives and bounded repeats multiply them.
        open_ended: number of repeats without a bound: each multiplies them by the length of a line.
    """

    factor: int = 1
    open_ended: int = 0

    def steps(self, length: int, longest: int) -> int:
        """Return the most steps for `length` characters in lines of at most `longest` characters."""
        return (length + 1) * int((longest + 1) ** self.open_ended) * self.factor


@dataclass(frozen=True, slots=True)
class Alternative:
    r"""What tells whether one of a pattern's alternatives matches, without what may repeat at its ends.

    Where `\w+ x.*` matches, `\w x` does.

    Attributes:
        need: the longest plain text that every match contains, as `folded` returns it if case is ignored; may be empty.
        needs: other such texts.
        table: of the characters in Latin-1, 1 for those of a class and else 0; empty if no class is known.
        run: the shortest run of this class that every match contains.
        cost: the cost of `look`.
        look: the regular expression.
        in_ascii: the same for texts in ASCII, in small letters if case is ignored: the matcher skips to them quickly.
    """

    need: str
    needs: tuple[str, ...]
    table: bytes
    run: bytes
    cost: Cost
    look: re.Pattern[str]
    in_ascii: re.Pattern[str]

    @classmethod
    def of(cls, look: str, needs: Sequence[str], cost: Cost, run: tuple[bytes, int], *, any_case: bool) -> Alternative:
        """Prepare one."""
        need, *others = [folded(text) if any_case else text for text in needs or ("",)]
        table, least = run
        regexes = re.compile(look, _flags(any_case)), re.compile(look, re.MULTILINE)
        return cls(need, tuple(others), table, b"\x01" * min(least, _LONGEST), cost, *regexes)


@dataclass(frozen=True, slots=True)
class Pattern:
    """How to search for a pattern.

    Attributes:
        regex: the regular expression; it never matches a line's end, unless it stands for plain text.
        plain: why the pattern is plain text; None for a regular expression.
        any_case: whether case is ignored.
        alternatives: the alternatives, without groups, by the longest plain text that they need.
        hints: finds a plain text in every match; None if none is known.
        cost: the cost of `regex`.
    """

    regex: re.Pattern[str]
    plain: str | None
    any_case: bool
    alternatives: dict[str, list[Alternative]]
    hints: re.Pattern[str] | None = None
    cost: Cost = Cost()

    @classmethod
    def of(cls, text: str, *, any_case: bool) -> Pattern:
        """Read a pattern."""
        if not re.search(r"[\\.^$*+?{}\[\]|()]", text):
            return cls.as_text(text, "", any_case=any_case)
        why = _refused(text)
        return _analysed(text, any_case=any_case) if why is None else cls.as_text(text, why, any_case=any_case)

    @classmethod
    def as_text(cls, text: str, why: str, *, any_case: bool = False) -> Pattern:
        """Take a pattern as plain text, and say why."""
        regex = f"(?i:{re.escape(text)})" if any_case else re.escape(text)
        only = Alternative.of(regex, (text,), Cost(), (b"", 0), any_case=any_case)
        return cls(only.look, why, any_case, {only.need: [only]})


def folded(text: str) -> str:
    """Return a text such that what matches in any case is equal; the matcher takes Turkish letters for an i."""
    return text.replace("\u0130", "i").replace("\u0131", "i").casefold()


def _flags(any_case: bool) -> re.RegexFlag:
    return re.MULTILINE | (re.IGNORECASE if any_case else re.NOFLAG)


def has_case(pattern: str) -> bool:
    """Whether ignoring case may find more; a set may hold letters."""
    own = re.sub(r"\\[dDwWsSbB\W]", "", pattern)
    return "[" in own or own != own.swapcase()


def _refused(pattern: str) -> str | None:
    """Why a pattern is not used as a regular expression; None if it is."""
    if len(pattern) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if any(
        token.lastgroup == "set" and _NESTED.search(_ESCAPED.sub("", token[0][1:]))
        for token in _TOKEN.finditer(pattern)
    ):
        return r"sets within sets are not supported; in a set, write \[, \-, \&, \| and \~"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is not a regular expression: {error}"
    before = ""
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup or "", token[0]
        if text == "\n" or (kind == "escape" and text[1] in "\nnAZz"):
            return "a regular expression is matched line by line"
        if kind == "repeat" and before == "close" and text != "?":
            return "a repeated group may take too long"
        if kind == "escape" and text[1].isdigit():
            return "a back reference may take too long"
        if kind == "repeat" and before == "open":
            return "groups that begin with (? are not supported, except (?:"
        before = kind
    return None


@dataclass(frozen=True, slots=True)
class _Atom:
    """One character of a kind, maybe repeated; or an anchor, which matches no character."""

    text: str
    plain: str = ""  # the character, if it can be only one
    anchor: bool = False
    least: int = 1
    most: int | None = 1
    sign: str = ""  # of a lazy (?) or possessive (+) repeat

    def regex(self, *, folded: bool = False) -> str:
        text = self.text
        if folded and not self.anchor:
            text = re.escape(self.plain.lower()) if self.plain and self.plain.isascii() else f"(?i:{text})"
        if (self.least, self.most) == (1, 1):
            return text
        return f"{text}{{{self.least},{'' if self.most is None else self.most}}}{self.sign}"


def _analysed(pattern: str, *, any_case: bool) -> Pattern:
    tokens = [(token.lastgroup or "", _within_a_line(token)) for token in _TOKEN.finditer(pattern)]
    regex = "".join(text for _, text in tokens)
    alternatives = _alternatives(tokens)
    if alternatives is None:
        return Pattern.as_text(pattern, f"it has more than {_MOST_ALTERNATIVES} alternatives", any_case=any_case)
    flags = _flags(any_case)
    by_need: dict[str, list[Alternative]] = {}
    hints = []
    for core in dict.fromkeys(map(_trimmed, alternatives)):
        needs = sorted(_runs(core), key=len, reverse=True)
        run = (b"", 0) if needs and len(needs[0]) > _SHORT else _longest_run(core, flags)
        look = "".join(atom.regex(folded=any_case) for atom in core)
        alternative = Alternative.of(look, needs, _cost(core), run, any_case=any_case)
        by_need.setdefault(alternative.need, []).append(alternative)
        hints += [re.escape(text) for text in needs[:1]]
    costs = [_cost(atoms) for atoms in alternatives]
    cost = Cost(sum(it.factor for it in costs), max(it.open_ended for it in costs))
    hint = None if "" in by_need else re.compile("|".join(hints), flags)
    return Pattern(re.compile(regex, flags), None, any_case, by_need, hint, cost)


def _within_a_line(token: re.Match[str]) -> str:
    """Return the text of a token such that it matches the same characters except a line's end."""
    text = token[0]
    if token.lastgroup not in ("escape", "set") or re.fullmatch(text, "\n") is None:
        return text
    if text.startswith("[^"):
        return rf"{text[:-1]}\n]"
    return rf"[^{text.swapcase()}\n]" if text in (r"\s", r"\W", r"\D") else rf"(?:(?!\n){text})"


def _alternatives(tokens: Sequence[tuple[str, str]]) -> list[tuple[_Atom, ...]] | None:
    """The atoms of a pattern without its groups: `(a|b)?c` is `ac`, `bc` or `c`. None if there are too many."""
    outer: list[tuple[list[tuple[_Atom, ...]], list[tuple[_Atom, ...]]]] = []
    done: list[tuple[_Atom, ...]] = []
    now: list[tuple[_Atom, ...]] = [()]
    without: list[tuple[_Atom, ...]] = []  # what stands ahead of the group that was just closed
    before = ""
    for kind, text in tokens:
        if kind == "open":
            outer.append((done, now))
            done, now = [], [()]
        elif kind == "bar":
            done, now = done + now, [()]
        elif kind == "close":
            inner = done + now
            done, without = outer.pop()
            now = [(*start, *end) for start in without for end in inner]
        elif kind == "repeat" and before == "close":
            now = now + without
        elif kind == "repeat":
            least, most = _bounds(text)
            sign = text[-1] if len(text) > 1 and text[-1] in "?+" else ""
            now = [(*it[:-1], replace(it[-1], least=least, most=most, sign=sign)) for it in now]
        else:
            plain = (
                text[-1] if kind == "char" or (kind == "escape" and len(text) == 2 and not text[1].isalnum()) else ""
            )
            atom = _Atom(re.escape(plain) or text, plain, anchor=kind == "anchor")
            now = [(*it, atom) for it in now]
        if len(done) + len(now) > _MOST_ALTERNATIVES:
            return None
        before = kind
    return done + now


def _bounds(repeat: str) -> tuple[int, int | None]:
    """The least and the most repetitions; None for no limit."""
    sign = repeat[0]
    if sign != "{":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
    least, comma, most = repeat[1 : repeat.index("}")].partition(",")
    low = int(least or 0)
    return low, low if not comma else int(most) if most else None


def _cost(atoms: Sequence[_Atom]) -> Cost:
    bounded = [atom for atom in atoms if atom.most is not None and atom.most <= _MOST_BOUNDED]
    return Cost(prod((atom.most or 0) - atom.least + 1 for atom in bounded), len(atoms) - len(bounded))


def _runs(atoms: Sequence[_Atom]) -> list[str]:
    """The plain texts that every match of an alternative contains."""
    runs = [""]
    for atom in atoms:
        if atom.plain and atom.least:
            runs[-1] += atom.plain
            if (atom.least, atom.most) == (1, 1):
                continue
        runs.append("")
    return [run for run in runs if run]


def _trimmed(atoms: tuple[_Atom, ...]) -> tuple[_Atom, ...]:
    """An alternative without the repeats at its ends that a match can do without."""
    kept = list(atoms)
    for end in (0, -1):
        while kept and kept[end].least == 0 and kept[end].sign != "+":
            del kept[end]
        if kept and kept[end].sign != "+":
            kept[end] = replace(kept[end], most=kept[end].least, sign="")
    return tuple(kept)


def _longest_run(atoms: Sequence[_Atom], flags: re.RegexFlag) -> tuple[bytes, int]:
    """The class of characters of which a run tells most, as in `Alternative.table`, and the least length of the run."""
    atoms = [atom for atom in atoms if not atom.anchor]
    classes: dict[str, frozenset[str]] = {}
    for text in {atom.text for atom in atoms}:
        regex = re.compile(text, flags)
        classes[text] = frozenset(char for char in _LATIN if char == _OTHER or regex.fullmatch(char))
    most, best, length = _LEAST_BITS, frozenset[str](), 0
    for first in range(len(atoms)):
        chars, least = frozenset[str](), 0
        for atom in atoms[first:]:
            chars |= classes[atom.text]
            least += atom.least
            if (bits := least * (8 - log2(len(chars)))) > most:
                most, best, length = bits, chars, least
    return bytes(char in best for char in _LATIN) if best else b"", length
