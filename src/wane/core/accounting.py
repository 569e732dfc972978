"""Token accounting: running totals, anchored to what the provider reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol


class Counter(Protocol):
    """Anything that counts the tokens of a text."""

    def __call__(self, text: str, /) -> int:
        """Return the number of tokens of `text`, at least 0."""
        ...


def chars(text: str, /) -> int:
    """Count one token per four characters, rounded up."""
    return (len(text) + 3) // 4


_MIN_RATIO: Final = 0.5
_MAX_RATIO: Final = 4.0


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
        drift: the provider's count less the estimate times the ratio, as of the last report.
        sent: estimate of the last request, which the next report is about.
    """

    items: int = 0
    overhead: int = 0
    ratio: float = 1.0
    drift: float = 0.0
    sent: int | None = None

    @property
    def estimate(self) -> int:
        """Tokens of the next request, by the counter alone."""
        return self.items + self.overhead

    @property
    def total(self) -> int:
        """Tokens of the next request, by the provider's last report."""
        return round(self.estimate * self.ratio + self.drift)

    def scaled(self, estimate: int) -> int:
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
        self.ratio = min(max(input_tokens / sent, _MIN_RATIO), _MAX_RATIO) if sent else 1.0
        self.drift = input_tokens - sent * self.ratio
