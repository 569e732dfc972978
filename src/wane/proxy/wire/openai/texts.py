"""Joins the texts of several rounds for a client of Chat Completions, and splits them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Content: TypeAlias = Any
"""A message's content: text, a list of parts, or None."""

SEPARATOR: Final = "\n\n"
"""Separates the text of one round from that of the next."""

MARKERS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Keys by which clients mark how far a provider should cache. They are not content, and move between requests."""

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", None})

_Parts: TypeAlias = list[dict[str, Any]]


def joint(before: str, after: str) -> str:
    """Return the separator between the texts of two rounds: empty if there is white space already, or one is empty."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return ""
    return SEPARATOR


def text_of(content: Content) -> str:
    """Return the text of a content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part if isinstance(part, str) else _text(part) or "" for part in parts)


def joined(contents: Sequence[Content]) -> Content:
    """Return the contents of all rounds as one: text, or a list of parts if one of them is a list.

    None if no round has content.
    """
    some = [content for content in contents if content]
    if all(isinstance(content, str) for content in some):
        text = ""
        for content in some:
            text += joint(text, content) + content
        return text or None
    return [part for content in some for part in _as_parts(content)]


def shares(content: Content, recorded: Sequence[Content]) -> tuple[list[Content], bool]:
    """Split a content that a client sent for all rounds into each round's share.

    Args:
        content: the client's content.
        recorded: the contents of the rounds.

    Returns:
        The shares, None for a round without one, and whether the client changed the text: everything from the first
        change on is then the last round's share.
    """
    if content == joined(recorded):
        return list(recorded), False
    found: list[Content] = [None] * len(recorded)
    parts = _as_parts(content)
    missed = False
    for number, own in enumerate(recorded[:-1]):
        text = text_of(own)
        taken = _take(parts, text) or _take(parts, text.strip())
        if taken is None:
            missed = missed or bool(text)
            continue
        following = next(filter(None, map(text_of, recorded[number + 1 :])), "")
        found[number], parts = _like(content, taken[0]), _after_joint(taken[1], joint(text, following))
    found[-1] = _like(content, parts) if any(_text(part) != "" for part in parts) else None
    return found, missed and found[-1] is not None


def list_shares(entries: object, recorded: Sequence[object]) -> list[list[Any] | None]:
    """Split a list that a client sent, such as `reasoning_details`, into each round's share.

    Args:
        entries: the client's list.
        recorded: the lists of the rounds. An entry's `index` has no meaning outside its round.
    """
    rest = list(entries) if isinstance(entries, list) else []
    found: list[list[Any] | None] = []
    for own in recorded:
        mine = list(own) if isinstance(own, list) else []
        same = bool(mine) and [_plain(each) for each in rest[: len(mine)]] == [_plain(each) for each in mine]
        found.append(mine if same else None)
        rest = rest[len(mine) :] if same else rest
    if rest and found:
        found[-1] = [*(found[-1] or ()), *rest]
    return found


def without_markers(entry: dict[str, Any], *, content: str = "content") -> dict[str, Any]:
    """Return a message or an item without cache markers, on itself and on the parts of its content.

    Args:
        entry: the message; the same is returned if it has none.
        content: the key of its content.
    """
    parts: Any = entry.get(content)
    marked = isinstance(parts, list) and any(map(_is_marked, parts))
    if not marked and MARKERS.isdisjoint(entry):
        return entry
    plain = _unmarked(entry)
    if marked:
        plain[content] = [_unmarked(part) if _is_marked(part) else part for part in parts]
    return plain


def _is_marked(value: object) -> bool:
    return isinstance(value, dict) and not MARKERS.isdisjoint(value)


def _unmarked(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in MARKERS}


def _plain(entry: object) -> object:
    return {k: v for k, v in entry.items() if k != "index"} if isinstance(entry, Mapping) else entry


def _text(part: object) -> str | None:
    """The text of a part; None for other kinds of parts."""
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_TYPES:
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def _as_parts(content: Content) -> _Parts:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def _like(content: Content, parts: _Parts) -> Content:
    return "".join(part["text"] for part in parts) if isinstance(content, str) else parts


def _take(parts: _Parts, text: str) -> tuple[_Parts, _Parts] | None:
    """Split a content after a text; None if it does not begin with the text."""
    if not text:
        return None
    taken: _Parts = []
    for number, part in enumerate(parts):
        own = _text(part)
        if own is None:
            return None
        if len(own) > len(text):
            if not own.startswith(text):
                return None
            # A cache marker applies to everything before it, so it stays at the end.
            taken.append({**_unmarked(part), "text": text})
            return taken, [{**part, "text": own[len(text) :]}, *parts[number + 1 :]]
        if not text.startswith(own):
            return None
        taken.append(part)
        text = text[len(own) :]
        if not text:
            return taken, parts[number + 1 :]
    return None


def _after_joint(parts: _Parts, between: str) -> _Parts:
    taken = _take(parts, between)
    return parts if taken is None else taken[1]
