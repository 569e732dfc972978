"""Hidden rounds put back into what a client sends: each piece of its message goes into the round that it came from.

All protocols share it. A piece is a block of a message (Anthropic), a part (Gemini), an item (Responses), or a part of
one of the texts that Chat Completions keeps apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from wane.proxy.wire.wire import AnsweredRound, Message

Block: TypeAlias = dict[str, Any]
"""A piece of a message's content."""

_BlockLocation: TypeAlias = tuple[int, int]
"""A round, and a block of it."""

_LocatedBlock: TypeAlias = tuple[_BlockLocation, Block]

_START: Final = -1


class PieceReader(ABC):
    """What the pieces of a message are recognised by."""

    @abstractmethod
    def text(self, block: Block) -> str:
        """Return the text of a block, stripped because clients strip it; empty for other blocks."""

    @abstractmethod
    def keys(self, block: Block) -> Sequence[object]:
        """Return keys by which a block is recognised anywhere, the surest first; none for text without an id."""

    def restore_block(self, block: Block, original: Block) -> Block:  # noqa: ARG002 - most blocks are the client's
        """Return a client's block with what the provider recognises in the original, such as its signature."""
        return block

    def is_call(self, block: Block) -> bool:  # noqa: ARG002 - some pieces are none
        """Whether a block is a call that the client answers."""
        return False


class BlockReader(PieceReader):
    """What a protocol's blocks are.

    Attributes:
        ends_in_reasoning: whether the provider takes a message whose last block is reasoning.
        keeps_unseen: whether a round stays as it was if the client sent nothing of it back. Otherwise only its own
            calls stay, as Anthropic and Gemini accept blocks of any kind alone.
    """

    ends_in_reasoning = False
    keeps_unseen = False

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
    def is_reasoning(self, block: Block) -> bool:
        """Whether a block is reasoning."""


def expand_message(message: Message, rounds: Sequence[AnsweredRound], reader: BlockReader) -> list[Message]:
    """Return the messages that a client's message stands for, as `Wire.expand` does.

    Reasoning is kept in full or not at all. A client that leaves out all of it may have turned it off, and Anthropic
    then refuses any in the current turn. With thinking on, the turn must begin with it, and none may be missing in
    between. So if nothing else is left of a round, its reasoning stays only if the client has kept other
    reasoning.
    """
    if not rounds:
        return [message]
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
    for (number, position), block in place_blocks(sent, visible, len(rounds) - 1, reader):
        by_round[number].append((position, block))
    history: list[Message] = []
    for round_, client_blocks in zip(rounds, by_round, strict=True):
        history += _expand_round(round_, client_blocks, own, reader, thinks=thinks)
    return history


def _expand_round(
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
    if not client_blocks and reader.keeps_unseen:
        ours = recorded
    elif ours and thinks and not client_blocks:
        client_blocks = [(position, block) for position, block in recorded if reader.is_reasoning(block)]
    content = [block for _, block in sorted([*ours, *client_blocks], key=lambda pair: pair[0])]
    # Where neither the provider nor the model itself has it at the end, the client left out what followed it.
    ends_so = reader.ends_in_reasoning or (bool(recorded) and reader.is_reasoning(recorded[-1][1]))
    while content and reader.is_reasoning(content[-1]) and not ends_so:
        content.pop()
    if content:
        yield reader.with_blocks(round_.message, content)
        yield from round_.results


def place_blocks(
    sent: Sequence[Block], visible: Sequence[_LocatedBlock], last: int, reader: PieceReader
) -> Iterator[_LocatedBlock]:
    """Yield a client's blocks with their places among those that it has seen, in ascending order.

    The round of each block is recognised: reasoning by its signature, calls by their ids, text by its words. Blocks are
    matched in order, so that each belongs to the round of the block before it or to a later one. Texts that are not
    known take the places of the last ones that the client has left out between the same two known blocks; any other
    unknown block goes with the block before it.

    Args:
        sent: the client's blocks.
        visible: the blocks that it has seen, in order, with their places.
        last: number of the last round, which has all of the client's calls.
        reader: reads the blocks.
    """
    texts = [reader.text(block) for _, block in visible]
    location: _BlockLocation = (0, _START)
    for block, matches, known in _Aligner(visible, texts, reader).match_blocks(sent):
        rest = block
        for match in matches[:-1]:
            location = max(location, visible[match][0])
            yield location, visible[match][1]
            rest = {**rest, "text": rest["text"].lstrip()[len(texts[match]) :].lstrip()}
        if matches:
            location = max(location, visible[matches[-1]][0])
            rest = reader.restore_block(rest, visible[matches[-1]][1]) if known else rest
        if reader.is_call(block):
            location = max(location, (last, _START))
        yield location, rest


_Match: TypeAlias = tuple[Block, list[int], bool]
"""A client's block, the blocks that it has seen which it stands for, and whether it is known to be them."""


class _Aligner:
    """Finds each of a client's blocks among those that it has seen.

    Args:
        visible: the blocks that it has seen, in order, with their places.
        texts: their texts.
        reader: reads the blocks.
    """

    def __init__(self, visible: Sequence[_LocatedBlock], texts: Sequence[str], reader: PieceReader) -> None:
        self._reader, self._texts = reader, texts
        self._by_key: dict[object, list[int]] = {}  # in order, for blocks that are equal
        for number, (_, block) in enumerate(visible):
            for key in reader.keys(block):
                self._by_key.setdefault(key, []).append(number)
        self._next = 0  # the first block of `visible` that was not matched or skipped

    def match_blocks(self, sent: Sequence[Block]) -> list[_Match]:
        """Return the client's blocks with what they stand for."""
        anchors = [self._anchor(block) for block in sent]
        following: list[int | None] = [None] * len(sent)  # for each block, the next known one after it
        for number in range(len(sent) - 2, -1, -1):
            following[number] = following[number + 1] if anchors[number + 1] is None else anchors[number + 1]
        matched: list[_Match] = []
        unknown: list[int] = []  # texts since the last known block
        for number, (block, anchor) in enumerate(zip(sent, anchors, strict=True)):
            before, text = self._next, self._reader.text(block)
            matches = [] if anchor is None else [anchor]
            if anchor is not None:
                self._next = max(self._next, anchor + 1)
            elif text:
                ahead = following[number]
                stop = ahead if ahead is not None and ahead >= self._next else len(self._texts)
                matches = self._find(text, stop)
            if matches:
                self._settle(matched, unknown, range(before, matches[0]))
                unknown = []
            elif text:
                unknown.append(len(matched))
            matched.append((block, matches, True))
        self._settle(matched, unknown, range(self._next, len(self._texts)))
        return matched

    def _settle(self, matched: list[_Match], unknown: Sequence[int], between: range) -> None:
        """Let unknown texts take the places of the last ones that the client has left out, if there are enough."""
        free = [number for number in between if self._texts[number]]
        if len(free) >= len(unknown):
            for index, number in zip(reversed(unknown), reversed(free), strict=False):
                matched[index] = matched[index][0], [number], False

    def _anchor(self, block: Block) -> int | None:
        """Find the original with one of a block's keys; of several, each in its turn."""
        for key in self._reader.keys(block):
            if numbers := self._by_key.get(key):
                return numbers.pop(0) if len(numbers) > 1 else numbers[0]
        return None

    def _find(self, text: str, stop: int) -> list[int]:
        """Find the originals of a client's text: the one that equals it or begins with it, or those that it joins."""
        texts = self._texts
        ahead = [number for number in range(self._next, stop) if texts[number]]
        same = next((number for number in ahead if texts[number] == text), None)
        begun = next((number for number in ahead if text.startswith(texts[number])), None)
        if same is not None:
            matches = [same]
        elif begun is not None:
            matches = self._find_joined(text, [number for number in ahead if number >= begun])
        else:
            matches = [number for number in ahead if texts[number].startswith(text)][:1]
        if matches:
            self._next = matches[-1] + 1
        return matches

    def _find_joined(self, text: str, ahead: Sequence[int]) -> list[int]:
        """Return the originals that a client has joined into one text."""
        matches: list[int] = []
        for number in ahead:
            if not text.startswith(self._texts[number]):
                break
            text = text[len(self._texts[number]) :].lstrip()
            matches.append(number)
        return matches
