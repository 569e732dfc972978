"""Anthropic Messages: `/v1/messages` and `/v1/messages/count_tokens`, whose bodies are the same.

In a view, neighbours of one role are joined, and the client's cache breakpoints stay; one is added where a pass leaves
the prefix as it is. The current turn begins with
thinking, as Anthropic demands if thinking has a budget (`thinking.type: enabled`). If its beginning has left the view,
the request shows the least of it that is valid (`wane.formats.turns`). That stays visible until the user speaks, so
that nothing reappears later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias

from wane.conversation.request import Tool
from wane.formats.anthropic import (
    MOST_BREAKPOINTS,
    AnthropicFormat,
    Block,
    BlockLocation,
    are_apart,
    blocks_of,
    breakpoint_of,
    has_breakpoint,
    is_blank,
    join_messages,
    last_carrier,
    mark_blocks,
    mark_end,
    may_carry,
    seat_systems,
)
from wane.formats.message_format import WritingFormat, order_of
from wane.formats.roles import join_neighbours
from wane.formats.turns import openings
from wane.proxy import jsons
from wane.proxy.wire.anthropic.anthropic_reply import (
    THINKING,
    StreamedMessage,
    WholeMessage,
    error_body,
    is_call_of,
    plain,
)
from wane.proxy.wire.blocks import BlockReader, expand_message
from wane.proxy.wire.reply import parse_object
from wane.proxy.wire.wire import (
    AnsweredRound,
    Body,
    ClientReply,
    Correction,
    Equipped,
    Message,
    OwnCall,
    Round,
    Rounds,
    SentHistory,
    ViewMessage,
    Wire,
    has_neighbours,
)

BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
"""Beta feature with `thinking.block_binding`."""

# Tools that Anthropic runs itself. Anthropic also defines `bash_…`, `memory_…` and the like, but the client runs them.
_SERVED: Final = re.compile(r"(web_search|web_fetch|code_execution|tool_search_tool|mcp_toolset|advisor)(_|$)")
_TEXT_KEYS: Final = {"type", "text"}
_BOUND: Final = "bound to a different conversation"
# Of another provider, in the words of Anthropic and of Bedrock.
_FOREIGN: Final = re.compile(r"Invalid .?signature.? in .?thinking.? block|thinking\.signature: Field required")
_BEGINS_WITHOUT: Final = "Expected `thinking` or `redacted_thinking`"
_DROP: Final = "drop_block"
_FORMAT: Final = AnthropicFormat()


class AnthropicWire(Wire):
    """The Messages API."""

    name = provider = "anthropic"
    paths = re.compile(r"/messages(?P<counts>/count_tokens)?/*\Z")
    own_headers = frozenset({b"anthropic-version"})
    system = ("system",)
    format: WritingFormat[Message] = _FORMAT

    def is_clients(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a client speaks this protocol; requests about batches of messages are its, too."""
        return "/messages" in path or super().is_clients(path, headers)

    def why_unmanaged(self, body: Body) -> str | None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return "its messages are not a list of messages"
        if not isinstance(body.get("system") or "", str | list):
            return "its system prompt is neither text nor a list of blocks"
        if not isinstance(body.get("tools") or [], list):
            return "its tools are not a list"
        if body.get("thread"):
            # Later requests hold only their own turn (anthropic 2.14.0, beta). What Wane added to the first would stay
            # in the thread, but a client without it could not answer its calls.
            return (
                "'thread' makes the provider keep the history, so no budget is kept. Make the client send all messages"
                " with every request, without 'thread'"
            )
        return None if self.tools(body) else "it has no tools that the client runs"

    def tools(self, body: Body) -> frozenset[str]:
        """Return the names of the tools that the client runs; for a toolset, its type."""
        tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
        names = (tool.get("name") or tool.get("type") for tool in tools if not _SERVED.match(str(tool.get("type"))))
        return frozenset(name for name in names if isinstance(name, str))

    def fixed_data(self, equipped: Equipped) -> object:
        body = equipped.body
        fixed = {}
        for key, entries in (("system", blocks_of({"content": body.get("system")})), ("tools", body.get("tools"))):
            if entries:
                fixed[key] = [plain(entry) if isinstance(entry, dict) else entry for entry in entries]
        return fixed

    def canonical(self, message: Message) -> object:
        """Return a message without breakpoints, and with plain text always as a string, because clients send both."""
        content = message.get("content")
        return {**message, "content": _canonical(content)} if isinstance(content, list) else message

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Equipped:
        """Return a body with the proxy's own tools last, and the guidance as the last block of the system prompt.

        Neither carries a breakpoint: the client's come before them, and there are enough after them.
        """
        equipped = self._with_tools(body, tools)
        if guidance:
            equipped["system"] = [*blocks_of({"content": body.get("system")}), {"type": "text", "text": guidance}]
        return Equipped(equipped)

    def with_messages(self, equipped: Equipped, view: Sequence[ViewMessage], history: Sequence[Message]) -> Body:
        if isinstance(view, SentHistory):
            roles = [message.get("role") for message in history]
            if "system" not in roles and not has_neighbours(roles, "assistant"):
                return {**equipped.body, "messages": [*history]}
        order = equipped.body["messages"]
        return {**equipped.body, "messages": _place_view(view, history, order, equipped.body)}

    def add_note(self, body: Body, text: str) -> Body:
        """Return a body with a note as the last block of its last message, unless that is the assistant's.

        Results still come first, roles alternate as before, and breakpoints stay. The automatic breakpoint, which would
        fall on the note, is set explicitly where it would fall without the note. Without breakpoints, and where the
        client has no text beside results either, the note stands in the last result, because servers with strict
        templates refuse text beside it.
        """
        messages: Sequence[Message] = body["messages"]
        if messages[-1].get("role") == "assistant":
            return body
        noted = {key: value for key, value in body.items() if key != "cache_control"}
        if "cache_control" in body:
            messages = mark_end(messages, body["cache_control"])
        if order_of(messages, _FORMAT.speaker):
            last = _FORMAT.note_result(messages[-1], text)
            if last is not None:
                return {**noted, "messages": [*messages[:-1], last]}
        content = [*blocks_of(messages[-1]), {"type": "text", "text": text}]
        return {**noted, "messages": [*messages[:-1], {**messages[-1], "content": content}]}

    def expand(self, message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
        return expand_message(message, rounds, _BLOCKS)

    def visible(self, rounds: Sequence[Round]) -> Message:
        own = {call.id for round_ in rounds for call in round_.own}
        content = [block for round_ in rounds for block in blocks_of(round_.message) if not is_call_of(block, own)]
        return {"role": "assistant", "content": content}

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return one user message with a `tool_result` for each call; none if there are none."""
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in answers]
        return ({"role": "user", "content": content},) if content else ()

    def must_open_with_reasoning(self, body: Body) -> bool:
        """Whether thinking has a budget."""
        return _thinks_on_budget(body)

    def correction_ahead(self, body: Body, sent: Body) -> Correction | None:
        """Return the correction that disables thinking in a turn whose opening thinking was evicted."""
        # A client's own request without opening thinking is not corrected.
        if not _thinks_on_budget(body) or not readings_without(body["messages"]) - readings_without(sent["messages"]):
            return None
        return partial(_disabled_if_missing, turn=_turn_of(sent["messages"]))

    def correction(self, status: int, error: bytes, body: Body, sent: Body) -> Correction | None:
        """Return the correction of a request that was refused for its thinking.

        - Some models bind thinking to the exact conversation before it. They can be asked to drop invalid thinking,
          which takes a header (`headers`); otherwise the refused thinking is left out from then on. So is thinking that
          another provider has signed.
        - If thinking has a budget (`enabled`), the turn must begin with it. If it does not, the turn continues without
          thinking.
        """
        detail = (parse_object(error) or {}).get("error") if status == 400 else None
        message = str(detail.get("message")) if isinstance(detail, dict) else ""
        thinking = body.get("thinking") or {}
        kind = thinking.get("type", "adaptive")
        if _BEGINS_WITHOUT in message and kind == "enabled":
            return partial(_disabled_if_missing, turn=_turn_of(sent["messages"]))
        if not (_BOUND in message or _FOREIGN.search(message)) or not any(map(_thinks, body["messages"])):
            return None
        drops = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") == _DROP
        if _BOUND in message and kind == "adaptive" and not drops:
            return _dropping
        return partial(_omitting, frozenset(_seals(body["messages"])))

    def headers(self, body: Body) -> dict[str, str]:
        thinking = body.get("thinking")
        return {"anthropic-beta": BINDING_BETA} if isinstance(thinking, dict) and "block_binding" in thinking else {}

    def reply(self, body: Body, own: frozenset[str], *, sums: bool = True) -> ClientReply:
        rounds = Rounds(own, ("id", "model"), sums=sums)
        return StreamedMessage(rounds) if body.get("stream") is True else WholeMessage(rounds)

    def error(self, status: int, message: str) -> bytes:
        return error_body(status, message)


class _Blocks(BlockReader):
    """Blocks, as hidden rounds are put back into messages."""

    def blocks(self, message: Message) -> list[Block]:
        return blocks_of(message)

    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        return message if blocks == message.get("content") else {**message, "content": blocks}

    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        results = (result for round_ in rounds for result in round_.results)
        return frozenset(str(block.get("tool_use_id")) for result in results for block in blocks_of(result))

    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        return is_call_of(block, own)

    def is_call(self, block: Block) -> bool:
        return block.get("type") == "tool_use"

    def is_reasoning(self, block: Block) -> bool:
        return block.get("type") in THINKING

    def text(self, block: Block) -> str:
        return str(block["text"]).strip() if block.get("type") == "text" and not is_blank(block) else ""

    def keys(self, block: Block) -> Sequence[object]:
        kind = str(block.get("type"))
        if kind == "text":
            return ()
        if kind in THINKING:
            return [("thinking", str(block.get("signature") or block.get("data") or block.get("thinking")))]
        if kind.endswith("tool_use"):
            return [("call", str(block.get("id")))]
        if kind.endswith("tool_result"):
            return [("result", str(block.get("tool_use_id")))]
        return [jsons.dumps(plain(block))]

    def restore_block(self, block: Block, original: Block) -> Block:
        # The provider accepts only unchanged thinking, so the original is sent and not the client's copy.
        return original if self.is_reasoning(block) else block


_BLOCKS: Final = _Blocks()


def _canonical(content: list[Any]) -> object:
    """The content of a message or a result, without breakpoints; a single text as a string."""
    blocks = [
        _canonical_block(block)
        if isinstance(block, dict) and ("cache_control" in block or isinstance(block.get("content"), list))
        else block
        for block in content
    ]
    first = blocks[0] if len(blocks) == 1 else None
    if isinstance(first, dict) and first.keys() == _TEXT_KEYS and first["type"] == "text":
        return first["text"]
    return blocks


def _canonical_block(block: Block) -> Block:
    block, content = plain(block), block.get("content")
    return {**block, "content": _canonical(content)} if isinstance(content, list) else block


_Placed: TypeAlias = tuple[ViewMessage, Message]


class _PlacedMessages:
    """How messages with their place in the history become one message (R12b)."""

    def speaker(self, pair: _Placed) -> str | None:
        return _FORMAT.speaker(pair[1])

    def merge(self, first: _Placed, second: _Placed) -> _Placed | None:
        message = _FORMAT.merge(first[1], second[1])
        if message is None:
            return None
        return first[0]._replace(message=message, sent=False), message

    def is_index(self, pair: _Placed) -> bool:
        return _FORMAT.is_index(pair[1])

    def divide(self, pair: _Placed) -> tuple[_Placed, _Placed | None] | None:
        # The client has an answer of thinking alone there, so its server takes one.
        divided = _FORMAT.divide(pair[1], thoughts=True)
        if divided is None:
            return None
        calls, words = divided
        if words is None:
            return pair, None
        if words is pair[1]:
            return pair, pair
        changed = pair[0]._replace(sent=False)
        return (changed, calls), (changed, words)


_PLACED: Final = _PlacedMessages()


def _place_view(
    view: Sequence[ViewMessage], history: Sequence[Message], order: Sequence[Message], body: Body
) -> list[Message]:
    """Return the messages of a view as they go into a request.

    Args:
        view: the view.
        history: the messages that it is of; empty for those of a request that was made before.
        order: the client's messages, whose order of roles it keeps.
        body: the request, for the breakpoints ahead of its messages.
    """
    joined: list[Message] = []
    before: ViewMessage | None = None
    view = seat_systems(view, attrgetter("message"))
    messages = _rescue_breakpoints(view, history)
    head = next((number for number, message in enumerate(view) if message.ends_head), None)
    if head is not None:
        # A pass changes the prefix behind its head, so that the provider reads from its cache what is ahead of this
        # breakpoint, which would otherwise be the system prompt alone. It lives as long as the client's next one: a
        # breakpoint that lives longer may not follow one that lives shorter. Without a next one nothing is cached.
        marks = [
            (number, mark)
            for number, message in enumerate(messages)
            if has_breakpoint(message)
            for block in blocks_of(message)
            if (mark := breakpoint_of(block)) is not None
        ]
        ahead = [*blocks_of({"content": body.get("system")}), *(body.get("tools") or ()), body]
        used = len(marks) + sum(isinstance(carrier, dict) and bool(carrier.get("cache_control")) for carrier in ahead)
        following = next((mark for number, mark in marks if number > head), body.get("cache_control"))
        carrier = last_carrier(messages[: head + 1])
        is_marked = any(number == head for number, _ in marks)
        if carrier is not None and following is not None and not is_marked and used < MOST_BREAKPOINTS:
            messages = mark_blocks(messages, {carrier: following})
    placed = list(zip(view, messages, strict=True))
    order_kept = order_of(order, _FORMAT.speaker)
    placed = join_neighbours(placed, _PLACED, order_kept)
    doubled = {first.get("role") for first, second in pairwise(order) if first.get("role") == second.get("role")}
    for shown, message in placed:
        role = message.get("role")
        # Neighbours of one role that the client sent itself stay as they are.
        joins = bool(joined) and joined[-1].get("role") == role and not shown.was_sent_behind(before)
        before = shown
        if joins and are_apart(joined[-1], message):
            # Behind results the user's words are a message of their own if the client keeps an order, or has it so.
            joins = not order_kept and role not in doubled
        elif joins and role == "assistant":
            joins = role not in doubled
        if joins:
            joined[-1] = join_messages(joined[-1], message)
        else:
            joined.append(message)
    return joined


def _rescue_breakpoints(view: Sequence[ViewMessage], history: Sequence[Message]) -> Sequence[Message]:
    """Return the messages of a view, with the breakpoints of what left it on the nearest block before that may carry.

    Their number does not grow, and their order stays, which matters if their lifetimes differ.
    """
    messages = [shown.message for shown in view]
    marked = [number for number, message in enumerate(history) if has_breakpoint(message)]
    if not marked or {shown.number for shown in view if shown.positions is None}.issuperset(marked):
        return messages
    locations = {
        (shown.number, block): (place, position)
        for place, shown in enumerate(view)
        if shown.number is not None
        for position, block in enumerate(_blocks_of(shown, history[shown.number]))
    }
    marks: dict[BlockLocation, object] = {}
    carrier: BlockLocation | None = None
    for number, message in enumerate(history):
        # A message of plain text counts as its block.
        for position, block in enumerate(blocks_of(message)):
            location = locations.get((number, position))
            if location is not None:
                carrier = location if may_carry(block) else carrier
            elif carrier is not None and (mark := breakpoint_of(block)) is not None:
                marks.setdefault(carrier, mark)
    return mark_blocks(messages, marks) if marks else messages


def _blocks_of(shown: ViewMessage, message: Message) -> Iterable[int]:
    """The blocks of a message of the history that a view shows, in order."""
    if shown.positions is None:
        return range(len(blocks_of(message)))
    located = _FORMAT.locate_parts(message)
    return dict.fromkeys(located[position][0] for position in shown.positions)


def readings_without(messages: Sequence[Message]) -> set[bool]:
    """Return the readings by which the current turn does not begin with thinking; usually none.

    Returns:
        True for the reading that text after results starts a turn, False for the other.
    """
    backwards = ((number, _FORMAT.parts(message)) for number, message in reversed(list(enumerate(messages))))
    beginnings = openings(backwards, lambda number: messages[number].get("role") == "assistant")
    return {opening.after_results for opening in beginnings if not opening.reasons}


def _thinks_on_budget(body: Body) -> bool:
    """Whether a request asks for thinking with a budget, so that the turn must begin with it."""
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _turn_of(messages: Sequence[Message]) -> object:
    """Return what identifies a client's current turn: the user's last message; None if there is none."""
    for message in reversed(messages):
        kinds = {block.get("type") == "tool_result" for block in blocks_of(message)}
        if message.get("role") == "user" and kinds == {False}:
            return [plain(block) for block in blocks_of(message)]
    return None


def _disabled_if_missing(body: Body, sent: Body, *, turn: object = None) -> Body:
    """Return a body with thinking disabled if its turn does not begin with thinking; else the same body.

    Args:
        body: the body.
        sent: the client's body.
        turn: a turn known not to begin with thinking, as `_turn_of` identifies it.
    """
    is_known_turn = turn is not None and _turn_of(sent["messages"]) == turn
    if not _thinks_on_budget(body) or not (is_known_turn or readings_without(body["messages"])):
        return body
    return _without({**body, "thinking": {"type": "disabled"}}, sent, lambda _: True)


def _dropping(body: Body, sent: Body) -> Body:  # noqa: ARG001 - the signature of corrections
    """Ask the provider to drop thinking that is bound to another conversation."""
    thinking = {"type": "adaptive", **(body.get("thinking") or {})}
    if thinking["type"] != "adaptive" or not any(map(_thinks, body["messages"])):
        return body
    # A client's own setting (`error`) is meant for its own changes, not for evictions.
    binding = {**(thinking.get("block_binding") or {}), "prefix_mismatch_behavior": _DROP}
    return {**body, "thinking": {**thinking, "block_binding": binding}}


def _omitting(seals: frozenset[int], body: Body, sent: Body) -> Body:
    """Leave out refused thinking; later thinking is valid."""
    if seals.isdisjoint(_seals(body["messages"])):
        return body
    return _disabled_if_missing(_without(body, sent, lambda block: _seal(block) in seals), sent)


def _thinks(message: Message) -> bool:
    return any(block.get("type") in THINKING for block in blocks_of(message))


def _seals(messages: Sequence[Message]) -> Iterator[int]:
    return (_seal(block) for message in messages for block in blocks_of(message) if block.get("type") in THINKING)


def _seal(block: Block) -> int:
    """A hash that identifies a block of thinking."""
    return hash((block.get("signature"), block.get("data"), block.get("thinking")))


def _without(body: Body, sent: Body, gone: Callable[[Block], bool]) -> Body:
    """Return a body without some of its thinking, and without messages that have no other content.

    Args:
        body: a body.
        sent: the client's, whose order of roles it keeps.
        gone: tells the thinking to leave out.
    """
    remaining: list[Message] = []
    for message in body["messages"]:
        content = [b for b in blocks_of(message) if b.get("type") not in THINKING or not gone(b)]
        if len(content) == len(blocks_of(message)):
            remaining.append(message)
        elif message.get("role") != "assistant" or any(b.get("type") not in THINKING for b in content):
            remaining.append({**message, "content": content})
    placed = _place_view([ViewMessage(message) for message in remaining], [], sent["messages"], body)
    return {**body, "messages": placed}
