"""Finds identifiers and paths in texts. They show which content later work needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from wane.core import Kind
from wane.formats.message_format import Part

SHORTEST: Final = 8
"""Characters of the shortest identifier."""

_EDGES = "./-"
# Each run is matched once, so the work is linear in any text. The ends are trimmed afterwards.
_RUN = re.compile(r"[A-Za-z0-9_./-]{8,}")
_LETTER = re.compile(r"[A-Za-z]")
_MARKED = re.compile(r"[^_./]*[_./]|.[^A-Z]*[A-Z]")
_CLOSING_TAG = re.compile(r"</[A-Za-z][\w.:-]*(?=\s*>)")
_CODE_POINT = re.compile(r"\\u([0-9A-Fa-f]{4})")
# Colours and the like (ECMA-48), and the targets of links in a terminal.
_STYLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_NUMBER = re.compile(r"-[0-9]+-")
# How `grep -n` and ripgrep write a line around a match: the path, the line's number and the line, joined by hyphens.
_AROUND_MATCH = re.compile(r"^([\w./~-]*\.[A-Za-z]\w*)-[0-9]+-", re.MULTILINE)
_BREAK = re.compile(r"[^A-Za-z0-9_./-]")
_CHUNK = 1 << 20


def identifiers(text: str) -> set[str]:
    r"""Return the identifiers and paths of a text.

    An identifier has 8 or more ASCII letters, digits, `_`, `.`, `/` and `-`, among them a letter and one of `_`, `.`,
    `/` or an inner capital. Punctuation at its ends does not belong to it, except one leading `/` or `.`; `./` and
    `../` ahead of a path are dropped, and a closing tag, such as `</file_path>`, is no path. What stands for another
    character, as in quoted code and JSON, counts as that one: `\n`, `\r`, `\t`, `\/`, `\u003c` and `&lt;`. Colours of a
    terminal are nothing, and the path and the number that `grep` writes ahead of a line are apart from it.
    """
    words: set[str] = set()
    for stretch in candidates(text):
        words.update(word for word in stretch if is_identifier(word))
    return words


def candidates(text: str) -> Iterator[set[str]]:
    """Yield words of a text that may be identifiers, one stretch of the text at a time.

    They include all `identifiers`. This is cheaper for looking up words that are known to be identifiers.
    """
    for chunk in _chunks(text):
        plain = chunk
        if "\\" in plain:
            plain = plain.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\/", "/")
            plain = plain.replace("\\x1b", "\x1b").replace("\\033", "\x1b")
        if "\\u" in plain:
            plain = _CODE_POINT.sub(lambda match: chr(int(match[1], 16)), plain)
        if "\x1b" in plain:
            plain = _STYLE.sub("", plain)
        if "&lt;" in plain:
            plain = plain.replace("&lt;", "<").replace("&gt;", ">")
        if "</" in plain:
            plain = _CLOSING_TAG.sub(" ", plain)
        if _NUMBER.search(plain):  # quicker than the search for such lines
            plain = _AROUND_MATCH.sub(r"\1 ", plain)
        words: set[str] = set()
        for run in set(_RUN.findall(plain)):
            if run.isalpha():
                # Most are plain words, and no identifier is all in small letters.
                if not run.islower():
                    words.add(run)
            elif run[0] in _EDGES or run[-1] in _EDGES:
                words.add(_trim_run(run))
            else:
                words.add(run)
        yield words


def is_identifier(word: str) -> bool:
    """Whether a word of `candidates` is one of `identifiers`."""
    return len(word) >= SHORTEST and _MARKED.match(word) is not None and _LETTER.search(word) is not None


def spoken(part: Part) -> list[str]:
    """Return the words of a part: its text or, for a call, the decoded strings among its arguments.

    The names of the tool and its parameters do not count: the tool's definition holds them and is always in view.
    Arguments that are not JSON count as one text.
    """
    return decode_texts(part.arguments or "") if part.kind is Kind.CALL else [part.text]


def decode_texts(arguments: str) -> list[str]:
    """Return the decoded strings among a call's arguments, or the arguments as one text if they are not JSON."""
    try:
        return list(_strings(json.loads(arguments)))
    except (ValueError, RecursionError):
        return [arguments]


def _trim_run(run: str) -> str:
    run = run.rstrip(_EDGES)
    bare = run.lstrip(_EDGES)
    return run if run in (f".{bare}", f"/{bare}") else bare


def _chunks(text: str) -> Iterator[str]:
    """Cut a long text between words, so that the words of a huge result are never all in memory."""
    start = 0
    while len(text) - start > _CHUNK:
        cut = _BREAK.search(text, start + _CHUNK)
        if cut is None:
            break
        # A spelled-out escape begins at a break, so it stays whole.
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
