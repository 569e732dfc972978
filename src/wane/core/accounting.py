"""Token accounting: running totals, anchored to what the provider reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Counter(Protocol):
    """Anything that counts the tokens of a text."""

    def __call__(self, text: str, /) -> int:
        """Return the number of tokens of `text`, at least 0."""
        ...


def chars(text: str, /) -> int:
    """Count a token for every four characters, rounded up."""
    return (len(text) + 3) // 4


@dataclass(slots=True)
class Accounting:
    """What the view holds, in tokens.

    A counter's estimate drifts from the provider's count, so each report moves the anchor: the total
    is what the provider said the last request held, plus the estimated change since.

    Attributes:
        items: estimate of all visible items.
        overhead: fixed estimate of what every request carries besides: system prompt, tool definitions.
        drift: provider's count minus estimate, as of the last report.
        sent: estimate of the last request, to which the next report refers.
    """

    items: int = 0
    overhead: int = 0
    drift: int = 0
    sent: int | None = None

    @property
    def estimate(self) -> int:
        """What the next request holds, by the counter alone."""
        return self.items + self.overhead

    @property
    def total(self) -> int:
        """What the next request holds, anchored."""
        return self.estimate + self.drift

    def mark_sent(self) -> None:
        """The view as it stands is what the next report will be about."""
        self.sent = self.estimate

    def observe(self, input_tokens: int) -> None:
        """Anchor to the provider's count of the last request."""
        self.drift = input_tokens - (self.estimate if self.sent is None else self.sent)
