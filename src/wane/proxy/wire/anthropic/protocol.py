"""Anthropic Messages: `/v1/messages` and `/v1/messages/count_tokens`, whose bodies are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from wane.conversation.request import Tool
from wane.formats.anthropic import AnthropicFormat
from wane.formats.writing import WritingFormat
from wane.proxy import jsons
from wane.proxy.wire.anthropic.messages import (
    THINKING,
    Block,
    blocks_of,
    disabled_if_missing,
    is_blank,
    noted,
    placed,
    plain,
    readings_without,
    required,
    thinks_on_budget,
    turn_of,
    without,
)
from wane.proxy.wire.anthropic.reply import StreamedMessage, WholeMessage, error_body
from wane.proxy.wire.base import (
    Body,
    Correction,
    Message,
    OwnCall,
    Reply,
    Round,
    Rounds,
    Tally,
    Wire,
    WovenRound,
    summed,
)
from wane.proxy.wire.reply import parsed

BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
"""Beta feature with `thinking.block_binding`."""

# Tools that Anthropic runs itself. Anthropic also defines `bash_…`, `memory_…` and the like, but the client runs them.
_SERVED: Final = re.compile(r"(web_search|web_fetch|code_execution|tool_search_tool|mcp_toolset|advisor)(_|$)")
_TEXT_KEYS: Final = {"type", "text"}
_BOUND: Final = "bound to a different conversation"
_BEGINS_WITHOUT: Final = "Expected `thinking` or `redacted_thinking`"
_DROP: Final = "drop_block"

_Place: TypeAlias = tuple[int, int]
"""A round, and a block of it."""

_Placed: TypeAlias = tuple[_Place, Block]

_START: Final = -1


class AnthropicWire(Wire):
    """The Messages API."""

    name = "anthropic"
    format: WritingFormat[Message] = AnthropicFormat()

    def unmanaged(self, body: Body) -> str | None:
        """Return why a request cannot or need not be managed; None if it can be."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return "its messages are not a list of messages"
        if not isinstance(body.get("system") or "", str | list):
            return "its system prompt is neither text nor a list of blocks"
        if not isinstance(body.get("tools") or [], list):
            return "its tools are not a list"
        return None if self.tools(body) else "it has no tools that the client runs"

    def tools(self, body: Body) -> frozenset[str]:
        """Return the names of the tools that the client runs; for a toolset, its type."""
        tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
        names = (tool.get("name") or tool.get("type") for tool in tools if not _SERVED.match(str(tool.get("type"))))
        return frozenset(name for name in names if isinstance(name, str))

    def fixed(self, body: Body) -> object:
        """Return the system prompt and the tools, without breakpoints."""
        fixed = {"system": blocks_of({"content": body.get("system")}), "tools": body.get("tools") or ()}
        return {
            key: [plain(each) if isinstance(each, dict) else each for each in entries]
            for key, entries in fixed.items()
            if entries
        }

    def canonical(self, message: Message) -> object:
        """Return a message without breakpoints, and with plain text always as a string, because clients send both."""
        content = message.get("content")
        return {**message, "content": _canonical(content)} if isinstance(content, list) else message

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Body:
        """Return a body with the proxy's own tools last, and the guidance as the last block of the system prompt.

        Neither carries a breakpoint: the client's come before them, and there are enough after them.
        """
        equipped = self._with_tools(body, tools)
        if guidance:
            equipped["system"] = [*blocks_of({"content": body.get("system")}), {"type": "text", "text": guidance}]
        return equipped

    def place(self, body: Body, messages: Sequence[Message]) -> Body:
        """Return a body with these messages in place of its own; see `Wire.place`."""
        return {**body, "messages": placed(messages, body["messages"])}

    def noted(self, body: Body, text: str) -> Body:
        """Return a body with a note as the last block of its last message; see `Wire.noted`."""
        return noted(body, text)

    def weave(self, message: Message, rounds: Sequence[WovenRound]) -> list[Message]:
        """Return the messages that a client's message stands for; see `Wire.weave`.

        The round of each of a client's blocks is recognised: thinking by its signature, calls by their ids, text by its
        words. Blocks are matched in order, so that each belongs to the round of the block before it or to a later one;
        an unknown block goes with the block before it.

        Thinking is kept in full or not at all. A client that leaves out all of it may have turned thinking off, and
        Anthropic then refuses any in the current turn. With thinking on, the turn must begin with it, and none may be
        missing in between. So the thinking of a round of which nothing else is left stays only if the client has kept
        other thinking.
        """
        own = {
            str(block.get("tool_use_id")) for woven in rounds for result in woven.results for block in blocks_of(result)
        }
        given = blocks_of(message)
        thinks = any(block.get("type") in THINKING for block in given)
        shown = [
            ((number, place), block)
            for number, woven in enumerate(rounds)
            for place, block in enumerate(blocks_of(woven.message))
            if not _calls(block, own)
        ]
        theirs: list[list[tuple[int, Block]]] = [[] for _ in rounds]
        for (number, place), block in _Aligner(shown, len(rounds) - 1).placed(given):
            theirs[number].append((place, block))
        woven = (_woven(one, kept, own, thinks=thinks) for one, kept in zip(rounds, theirs, strict=True))
        return [each for messages in woven for each in messages]

    def visible(self, rounds: Sequence[Round]) -> Message:
        """Return the client's assistant message for a reply of these rounds."""
        own = {call.id for round_ in rounds for call in round_.own}
        content = [block for round_ in rounds for block in blocks_of(round_.message) if not _calls(block, own)]
        return {"role": "assistant", "content": content}

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        """Return one user message with a `tool_result` for each call; none if there are none."""
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in answers]
        return ({"role": "user", "content": content},) if content else ()

    def required(
        self, body: Body, history: Sequence[Message], shown: Sequence[tuple[int, Message]]
    ) -> Mapping[int, Sequence[int]]:
        """Return the thinking that began the current turn, if the turn must begin with thinking."""
        return required(history, shown) if thinks_on_budget(body) else {}

    def correction_ahead(self, body: Body, sent: Body) -> Correction | None:
        """Return the correction that disables thinking in a turn whose opening thinking was evicted."""
        # A client's own request without opening thinking is not corrected.
        if not thinks_on_budget(body) or not readings_without(body["messages"]) - readings_without(sent["messages"]):
            return None
        return partial(disabled_if_missing, turn=turn_of(sent["messages"]))

    def correction(self, status: int, error: bytes, body: Body, sent: Body) -> Correction | None:
        """Return the correction of a request that was refused for its thinking.

        - Some models bind thinking to the exact conversation before it. They can be asked to drop invalid thinking,
          which takes a header (`headers`); otherwise the refused thinking is left out from then on.
        - If thinking has a budget (`enabled`), the turn must begin with it. If it does not, the turn continues without
          thinking.
        """
        said = (parsed(error) or {}).get("error") if status == 400 else None
        message = str(said.get("message")) if isinstance(said, dict) else ""
        thinking = body.get("thinking") or {}
        kind = thinking.get("type", "adaptive")
        if _BEGINS_WITHOUT in message and kind == "enabled":
            return partial(disabled_if_missing, turn=turn_of(sent["messages"]))
        if _BOUND not in message or not any(map(_thinks, body["messages"])):
            return None
        drops = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") == _DROP
        if kind == "adaptive" and not drops:
            return _dropping
        return partial(_omitting, frozenset(_seals(body["messages"])))

    def headers(self, body: Body) -> dict[str, str]:
        """Return headers that a body needs, to be appended to the client's values."""
        thinking = body.get("thinking")
        return {"anthropic-beta": BINDING_BETA} if isinstance(thinking, dict) and "block_binding" in thinking else {}

    def reply(self, body: Body, own: frozenset[str], tally: Tally = summed) -> Reply:
        """Return the object that makes the client's reply, streamed or whole."""
        rounds = Rounds(own, tally, head=("id", "model"))
        return StreamedMessage(rounds) if body.get("stream") is True else WholeMessage(rounds)

    def error(self, status: int, message: str) -> bytes:
        """Return an error body in Anthropic's format."""
        return error_body(status, message)


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


def _thinks(message: Message) -> bool:
    return any(block.get("type") in THINKING for block in blocks_of(message))


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
    return disabled_if_missing(without(body, lambda block: _seal(block) in seals), sent)


def _seals(messages: Sequence[Message]) -> Iterator[int]:
    return (_seal(block) for message in messages for block in blocks_of(message) if block.get("type") in THINKING)


def _seal(block: Block) -> int:
    """A hash that identifies a block of thinking."""
    return hash((block.get("signature"), block.get("data"), block.get("thinking")))


def _calls(block: Block, own: set[str]) -> bool:
    return block.get("type") == "tool_use" and block.get("id") in own


def _woven(woven: WovenRound, theirs: list[tuple[int, Block]], own: set[str], *, thinks: bool) -> Iterator[Message]:
    """Yield a round with the client's blocks in it; nothing if it is empty."""
    made = list(enumerate(blocks_of(woven.message)))
    ours = [(place, block) for place, block in made if _calls(block, own)]
    if ours and thinks and not theirs:
        theirs = [(place, block) for place, block in made if block.get("type") in THINKING]
    content = [block for _, block in sorted([*ours, *theirs], key=lambda pair: pair[0])]
    while content and content[-1].get("type") in THINKING:
        # No message may end with thinking; the client left out what followed it.
        content.pop()
    if content:
        yield woven.message if content == woven.message.get("content") else {**woven.message, "content": content}
    yield from woven.results


class _Aligner:
    """Finds the place of each of a client's blocks among those that it has seen.

    Args:
        shown: the blocks that it has seen, in order, with their places.
        last: number of the last round, which has all of the client's calls.
    """

    def __init__(self, shown: Sequence[_Placed], last: int) -> None:
        self._shown = shown
        self._texts = [_text(block) for _, block in shown]
        self._known = {key: number for number, (_, block) in enumerate(shown) if (key := _key(block)) is not None}
        self._last = last
        self._next = 0  # the first block of `shown` that was not matched or skipped

    def placed(self, given: Sequence[Block]) -> Iterator[_Placed]:
        """Yield the blocks with their places, in ascending order."""
        known = [self._known.get(key) if (key := _key(block)) is not None else None for block in given]
        here: _Place = (0, _START)
        for block, anchor, ahead in zip(given, known, _following(known), strict=True):
            found = anchor
            if anchor is not None:
                self._next = max(self._next, anchor + 1)
            elif text := _text(block):
                found = self._find(text, ahead if ahead is not None and ahead >= self._next else len(self._shown))
            if found is not None:
                here = max(here, self._shown[found][0])
            if block.get("type") == "tool_use":
                here = max(here, (self._last, _START))
            # The provider accepts only unchanged thinking, so the original is sent and not the client's copy.
            original = found is not None and block.get("type") in THINKING
            yield here, self._shown[found][1] if found is not None and original else block

    def _find(self, text: str, stop: int) -> int | None:
        """Find the original that equals a client's text, or begins it, or begins with it; skip what the text holds."""
        texts = self._texts
        ahead = [number for number in range(self._next, stop) if texts[number]]
        same = next((number for number in ahead if texts[number] == text), None)
        if same is not None:
            self._next = same + 1
            return same
        begun = next((number for number in ahead if text.startswith(texts[number])), None)
        if begun is not None:
            self._pass(text, [number for number in ahead if number >= begun])
            return begun
        cut = next((number for number in ahead if texts[number].startswith(text)), None)
        self._next = self._next if cut is None else cut + 1
        return cut

    def _pass(self, text: str, ahead: Sequence[int]) -> None:
        """Skip the originals that a client joined into one text."""
        for number in ahead:
            if not text.startswith(self._texts[number]):
                return
            text = text[len(self._texts[number]) :].lstrip()
            self._next = number + 1


def _following(known: Sequence[int | None]) -> list[int | None]:
    """Return for each block the next known one after it."""
    following: list[int | None] = []
    latest: int | None = None
    for one in reversed(known):
        following.append(latest)
        latest = latest if one is None else one
    return following[::-1]


def _text(block: Block) -> str:
    """The text of a block, stripped because clients strip it; empty for other blocks."""
    return str(block["text"]).strip() if block.get("type") == "text" and not is_blank(block) else ""


def _key(block: Block) -> object:
    """A key by which a block is recognised anywhere; None for text."""
    kind = str(block.get("type"))
    if kind == "text":
        return None
    if kind in THINKING:
        return "thinking", str(block.get("signature") or block.get("data") or block.get("thinking"))
    if kind.endswith("tool_use"):
        return "call", str(block.get("id"))
    if kind.endswith("tool_result"):
        return "result", str(block.get("tool_use_id"))
    return jsons.dumps(plain(block))
