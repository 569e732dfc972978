"""Finds identifiers and paths in texts. They show which content later work needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from wane.core import Kind
from wane.formats.base import Part

SHORTEST: Final = 8
"""Characters of the shortest identifier."""

_EDGES = "./-"
# Each run is matched once, so the work is linear in any text. The ends are trimmed afterwards.
_RUN = re.compile(r"[A-Za-z0-9_./-]{8,}")
_LETTER = re.compile(r"[A-Za-z]")
_MARKED = re.compile(r"[^_./]*[_./]|.[^A-Z]*[A-Z]")
_CLOSING_TAG = re.compile(r"</[A-Za-z][\w.:-]*(?=\s*>)")
_BREAK = re.compile(r"[^A-Za-z0-9_./-]")
_CHUNK = 1 << 20


def identifiers(text: str) -> set[str]:
    r"""Return the identifiers and paths of a text.

    An identifier has 8 or more ASCII letters, digits, `_`, `.`, `/` and `-`, among them a letter and one of `_`, `.`,
    `/` or an inner capital. Punctuation at its ends does not belong to it, except one leading `/` or `.`; `./` and
    `../` ahead of a path are dropped, and a closing tag, such as `</file_path>`, is no path. A spelled-out `\n`, `\r`
    or `\t`, as in quoted code, ends an identifier as the character would.
    """
    words: set[str] = set()
    for stretch in candidates(text):
        words.update(word for word in stretch if is_identifier(word))
    return words


def candidates(text: str) -> Iterator[set[str]]:
    """Yield the words of a text whose characters may be in identifiers, one stretch of the text at a time.

    They include all `identifiers`. This is cheaper for looking up words that are known to be identifiers.
    """
    for chunk in _chunks(text):
        plain = chunk
        if "\\" in chunk:
            plain = chunk.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ")
        if "</" in plain:
            plain = _CLOSING_TAG.sub(" ", plain)
        runs = set(_RUN.findall(plain))
        edged = {run for run in runs if run[0] in _EDGES or run[-1] in _EDGES}
        yield (runs - edged) | {_trimmed(run) for run in edged}


def is_identifier(word: str) -> bool:
    """Whether a word of `candidates` is one of `identifiers`."""
    return len(word) >= SHORTEST and _MARKED.match(word) is not None and _LETTER.search(word) is not None


def spoken(part: Part) -> list[str]:
    """Return the words of a part: its text or, for a call, the decoded strings among its arguments.

    The names of the tool and its parameters do not count: the tool's definition holds them and is always in view.
    Arguments that are not JSON count as one text.
    """
    if part.kind is not Kind.CALL:
        return [part.text]
    raw = part.arguments or ""
    try:
        return list(_strings(json.loads(raw)))
    except (ValueError, RecursionError):
        return [raw]


def _trimmed(run: str) -> str:
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
