"""What all pages share: the look, the scripts of every one, and how a page is put together.

A page is one file that fetches nothing but what its content policy says. Only its own style and script run, by their
hashes.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from wane.words import GLOSSARY, LEVELS, STRATEGIES, TYPES

_FOLDER: Final = files("wane.pages")

LOOK: Final = _FOLDER / "look.css"
"""Colours, type and parts of every page."""

KIT: Final = (_FOLDER / "kit.js", _FOLDER / "theme.js")
"""Scripts of every page, in order."""

_FIELD: Final = re.compile(r"\{\{([a-z-]+)\}\}")


@dataclass(frozen=True, slots=True)
class Dress:
    """The style and the script of a page, each joined from files in order, with the hashes that allow them to run."""

    style: str
    script: str

    @classmethod
    def of(cls, styles: Iterable[Traversable], scripts: Iterable[Traversable]) -> Dress:
        """Read the files of a page."""
        tables = {"strategies": STRATEGIES, "types": TYPES, "levels": LEVELS, "glossary": GLOSSARY}
        words = json.dumps({name: dict(table) for name, table in tables.items()})
        body = "\n".join([f"const WORDS = {words};", *map(_read, scripts)])
        return cls("\n".join(map(_read, styles)), f'"use strict";\n(() => {{\n{body}}})();\n')

    @property
    def style_hash(self) -> str:
        """The source of the style in a content policy."""
        return _hash(self.style)

    @property
    def script_hash(self) -> str:
        """The source of the script in a content policy."""
        return _hash(self.script)

    def fill(self, template: Traversable, values: Mapping[str, str] | None = None) -> str:
        """Return a template with `{{style}}`, `{{script}}`, their hashes and further values in their places."""
        places = {
            "style": self.style,
            "style-hash": self.style_hash,
            "script": self.script,
            "script-hash": self.script_hash,
            **(values or {}),
        }
        # In one pass, so that nothing is replaced inside the values.
        return _FIELD.sub(lambda match: places[match[1]], _read(template))


def _read(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which a content policy allows an inline element."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
