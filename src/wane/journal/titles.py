"""Titles of sessions in lists: the user's words in a message of any format.

Agents put texts of their own into the user's role, in tags: reminders, the environment, the project's instructions.
Titles leave these out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from wane.formats.fields import objects_in
from wane.formats.notices import is_notice

TITLE_LENGTH: Final = 120
"""Characters after which a title is cut."""

HEADING_MARKS: Final = re.compile(r"^[ \t]*#{1,6}[ \t]+", re.MULTILINE)
"""Marks of headings in Markdown, which say nothing on one line."""

_TAG: Final = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
# Codex puts the project's instructions under a heading, in a tag.
_HEADING: Final = re.compile(r"\s*# AGENTS\.md instructions[^\n]*(?=\s*<INSTRUCTIONS>)")
# Tags of agents have names of several words, or one of these; `<div>` and `<b>` are the user's.
_AGENTS: Final = re.compile(r"\w+[_-][\w-]*|INSTRUCTIONS|permissions|skill")
# Tags around the user's own words.
_AROUND: Final = frozenset({"task", "user_query", "user_request", "userRequest", "user_message"})
_REMINDER: Final = "<system-reminder>"
_COMMAND: Final = re.compile(r"<command-name>([^<]*)</command-name>(?:\s*<command-args>([^<]*)</command-args>)?")

_BARE: Final = re.compile(r"/[A-Za-z][\w:.-]*(?:\s+\S+)?")


def title_of(message: Mapping[str, Any]) -> str | None:
    """Return the user's words in a message on one line, cut to `TITLE_LENGTH`; None if it has none.

    It reads the shapes that the formats share (a `role` with `content`, typed `parts`, `items`), because a list shows
    sessions of every format, even if the format is not installed. If a message holds only a command of the agent, such
    as `/init`, the title is that command.
    """
    texts = [text for text in _texts(message) if not is_notice(text)]
    words = chain(map(_own, texts), map(_command, texts))
    return next((title for text in words if (title := _one_line(text))), None)


def better_title(title: str | None, other: str | None) -> str | None:
    """Return the one of two titles that says what a session is about: the first, unless it is a client's command."""
    if not title or (other and is_command(title) and not is_command(other)):
        return other or title
    return title


def is_command(title: str) -> bool:
    """Whether a title is nothing but a command of a client, with an argument at most, such as `/mode plan`."""
    return _BARE.fullmatch(title.strip()) is not None


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message in the user's role."""
    if message.get("role") == "user":
        yield from _of_content(message.get("content"))
        yield from _of_content(message.get("parts"))  # Gemini's
    for part in objects_in(message.get("parts")):
        if part.get("part_kind") == "user-prompt":
            yield from _of_content(part.get("content"))
    for item in objects_in(message.get("items")):
        if item.get("role") == "user":
            yield from _of_content(item.get("content"))


def _of_content(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for entry in content if isinstance(content, list) else ():
        text = entry.get("text") if isinstance(entry, dict) else entry
        if isinstance(text, str):
            yield text


def _own(text: str) -> str:
    """A text from the user's first own words on; empty if it has none."""
    position = 0
    while True:
        heading = _HEADING.match(text, position)
        tag = _TAG.match(text, heading.end() if heading else position)
        if tag is None:
            break
        name = tag[1]
        end = text.find(f"</{name}", tag.end())
        if name in _AROUND:
            return text[tag.end() : end if end >= 0 else len(text)]
        if end < 0 or not _AGENTS.fullmatch(name):
            break
        position = text.find(">", end) + 1 or len(text)
    return text[position:].partition(_REMINDER)[0]


def _command(text: str) -> str:
    """The command that a text reports, as it was typed; empty if it reports none."""
    named = _COMMAND.search(text)
    return " ".join(filter(None, named.groups())) if named else ""


def _one_line(text: str) -> str | None:
    # A prompt may be a whole pasted file: only its beginning is used.
    line = " ".join(HEADING_MARKS.sub("", text.lstrip()[: 4 * TITLE_LENGTH]).split())
    return (line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…") or None
