"""What a user asked for, out of a message of any format: the title of a session in a list.

Agents put texts of their own into the user's role, in tags: reminders, the environment, instructions of the project.
They are passed over, as the user's own words are meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from wane.formats.notices import is_notice

TITLE_LENGTH: Final = 120
"""Characters after which a title is cut."""

_TAG: Final = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
# Codex puts the project's instructions under a heading, in a tag.
_HEADING: Final = re.compile(r"\s*# AGENTS\.md instructions[^\n]*(?=\s*<INSTRUCTIONS>)")
# The names that agents give their tags are of several words, or these; `<div>` and `<b>` are the user's.
_AGENTS: Final = re.compile(r"\w+[_-][\w-]*|INSTRUCTIONS|permissions|skill")
# What stands around the user's own words, and is no part of them.
_AROUND: Final = frozenset({"task", "user_query", "user_request", "userRequest", "user_message"})
_REMINDER: Final = "<system-reminder>"
_COMMAND: Final = re.compile(r"<command-name>([^<]*)</command-name>(?:\s*<command-args>([^<]*)</command-args>)?")


def title_of(message: Mapping[str, Any]) -> str | None:
    """Return the user's words in a message on one line, cut to `TITLE_LENGTH`; None if it has none.

    It knows the shapes that the formats share, a `role` with `content`, typed `parts` and `items`, because a
    list of sessions must show those of any format, also where the format itself is not installed. Of a message that
    holds but a command of the agent's, such as `/init`, it is the command.
    """
    texts = [text for text in _texts(message) if not is_notice(text)]
    words = chain(map(_own, texts), map(_command, texts))
    return next((title for text in words if (title := _one_line(text))), None)


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts in the user's role."""
    if message.get("role") == "user":
        yield from _of_content(message.get("content"))
    for part in _objects(message.get("parts")):
        if part.get("part_kind") == "user-prompt":
            yield from _of_content(part.get("content"))
    for item in _objects(message.get("items")):
        if item.get("role") == "user":
            yield from _of_content(item.get("content"))


def _of_content(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for entry in content if isinstance(content, list) else ():
        text = entry.get("text") if isinstance(entry, dict) else entry
        if isinstance(text, str):
            yield text


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else iter(())


def _own(text: str) -> str:
    """A text from where the user's own words begin; empty if it has none."""
    position = 0
    while (tag := _TAG.match(text, _behind_heading(text, position))) is not None:
        name = tag[1]
        end = text.find(f"</{name}", tag.end())
        if name in _AROUND:
            return text[tag.end() : end if end >= 0 else len(text)]
        if end < 0 or not _AGENTS.fullmatch(name):
            break
        position = text.find(">", end) + 1 or len(text)
    return text[position:].partition(_REMINDER)[0]


def _behind_heading(text: str, position: int) -> int:
    heading = _HEADING.match(text, position)
    return heading.end() if heading else position


def _command(text: str) -> str:
    """The command that a text says was given, as it was typed; empty if it says nothing of one."""
    named = _COMMAND.search(text)
    return " ".join(filter(None, named.groups())) if named else ""


def _one_line(text: str) -> str | None:
    # A prompt may be a whole pasted file: only its beginning is looked at.
    line = " ".join(text.lstrip()[: 4 * TITLE_LENGTH].split())
    return (line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…") or None
