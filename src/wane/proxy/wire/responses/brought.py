"""Tools that stand in the input: some clients send no `tools`, but an item that brings them, ahead of all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from wane.proxy.wire.base import Body

_BRINGING: Final = "additional_tools"

_Item: TypeAlias = dict[str, Any]


def offered(body: Body) -> list[Any]:
    """Return the tools of a request, wherever they stand."""
    tools = body.get("tools")
    item = bringing(body)
    return [*(tools if isinstance(tools, list) else ()), *(item["tools"] if item else ())]


def bringing(body: Body) -> _Item | None:
    """Return the first item of the input that brings tools; None if there is none."""
    items = body.get("input")
    return next(filter(_brings, items), None) if isinstance(items, list) else None


def with_tools(items: Sequence[_Item], definitions: Sequence[_Item]) -> list[_Item]:
    """Return input items of which the first that brings tools brings further ones, at its end."""
    place = next(place for place, item in enumerate(items) if _brings(item))
    item = items[place]
    return [*items[:place], {**item, "tools": [*item["tools"], *definitions]}, *items[place + 1 :]]


def rebrought(items: list[_Item], item: _Item | None) -> list[_Item]:
    """Return a view's items with an item in place of the first that brings tools: tools never leave a view."""
    if item is None:
        return items
    place = next((place for place, each in enumerate(items) if _brings(each)), None)
    return items if place is None else [*items[:place], item, *items[place + 1 :]]


def _brings(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == _BRINGING and isinstance(item.get("tools"), list)
