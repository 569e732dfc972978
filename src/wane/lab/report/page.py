"""Writes a page: template, style, script and data in one file, with texts as long as its size limit allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from wane.pages import KIT, LOOK, Dress
from wane.replacing import replace_file

_PAGE: Final = files("wane.lab.report") / "page"

STYLES: Final = (LOOK, _PAGE / "report.css")
"""The styles of pages about sessions, in order."""

SHARED: Final = (*KIT, *(_PAGE / f"{name}.js" for name in ("base", "plot", "saving")))
"""Scripts that pages about sessions share, in order."""

_LOOKING: Final = ("looking", "table", "views", "episodes", "state", "items", "scrubber", "sweep", "main")
_SCRIPTS: Final = (*SHARED, *(_PAGE / f"{name}.js" for name in _LOOKING))


OVERVIEW: Final = (
    (*KIT, _PAGE / "overview.js"),
    (LOOK, _PAGE / "overview.css"),
    "overview",
)
"""Scripts, styles and template of the page of `wane report`: `render` takes them."""

DOCTOR: Final = ((*KIT, _PAGE / "base.js", _PAGE / "doctor.js"), (LOOK, _PAGE / "doctor.css"), "report")
"""The same of the page of `wane doctor`."""


def render(
    title: str,
    data: str,
    scripts: Sequence[Traversable] = _SCRIPTS,
    styles: Sequence[Traversable] = STYLES,
    template: str = "report",
) -> str:
    """Return a page with data (see `to_json`), scripts, which are joined into one, and styles, both in order.

    `template` is the name of the page around them.

    Its content policy allows only these; the page fetches nothing.
    """
    # Names may hold lone surrogates, which UTF-8 cannot encode.
    values = {"title": escape(title).encode(errors="replace").decode(), "data": data}
    return Dress.of(styles, scripts).fill(_PAGE / f"{template}.html", values)


def frame_size() -> int:
    """Return the size of a page of sessions without data, in bytes."""
    return len(render("", "").encode())


def write_page(path: Path, page: str) -> None:
    """Write a page, whole or not at all: on a full disk, the page that was there stays.

    Raises:
        OSError: if it cannot be written; it names the file.
    """
    try:
        replace_file(path, page.encode())
    except OSError as error:
        # If the disk is full, the error does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error


TEXT_LIMIT: Final = 2_000
"""Characters of an item's text on a page, at most."""

SIZE_LIMIT: Final = 10_000_000
"""Bytes of a page, if shortening its texts is enough to stay below it."""

LEAST: Final = 40
"""Characters of the shortest limit for texts; if they do not fit then, they are left out."""

_ESCAPED: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029", "\x7f": "\\u007f"}
)
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_HEAD: Final = 0.75
_STEP: Final = 0.7

Shortened = str | list[Any]
"""A text, or the beginning of a shortened one, the number of characters left out, and its end."""


class Texts:
    """Collects the contents of a session, which are shortened once the size of the page is known.

    Args:
        included: whether the page holds contents; sessions may be private.
        limit: characters of a text, at most.
    """

    def __init__(self, *, included: bool = True, limit: int = TEXT_LIMIT) -> None:
        self.included = included
        self._limit = limit
        self._all: list[str] = []
        self._notes: dict[str, int] = {}

    def take(self, text: str) -> int:
        """Take a text, and return its number."""
        self._all.append(text)
        return len(self._all) - 1

    def take_all(self, texts: Iterable[str]) -> int:
        """Take several texts, numbered in a row, and return the first number."""
        first = len(self._all)
        self._all.extend(texts)
        return first

    def note(self, text: str) -> int:
        """Take a text that may occur often, and return its number; equal texts share one."""
        if text not in self._notes:
            self._notes[text] = self.take(text)
        return self._notes[text]

    def private(self, text: str, limit: int = 200) -> str:
        """Return a short text of the session, such as a name that the agent chose; empty if contents are left out."""
        if not self.included:
            return ""
        return text if len(text) <= limit else f"{text[: limit - 1]}…"

    def shorten_texts(self, limit: int) -> list[Shortened]:
        """Return the texts by number, each with at most `limit` characters."""
        limit = min(limit, self._limit)
        return [shorten(text, limit) for text in self._all]


def texts_within(sessions: Sequence[Texts], room: int) -> list[list[Shortened]] | None:
    """Return the texts of sessions, shortened to one length so that they fit into `room` bytes of JSON.

    It is None if contents are left out or do not fit.
    """
    if not all(session.included for session in sessions):
        return None
    limit = TEXT_LIMIT
    while limit >= LEAST:
        shortened = [session.shorten_texts(limit) for session in sessions]
        if sum(map(size_of, shortened)) <= room:
            return shortened
        limit = int(limit * _STEP)
    return None


def shorten(text: str, limit: int) -> Shortened:
    """Return a text of at most `limit` characters unchanged, and both ends of a longer one."""
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    return [text[:head], len(text) - limit, text[-tail:]]


def size_of(texts: Sequence[Shortened]) -> int:
    """Return the bytes that texts take on a page."""
    return sum(len(to_json(text).encode()) + 1 for text in texts) + 2


def to_json(data: object) -> str:
    """Return JSON that is safe inside a script element of HTML, whatever its texts hold.

    Without `<`, no text can end the element or begin a comment; without `&`, none is an entity. Lone surrogates, which
    UTF-8 cannot encode, are escaped.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.translate(_ESCAPED)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text
