"""Anthropic's rules for the current turn, with thinking on a budget (`enabled`) or off.

A tool-use loop is one turn of the assistant. With `enabled` it must begin with thinking, and with `disabled` it must
hold none (Anthropic's guide to extended thinking, "Toggling thinking modes in conversations"). For a user message with
results and other content, the guide can be read in two ways: the turn continues, or the other content begins a new one,
as it does for the cache. A request must be valid under both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wane.testing.wire import Refused

THINKING: Final = ("thinking", "redacted_thinking")
"""Types of blocks with reasoning."""

_Joined = tuple[int, str, list[Mapping[str, Any]]]
"""Consecutive messages of one role: the index of the first, the role, the blocks of all."""


def check_turn(body: Mapping[str, Any], messages: Sequence[_Joined]) -> None:
    """Check the current turn; raise `Refused` if it does not fit the request's `thinking`."""
    kind = (body.get("thinking") or {}).get("type")
    openings = list(_openings(messages))
    if kind == "enabled":
        for index, blocks in openings:
            if (found := blocks[0].get("type")) not in THINKING:
                raise unled(index, found)
    elif kind == "disabled" and openings:
        for index, role, blocks in messages:
            if role == "assistant" and index >= openings[-1][0]:
                _check_no_thinking(index, blocks)


def begins_turn(messages: Sequence[_Joined]) -> bool:
    """Return whether the next message begins a turn, by either reading."""
    last_user = next((blocks for _, role, blocks in reversed(messages) if role == "user"), [])
    return bool(messages) and messages[-1][1] != "assistant" and not _only_results(last_user)


def unled(index: int, found: object) -> Refused:
    """Return the refusal of a turn that does not begin with thinking.

    Args:
        index: index of the turn's first message.
        found: the type of its first block.
    """
    return Refused(
        f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When"
        " `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the"
        " lastmost set of `tool_use` and `tool_result` blocks)."
    )


def _openings(messages: Sequence[_Joined]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yield the first message of the current turn, by each reading; none if the user spoke last."""
    first: tuple[int, list[Mapping[str, Any]]] | None = None
    found = False
    for index, role, blocks in reversed(messages):
        if role == "assistant":
            first = index, blocks
        elif role == "user" and not _only_results(blocks):
            goes_on = any(map(_is_result, blocks))
            if first is not None and not (found and goes_on):
                found = True
                yield first
            if not goes_on:
                return


def _check_no_thinking(index: int, blocks: Sequence[Mapping[str, Any]]) -> None:
    for position, block in enumerate(blocks):
        if block.get("type") in THINKING:
            raise Refused(
                f"messages.{index}.content.{position}: When thinking is disabled, an `assistant` message in the final"
                f" position cannot contain `{block['type']}`. To use thinking blocks, enable `thinking` in your"
                " request."
            )


def _only_results(blocks: Sequence[Mapping[str, Any]]) -> bool:
    return all(map(_is_result, blocks))


def _is_result(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_result"
