"""Messages of Anthropic's Messages API, as plain dicts, and the cache breakpoints in them.

What each block becomes:

| block | item |
|---|---|
| assistant: `text` | text |
| `thinking`, `redacted_thinking` | reasoning |
| `tool_use`, `server_tool_use`, `mcp_tool_use` | call |
| `web_search_tool_result`, `mcp_tool_result` and others like them | result of a tool that Anthropic runs |
| `compaction`, `mcp_tool_listing` | system |
| `fallback`, which is in no prompt | text without tokens |
| anything else | text, with a flat estimate |
| user: `tool_result` | result |
| `text` that is a notice (`wane.formats.notices`) | notice |
| anything else | user, one item per block |

String content counts as one text block. A system message is one item, system or notice; an empty user turn is one user
item. A result that holds a prompt that was queued while the agent was busy is a person's (R21). System items are never
evicted (R13): a compaction stands for all that came before it, and the model needs the descriptions of its tools. The
top-level `system` of a request is not a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

from wane.core import Kind
from wane.core.errors import FormatError
from wane.core.items import INVALID_JSON
from wane.formats.coupling import SIGNED, UNTIED, Seal, Tie, couple
from wane.formats.fields import (
    compact,
    objects_in,
    raw_text,
    sealed_tokens,
    string,
    type_name,
)
from wane.formats.message_format import Located, Part, PlainFormat, turn_part
from wane.formats.notices import (
    has_notice_behind,
    has_prompt,
    introduces_media,
    is_notice,
    is_persons,
    withdrawn_in,
)
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.roles import CALLING, RESULTS, must_mend
from wane.formats.vocabulary import ANTHROPIC, are_plain, as_data

Message = dict[str, Any]
Block: TypeAlias = dict[str, Any]
BlockLocation: TypeAlias = tuple[int, int]
"""The position of a message, and that of a block in it."""
T = TypeVar("T")

MOST_BREAKPOINTS: Final = 4
"""Cache breakpoints that a request may have."""

# Anthropic accepts breakpoints on these, in messages of either role, but not on thinking or empty text.
_CARRIERS: Final = ("text", "image", "document", "search_result", "tool_use", "tool_result")

SEAL: Final = 235
"""Length in characters of a signature over no thinking, measured on recorded sessions that hold both."""

_WHOLE: Final = -1
_ROLES: Final = ("user", "assistant", "system")
_IN_RESULTS: Final = frozenset(ANTHROPIC.results)


class AnthropicFormat(PlainFormat):
    """Messages of Anthropic's Messages API."""

    name = "anthropic"
    called = "Anthropic messages"
    reads_each = True
    joins_turns = True
    sends_empty = False
    notes_behind_results = True

    def read(self, data: Sequence[Any]) -> Sequence[Message]:
        """Return messages without what an answer says about itself, which requests must not hold.

        A message, and each block of it, may be an object of Anthropic's SDK.
        """
        return [*map(_as_sent, data)]

    def check(self, message: Message, *, adds_fields: bool = False) -> None:
        if "content" not in message:
            raise FormatError(f"a message of role {message['role']!r} needs a content")
        ANTHROPIC.check(message, adds_fields=adds_fields)
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                ANTHROPIC.check_contents(block.get("content"), _IN_RESULTS, "a block of a result", adds_fields)

    def locate_parts(self, message: Message) -> list[Located[int]]:
        """Return the items of a message, each with the position of its block in `content`.

        Raises:
            FormatError: for a role, content or block of the wrong shape.
        """
        if not isinstance(message, dict):
            raise FormatError(f"a message must be an object, found {type_name(message)}")
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            raise ANTHROPIC.role_error(message, _ROLES)
        if role == "system":
            text, extra = _content(content)
            return [(_WHOLE, turn_part(text, extra, system=True))]
        if isinstance(content, str):
            if role == "user":
                return [(_WHOLE, turn_part(content))]
            return [(_WHOLE, Part(Kind.TEXT, content))] if content else []
        blocks = _blocks(content)
        if role == "user":
            return _user_parts(blocks) or [(_WHOLE, Part(Kind.USER))]
        parts = enumerate(map(_assistant_part, blocks))
        located = [(location, part) for location, part in parts if part is not None]
        return couple(located, [_tie(blocks[location], part) for location, part in located])

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        content, located = message.get("content"), self.locate_parts(message)
        if not isinstance(content, list) or located[0][0] == _WHOLE:
            return message
        locations = dict.fromkeys(located[position][0] for position in positions)
        return {**message, "content": [content[location] for location in locations]}

    def sendable(self, message: Message) -> Message | None:
        """Return a message that Anthropic accepts.

        It refuses blank text, and arguments that are not an object: those are wrapped in one, as it recommends.
        """
        return message if message["role"] != "assistant" else _sendable(message)

    def arrange(self, messages: Sequence[Message]) -> list[Any]:
        """Return the messages of a request.

        Neighbouring messages of the user become one, as Anthropic asks for all results of an answer, and services that
        imitate it insist. But words behind results stay a message of their own: llama.cpp would put them ahead of the
        results. Later system messages stand where it accepts them (`seat_systems`), neighbours as one.
        """
        sent: list[Any] = []
        # Most views have hundreds of messages, and none of the system's.
        has_system = "system" in [message["role"] for message in messages]
        for message in seat_systems(messages, lambda message: message) if has_system else messages:
            if sent and message["role"] == sent[-1]["role"] != "assistant" and not are_apart(sent[-1], message):
                sent[-1] = join_messages(sent[-1], message)
            else:
                sent.append(message)
        return sent

    def speaker(self, message: Message) -> str | None:
        role, kinds = message["role"], {str(block.get("type")) for block in objects_in(message.get("content"))}
        if role == "assistant":
            has_calls = "tool_use" in kinds or any(kind.endswith("tool_use") for kind in kinds)
            return CALLING if has_calls else "assistant"
        if kinds == {"tool_result"}:
            return RESULTS
        return "user" if role == "user" else None

    def is_sent(self, message: Message) -> bool:
        return message["role"] != "assistant" or _sendable(message) is not None

    def merge(self, first: Message, second: Message) -> Message | None:
        if _has_results(second):
            return None  # results stay behind their calls
        return join_messages(first, second)

    def note_result(self, message: Message, text: str) -> Message | None:
        """Return a user's message with a note as the last text of its last result that can hold one.

        llama.cpp puts text that stands beside results ahead of all of them, as a message of the user. A result that
        holds references to tools takes no text. No result ahead of a breakpoint is changed, because no later request
        could read what was cached with the note.
        """
        blocks = blocks_of(message)
        for position in range(len(blocks) - 1, -1, -1):
            block = blocks[position]
            content = blocks_of(block)
            if block.get("type") != "tool_result" or any("cache_control" in inner for inner in [block, *content]):
                return None
            if all(inner.get("type") != "tool_reference" for inner in content):
                noted = {**block, "content": [*content, {"type": "text", "text": text}]}
                return {**message, "content": [*blocks[:position], noted, *blocks[position + 1 :]]}
        return None

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name, "description": description, "input_schema": dict(schema)}

    def turn(self, text: str) -> Message:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def awaits(self, message: Message, position: int) -> bool:
        """Whether the application answers a call: Anthropic runs its own tools."""
        return bool(message["content"][self.locate_parts(message)[position][0]]["type"] == "tool_use")

    def read_contents(self, output: object) -> list[Any] | None:
        return ANTHROPIC.read_contents(output)

    def result(self, message: Message, position: int, output: str | list[Any]) -> Message:
        call_id = self.locate_parts(message)[position][1].call_id
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}]}

    def clear_result(self, message: Message, position: int, text: str) -> Message:
        """Return a message with one result's content replaced by a text; results of Anthropic's own tools stay."""
        content, located = message.get("content"), self.locate_parts(message)
        location = located[position][0]
        if not isinstance(content, list) or location < 0 or content[location].get("type") != "tool_result":
            return message
        result, inner = {**content[location], "content": text}, content[location].get("content")
        marks = [block["cache_control"] for block in objects_in(inner) if block.get("cache_control")]
        if marks and "cache_control" not in result:
            result["cache_control"] = marks[-1]
        return {**message, "content": [*content[:location], result, *content[location + 1 :]]}


def are_apart(first: Message, second: Message) -> bool:
    """Return whether two neighbours of a request are results and words behind them, which llama.cpp would put ahead."""
    return _has_results(first) and not _has_results(second)


def _has_results(message: Message) -> bool:
    return any(block.get("type") == "tool_result" for block in blocks_of(message))


def _as_sent(message: Any) -> Any:
    """A message as a request holds it; the same object if it is one already."""
    if type(message) is not dict:
        message = as_data(message)
    if not isinstance(message, dict) or "role" not in message:
        return message
    content = message.get("content")
    if isinstance(content, (list, tuple)) and not are_plain(content):
        message = {**message, "content": [as_data(block) for block in content]}
    if message.keys().isdisjoint(ANTHROPIC.metadata):
        return message
    return {name: value for name, value in message.items() if name not in ANTHROPIC.metadata}


def join_messages(first: Message, second: Message) -> Message:
    """Return two messages of one role as one, with the user's results first: they answer the message before them."""
    content = [*blocks_of(first), *blocks_of(second)]
    if first["role"] == "user":
        content.sort(key=lambda block: block.get("type") != "tool_result")
    return {**second, **first, "content": content} if content else first


def seat_systems(messages: Sequence[T], message_of: Callable[[T], Message]) -> Sequence[T]:
    """Return messages with each later system message where Anthropic accepts it: after a user's, before an assistant's.

    In a view, its neighbours may have left. It then moves as little as possible: after the user's messages of the same
    stretch or, if there are none, of the stretch before.

    Args:
        messages: messages, or what holds them.
        message_of: returns the message of each.
    """
    plain = [message_of(message) for message in messages]
    if all(_sits(plain, number) for number, message in enumerate(plain) if message["role"] == "system"):
        return messages
    seated: list[T] = []
    behind = 0  # where the last stretch with a user's message ends
    for is_assistant, group in groupby(messages, lambda message: message_of(message)["role"] == "assistant"):
        stretch = sorted(group, key=lambda message: message_of(message)["role"] == "system")
        alone = not is_assistant and message_of(stretch[0])["role"] == "system"
        if alone and behind and not _may_precede(message_of(seated[-1])):
            seated[behind:behind] = stretch
            behind += len(stretch)
        else:
            seated += stretch
            behind = behind if is_assistant or alone else len(seated)
    return seated


def _sits(messages: Sequence[Message], number: int) -> bool:
    followed = number + 1 == len(messages) or messages[number + 1]["role"] == "assistant"
    return followed and number > 0 and _may_precede(messages[number - 1])


def _may_precede(message: Message) -> bool:
    """Whether a system message may follow: after a user's message, and after one that waits for a server tool."""
    content = message.get("content")
    if message["role"] != "assistant" or not content or not isinstance(content, list):
        return bool(message["role"] == "user")
    kind = str(content[-1].get("type"))
    return kind == "server_tool_use" or kind.endswith("_tool_result")


def _sendable(message: Message) -> Message | None:
    """An answer in the form that Anthropic accepts in a request, the same object if it fits; None if it is empty."""
    content = message["content"]
    if not isinstance(content, list):
        return message if content else None
    if content and not any(map(_is_refused, content)):
        return message
    blocks = [_mend_calls(block) for block in content if block["type"] == "tool_use" or not _is_refused(block)]
    return {**message, "content": blocks} if blocks else None


def _is_refused(block: Block) -> bool:
    kind = block["type"]
    if kind == "text":
        return not _text(block, "text").strip()
    return kind == "tool_use" and not isinstance(block.get("input"), dict)


def _mend_calls(block: Block) -> Block:
    arguments = block.get("input")
    if block["type"] != "tool_use" or isinstance(arguments, dict):
        return block
    raw = raw_text(arguments)
    return {**block, "input": {} if must_mend(block.get("name"), arguments) or not raw.strip() else {INVALID_JSON: raw}}


def _blocks(content: object) -> list[Block]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise FormatError(f"content must be a string or a list of blocks, found {type_name(content)}")
    for block in content:
        if not isinstance(block, dict):
            raise FormatError(f"a content block must be an object, found {type_name(block)}")
    return content


def _user_parts(blocks: Sequence[Block]) -> list[Located[int]]:
    """The items of a user's turn, which usually begins with results."""
    located: list[Located[int]] = []
    expected = 0  # how many of the next texts came from a tool
    introduced = False  # whether the next images did
    for location, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            result = _result(block)
            expected += has_notice_behind(result.text)
            located.append((location, replace(result, person=True) if has_prompt(result.text) else result))
            continue
        if block.get("type") == "tool_removal":
            located.append((location, Part(Kind.USER, compact(block), withdraws=_names_removed(block))))
            continue
        text, extra = _known_content(block) or ("", NON_TEXT_TOKENS)
        notice = introduced if extra else is_notice(text) or (expected > 0 and not is_persons(text))
        introduced |= introduces_media(text)
        kind = Kind.NOTICE if notice else Kind.USER
        withdraws = withdrawn_in(text) if notice else ()
        located.append((location, Part(kind, text, extra_tokens=extra, withdraws=withdraws)))
        expected = max(0, expected - 1)
    return located


def _names_removed(block: Block) -> tuple[str, ...]:
    """The names of the tools that a block takes away."""
    tool = block.get("tool")
    name = tool.get("name") or tool.get("tool_name") if isinstance(tool, Mapping) else None
    return (name,) if isinstance(name, str) else ()


def _assistant_part(block: Block) -> Part | None:
    """The part that a block becomes; None if it is empty."""
    kind = block.get("type")
    if not isinstance(kind, str):
        raise FormatError(f"the type of a content block must be a string, found {kind!r}")
    if kind == "text":
        return Part(Kind.TEXT, text) if (text := _text(block, "text")) else None
    if kind in ("thinking", "redacted_thinking"):
        return _reasoning(block)
    if kind.endswith("tool_use"):
        tool, arguments = string(block, "name"), raw_text(block.get("input"))
        return Part(Kind.CALL, call_id=string(block, "id"), tool=tool, arguments=arguments)
    if kind.endswith("tool_result"):
        return _result(block)
    if kind == "compaction":
        return Part(Kind.SYSTEM, raw_text(block.get("content")))
    if kind == "mcp_tool_listing":
        return Part(Kind.SYSTEM, compact(block.get("tools")))
    if kind == "fallback":
        return Part(Kind.TEXT)
    text, extra = _known_content(block) or ("", NON_TEXT_TOKENS)
    return Part(Kind.TEXT, text, extra_tokens=extra)


def _text(block: Block, key: str) -> str:
    value = block.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(f"{key} must be a string, found {type_name(value)}")
    return value


def _reasoning(block: Block) -> Part | None:
    text, seal = _text(block, "thinking"), _seal(block)
    if text or not seal:
        return Part(Kind.REASONING, text) if text else None
    return Part(Kind.REASONING, extra_tokens=max(1, sealed_tokens(seal, SEAL)))


def _seal(block: Block) -> object:
    """The signature by which Anthropic recognises its own thinking; it refuses thinking that was changed or moved."""
    return block.get("signature") or block.get("data")


def _result(block: Block) -> Part:
    content = block.get("content")
    text, extra = _content(content, "\n")
    # Anthropic's own search has them in an object.
    inner = objects_in(content.get("tool_references") if isinstance(content, Mapping) else content)
    loads = tuple(str(each.get("tool_name")) for each in inner if each.get("type") == "tool_reference")
    call_id, failed = string(block, "tool_use_id"), bool(block.get("is_error"))
    return Part(Kind.RESULT, text, call_id, extra_tokens=extra, loads=loads, shows_nothing=failed)


def _content(content: object, separator: str = "") -> tuple[str, int]:
    """The text of a content, and an estimate for the rest of it; blocks of unknown kinds count as their JSON.

    The blocks of a result are outputs of their own, such as one for each file, so that a `separator` must keep their
    last and first words apart.
    """
    if isinstance(content, str):
        return content, 0
    # The content of an Anthropic tool's result is one block, not a list.
    texts, extra = [], 0
    for block in _blocks([content] if isinstance(content, dict) else content):
        text, tokens = _known_content(block) or (compact(block), 0)
        texts.append(text)
        extra += tokens
    return separator.join(filter(None, texts)), extra


def _known_content(block: Block) -> tuple[str, int] | None:
    """The text of a block, and an estimate for the rest of it; None for an unknown kind."""
    kind = block.get("type")
    if kind == "text":
        return _text(block, "text"), 0
    if kind == "image":
        return "", NON_TEXT_TOKENS
    if kind == "document":
        return _document(block)
    if kind == "search_result":
        text, extra = _content(block.get("content"))
        return _lines(block.get("title"), block.get("source"), text), extra
    if kind == "web_fetch_result":
        text, extra = _content(block.get("content"))
        return _lines(block.get("url"), text), extra
    if kind == "tool_reference":
        return raw_text(block.get("tool_name")), 0
    return None


def _document(block: Block) -> tuple[str, int]:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, Mapping) else None
    text, extra = "", NON_TEXT_TOKENS
    if isinstance(source, Mapping) and kind == "text":
        text, extra = raw_text(source.get("data")), 0
    elif isinstance(source, Mapping) and kind == "content":
        text, extra = _content(source.get("content"))
    return _lines(block.get("title"), block.get("context"), text), extra


def _lines(*texts: object) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _tie(block: Block, part: Part) -> Tie:
    """What ties a block to others of its message (R12)."""
    kind = block["type"]
    if part.kind is Kind.REASONING:
        if not (seal := _seal(block)) or sealed_tokens(seal, SEAL):
            return SIGNED if seal else UNTIED
        # A signature that is too short for Anthropic's is another server's, which may demand the thinking as text.
        return Tie(Seal.SIGNED, demanded=True)
    if part.kind is Kind.CALL:
        # A call made by running code and the call that ran the code need each other.
        served = kind != "tool_use"
        return Tie(bonds=tuple(filter(None, (served and part.call_id, _caller(block)))), served=served)
    if part.kind is Kind.RESULT:
        return Tie(bonds=tuple(filter(None, (part.call_id,))), served=True)
    return Tie(divides=kind == "fallback", cites=bool(block.get("citations")))


def _caller(block: Block) -> str:
    """The id of the call whose code made this call; empty if the model made it."""
    caller = block.get("caller")
    called_by = caller.get("tool_id") if isinstance(caller, Mapping) else None
    return called_by if isinstance(called_by, str) else ""


# Cache breakpoints. The provider's cache ends where a request had one. A pass changes what is behind the leading
# messages that no pass may take. So with one behind these, the next request reads them from the cache.


def blocks_of(message: Mapping[str, Any]) -> list[Block]:
    """Return a message's blocks; a plain string is one text block, and an empty one none."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def is_blank(block: Block) -> bool:
    """Whether a block is blank text, which the provider refuses in requests."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def may_carry(block: Block) -> bool:
    """Whether a block may carry a breakpoint."""
    return block.get("type") in _CARRIERS and not is_blank(block)


def breakpoint_of(block: Block) -> object:
    """Return the breakpoint on a block, or in it; None if there is none."""
    if (mark := block.get("cache_control")) is not None:
        return mark
    inside = block.get("content") if block.get("type") == "tool_result" else None
    if not isinstance(inside, list):
        return None
    for inner in inside:
        if (mark := inner.get("cache_control")) is not None:
            return mark
    return None


def has_breakpoint(message: Message) -> bool:
    """Return whether a block of a message has a breakpoint. It calls nothing for each: there are thousands."""
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("cache_control") is not None:
            return True
        if block.get("type") == "tool_result" and isinstance(inside := block.get("content"), list):
            for inner in inside:
                if inner.get("cache_control") is not None:
                    return True
    return False


def mark_blocks(messages: Sequence[Message], marks: Mapping[BlockLocation, object]) -> list[Message]:
    """Return messages with breakpoints on blocks that have none yet."""
    result = list(messages)
    for (number, position), mark in marks.items():
        content = list(blocks_of(result[number]))
        if breakpoint_of(content[position]) is None:
            content[position] = {**content[position], "cache_control": mark}
            result[number] = {**result[number], "content": content}
    return result


def last_carrier(messages: Sequence[Message]) -> BlockLocation | None:
    """Return the last block of messages that may carry a breakpoint; None if none may."""
    for number in reversed(range(len(messages))):
        for position, block in reversed(list(enumerate(blocks_of(messages[number])))):
            if may_carry(block):
                return number, position
    return None


def mark_end(messages: Sequence[Message], mark: object) -> list[Message]:
    """Return messages with a breakpoint on the last block that may carry one."""
    carrier = last_carrier(messages)
    return list(messages) if carrier is None else mark_blocks(messages, {carrier: mark})
