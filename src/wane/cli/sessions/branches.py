"""Where sessions that a list calls by one title part: branches of a conversation, or a task that was done twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final

from wane.cli.terminal.text import count_noun, cut
from wane.core.errors import WaneError

_READ_AT_MOST: Final = 30_000_000
"""Bytes of files to read, at most: a list is quick."""

_WORDS: Final = 80
"""Characters of the words at which a session parts from the others."""


def describe_partings(listed: Iterable[tuple[Path, str | None, int]]) -> Mapping[str, str]:
    """Return, by path, what the user said in a session where it parts from others of its title.

    Args:
        listed: path, title and bytes of each session, as a list shows them. Sessions of a title of their own are not
            read, nor any after the first 30 MB.
    """
    by_title: dict[str, list[tuple[Path, int]]] = {}
    for path, title, size in listed:
        if title:
            by_title.setdefault(title, []).append((path, size))
    partings: dict[str, str] = {}
    room = _READ_AT_MOST
    for branches in by_title.values():
        if len(branches) == 1:
            continue
        room -= sum(size for _, size in branches)
        if room < 0:
            break
        said = {str(path): read_user_texts(path) for path, _ in branches}
        partings |= find_partings({path: texts for path, texts in said.items() if texts})
    return partings


def find_partings(branches: Mapping[str, list[str]]) -> dict[str, str]:
    """Return where each session goes on otherwise than the others; nothing if the user said the same in all."""
    turns = zip(*branches.values(), strict=False)
    common = sum(1 for _ in takewhile(lambda texts: len(set(texts)) == 1, turns))
    if not common or all(len(texts) == common for texts in branches.values()):
        return {}
    partings: dict[str, str] = {}
    for path, texts in branches.items():
        partings[path] = f"ends after {count_noun(common, 'message')} of yours, where the others of this title go on"
        if len(texts) > common:
            partings[path] = f"from your message {common + 1:,} on: {cut(texts[common], _WORDS)}"
    return partings


def read_user_texts(path: Path) -> list[str]:
    """Return what the user said in a session, each on one line; nothing if it cannot be read."""
    from wane.lab.readers import read_session

    try:
        (session, *_) = read_session(path)
    except (WaneError, OSError):
        return []
    return [" ".join((session.parts[index].text or "").split()) for index in session.user_turns]
