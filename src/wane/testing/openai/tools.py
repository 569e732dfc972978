"""Tools of a Responses request: on the top level, in namespaces, and in input items that add more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wane.testing.openai.base import missing
from wane.testing.request import count_chars
from wane.testing.wire import Refused, canonical

if TYPE_CHECKING:
    from wane.testing.script import Call

BRINGING: Final = ("additional_tools", "tool_search_output")
"""Types of input items that add tools."""

_Tool = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tools of a request.

    Attributes:
        kinds: type of each tool by name, in order. A tool in a namespace is named `NAMESPACE.NAME`, a built-in tool by
            its type.
        tokens: tokens of the definitions, as `ceil(characters / 4)` of their JSON.
    """

    kinds: Mapping[str, str]
    tokens: int

    def item(self, call: Call, call_id: str) -> dict[str, Any]:
        """Return the output item that calls a tool, without its own id and status.

        A tool that the request does not offer is called as a function, as models sometimes do.
        """
        kind = self.kinds.get(call.tool, "function")
        if kind == "tool_search":
            arguments = call.arguments
            return {"type": "tool_search_call", "call_id": call_id, "execution": "client", "arguments": arguments}
        namespace, _, name = call.tool.rpartition(".") if call.tool in self.kinds else ("", "", call.tool)
        where = {"namespace": namespace} if namespace else {}
        if kind == "custom":
            return {"type": "custom_tool_call", "call_id": call_id, "name": name, **where, "input": call.raw_arguments}
        arguments = call.raw_arguments
        return {"type": "function_call", "call_id": call_id, "name": name, **where, "arguments": arguments}


def catalogue(body: Mapping[str, Any]) -> Catalogue:
    """Return the tools of a request.

    Raises:
        Refused: for tools that OpenAI would refuse.
    """
    items = body.get("input")
    lists: list[tuple[str, Sequence[_Tool]]] = [("tools", body.get("tools") or ())]
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if item.get("type") not in BRINGING:
            continue
        if not isinstance(item.get("tools"), list):
            raise missing(f"input[{index}].tools")
        lists.append((f"input[{index}].tools", item["tools"]))
    kinds: dict[str, str] = {}
    for where, tools in lists:
        # A later list may repeat a tool, but one list may not.
        kinds |= _kinds_of(where, tools)
    return Catalogue(kinds, sum(count_chars(canonical(tool)) for _, tools in lists for tool in tools))


def qualified(item: Mapping[str, Any]) -> str:
    """Return the name of the tool that an item calls, with its namespace."""
    name = str(item.get("name"))
    return f"{item['namespace']}.{name}" if item.get("namespace") else name


def _kinds_of(where: str, tools: Sequence[_Tool]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for name, kind in _flat(where, tools):
        if name in kinds and kind in ("function", "custom"):
            raise Refused(f"Invalid '{where}': the tool name '{name}' is given twice.", param=where)
        kinds[name] = kind
    return kinds


def _flat(where: str, tools: Sequence[_Tool], namespace: str = "") -> Iterator[tuple[str, str]]:
    for index, tool in enumerate(tools):
        kind = str(tool.get("type"))
        if kind in ("function", "custom", "namespace") and not tool.get("name"):
            raise missing(f"{where}[{index}].name")
        if kind == "namespace":
            yield from _flat(f"{where}[{index}].tools", tool.get("tools") or (), f"{tool['name']}.")
        else:
            yield namespace + str(tool.get("name") or kind), kind
