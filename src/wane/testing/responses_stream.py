"""Events by which the Responses API streams one output item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from wane.testing.wire import pieces

NamedEvent: TypeAlias = tuple[str, dict[str, Any]]
"""Name and data of an event, its number still missing."""


def output_events(index: int, item: Mapping[str, Any]) -> Iterator[NamedEvent]:
    """Yield the events of one output item, from `output_item.added` to `output_item.done`."""
    begin, middle = _MAKERS[item["type"]](index, item)
    yield "response.output_item.added", {"output_index": index, "item": begin}
    yield from middle
    yield "response.output_item.done", {"output_index": index, "item": dict(item)}


def _message(index: int, item: Mapping[str, Any]) -> tuple[dict[str, Any], Iterator[NamedEvent]]:
    part = item["content"][0]
    where = {"item_id": item["id"], "output_index": index, "content_index": 0}

    def events() -> Iterator[NamedEvent]:
        yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**where, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**where, "part": part}

    return {**item, "status": "in_progress", "content": []}, events()


def _call(index: int, item: Mapping[str, Any]) -> tuple[dict[str, Any], Iterator[NamedEvent]]:
    where = {"item_id": item["id"], "output_index": index}

    def events() -> Iterator[NamedEvent]:
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**where, "delta": piece}
        done = {**where, "name": item["name"], "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done

    return {**item, "status": "in_progress", "arguments": ""}, events()


def _custom(index: int, item: Mapping[str, Any]) -> tuple[dict[str, Any], Iterator[NamedEvent]]:
    where = {"item_id": item["id"], "output_index": index}

    def events() -> Iterator[NamedEvent]:
        for piece in pieces(item["input"]):
            yield "response.custom_tool_call_input.delta", {**where, "delta": piece}
        yield "response.custom_tool_call_input.done", {**where, "input": item["input"]}

    return {**item, "status": "in_progress", "input": ""}, events()


def _at_once(_: int, item: Mapping[str, Any]) -> tuple[dict[str, Any], Iterator[NamedEvent]]:
    return {**item, "status": "in_progress"}, iter(())


def _reasoning(index: int, item: Mapping[str, Any]) -> tuple[dict[str, Any], Iterator[NamedEvent]]:
    part = item["summary"][0]
    where = {"item_id": item["id"], "output_index": index, "summary_index": 0}

    def events() -> Iterator[NamedEvent]:
        yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield "response.reasoning_summary_text.delta", {**where, "delta": piece}
        yield "response.reasoning_summary_text.done", {**where, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**where, "part": part}

    return {**item, "summary": [], "encrypted_content": ""}, events()


_MAKERS: Final = {
    "message": _message,
    "function_call": _call,
    "custom_tool_call": _custom,
    "tool_search_call": _at_once,
    "compaction": _at_once,
    "reasoning": _reasoning,
}
