"""What Anthropic refuses: wrong pairs, empty messages, thinking out of place, tools and cache breakpoints.

A tool-use loop is one turn of the assistant. With thinking on a budget (`enabled`) it must begin with thinking, and
with `disabled` it must hold none (Anthropic's guide to extended thinking, "Toggling thinking modes in conversations").
For a user message with results and other content, the guide can be read in two ways: the turn continues, or the other
content begins a new one, as it does for the cache. A request must be valid under both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from wane.formats.vocabulary import ANTHROPIC
from wane.testing.preserved import is_tampered
from wane.testing.wire import Refused, check_fields

THINKING: Final = ("thinking", "redacted_thinking")
"""Types of blocks with reasoning."""

_MOST_BREAKPOINTS: Final = 4
_MESSAGE: Final = frozenset({"role", "content", "clear_at", "output_config"})
_FIELDS: Final = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}),
}
"""The fields of blocks, by type; those of other types are not checked."""

_IN_RESULTS: Final = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})
_SERVED: Final = ("server_tool_use", "mcp_tool_use")
_TOOL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_IDS: Final = {"tool_use": "id", "server_tool_use": "id", "mcp_tool_use": "id", "tool_result": "tool_use_id"}
_REASONED_CALL: Final = re.compile(r"toolu_r[0-9a-f]+_\d+")

Block = Mapping[str, Any]


class _Joined(NamedTuple):
    """Consecutive messages of one role: the index of the first, the role, the blocks of all."""

    start: int
    role: str
    blocks: list[Block]


def blocks_of(content: object) -> list[Block]:
    """Return the blocks of content, a string or a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def check_request(body: Mapping[str, Any]) -> None:
    """Raise `Refused` if Anthropic would not take the messages of a request."""
    _check_fields(body)
    messages = _join_neighbours(body["messages"])
    if not messages:
        raise Refused("messages: at least one message is required")
    if messages[0].role == "assistant":
        raise Refused('messages: first message must use the "user" role')
    _check_system(body["messages"])
    _check_tools(body)
    _check_breakpoints(body)
    nothing: list[Block] = []
    contents = [nothing, *(message.blocks for message in messages), nothing]
    for message, before, after in zip(messages, contents, contents[2:], strict=False):
        _check_blocks(message)
        _check_results(message, before)
        _check_calls(message, after)
    _check_served(messages)
    calls = [call_id for message in messages for call_id in _ids(message.blocks, "tool_use")]
    if len(set(calls)) < len(calls):
        raise Refused("messages: `tool_use` ids must be unique")
    match (body.get("thinking") or {}).get("type"):
        case "enabled":
            _check_led(messages)
        case "disabled":
            _check_no_thinking(messages)


def _check_fields(body: Mapping[str, Any]) -> None:
    """Refuse fields that only an answer has, such as its usage, or that an SDK has added to it."""
    for index, message in enumerate(body["messages"]):
        check_fields(message, _MESSAGE, extra_input, f"messages.{index}.")
        for position, block in enumerate(message["content"] if isinstance(message.get("content"), list) else ()):
            path = f"messages.{index}.content.{position}"
            _check_type(path, block, ANTHROPIC.contents[message["role"]])
            content = block.get("content") if block.get("type") == "tool_result" else None
            for inner, part in enumerate(content if isinstance(content, list) else ()):
                _check_type(f"{path}.tool_result.content.{inner}", part, _IN_RESULTS)
    for path, block in _content(body):
        kind = str(block.get("type"))
        field = _TOOL_IDS.get(kind, "")
        if field and not _TOOL_ID.fullmatch(str(block.get(field) or "")):
            raise Refused(f"{path}.{kind}.{field}: String should match pattern '^[a-zA-Z0-9_-]+$'")
        check_fields(block, _FIELDS.get(kind, block), extra_input, f"{path}.{kind}.")


def extra_input(path: str) -> Refused:
    """Return the refusal of a field that Anthropic does not know."""
    return Refused(f"{path}: Extra inputs are not permitted")


def _check_type(path: str, block: Block, kinds: frozenset[str]) -> None:
    """Refuse a block without a type, or of one that cannot stand there."""
    kind = block.get("type")
    if kind is None:
        raise Refused(f"{path}.type: Field required")
    if kind not in kinds:
        tags = ", ".join(f"'{name}'" for name in sorted(kinds))
        raise Refused(f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}")


def begins_turn(messages: Sequence[Block]) -> bool:
    """Return whether the next message begins a turn, by either reading."""
    joined = _join_neighbours(messages)
    last_user = next((message.blocks for message in reversed(joined) if message.role == "user"), [])
    return bool(joined) and joined[-1].role != "assistant" and not all(map(_is_result, last_user))


def _join_neighbours(messages: Sequence[Block]) -> list[_Joined]:
    """Join neighbouring messages of one role, as the provider does."""
    joined: list[_Joined] = []
    for index, message in enumerate(messages):
        blocks = blocks_of(message.get("content"))
        if not blocks:
            raise Refused(
                f"messages.{index}: all messages must have non-empty content except for the optional final assistant"
                " message"
            )
        if joined and joined[-1].role == message["role"]:
            joined[-1].blocks.extend(blocks)
        else:
            joined.append(_Joined(index, message["role"], blocks))
    return joined


def _check_system(messages: Sequence[Block]) -> None:
    """Check that system messages within the conversation follow a user turn and precede an answer."""
    roles = [message["role"] for message in messages]
    for index, role in enumerate(roles):
        if role != "system":
            continue
        if index + 1 < len(roles) and roles[index + 1] != "assistant":
            raise Refused(f"messages.{index}: role 'system' must precede an 'assistant' message or end the array")
        if index == 0 or roles[index - 1] != "user":
            raise Refused(f"messages.{index}: role 'system' must follow a 'user' message")


def _check_tools(body: Mapping[str, Any]) -> None:
    """Refuse tools with the same name, and references to tools that do not exist."""
    names = [tool.get("name") for tool in body.get("tools") or ()]
    if len(set(names)) < len(names):
        raise Refused("tools: Tool names must be unique.")
    for path, block in _content(body):
        if block.get("type") == "tool_reference" and block.get("tool_name") not in names:
            raise Refused(f"{path}: Tool reference '{block.get('tool_name')}' not found in available tools")


def _check_breakpoints(body: Mapping[str, Any]) -> None:
    """Refuse too many breakpoints, and breakpoints on blocks that cannot have one."""
    breakpoints = 1 if body.get("cache_control") else 0
    for index, tool in enumerate(body.get("tools") or ()):
        if not tool.get("cache_control"):
            continue
        if tool.get("defer_loading"):
            raise Refused(f"tools.{index}: a tool with `defer_loading` cannot use prompt caching")
        breakpoints += 1
    for path, block in _content(body):
        if not block.get("cache_control"):
            continue
        kind = block.get("type")
        if kind in THINKING:
            raise Refused(f"{path}.{kind}.cache_control: Extra inputs are not permitted")
        if kind == "text" and not block.get("text"):
            raise Refused(f"{path}.text: cache_control cannot be set for empty text blocks")
        breakpoints += 1
    if breakpoints > _MOST_BREAKPOINTS:
        raise Refused(
            f"A maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {breakpoints}."
        )


def _content(body: Mapping[str, Any]) -> Iterator[tuple[str, Block]]:
    """Yield the path and block of all content, also inside results."""
    yield from _inside("system", body.get("system"))
    for index, message in enumerate(body["messages"]):
        yield from _inside(f"messages.{index}.content", message.get("content"))


def _inside(path: str, content: object) -> Iterator[tuple[str, Block]]:
    for position, block in enumerate(content if isinstance(content, list) else ()):
        yield f"{path}.{position}", block
        if block.get("type") == "tool_result":
            yield from _inside(f"{path}.{position}.content", block.get("content"))


def _check_blocks(message: _Joined) -> None:
    for position, block in enumerate(message.blocks):
        kind, where = block.get("type"), f"messages.{message.start}.content.{position}"
        if kind == "text" and not block.get("text"):
            raise Refused("messages: text content blocks must be non-empty")
        if kind == "text" and not str(block["text"]).strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")
        if kind == "tool_use" and not isinstance(block.get("input"), dict):
            raise Refused(f"{where}.tool_use.input: Input should be an object")
        if kind == "thinking" and not block.get("signature"):
            raise Refused(f"{where}.thinking.signature: Field required")
        if kind == "thinking" and is_tampered(str(block["signature"]), str(block.get("thinking") or "")):
            raise Refused(f"{where}: Invalid `signature` in `thinking` block")


def _check_results(message: _Joined, before: Sequence[Block]) -> None:
    """Check that every result has its call in the message before."""
    calls = _ids(before, "tool_use")
    for position, block in enumerate(message.blocks):
        if not _is_result(block):
            continue
        call_id = str(block.get("tool_use_id"))
        if call_id not in calls:
            raise Refused(
                f"messages.{message.start}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks:"
                f" {call_id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous"
                " message."
            )
        calls.remove(call_id)


def _check_calls(message: _Joined, after: Sequence[Block]) -> None:
    """Check that every call has its result in the next message, before any other content."""
    first = next((position for position, block in enumerate(after) if not _is_result(block)), len(after))
    results = _ids(after[:first], "tool_result")
    missing = [call_id for call_id in _ids(message.blocks, "tool_use") if call_id not in results]
    if missing:
        raise Refused(
            f"messages.{message.start}: `tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next"
            " message."
        )


def _check_served(messages: Sequence[_Joined]) -> None:
    """Check that calls that Anthropic ran and their results are pairs, each within one turn of the assistant.

    The result stands behind its call. Only results of the client's tools may come between them, and only an answer at
    the end may still wait for one.
    """
    waiting: dict[str, str] = {}
    for message in messages:
        if message.role == "user" and all(map(_is_result, message.blocks)):
            continue
        if message.role != "assistant":
            for call_id, tool in waiting.items():
                raise Refused(
                    f"messages.{message.start}: `{tool}` tool use with id `{call_id}` was found without a corresponding"
                    f" `{tool}_tool_result` block"
                )
        for position, block in enumerate(message.blocks):
            kind, call_id = str(block.get("type")), str(block.get("tool_use_id"))
            if kind in _SERVED:
                waiting[str(block.get("id"))] = str(block.get("name"))
            elif kind.endswith("_tool_result") and waiting.pop(call_id, None) is None:
                raise Refused(
                    f"messages.{message.start}.content.{position}: unexpected `tool_use_id` found in `{kind}` blocks:"
                    f" {call_id}. Each `{kind}` block must have a corresponding `server_tool_use` block before it."
                )


def _check_led(messages: Sequence[_Joined]) -> None:
    """Check that the current turn begins with thinking, and that the latest calls still have theirs (R13)."""
    leading = list(_openings(messages))
    latest = next((message for message in reversed(messages) if message.role == "assistant"), None)
    for block in latest.blocks if latest else ():
        if block.get("type") in THINKING:  # after a pause, other blocks may stand ahead of it
            break
        if latest and block.get("type") == "tool_use" and _REASONED_CALL.fullmatch(str(block.get("id"))):
            leading.append(latest)
            break
    for message in leading:
        if (kind := message.blocks[0].get("type")) not in THINKING:
            raise Refused(
                f"messages.{message.start}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
                f" `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
                " (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            )


def _check_no_thinking(messages: Sequence[_Joined]) -> None:
    """Check that the current turn holds no thinking."""
    openings = list(_openings(messages))
    for message in messages:
        if not openings or message.role != "assistant" or message.start < openings[-1].start:
            continue
        for position, block in enumerate(message.blocks):
            if block.get("type") in THINKING:
                raise Refused(
                    f"messages.{message.start}.content.{position}: When thinking is disabled, an `assistant` message in"
                    f" the final position cannot contain `{block['type']}`. To use thinking blocks, enable `thinking`"
                    " in your request."
                )


def _openings(messages: Sequence[_Joined]) -> Iterator[_Joined]:
    """Yield the first message of the current turn, by each reading; none if the user spoke last."""
    first: _Joined | None = None
    yielded = False
    for message in reversed(messages):
        if message.role == "assistant":
            first = message
        elif message.role == "user" and not all(map(_is_result, message.blocks)):
            goes_on = any(map(_is_result, message.blocks))
            if first is not None and not (yielded and goes_on):
                yielded = True
                yield first
            if not goes_on:
                return


def _ids(blocks: Sequence[Block], kind: str) -> list[str]:
    name = "tool_use_id" if kind == "tool_result" else "id"
    return [str(block.get(name)) for block in blocks if block.get("type") == kind]


def _is_result(block: Block) -> bool:
    return block.get("type") == "tool_result"
