"""Items of the Responses API: own calls, what is sent back to the provider, and tools in the input."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.formats.response_items import is_model_made
from wane.proxy.wire.base import Body, OwnCall
from wane.proxy.wire.reply import parsed

Item: TypeAlias = dict[str, Any]

# Calls that the provider runs; their results are in the item itself.
_HOSTED: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
_TYPE: Final = "additional_tools"


def is_own(item: object, own: Container[str]) -> bool:
    """Whether an item is a call of one of the proxy's own tools, which have no namespace."""
    if not isinstance(item, Mapping) or item.get("type") != "function_call" or item.get("namespace"):
        return False
    name = item.get("name")
    return isinstance(name, str) and name in own


def own_calls(items: Iterable[Item], own: Container[str], *, complete: bool) -> tuple[OwnCall, ...]:
    """Return the complete own calls among some items.

    Args:
        items: output of a round.
        own: names of the proxy's own tools.
        complete: whether the model ended by itself; else the last call may be cut off.
    """
    calls = [(call_id_of(item), item["name"], str(item.get("arguments") or "")) for item in items if is_own(item, own)]
    return tuple(OwnCall(id_, name, raw) for id_, name, raw in calls if id_ and (complete or parsed(raw) is not None))


def client_calls(items: Sequence[Item], own: Container[str]) -> int:
    """Return how many calls of a round the client must answer: neither own ones nor those that the provider ran."""
    answered = {call_id_of(item) for item in items if str(item.get("type")).endswith("_output")} - {None}
    calls = [item for item in items if _is_call(item) and not is_own(item, own)]
    return sum(call_id_of(item) not in answered for item in calls)


def call_id_of(item: Mapping[str, Any]) -> str | None:
    """Return the id that pairs a call and its output; None if it has none."""
    call_id = item.get("call_id")
    return call_id if isinstance(call_id, str) and call_id else None


def seal_of(item: object) -> int | None:
    """Return a hash that identifies an item of reasoning; None for any other item."""
    if not isinstance(item, Mapping) or item.get("type") != "reasoning":
        return None
    return hash((str(item.get("id")), str(item.get("encrypted_content"))))


def without_reasoning(items: Sequence[Any], gone: Callable[[Item], bool]) -> list[Any]:
    """Return items without some reasoning; the items that it led to lose their ids, which refer to it.

    Args:
        items: items of the input, or of an output.
        gone: whether to leave out an item of reasoning.
    """
    kept: list[Any] = []
    orphaned = False
    for item in items:
        if isinstance(item, dict) and item.get("type") == "reasoning":
            orphaned = gone(item)
            if orphaned:
                continue
        orphaned = orphaned and is_model_made(item)
        kept.append(without_id(item) if orphaned else item)
    return kept


def without_id(item: Item) -> Item:
    """Return an item without its id, which only stored items need."""
    return {key: value for key, value in item.items() if key != "id"} if "id" in item else item


def _is_call(item: Mapping[str, Any]) -> bool:
    kind = str(item.get("type"))
    if kind == "tool_search_call":
        return bool(item.get("call_id"))
    return kind == "mcp_approval_request" or (kind.endswith("_call") and kind not in _HOSTED)


def offered(body: Body) -> list[Any]:
    """Return the tools of a request, wherever they are."""
    tools = body.get("tools")
    item = tools_item(body)
    return [*(tools if isinstance(tools, list) else ()), *(item["tools"] if item else ())]


def tools_item(body: Body) -> Item | None:
    """Return the first item of the input that contains tools; None if there is none."""
    items = body.get("input")
    return next(filter(_has_tools, items), None) if isinstance(items, list) else None


def with_tools_item(items: list[Item], item: Item | None) -> list[Item]:
    """Return a view's items with an item in place of the first that contains tools."""
    if item is None:
        return items
    place = next((place for place, each in enumerate(items) if _has_tools(each)), None)
    return items if place is None else [*items[:place], item, *items[place + 1 :]]


def _has_tools(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == _TYPE and isinstance(item.get("tools"), list)
