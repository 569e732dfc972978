"""Looking for a pattern: what is found where, what is taken for plain text, and that no pattern takes for ever."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.installing import installation
from wane.search import MOST_IN_A_TEXT, SearchResult, TextMatches, search

LINES = "first line\nport 8443\nToken-17, token-18\n"


def spans(pattern: str, *texts: str) -> list[tuple[int, str]]:
    """Which texts match, and what the first match of each is."""
    matches = search(pattern, texts).matches(texts)
    return [(match.index, texts[match.index][match.start : match.stop]) for match in matches]


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("8443", "8443"),
        (r"port\s+\d+", "port 8443"),
        (r"\d{4}", "8443"),
        (r"[Tt]oken-\d+", "Token-17"),
        ("(?:nothing|port) 8", "port 8"),
        ("nothing|8443", "8443"),
        ("nothing|first|port", "first"),
        (".*8443.*", "port 8443"),
        ("^port", "port"),
        (r"\bline$", "line"),
        ("colou?r|fir?st", "first"),
        ("xy*|por?t", "port"),
        ("T{0,1}oken", "Token"),
        ("(?i)TOKEN-18", "token-18"),
        ("(To|ke)+n", "Token"),
        (r"port[^\n]+", "port 8443"),
        (r"8443\r?$", "8443"),
        ("|".join(f"no{number}" for number in range(20)) + "|port", "port"),
    ],
)
def test_regular_expressions(pattern: str, match: str) -> None:
    assert spans(pattern, "none", LINES) == [(1, match)]
    assert search(pattern, [LINES]).plain == ""


@pytest.mark.parametrize(
    ("pattern", "text", "why"),
    [
        (r"(a)\1", r"see (a)\1", "not a regular expression: invalid escape sequence"),
        ("a(?=b)", "see a(?=b)", "not a regular expression"),
        ("f(x", "call f(x)", "not a regular expression: missing )"),
        ("(.{1000}){1000}", "see (.{1000}){1000}", "not a regular expression"),
        (".*", "see .*", "it matches any text"),
        (r"a.\n", r"see a.\n", "nothing matches it as a regular expression"),
        ("a\nb.", "see a\nb.", "nothing matches it as a regular expression"),
    ],
)
def test_what_is_taken_for_plain_text(pattern: str, text: str, why: str) -> None:
    assert why in search(pattern, [text]).plain
    assert spans(pattern, text) == [(0, pattern)]


def test_what_nothing_matches_as_a_regular_expression_is_looked_for_as_text() -> None:
    texts = ["a = list[int](x)"]
    result = search("list[int](x)", texts)
    assert result.matches(texts) == [TextMatches(0, 4, 16, 1)]
    assert "as a regular expression" in result.plain


def test_case_counts_unless_nothing_is_found() -> None:
    assert spans("token", LINES) == [(0, "token")]
    assert spans("TOKEN", LINES) == [(0, "Token")]
    assert search("TOKEN", [LINES]).any_case
    assert not search("token", [LINES]).any_case
    assert search("PORT [0-9]+", [LINES]).any_case
    assert spans("[@-_]{4}-", "token-17") == [(0, "oken-")]  # a set without a letter that holds letters
    # A letter whose small form is longer moves nothing.
    assert spans("TOKEN", "İİİ token") == [(0, "token")]


def test_texts_are_looked_through_in_the_order_asked_for() -> None:
    texts = ["one x", "two", "three x", "four x"]
    result = search("x", texts, [3, 1, 0])
    assert result.indexes == (3, 0)
    assert [it.index for it in result.matches(texts)] == [3, 0]
    assert [it.index for it in result.matches(texts, 1)] == [0]
    assert [it.index for it in result.matches(texts, 0, 1)] == [3]


def test_matches_are_counted() -> None:
    assert search("a", ["banana"]).matches(["banana"]) == [TextMatches(0, 1, 2, 3)]
    assert search("a.", ["banana"]).matches(["banana"]) == [TextMatches(0, 1, 3, 2)]
    long = ["a" * 10_000]
    assert search("a", long).matches(long)[0].count == MOST_IN_A_TEXT


def test_a_match_in_a_long_line_is_found_wherever_it_stands() -> None:
    for place in range(0, 3_000, 37):
        line = "." * place + "port 8443" + "." * 1_000
        assert spans(r"port\s\d+", line) == [(0, "port 8443")]
        assert search(r"[a-z]{4} [0-9]{4}", [line]).matches([line]) == [TextMatches(0, place, place + 9, 1)]


def test_the_middle_of_a_long_line_is_neither_its_end_nor_a_words_end() -> None:
    line = "x" * 2_000
    assert spans(r"x{3}$", line + " y") == []
    assert spans(r"xx\b y", line + " y") == [(0, "xx y")]
    assert spans(r"x{9}\b", line + "_") == []
    last = line + " y\nxxx"
    assert search(r"x{3}$", [last]).matches([last]) == [TextMatches(0, len(last) - 3, len(last), 1)]
    assert spans(r"^.*y$", line + " y") == [(0, line + " y")]


def test_escapes_that_name_a_character_match_it() -> None:
    assert spans(r"\x41BC\x{44}", "ABCD") == [(0, "ABCD")]
    assert spans(r"[\x41-\x43]\d", "B7") == [(0, "B7")]
    assert spans(r"\\n\d", r"a\n1") == [(0, r"\n1")]  # a backslash and an n


@pytest.mark.parametrize(
    ("pattern", "text", "match"),
    [
        (r"\w+_handler", "my_big_handler", "my_big_handler"),
        (".*8443.*", "port 8443 is open", "port 8443 is open"),
        (r"\d{2,}x?", "n 12345x", "12345x"),
        (r"(?:a|b)?\d*cd?", "a12cd", "a12cd"),
        (r"x+|\d{3,}", "a 1234", "1234"),
        (r"\w{3}\s+\w{130,}", "the " + "x" * 140, "the " + "x" * 140),
    ],
)
def test_a_match_is_as_long_as_the_whole_pattern_makes_it(pattern: str, text: str, match: str) -> None:
    assert spans(pattern, "none\nof it\n" + text + "\n") == [(0, match)]


@pytest.mark.parametrize(
    ("pattern", "text", "match"),
    [
        (r"(foo|ba[rz])\d", "bar, BAZ7", "BAZ7"),
        (r"(?:foo|[A-C]x+)_\d", "FOO, axX_9", "axX_9"),
        (r"\b(TODO|FIXME)\b: \w", "mytodo: fixme: It", "fixme: I"),
        (r"\x41B[^C]", "ABC abd", "abd"),
        (r"É\d", "é1", "é1"),
        (r"as\d", "a\u017f1", "a\u017f1"),  # the long s
        ("\u212a\\d", "k1", "k1"),  # the Kelvin sign
        ("\u0391\u03a3.", "\u03b1\u03c3\u03b1", "\u03b1\u03c3\u03b1"),  # a sigma is another one at a word's end
        ("MASS", "ma\u017f\u017f", "ma\u017f\u017f"),
    ],
)
def test_what_is_found_in_any_case(pattern: str, text: str, match: str) -> None:
    assert search(pattern, [text]).any_case
    assert spans(pattern, text) == [(0, match)]


@pytest.mark.parametrize("other", ["İ", "日本", "\u2028", "ÿ", "?"])
def test_characters_beyond_ascii_do_not_hide_a_match(other: str) -> None:
    assert spans(r"\d{3}-?\d{4}", f"{other}555-1234{other}") == [(0, "555-1234")]
    assert spans(r"[^a]{4}b", f"a{other * 4}b") == [(0, f"{(other * 4)[-4:]}b")]
    assert spans("[A-Z]{3}:", f"{other} abc:") == [(0, "abc:")]


def test_runs_of_characters_are_found_in_texts_that_nearly_all_have_them() -> None:
    texts = ["call 555-12"] * 500 + ["none", "call 555-1234"] + ["call 555-12"] * 5
    assert spans(r"\d{3}-?\d{4}", *texts) == [(501, "555-1234")]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+\s\w+!",
        r"\w*x\w*y\w*z\s",
        "b" + "a?" * 30 + "a" * 30 + r"\d",
        ".*.*.*.*b\t",
        "(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)!",
        "[ab]+[ab]+c\t",
        "[ab]{60000}c",
        r"\d{4000000000}",
    ],
)
def test_a_pattern_that_could_take_for_ever_ends(pattern: str) -> None:
    result = search(pattern, ["a" * 200_000 + "xyz", "ab" * 100_000])
    assert result.indexes == ()


def test_a_pattern_that_python_could_not_try_out() -> None:
    assert spans("a?" * 30 + "a" * 30, "a" * 2_000) == [(0, "a" * 60)]


def test_work_is_bounded_and_a_search_that_was_cut_short_says_so() -> None:
    texts = ["ab" * 5_000] * 1_000
    assert search("(.{0,500}a){1}.{0,500}c", texts) == SearchResult((), complete=False)
    assert search("ab.{9}a", texts).complete


def test_without_re2_a_pattern_is_plain_text() -> None:
    """In a process of its own, for which the module is missing."""
    program = (
        "import sys; sys.modules['re2'] = None\n"
        "from wane.search import search\n"
        "texts = ['a+b', 'aab']\n"
        "result = search('a+b', texts)\n"
        "print(result.indexes, result.plain)\n"
        "print(search('AAB', texts).indexes)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    line = installation().extras_line("search")
    assert output == f"(0,) regular expressions need RE2, which `{line}` installs\n(1,)\n"


def oracle(pattern: str, text: str, flags: re.RegexFlag) -> list[tuple[int, int]]:
    """Python's own matcher, line by line."""
    found, at = [], 0
    for line in text.split("\n"):
        found += [(at + m.start(), at + m.end()) for m in re.finditer(pattern, line, flags) if m[0]]
        at += len(line) + 1
    return found


ANCHORS = [r"\b", "^", "$"]
ATOMS = [
    "a",
    "b",
    "ab",
    r"\d",
    "[ab]",
    ".",
    r"\w",
    "-",
    r"\.",
    r"\s",
    "[^a]",
    r"[\s1]",
    "(?:a|1)",
    "(b|-a)",
    "K",
    "s",
    *ANCHORS,
]


def repeat_atom(atom: str, sign: str) -> str:
    if atom in ANCHORS or (atom.startswith("(") and sign != "?"):
        return atom
    return f"(?:{atom}){sign}" if sign == "?" and len(atom) > 2 else atom + sign


PATTERNS = st.lists(
    st.builds(repeat_atom, st.sampled_from(ATOMS), st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,2}", "*?"])),
    min_size=1,
    max_size=4,
).map("".join)
TEXTS = st.lists(st.text("abA1-. \n\r\u2028S\u017fk\u212a", max_size=30), max_size=4)


@given(pattern=PATTERNS, other=st.one_of(st.none(), PATTERNS), texts=TEXTS)
def test_it_finds_what_pythons_matcher_finds_in_each_line(pattern: str, other: str | None, texts: list[str]) -> None:
    whole = pattern if other is None else f"{pattern}|{other}"
    result = search(whole, texts)
    if result.plain == "it matches any text":
        assert re.search(whole, "", re.ASCII)
        return
    flags = re.ASCII | (re.IGNORECASE if result.any_case else re.NOFLAG)
    wanted = [(n, spans) for n, text in enumerate(texts) if (spans := oracle(whole, text, flags))]
    if result.plain:
        assert not wanted
    else:
        matches = [(match.index, match.start, match.stop, match.count) for match in result.matches(texts)]
        assert matches == [(n, *spans[0], len(spans)) for n, spans in wanted]
    if result.any_case or not result.indexes:
        assert not any(oracle(whole, text, re.ASCII) for text in texts)
