"""Hidden rounds put back into messages of blocks: each block of a client goes into the round that it came from.

Shared by the protocols whose messages are lists of blocks (Anthropic) or parts (Gemini).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from wane.proxy.wire.base import AnsweredRound, Message

Block: TypeAlias = dict[str, Any]
"""A piece of a message's content."""

_BlockLocation: TypeAlias = tuple[int, int]
"""A round, and a block of it."""

_LocatedBlock: TypeAlias = tuple[_BlockLocation, Block]

_START: Final = -1


class BlockReader(ABC):
    """What a protocol's blocks are.

    Attributes:
        ends_in_reasoning: whether the provider takes a message whose last block is reasoning.
    """

    ends_in_reasoning = False

    @abstractmethod
    def blocks(self, message: Message) -> list[Block]:
        """Return the blocks of a message."""

    @abstractmethod
    def with_blocks(self, message: Message, blocks: list[Block]) -> Message:
        """Return a message with other blocks; the same one if they are its own."""

    @abstractmethod
    def own(self, rounds: Sequence[AnsweredRound]) -> frozenset[str]:
        """Return what tells own calls among the blocks of these rounds, by their results."""

    @abstractmethod
    def is_own(self, block: Block, own: frozenset[str]) -> bool:
        """Whether a block is an own call."""

    @abstractmethod
    def is_call(self, block: Block) -> bool:
        """Whether a block is a call that the client answers."""

    @abstractmethod
    def is_reasoning(self, block: Block) -> bool:
        """Whether a block is reasoning."""

    @abstractmethod
    def text(self, block: Block) -> str:
        """Return the text of a block, stripped because clients strip it; empty for other blocks."""

    @abstractmethod
    def key(self, block: Block) -> object:
        """Return a key by which a block is recognised anywhere; None for text."""

    @abstractmethod
    def restored(self, block: Block, original: Block) -> Block:
        """Return a client's block with what the provider recognises in the original, such as its signature."""


def expanded(message: Message, rounds: Sequence[AnsweredRound], reader: BlockReader) -> list[Message]:
    """Return the messages that a client's message stands for, as `Wire.expand` does.

    The round of each of a client's blocks is recognised: reasoning by its signature, calls by their ids, text by its
    words. Blocks are matched in order, so that each belongs to the round of the block before it or to a later one;
    an unknown block goes with the block before it.

    Reasoning is kept in full or not at all. A client that leaves out all of it may have turned it off, and Anthropic
    then refuses any in the current turn. With thinking on, the turn must begin with it, and none may be missing in
    between. So the reasoning of a round of which nothing else is left stays only if the client has kept other
    reasoning.
    """
    own = reader.own(rounds)
    sent = reader.blocks(message)
    thinks = any(map(reader.is_reasoning, sent))
    visible = [
        ((number, position), block)
        for number, round_ in enumerate(rounds)
        for position, block in enumerate(reader.blocks(round_.message))
        if not reader.is_own(block, own)
    ]
    by_round: list[list[tuple[int, Block]]] = [[] for _ in rounds]
    for (number, position), block in _Aligner(visible, len(rounds) - 1, reader).placed(sent):
        by_round[number].append((position, block))
    history = (
        _expanded(round_, client_blocks, own, reader, thinks=thinks)
        for round_, client_blocks in zip(rounds, by_round, strict=True)
    )
    return [message for messages in history for message in messages]


def _expanded(
    round_: AnsweredRound,
    client_blocks: list[tuple[int, Block]],
    own: frozenset[str],
    reader: BlockReader,
    *,
    thinks: bool,
) -> Iterator[Message]:
    """Yield a round with the client's blocks in it; nothing if it is empty."""
    recorded = list(enumerate(reader.blocks(round_.message)))
    ours = [(position, block) for position, block in recorded if reader.is_own(block, own)]
    if ours and thinks and not client_blocks:
        client_blocks = [(position, block) for position, block in recorded if reader.is_reasoning(block)]
    content = [block for _, block in sorted([*ours, *client_blocks], key=lambda pair: pair[0])]
    while content and reader.is_reasoning(content[-1]) and not reader.ends_in_reasoning:
        # The client left out what followed it.
        content.pop()
    if content:
        yield reader.with_blocks(round_.message, content)
    yield from round_.results


class _Aligner:
    """Finds the place of each of a client's blocks among those that it has seen.

    Args:
        visible: the blocks that it has seen, in order, with their places.
        last: number of the last round, which has all of the client's calls.
        reader: reads the blocks.
    """

    def __init__(self, visible: Sequence[_LocatedBlock], last: int, reader: BlockReader) -> None:
        self._visible, self._reader = visible, reader
        self._texts = [reader.text(block) for _, block in visible]
        self._by_key: dict[object, list[int]] = {}  # in order, for blocks that are equal
        for number, (_, block) in enumerate(visible):
            if (key := reader.key(block)) is not None:
                self._by_key.setdefault(key, []).append(number)
        self._last = last
        self._next = 0  # the first block of `visible` that was not matched or skipped

    def placed(self, sent: Sequence[Block]) -> Iterator[_LocatedBlock]:
        """Yield the blocks with their places, in ascending order."""
        reader = self._reader
        anchors = [self._anchor(block) for block in sent]
        location: _BlockLocation = (0, _START)
        for block, anchor, ahead in zip(sent, anchors, _following(anchors), strict=True):
            matches = [] if anchor is None else [anchor]
            if anchor is not None:
                self._next = max(self._next, anchor + 1)
            elif text := reader.text(block):
                matches = self._find(text, ahead if ahead is not None and ahead >= self._next else len(self._visible))
            rest = block
            for match in matches[:-1]:
                location = max(location, self._visible[match][0])
                yield location, self._visible[match][1]
                rest = {**rest, "text": rest["text"].lstrip()[len(self._texts[match]) :].lstrip()}
            if matches:
                location = max(location, self._visible[matches[-1]][0])
                rest = reader.restored(rest, self._visible[matches[-1]][1])
            if reader.is_call(block):
                location = max(location, (self._last, _START))
            yield location, rest

    def _anchor(self, block: Block) -> int | None:
        """Find the original with a block's key; of several, each in its turn."""
        key = self._reader.key(block)
        numbers = [] if key is None else self._by_key.get(key, [])
        if not numbers:
            return None
        return numbers.pop(0) if len(numbers) > 1 else numbers[0]

    def _find(self, text: str, stop: int) -> list[int]:
        """Find the originals of a client's text: the one that equals it or begins with it, or those that it joins."""
        texts = self._texts
        ahead = [number for number in range(self._next, stop) if texts[number]]
        same = next((number for number in ahead if texts[number] == text), None)
        begun = next((number for number in ahead if text.startswith(texts[number])), None)
        if same is not None:
            matches = [same]
        elif begun is not None:
            matches = self._joined(text, [number for number in ahead if number >= begun])
        else:
            matches = [number for number in ahead if texts[number].startswith(text)][:1]
        if matches:
            self._next = matches[-1] + 1
        return matches

    def _joined(self, text: str, ahead: Sequence[int]) -> list[int]:
        """Return the originals that a client has joined into one text."""
        matches: list[int] = []
        for number in ahead:
            if not text.startswith(self._texts[number]):
                break
            text = text[len(self._texts[number]) :].lstrip()
            matches.append(number)
        return matches


def _following(anchors: Sequence[int | None]) -> list[int | None]:
    """Return for each block the next known one after it."""
    following: list[int | None] = []
    latest: int | None = None
    for anchor in reversed(anchors):
        following.append(latest)
        latest = latest if anchor is None else anchor
    return following[::-1]
