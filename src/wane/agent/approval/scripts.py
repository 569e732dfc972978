"""Judges scripts of `sed`, `awk` and `jq`: whether they do no more than print parts of their input."""

from __future__ import annotations

import re
from typing import Final

from wane.tools.programs import word_set

_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SUBSTITUTION = "|".join(
    rf"s{mark}(?:[^{mark}\\\n]|\\[^\n])*{mark}(?:[^{mark}\\\n]|\\[^\n])*{mark}[gpiI0-9]*" for mark in "/#,:@"
)
_SED_COMMAND = rf"\s*(?:{_ADDRESS}(?:,\s*(?:\+?{_ADDRESS}))?)?\s*!?\s*(?:[pdq=]|{_SUBSTITUTION})\s*"
_SED: Final = re.compile(rf"{_SED_COMMAND}(?:;{_SED_COMMAND})*;?\s*")
"""Lines that are printed, deleted or changed; not `w` and `e`, which write and run, nor `r`, which reads a file."""

_SINGLE: Final = re.compile(rf"(?:[0-9$]+(?:,[0-9$]+)?)?(?:{_SUBSTITUTION})")

_AWK_TEXT: Final = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|(?:^|(?<=[(!~{};,&|\n]))\s*/(?:[^/\\\n]|\\[^\n])*/')
"""Strings, and regular expressions where no division can stand."""
_AWK_NAMES: Final = word_set("""
    BEGIN END print printf if else for while in do next exit delete NR NF FNR FS OFS ORS RS FILENAME SUBSEP RSTART
    RLENGTH length substr index split sub gsub match sprintf tolower toupper int sqrt log exp sin cos atan2 rand srand
""")
_AWK_OUT: Final = re.compile(r"@|(?<!\|)\|(?!\|)|\\")
"""Pipes, indirect calls and included files."""
_AWK_UNCERTAIN: Final = re.compile(
    r"system|getline|close|fflush|ENVIRON|PROCINFO|SYMTAB|ARGV|include|load|extension|@|#|(?<!\|)\|(?!\|)"
)
"""Likewise, anywhere in the text: what is a string, a comment or a regular expression is not known for certain."""
_JQ_UNCERTAIN: Final = re.compile(r"env|input_filename|input_line|\$__|import|include|debug|stderr", re.IGNORECASE)
"""What shows the environment and files' names, or reads others, anywhere in the text."""

_JQ_TEXT: Final = re.compile(r'"(?:[^"\\\n]|\\[^(\n])*"')
"""Strings without code in them."""
_JQ_NAMES: Final = word_set("""
    length keys keys_unsorted values map map_values select to_entries from_entries with_entries type has in inside
    contains startswith endswith ltrimstr rtrimstr split join test match capture scan sub gsub ascii_downcase
    ascii_upcase tostring tonumber tojson fromjson sort sort_by group_by unique unique_by min max min_by max_by add any
    all flatten range floor ceil round sqrt reverse first last nth limit until recurse paths leaf_paths getpath path
    pick del delpaths setpath transpose not and or if then elif else end as reduce foreach try catch empty null true
    false index rindex indices inputs input explode implode splits todate fromdate now strftime strptime abs
    infinite nan isnan csv tsv json text html uri sh base64 base64d def error halt limit skip error isvalid objects
    arrays strings numbers booleans nulls scalars iterables
""")


def prints_only(language: str, script: str) -> bool:
    """Return whether a script in one of the three languages reads, writes and runs nothing by itself."""
    match language:
        case "sed":
            # Some read a mark within brackets as text, so brackets stand in a single substitution only.
            return (_SED if "[" not in script else _SINGLE).fullmatch(script) is not None
        case "awk":
            # A slash within brackets does not end a regular expression.
            if _AWK_UNCERTAIN.search(script) or ("/" in script and "[" in script):
                return False
            code = _AWK_TEXT.sub('""', script)
            # `>` redirects behind `print` only, where it cannot be told from a comparison.
            redirects = re.search(r"\bprintf?\b", script) and re.search(r">(?!=)", script)
            # A regular expression that was taken for a division may hold the quote that a string seems to begin with.
            uncertain = "/" in code and '"' in code
            names = set(re.findall(r"[A-Za-z_]\w*", code))
            return not (_AWK_OUT.search(code) or redirects or uncertain or names - _AWK_NAMES - _variables(code))
        case _:
            if _JQ_UNCERTAIN.search(script):
                return False
            code = _JQ_TEXT.sub('""', script)
            # What follows a point is a field, what follows a dollar a variable; `$ENV` is the environment.
            names = set(re.findall(r"(?<![\w.$])[A-Za-z_]\w*|(?<![\w])\$(?:ENV|__\w+)\b", code))
            # A string over several lines would be taken apart at the wrong quotes.
            return "\\(" not in script and not ("\n" in script and '"' in script) and names <= _JQ_NAMES


def _variables(code: str) -> set[str]:
    """Names that are given a value and begin with a small letter: no function, and no variable of awk's own."""
    return set(re.findall(r"\b[a-z]\w*(?=\s*(?:[-+*/%]?=[^=~]|\+\+|--|\[))", code)) - {"system", "getline", "close"}
