"""The usage that providers report, combined over the rounds of one reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Tally: TypeAlias = Callable[[Any, Any], Any]
"""Combines the usage of earlier rounds with that of a later one; each is JSON data, or None if not reported."""


def summed(before: Any, more: Any) -> Any:
    """Return the sum of two usages, field by field; other values are those of the later one.

    Args:
        before: usage of earlier rounds, as JSON data; None if none was reported.
        more: usage of a later round.
    """
    if before is None or more is None:
        return before if more is None else more
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        keys = [*before, *(key for key in more if key not in before)]
        return {key: summed(before.get(key), more.get(key)) for key in keys}
    if _is_number(before) and _is_number(more):
        return before + more
    return more


def latest(before: Any, more: Any) -> Any:
    """Return the usage of the latest round that reported one: the size of the model's context, not the total usage."""
    return before if more is None else more


def count(usage: object, *path: str) -> int:
    """Return one count of a usage, in tokens; 0 if it is missing or not a count.

    Args:
        usage: the usage, as JSON data.
        path: the keys that lead to the count.
    """
    for key in path:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return max(0, usage) if isinstance(usage, int) and not isinstance(usage, bool) else 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
