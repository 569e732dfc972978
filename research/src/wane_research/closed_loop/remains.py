"""What is left of the tasks of a session at its end: descriptions and lines in view, and a quiz about each task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.core import Level
from wane.formats import get_format
from wane.formats.base import readable
from wane.journal import read
from wane.rebuilding import Rebuilt, rebuild

_FACT: Final = re.compile(r"`\w+`|\bis \d+")
"""What a description says of later use: the function, the highest QUOTA, the ticket."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left at the end of a session.

    Attributes:
        descriptions: explorations of which nothing but the description is in view.
        lines: tasks of which nothing but their line is in view (R17).
        tokens: what both hold.
        seen: tasks whose facts stand in a description or a line in view. What the user said of a task does not count.
        recalled: other tasks whose exploration can be recalled with its facts.
        lost: all other tasks.
    """

    descriptions: int
    lines: int
    tokens: int
    seen: int
    recalled: int
    lost: int

    def describe(self) -> str:
        """Return the counts in words."""
        return (
            f"{self.descriptions:,} descriptions and {self.lines:,} lines of tasks hold {self.tokens:,} tokens. "
            f"Facts of tasks in view: {self.seen:,}; by recall: {self.recalled:,}; lost: {self.lost:,}"
        )


def remains(journal: Path, tasks: int) -> Remains:
    """Return what is left of the first tasks of a session, by its journal."""
    file = read(journal)
    rebuilt = rebuild(file.records, get_format(file.header.format))
    episodes = rebuilt.episodes
    stripped = [episode for episode in episodes if episode.level is Level.REMOVE and episode.description]
    lines = sum(episode.is_task for episode in stripped)
    visible = {episode.name: episode.description for episode in episodes if episode.level is not Level.DESCRIPTION}
    seen = recalled = lost = 0
    for number in range(1, tasks + 1):
        facts = _facts(rebuilt, f"t{number}-look")
        texts = [visible.get(name) or "" for name in (f"t{number}-look", f"t{number}")]
        if facts and any(all(fact in text for fact in facts) for text in texts):
            seen += 1
        elif facts and all(fact in _recalled(rebuilt, f"t{number}-look") for fact in facts):
            recalled += 1
        else:
            lost += 1
    tokens = sum(episode.tokens for episode in stripped)
    return Remains(len(stripped) - lines, lines, tokens, seen, recalled, lost)


def _facts(rebuilt: Rebuilt, name: str) -> Sequence[str]:
    """The facts of the description with which an exploration ended."""
    episode = next((one for one in rebuilt.episodes if one.name == name), None)
    return _FACT.findall((episode and episode.description) or "")


def _recalled(rebuilt: Rebuilt, name: str) -> str:
    """The content of an episode, as `recall` gives it page by page."""
    spans = rebuilt.window.members(name)
    return "\n\n".join(readable(rebuilt.items[index][1]) for span in spans for index in span)
