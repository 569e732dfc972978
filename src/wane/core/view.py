"""The view: its tokens, its items, and which of them must leave together (R9, R12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from wane.core.episodes import Episode
from wane.core.items import ASSISTANT, Item

_MIN_RATIO: Final = 0.5
_MAX_RATIO: Final = 4.0


class Counter(Protocol):
    """Anything that counts the tokens of a text."""

    def __call__(self, text: str, /) -> int:
        """Return the number of tokens in `text`."""
        ...


def chars(text: str, /) -> int:
    """Count one token per four characters, rounded up."""
    return (len(text) + 3) // 4


@dataclass(slots=True)
class Accounting:
    """Tokens of the view.

    A counter's estimate differs from the provider's count by a factor and by an amount. Each report gives both: the
    total is the provider's count of the last request, plus the estimated change since then times the ratio of
    reported to estimated tokens.

    Attributes:
        items: estimate of all visible items.
        overhead: estimate of what every request carries besides the items: system prompt, tool definitions.
        ratio: provider's tokens per estimated token, as of the last report; kept within 0.5 and 4.
        drift: the provider's count minus the estimate times the ratio, as of the last report.
        sent: estimate of the last request, which the next report is about; None before the first request.
        index: estimate of the index of evicted content (R20).
    """

    items: int = 0
    overhead: int = 0
    ratio: float = 1.0
    drift: float = 0.0
    sent: int | None = None
    index: int = 0

    @property
    def estimate(self) -> int:
        """Tokens of the next request, by the counter alone."""
        return self.items + self.overhead + self.index

    @property
    def total(self) -> int:
        """Tokens of the next request, by the provider's last report."""
        return self.total_of(self.estimate)

    @property
    def beside(self) -> int:
        """Tokens of the next request besides the items, by the provider's last report."""
        return round(self.overhead * self.ratio + self.drift)

    def total_of(self, estimate: int) -> int:
        """Return `total` for a request of so many estimated tokens."""
        return round(estimate * self.ratio + self.drift)

    def scale(self, estimate: int) -> int:
        """Return estimated tokens as the provider would count them."""
        return round(estimate * self.ratio)

    def mark_sent(self) -> None:
        """Remember the view as it stands: the next report will be about it."""
        self.sent = self.estimate

    def observe(self, input_tokens: int) -> None:
        """Take in the provider's count of the last request. A count of 0 or less is ignored."""
        if input_tokens <= 0:
            return
        sent = self.estimate if self.sent is None else self.sent
        self.ratio = 1.0
        if sent:
            self.ratio = min(max(input_tokens / sent, _MIN_RATIO), _MAX_RATIO)
        self.drift = input_tokens - sent * self.ratio


class MessageStarts:
    """Tells where assistant messages begin.

    Items with the same message ordinal belong together; an item without an ordinal joins the assistant items right
    before it.

    Attributes:
        ordinal: ordinal of the latest assistant message; None if it has none, or there is no message yet.
        growing: whether the next item may belong to that message without an ordinal.
    """

    __slots__ = ("growing", "ordinal")

    def __init__(self) -> None:
        self.ordinal: int | None = None
        self.growing = False

    def begins(self, item: Item) -> bool:
        """Take in the next item of the history; return whether it begins an assistant message."""
        if item.kind not in ASSISTANT:
            self.growing = False
            return False
        if item.message is None:
            begins = not self.growing
            if begins:
                self.ordinal = None
        else:
            begins = item.message != self.ordinal
            self.ordinal = item.message
        self.growing = True
        return begins


@dataclass(slots=True, eq=False)
class VisibleMessage:
    """The visible items of one assistant message.

    Attributes:
        others: number of its visible items that are not reasoning.
        reasoning: its visible reasoning items.
    """

    others: int = 0
    reasoning: list[int] = field(default_factory=list)


class View:
    """Indexes of the visible items with their tokens, in the history's order.

    Args:
        accounting: the tokens of the view, which it keeps up to date.

    Attributes:
        tokens: tokens by index; a dict, so that removal is O(1) and the order of insertion is the history's.
        messages: by index of an assistant's item, its message.
        latest: the latest assistant message.
        notices: by index of a notice that belongs to an episode, the episode's number (R15).
        held: items whose level was reached but which a visible item still needs, with their episode.
        needs: by index of a coupled item, the items that must stay as long as it does.
        answered: by result of the newest message that is not coupled, its call. What comes behind it in that message
            may still need it.
    """

    __slots__ = ("_accounting", "_needers", "answered", "held", "latest", "messages", "needs", "notices", "tokens")

    def __init__(self, accounting: Accounting) -> None:
        self._accounting = accounting
        self.tokens: dict[int, int] = {}
        self.messages: dict[int, VisibleMessage] = {}
        self.latest = VisibleMessage()
        self.notices: dict[int, int] = {}
        self.held: dict[int, Episode] = {}
        self.needs: dict[int, list[int]] = {}
        self.answered: dict[int, int] = {}
        self._needers: dict[int, list[int]] = {}

    def enter(self, index: int, tokens: int) -> None:
        """Take in the next item."""
        self.tokens[index] = tokens
        self._accounting.items += tokens

    def join_message(self, index: int, *, reasoning: bool) -> None:
        """Add an item to the latest assistant message."""
        self.messages[index] = self.latest
        if reasoning:
            self.latest.reasoning.append(index)
        else:
            self.latest.others += 1

    def couple(self, index: int, needed: Iterable[int]) -> None:
        """Note that one item needs others."""
        for target in needed:
            self.needs.setdefault(index, []).append(target)
            self._needers.setdefault(target, []).append(index)
            if (call := self.answered.pop(target, None)) is not None:
                self._couple_pair(call, target)

    def pair(self, call: int, result: int) -> None:
        """Couple a call with its result once one of them is coupled: neither may stay without the other."""
        if any(index in self.needs or index in self._needers for index in (call, result)):
            self._couple_pair(call, result)
        else:
            self.answered[result] = call

    def _couple_pair(self, call: int, result: int) -> None:
        self.couple(call, [result])
        self.couple(result, [call])

    def unit(self, indexes: Iterable[int]) -> set[int]:
        """Return items with all items that need them (R12)."""
        coupled = set(indexes)
        frontier = list(coupled)
        while frontier and self.needs:
            new = [needer for needer in self._needers.get(frontier.pop(), ()) if needer not in coupled]
            coupled.update(new)
            frontier.extend(new)
        return coupled

    def needers(self, index: int) -> Sequence[int]:
        """Return the items in view that need an item."""
        return self._needers.get(index, ())

    def find_needed(self, indexes: Iterable[int]) -> set[int]:
        """Return items with all items in view that they need, directly or through each other (R12)."""
        needed = set(indexes)
        frontier = list(needed)
        while frontier and self.needs:
            targets = self.needs.get(frontier.pop(), ())
            new = {target for target in targets if target in self.tokens and target not in needed}
            needed |= new
            frontier.extend(new)
        return needed

    def take(self, candidates: Collection[int], episode: Episode) -> list[int]:
        """Remove the candidates, which are items of an episode, except those that a visible item needs.

        Items that were held back for the candidates leave too, and so does the episode's reasoning where a message
        would hold nothing else (R9).

        Returns:
            The removed indexes, in the history's order.
        """
        if not self.needs:
            removed = sorted([*candidates, *self._left_alone(candidates, episode)])
            self._remove(removed, episode)
            return removed
        going = self._closure(candidates, episode)
        for index in going:
            self._remove([index], self.held.pop(index, episode))
            for target in self.needs.pop(index, ()):
                if target in self._needers:
                    self._needers[target].remove(index)
            self._needers.pop(index, None)
        for index in candidates:
            if index not in going:
                self.held[index] = episode
        return sorted(going)

    def _remove(self, indexes: Iterable[int], owner: Episode) -> None:
        freed = 0
        for index in indexes:
            freed += self.tokens.pop(index)
            self.notices.pop(index, None)
            message = self.messages.pop(index, None)
            if message is None:
                continue
            if index in message.reasoning:
                message.reasoning.remove(index)
            else:
                message.others -= 1
        owner.tokens -= freed
        self._accounting.items -= freed

    def _lost(self, going: Iterable[int]) -> dict[VisibleMessage, int]:
        """Count the items other than reasoning that each message loses, for messages with reasoning."""
        lost: dict[VisibleMessage, int] = {}
        for index in going:
            message = self.messages.get(index)
            if message is None or not message.reasoning:
                continue
            lost.setdefault(message, 0)
            if index not in message.reasoning:
                lost[message] += 1
        return lost

    def _left_alone(self, going: Collection[int], episode: Episode) -> list[int]:
        """Return the episode's reasoning in messages that lose something and would hold only reasoning (R9)."""
        lonely: list[int] = []
        for message, lost in self._lost(going).items():
            if lost == message.others:
                lonely += [index for index in message.reasoning if index not in going and episode.owns(index)]
        return lonely

    def _closure(self, candidates: Collection[int], episode: Episode) -> set[int]:
        """Return the largest set of items that may leave together.

        No other visible item needs them, and reasoning that is no candidate is among them only if it would be left
        alone in its message.
        """
        going = set(candidates)
        self._spread(going, candidates)
        # Items that were held back for reasoning leave with it, should the candidates leave that alone.
        for message in self._lost(going):
            self._spread(going, [index for index in message.reasoning if episode.owns(index)])
        alone: set[int] = set()
        while lonely := self._left_alone(going, episode):
            alone.update(lonely)
            going.update(lonely)
            self._spread(going, lonely)
        while staying := self._staying(going, alone):
            going.difference_update(staying)
        return going

    def _staying(self, going: set[int], alone: set[int]) -> list[int]:
        """Return the items that cannot leave with the others: needed ones, and reasoning that is not left alone."""
        lost = self._lost(going - alone)
        staying: list[int] = []
        for index in going:
            needed = not going.issuperset(self._needers.get(index, ()))
            if needed or (index in alone and lost.get(self.messages[index], -1) < self.messages[index].others):
                staying.append(index)
        return staying

    def _spread(self, going: set[int], start: Iterable[int]) -> None:
        """Add the held items that need the first ones or are needed by them, directly or through each other."""
        frontier = list(start)
        while frontier:
            index = frontier.pop()
            for partner in (*self.needs.get(index, ()), *self._needers.get(index, ())):
                if partner in self.held and partner not in going:
                    going.add(partner)
                    frontier.append(partner)
