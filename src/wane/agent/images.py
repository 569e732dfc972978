"""Finds the images whose paths a user typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

MAX_BYTES: Final = 5_000_000
"""Size of the largest image that providers accept."""

_PATH: Final = re.compile(
    r"""@?(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>(?:\\.|[^\s"'\\])+))""", re.VERBOSE
)
_SUFFIX: Final = re.compile(r"\.(?:png|jpe?g|gif|webp)[.,;:!?)\]]*$", re.IGNORECASE)
_AFTER: Final = ".,;:!?)]"


def images_in(text: str, directory: Path) -> list[Path]:
    """Return the images whose paths are in a text, in order.

    A path may be bare, in quotes, after `@`, or as a terminal inserts a dropped file. Files that do not begin like an
    image, or are too large, are left out. Relative paths start in the directory.
    """
    return list(dict.fromkeys(path for path in _paths(text, directory) if media_type(path) is not None))


def media_type(path: Path) -> str | None:
    """Return the media type of an image file, by its first bytes; None if models cannot read it."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        with path.open("rb") as stream:
            head = stream.read(12)
    except (OSError, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def _paths(text: str, directory: Path) -> Iterator[Path]:
    for match in _PATH.finditer(text):
        quoted = match["double"] or match["single"]
        name = quoted or re.sub(r"\\(.)", r"\1", match["bare"]).lstrip("@(")
        if not _SUFFIX.search(name):
            continue
        if not quoted:
            name = name.rstrip(_AFTER)
        if name.startswith("file://"):
            name = unquote(urlsplit(name).path)
        try:
            yield directory / Path(name).expanduser()
        except RuntimeError:  # no such user
            continue
