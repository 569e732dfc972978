"""Tools in the input: some clients send no `tools`, but a first item of the input that contains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from wane.proxy.wire.base import Body

_TYPE: Final = "additional_tools"

_Item: TypeAlias = dict[str, Any]


def offered(body: Body) -> list[Any]:
    """Return the tools of a request, wherever they are."""
    tools = body.get("tools")
    item = tools_item(body)
    return [*(tools if isinstance(tools, list) else ()), *(item["tools"] if item else ())]


def tools_item(body: Body) -> _Item | None:
    """Return the first item of the input that contains tools; None if there is none."""
    items = body.get("input")
    return next(filter(_has_tools, items), None) if isinstance(items, list) else None


def with_tools(items: Sequence[_Item], definitions: Sequence[_Item]) -> list[_Item]:
    """Return input items with further tools appended to the first item that contains tools."""
    place = next(place for place, item in enumerate(items) if _has_tools(item))
    item = items[place]
    return [*items[:place], {**item, "tools": [*item["tools"], *definitions]}, *items[place + 1 :]]


def with_tools_item(items: list[_Item], item: _Item | None) -> list[_Item]:
    """Return a view's items with an item in place of the first that contains tools."""
    if item is None:
        return items
    place = next((place for place, each in enumerate(items) if _has_tools(each)), None)
    return items if place is None else [*items[:place], item, *items[place + 1 :]]


def _has_tools(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == _TYPE and isinstance(item.get("tools"), list)
