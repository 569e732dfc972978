"""Puts a page together: template, style, script and data in one file."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

SCRIPTS: Final = ("base", "table", "plot", "views", "episodes", "state", "items", "scrubber", "sweep", "main")
"""The page's scripts, in order; the page holds them as one."""


def render(title: str, data: str) -> str:
    """Return a page.

    Its content policy allows only the style and script of this package; the page fetches nothing.

    Args:
        title: its title.
        data: its data, from `wane.lab.report.texts.to_json`.
    """
    style = _read("report.css")
    body = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
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
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda found: values[found[1]], _read("report.html"))


def frame_size() -> int:
    """Return the size of a page without data, in bytes."""
    return len(render("", "").encode())


def write_page(path: Path, title: str, data: str) -> None:
    """Write a page.

    Raises:
        OSError: if it cannot be written; it names the file.
    """
    try:
        path.write_text(render(title, data), encoding="utf-8", newline="\n")
    except OSError as error:
        # When the disk is full, the error does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error


@cache
def _read(name: str) -> str:
    return files("wane.lab.report").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which a content policy allows an inline element."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
