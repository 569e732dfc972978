"""Hidden rounds put back into Anthropic's messages: each block of a client goes into the round that it came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from wane.proxy import jsons
from wane.proxy.wire.anthropic.reply import THINKING, Block, blocks_of, is_blank, is_call_of, plain
from wane.proxy.wire.base import AnsweredRound, Message

_BlockLocation: TypeAlias = tuple[int, int]
"""A round, and a block of it."""

_LocatedBlock: TypeAlias = tuple[_BlockLocation, Block]

_START: Final = -1


def expanded(message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
    """Return the messages that a client's message stands for, as `Wire.expand` does.

    The round of each of a client's blocks is recognised: thinking by its signature, calls by their ids, text by its
    words. Blocks are matched in order, so that each belongs to the round of the block before it or to a later one;
    an unknown block goes with the block before it.

    Thinking is kept in full or not at all. A client that leaves out all of it may have turned thinking off, and
    Anthropic then refuses any in the current turn. With thinking on, the turn must begin with it, and none may be
    missing in between. So the thinking of a round of which nothing else is left stays only if the client has kept
    other thinking.
    """
    own = {
        str(block.get("tool_use_id")) for round_ in rounds for result in round_.results for block in blocks_of(result)
    }
    sent = blocks_of(message)
    thinks = any(block.get("type") in THINKING for block in sent)
    visible = [
        ((number, position), block)
        for number, round_ in enumerate(rounds)
        for position, block in enumerate(blocks_of(round_.message))
        if not is_call_of(block, own)
    ]
    by_round: list[list[tuple[int, Block]]] = [[] for _ in rounds]
    for (number, position), block in _Aligner(visible, len(rounds) - 1).placed(sent):
        by_round[number].append((position, block))
    history = (
        _expanded(round_, client_blocks, own, thinks=thinks)
        for round_, client_blocks in zip(rounds, by_round, strict=True)
    )
    return [message for messages in history for message in messages]


def _expanded(
    round_: AnsweredRound, client_blocks: list[tuple[int, Block]], own: set[str], *, thinks: bool
) -> Iterator[Message]:
    """Yield a round with the client's blocks in it; nothing if it is empty."""
    recorded = list(enumerate(blocks_of(round_.message)))
    ours = [(position, block) for position, block in recorded if is_call_of(block, own)]
    if ours and thinks and not client_blocks:
        client_blocks = [(position, block) for position, block in recorded if block.get("type") in THINKING]
    content = [block for _, block in sorted([*ours, *client_blocks], key=lambda pair: pair[0])]
    while content and content[-1].get("type") in THINKING:
        # No message may end with thinking; the client left out what followed it.
        content.pop()
    if content:
        yield round_.message if content == round_.message.get("content") else {**round_.message, "content": content}
    yield from round_.results


class _Aligner:
    """Finds the place of each of a client's blocks among those that it has seen.

    Args:
        visible: the blocks that it has seen, in order, with their places.
        last: number of the last round, which has all of the client's calls.
    """

    def __init__(self, visible: Sequence[_LocatedBlock], last: int) -> None:
        self._visible = visible
        self._texts = [_text(block) for _, block in visible]
        self._by_key = {key: number for number, (_, block) in enumerate(visible) if (key := _key(block)) is not None}
        self._last = last
        self._next = 0  # the first block of `visible` that was not matched or skipped

    def placed(self, sent: Sequence[Block]) -> Iterator[_LocatedBlock]:
        """Yield the blocks with their places, in ascending order."""
        anchors = [self._by_key.get(key) if (key := _key(block)) is not None else None for block in sent]
        location: _BlockLocation = (0, _START)
        for block, anchor, ahead in zip(sent, anchors, _following(anchors), strict=True):
            match = anchor
            if anchor is not None:
                self._next = max(self._next, anchor + 1)
            elif text := _text(block):
                match = self._find(text, ahead if ahead is not None and ahead >= self._next else len(self._visible))
            if match is not None:
                location = max(location, self._visible[match][0])
            if block.get("type") == "tool_use":
                location = max(location, (self._last, _START))
            # The provider accepts only unchanged thinking, so the original is sent and not the client's copy.
            original = match is not None and block.get("type") in THINKING
            yield location, self._visible[match][1] if match is not None and original else block

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


def _following(anchors: Sequence[int | None]) -> list[int | None]:
    """Return for each block the next known one after it."""
    following: list[int | None] = []
    latest: int | None = None
    for anchor in reversed(anchors):
        following.append(latest)
        latest = latest if anchor is None else anchor
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
