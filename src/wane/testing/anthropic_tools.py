"""Anthropic's rules for a request's tools and cache breakpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from wane.testing.wire import Refused

MOST_BREAKPOINTS: Final = 4
"""How many `cache_control` a request may hold."""

_UNCACHEABLE: Final = ("thinking", "redacted_thinking")

_Block = Mapping[str, Any]


def check_tools(body: Mapping[str, Any]) -> None:
    """Refuse tools with the same name, and references to tools that do not exist."""
    tools = body.get("tools") or ()
    names = [tool.get("name") for tool in tools]
    if len(set(names)) < len(names):
        raise Refused("tools: Tool names must be unique.")
    for path, block in _content(body):
        if block.get("type") == "tool_reference" and block.get("tool_name") not in names:
            raise Refused(f"{path}: Tool reference '{block.get('tool_name')}' not found in available tools")


def check_breakpoints(body: Mapping[str, Any]) -> None:
    """Refuse too many breakpoints, and breakpoints on blocks that cannot have one."""
    found = 1 if body.get("cache_control") else 0
    for index, tool in enumerate(body.get("tools") or ()):
        if not tool.get("cache_control"):
            continue
        if tool.get("defer_loading"):
            raise Refused(f"tools.{index}: a tool with `defer_loading` cannot use prompt caching")
        found += 1
    for path, block in _content(body):
        if not block.get("cache_control"):
            continue
        kind = block.get("type")
        if kind in _UNCACHEABLE:
            raise Refused(f"{path}.{kind}.cache_control: Extra inputs are not permitted")
        if kind == "text" and not block.get("text"):
            raise Refused(f"{path}.text: cache_control cannot be set for empty text blocks")
        found += 1
    if found > MOST_BREAKPOINTS:
        raise Refused(f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {found}.")


def _content(body: Mapping[str, Any]) -> Iterator[tuple[str, _Block]]:
    """Yield the path and block of all content, also inside results."""
    yield from _blocks("system", body.get("system"))
    for index, message in enumerate(body["messages"]):
        yield from _blocks(f"messages.{index}.content", message.get("content"))


def _blocks(path: str, content: object) -> Iterator[tuple[str, _Block]]:
    for position, block in enumerate(content if isinstance(content, list) else ()):
        yield f"{path}.{position}", block
        if block.get("type") == "tool_result":
            yield from _blocks(f"{path}.{position}.content", block.get("content"))
