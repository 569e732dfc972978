"""Tells notices: text that a harness, not a person, put in a person's or the system's place (R15).

Only marks tell them, and marks are data: see `wane.formats.notice_marks`. Text without a mark is the user's; so is text
that only mentions a mark, or that holds a person's words beside one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from wane.core import Standing
from wane.formats.notice_marks import MARKS, Form, NoticeMark

_ROWS: Final = tuple(chain.from_iterable(MARKS.values()))


def _pattern(marks: Iterable[str]) -> str:
    patterns = (re.sub(r"^\\\*", r"\\S{1,200}?", re.escape(mark)) for mark in marks)
    return "|".join(pattern.replace(r"\*", r"[^\n]{0,200}?") for pattern in patterns)


class _CompiledMarks:
    """The marks that count in messages of one role, compiled for matching."""

    def __init__(self, rows: Iterable[NoticeMark]) -> None:
        rows = tuple(rows)
        sections = [row for row in rows if row.form is Form.SECTION]
        self._ends = {row.mark: row.end for row in sections}
        self._section = re.compile(rf"\s*({_pattern(self._ends)})")
        lines = [row.mark for row in rows if row.form is Form.LINE]
        self._line = re.compile(rf"\s*\n(?:{_pattern(lines)})[ \t]*(?=\n|\Z)")
        self._start = re.compile(
            rf"\s*(?:{_pattern(row.mark for row in rows if row.form is Form.START and not row.end)})"
        )
        self._framed = [(row.mark, row.end) for row in rows if row.form is Form.START and row.end]
        self._whole = re.compile(rf"\s*(?:{_pattern(row.mark for row in rows if row.form is Form.WHOLE)})\s*")
        self._persons = tuple(row.mark for row in rows if row.form is Form.PERSON)

    def tell(self, text: str) -> bool:
        """Whether a text is entirely the harness's."""
        if self._start.match(text) or self._whole.fullmatch(text) or self._is_sections(text):
            return True
        stripped = text.strip()
        return any(stripped.startswith(mark) and stripped.endswith(end) for mark, end in self._framed)

    def _is_sections(self, text: str) -> bool:
        """Whether it is one section after another. Each ends at its first end mark, so words between are found."""
        position = 0
        while match := self._section.match(text, position):
            end = self._ends[match[1]]
            close = text.find(end, match.end())
            if close < 0 or text.startswith(self._persons, match.start(1)):
                return False
            position = close + len(end)
            while line := self._line.match(text, position):
                position = line.end()
        return position > 0 and not text[position:].strip()


_STATING: Final = tuple(row for row in _ROWS if row.standing is not None)
_STATED: Final = re.compile("|".join(f"(?P<r{at}>{_pattern([row.mark])})" for at, row in enumerate(_STATING)))
_SECTION_ENDS: Final = {row.mark: row.end for row in _ROWS if row.form is Form.SECTION and row.mark.endswith(">")}
_SECTION: Final = re.compile("|".join(map(re.escape, _SECTION_ENDS)))
_USER: Final = _CompiledMarks(row for row in _ROWS if not row.system)
_SYSTEM: Final = _CompiledMarks(_ROWS)
_BEHIND: Final = tuple(row.mark for row in _ROWS if row.form is Form.BEHIND)
_PERSONS: Final = tuple(row.mark for row in _ROWS if row.form is Form.PERSON)
_OPENING: Final = "<system-reminder>"
_CLOSING: Final = "</system-reminder>"


def is_notice(text: str, *, system: bool = False) -> bool:
    """Return whether a text is entirely the harness's.

    Args:
        text: the text, or one of several texts of a message.
        system: whether it stands in the system's place, not in a person's: more marks count there.
    """
    return (_SYSTEM if system else _USER).tell(text)


def stated_in(text: str, *, system: bool = False) -> tuple[Standing, ...]:
    """Return what a notice states that holds until it is replaced (R15).

    A mark counts at the beginning of the text, of what is between `<system-reminder>` tags, and, in the system's place,
    of a paragraph: Claude Code joins its reminders there with blank lines.
    """
    if not _STATED.search(text):
        return ()
    stated = (row.standing for beginning in _beginnings(text, system=system) for row in _stating(beginning))
    return tuple(dict.fromkeys(standing for standing in stated if standing is not None))


def _beginnings(text: str, *, system: bool) -> Iterator[str]:
    remaining = text.strip()
    while match := _SECTION.match(remaining):
        body, _, behind = remaining[match.end() :].partition(_SECTION_ENDS[match[0]])
        yield body.lstrip() if match[0] == _OPENING else remaining
        remaining = behind.lstrip()
    yield from remaining.split("\n\n") if system else (remaining,)


def _stating(beginning: str) -> Iterator[NoticeMark]:
    """The row of the mark with which a text begins; the first that fits."""
    match = _STATED.match(beginning.lstrip())
    if match and match.lastgroup:
        yield _STATING[int(match.lastgroup[1:])]


def has_notice_behind(result: str) -> bool:
    """Return whether a tool's result says that its output is the next text of the same message."""
    return result.startswith(_BEHIND)


def is_persons(text: str) -> bool:
    """Return whether a text is marked as a person's, which outweighs all other marks."""
    return text.lstrip().startswith(_PERSONS)


def without_prompts(result: str) -> tuple[str, str]:
    """Split a tool's result from prompts that a person sent while the agent was busy, which may stand at its end.

    For models that take no system messages, Claude Code appends its reminders, and such prompts, to a result.

    Returns:
        The result without the prompts, and the prompts, which are usually empty.
    """
    if not any(mark in result for mark in _PERSONS):
        return result, ""
    output, others, prompts = result.rstrip(), list[str](), list[str]()
    while output.endswith(_CLOSING) and (start := output.rfind(_OPENING)) >= 0:
        (prompts if is_persons(output[start:]) else others).append(output[start:])
        output = output[:start].rstrip()
    if not prompts:
        return result, ""
    return "\n\n".join([output, *reversed(others)]), "\n\n".join(reversed(prompts))
