"""A round with the provider: its message, its own calls, and the usage that it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wane.prices import TokenUsage

Message = dict[str, Any]
"""A message of the wire's format."""

Tally: TypeAlias = Callable[[Any, Any], Any]
"""Combines the usage of earlier rounds with that of a later one; each is JSON data, or None if not reported."""


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A call of one of the proxy's own tools.

    Attributes:
        id: the provider's id, which its result repeats.
        tool: the tool's name.
        arguments: the raw JSON arguments, as the model wrote them.
    """

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one request to the provider.

    Attributes:
        message: the assistant's message in the format, including own calls, as the provider accepts it in later
            requests: with unchanged signatures, encrypted reasoning and ids.
        own: complete calls of the proxy's own tools, in order.
        calls: number of calls that the client must answer.
        complete: whether the model ended by itself, and was not cut off by a limit, a pause or a refusal.
        usage: its usage; None if the provider did not report it.
    """

    message: Message
    own: tuple[OwnCall, ...] = ()
    calls: int = 0
    complete: bool = True
    usage: TokenUsage | None = None

    @property
    def alone(self) -> bool:
        """Whether the model made only own calls, so that it must be asked again."""
        return bool(self.own) and not self.calls and self.complete


class Rounds:
    """The completed rounds of one reply for the client.

    Args:
        own: names of the proxy's own tools.
        tally: combines the usage of several rounds.
        head: keys of a reply, such as its id, that the client gets from the first round.

    Attributes:
        own: see above.
        done: the rounds.
        usage: their combined usage, as the provider reports it; None if it reported none.
    """

    def __init__(self, own: frozenset[str], tally: Tally, head: tuple[str, ...]) -> None:
        self.own = own
        self.done: list[Round] = []
        self.usage: Any = None
        self._tally, self._keys = tally, head
        self._head: dict[str, Any] = {}

    @property
    def id(self) -> object:
        """The reply's id, which is that of the first round; None if it is unknown."""
        return self._head.get("id")

    def identify(self, said: dict[str, Any]) -> None:
        """Take the head from the beginning of a reply; the very first may have an empty one."""
        if not self._head and said.get("id"):
            self._head = {key: said[key] for key in self._keys if key in said}

    def under_head(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return part of a later round's reply with the head of the first."""
        return {**said, **{key: value for key, value in self._head.items() if key in said}}

    def usage_with(self, usage: Any) -> Any:
        """Return the usage of the completed rounds and of one more."""
        return self._tally(self.usage, usage)

    def add(self, round_: Round, usage: Any) -> Round:
        """Complete a round with the usage that the provider reported for it, and return it."""
        self.done.append(round_)
        self.usage = self.usage_with(usage)
        return round_


@dataclass(frozen=True, slots=True)
class WovenRound:
    """One round in the history that the provider sees.

    Attributes:
        message: the assistant's message of the round.
        results: messages with the results of its own calls, right after it; empty if it made none.
    """

    message: Message
    results: tuple[Message, ...] = ()


def summed(before: Any, more: Any) -> Any:
    """Return the sum of two usages, field by field; other values are those of the later one.

    Args:
        before: usage of earlier rounds, as JSON data; None if none was reported.
        more: usage of a later round.
    """
    if before is None or more is None:
        return before if more is None else more
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        keys = [*before, *(key for key in more if key not in before)]
        return {key: summed(before.get(key), more.get(key)) for key in keys}
    if _is_number(before) and _is_number(more):
        return before + more
    return more


def latest(before: Any, more: Any) -> Any:
    """Return the usage of the latest round that reported one: the size of the model's context, not the total usage."""
    return before if more is None else more


def count(usage: object, *path: str) -> int:
    """Return one count of a usage, in tokens; 0 if it is missing or not a count.

    Args:
        usage: the usage, as JSON data.
        path: the keys that lead to the count.
    """
    for key in path:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return max(0, usage) if isinstance(usage, int) and not isinstance(usage, bool) else 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
