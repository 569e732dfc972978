"""Reads the pattern of a search: whether it is safe as a regular expression, its cost, and what its matches need.

Models write the patterns, and Python's matcher has no limit: a repeated group may run practically for ever. So a
pattern with a repeated group, a back reference or a look-around counts as plain text, and so does one that does not
compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

_LONGEST: Final = 200  # characters of a regular expression
_TOKEN: Final = re.compile(
    r"(?P<anchor>[\^$]|\\[bB])|(?P<escape>\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|.))|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\}|\{,\d+\})[?+]?)|(?P<any>\.)|(?P<char>.)",
    re.DOTALL,
)
_BEYOND_A_LINE: Final = re.compile(r"[\n\r]|\\[nrAZ]")
_WITHIN_A_LINE: Final = {r"\s": r"[^\S\n]", r"\W": r"[^\w\n]", r"\D": r"[^\d\n]"}
_CASELESS: Final = (".", r"\d", r"\w", r"\s", r"\S", *_WITHIN_A_LINE.values())
_MOST_ALTERNATIVES: Final = 8
_SHORTEST_RUN: Final = 2  # a single character of a class stands nearly everywhere


@dataclass(frozen=True, slots=True)
class Core:
    r"""Regular expressions of which one finds in a whole text what another one finds in one of its lines.

    They leave out what may repeat at the ends: where `\w+ x.*` matches, `\w x` does. They never match a line's end.
    There is one for each alternative, since Python's matcher is quick to find how a single one begins.

    Attributes:
        regexes: the regular expressions.
        folded: the same for texts in small letters.
        run: a class of characters, as a regular expression; empty if no class is known.
        least: number of neighbouring characters of this class that every match contains.
        factor: see `Pattern`.
        open_ended: see `Pattern`.
    """

    regexes: tuple[str, ...]
    folded: tuple[str, ...]
    run: str
    least: int
    factor: int
    open_ended: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """How to search for a pattern.

    Attributes:
        text: the pattern.
        plain: why it is plain text; None for a regular expression.
        hints: plain texts of which every match contains one; empty if none are known.
        needs: groups of plain texts: every match contains one of each group.
        factor: factor by which the pattern's branches multiply the steps of a line.
        open_ended: number of repeats without an upper bound: each multiplies the steps of a line by its length.
        core: what finds the texts with a match; None for plain text.
    """

    text: str
    plain: str | None
    hints: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    factor: int = 1
    open_ended: int = 0
    core: Core | None = None

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Read a pattern."""
        if not re.search(r"[\\.^$*+?{}\[\]|()]", text):
            return cls.as_text(text, "")
        why = _refused(text)
        return _analysed(text) if why is None else cls.as_text(text, why)

    @classmethod
    def as_text(cls, text: str, why: str) -> Pattern:
        """Take a pattern as plain text, and say why."""
        return cls(text, why, (text,), ((text,),))

    @property
    def has_letters(self) -> bool:
        """Whether ignoring case may find more; a set may hold letters."""
        own = re.sub(r"\\[dDwWsSbB\W]", "", self.text) if self.plain is None else self.text
        return re.search(r"[^\W\d_]|\[", own) is not None


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


@dataclass(frozen=True, slots=True)
class _Atom:
    """One character of a kind, maybe repeated; or an anchor, which matches no character."""

    text: str
    plain: str = ""  # the character, if it can be only one
    anchor: bool = False
    least: int = 1
    most: int | None = 1
    sign: str = ""  # of a lazy (?) or possessive (+) repeat

    def regex(self, *, folded: bool) -> str:
        text = self.text
        if folded and self.plain:
            text = re.escape(self.plain.lower())
        elif folded and not self.anchor and text not in _CASELESS:
            text = f"(?i:{text})"
        if (self.least, self.most) == (1, 1):
            return text
        most = "" if self.most is None else self.most
        return f"{text}{{{self.least},{most}}}{self.sign}"


@dataclass(frozen=True, slots=True)
class _Group:
    """Alternatives, maybe optional."""

    branches: tuple[tuple[_Node, ...], ...]
    optional: bool = False

    def regex(self, *, folded: bool) -> str:
        return f"(?:{'|'.join(_written(self.branches, folded=folded))}){'?' * self.optional}"


_Node = _Atom | _Group


def _written(branches: Iterable[Sequence[_Node]], *, folded: bool = False) -> tuple[str, ...]:
    return tuple("".join(node.regex(folded=folded) for node in branch) for branch in branches)


def _analysed(pattern: str) -> Pattern:
    branches = _parsed(pattern)
    factor, open_ended = _cost(branches)
    best = [max(_runs(branch), key=len, default="") for branch in branches]
    return Pattern(
        pattern,
        None,
        tuple(best) if all(best) else (),
        tuple(_needs(branches)),
        factor,
        open_ended,
        _core(branches),
    )


def _core(branches: Sequence[tuple[_Node, ...]]) -> Core:
    spread = [each for branch in branches for each in _spread(branch)]
    core = [_trimmed(branch) for branch in (spread if len(spread) <= _MOST_ALTERNATIVES else branches)]
    run, least = _longest_run(core[0]) if len(core) == 1 else ("", 0)
    costs = [_cost([branch]) for branch in core]
    # A first character on its own lets the matcher skip quickly to where a match may begin.
    split = [_split(branch) for branch in core]
    factor, open_ended = sum(cost[0] for cost in costs), max(cost[1] for cost in costs)
    return Core(_written(split), _written(split, folded=True), run, least, factor, open_ended)


def _spread(branch: tuple[_Node, ...]) -> list[tuple[_Node, ...]]:
    """The alternatives of a branch that begins with some."""
    at = next((n for n, node in enumerate(branch) if not (isinstance(node, _Atom) and node.anchor)), 0)
    first = branch[at] if branch else None
    if not isinstance(first, _Group) or first.optional:
        return [branch]
    return [(*branch[:at], *inner, *branch[at + 1 :]) for inner in first.branches]


def _parsed(pattern: str) -> list[tuple[_Node, ...]]:
    """The alternatives of a pattern."""
    levels: list[list[list[_Node]]] = [[[]]]
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        nodes = levels[-1][-1]
        if kind == "open":
            levels.append([[]])
        elif kind == "close":
            group = _Group(tuple(map(tuple, levels.pop())))
            levels[-1][-1].append(group)
        elif kind == "bar":
            levels[-1].append([])
        elif kind == "repeat":
            last = nodes.pop()
            least, most = _bounds(text)
            sign = text[-1] if len(text) > 1 and text[-1] in "?+" else ""
            nodes.append(
                replace(last, optional=True)
                if isinstance(last, _Group)
                else replace(last, least=least, most=most, sign=sign)
            )
        elif kind == "anchor":
            nodes.append(_Atom(text, anchor=True))
        elif kind == "char" or (kind == "escape" and not text[1].isalnum()):
            nodes.append(_Atom(re.escape(text[-1]), plain=text[-1]))
        else:
            nodes.append(_Atom(_within_a_line(text)))
    return list(map(tuple, levels[0]))


def _within_a_line(atom: str) -> str:
    """Return an atom that matches the same characters except a line's end."""
    if re.fullmatch(atom, "\n") is None:
        return atom
    if atom.startswith("[^"):
        return rf"{atom[:-1]}\n]"
    return _WITHIN_A_LINE.get(atom) or rf"(?:(?!\n){atom})"


def _bounds(repeat: str) -> tuple[int, int | None]:
    """The least and the most repetitions; None for no limit."""
    sign = repeat[0]
    if sign != "{":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
    least, comma, most = repeat[1 : repeat.index("}")].partition(",")
    low = int(least or 0)
    return low, low if not comma else int(most) if most else None


def _cost(branches: Sequence[Sequence[_Node]]) -> tuple[int, int]:
    """The factor of alternatives and bounded repeats, and the number of unbounded ones."""
    factor, open_ended = 2 ** (len(branches) - 1), 0
    for node in (node for branch in branches for node in branch):
        if isinstance(node, _Group):
            inner, more = _cost(node.branches)
            factor *= inner * (1 + node.optional)
            open_ended += more
        elif node.most is None:
            open_ended += 1
        else:
            factor *= node.most - node.least + 1
    return factor, open_ended


def _runs(branch: Sequence[_Node]) -> list[str]:
    """The plain texts that every match of a branch contains."""
    runs = [""]
    for node in branch:
        if isinstance(node, _Atom) and node.plain and node.least:
            runs[-1] += node.plain
            if (node.least, node.most) == (1, 1):
                continue
        runs.append("")
    return [run for run in runs if run]


def _needs(branches: Sequence[Sequence[_Node]]) -> list[tuple[str, ...]]:
    """What every match of one of these branches contains; see `Pattern.needs`."""
    if len(branches) > 1:
        each = [_needs([branch]) for branch in branches]
        # The need of each branch that is met least often: its longest texts.
        return [tuple(text for needs in each for text in max(needs, key=_rarity))] if all(each) else []
    inner = [node.branches for node in branches[0] if isinstance(node, _Group) and not node.optional]
    needs: list[tuple[str, ...]] = [(run,) for run in _runs(branches[0])]
    needs += [need for group in inner for need in _needs(group)]
    return sorted(needs, key=_rarity, reverse=True)


def _rarity(need: tuple[str, ...]) -> int:
    return min(map(len, need))


def _trimmed(branch: tuple[_Node, ...]) -> tuple[_Node, ...]:
    """A branch without the repeats at its ends that a match can do without."""
    kept = list(branch)
    for end in (0, -1):
        while kept and _optional(kept[end]):
            del kept[end]
        if kept and isinstance(last := kept[end], _Atom) and last.sign != "+":
            kept[end] = replace(last, most=last.least, sign="")
    return tuple(kept) or branch


def _optional(node: _Node) -> bool:
    return node.optional if isinstance(node, _Group) else node.least == 0 and node.sign != "+"


def _split(branch: tuple[_Node, ...]) -> tuple[_Node, ...]:
    """A branch with its first character on its own."""
    first = branch[0] if branch else None
    if not isinstance(first, _Atom) or first.sign == "+" or first.least < 2:
        return branch
    rest = replace(first, least=first.least - 1, most=None if first.most is None else first.most - 1)
    return (replace(first, least=1, most=1, sign=""), rest, *branch[1:])


def _longest_run(branch: Sequence[_Node]) -> tuple[str, int]:
    """The class of characters of which every match contains most neighbours, and how many."""
    nodes = [node for node in branch if not (isinstance(node, _Atom) and node.anchor)]
    best = ("", 0)
    for text, same in groupby(nodes, lambda node: "" if isinstance(node, _Group) or node.plain else node.text):
        least = sum(node.least for node in same if isinstance(node, _Atom))
        if text and least >= _SHORTEST_RUN and least > best[1]:
            best = (text, least)
    return best
