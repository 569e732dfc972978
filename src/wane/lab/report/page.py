"""Puts a page together: template, style, script and data in one file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_PAGE: Final = files("wane.lab.report") / "page"

STYLE: Final = _PAGE / "report.css"
"""The style of all pages."""

SHARED: Final = tuple(_PAGE / f"{name}.js" for name in ("base", "plot", "saving", "theme"))
"""Scripts that any page can use, in order."""

_LOOKING: Final = ("looking", "table", "views", "episodes", "state", "items", "scrubber", "sweep", "main")
_SCRIPTS: Final = (*SHARED, *(_PAGE / f"{name}.js" for name in _LOOKING))


def render(
    title: str, data: str, scripts: Sequence[Traversable] = _SCRIPTS, styles: Sequence[Traversable] = (STYLE,)
) -> str:
    """Return a page.

    Its content policy allows only these styles and scripts; the page fetches nothing.

    Args:
        title: its title.
        data: its data, from `wane.lab.report.texts.to_json`.
        scripts: its scripts, in order; the page holds them as one.
        styles: its styles, in order.
    """
    style = "\n".join(map(_read, styles))
    body = "\n".join(map(_read, scripts))
    script = f'"use strict";\n(() => {{\n{body}}})();\n'
    values = {
        # Names may hold lone surrogates, which UTF-8 cannot encode.
        "title": escape(title).encode(errors="replace").decode(),
        "style": style,
        "style-hash": _hash(style),
        "script": script,
        "script-hash": _hash(script),
        "data": data,
    }
    # In one pass, so that nothing is replaced inside the values.
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda match: values[match[1]], _read(_PAGE / "report.html"))


def frame_size() -> int:
    """Return the size of a page of sessions without data, in bytes."""
    return len(render("", "").encode())


def write_page(path: Path, page: str) -> None:
    """Write a page.

    Raises:
        OSError: if it cannot be written; it names the file.
    """
    try:
        path.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        # When the disk is full, the error does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _read(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which a content policy allows an inline element."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
