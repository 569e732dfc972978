"""Amounts and shares, as people write them."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_CENT: Final = Decimal("0.01")
_TINY: Final = 1e-4  # dollars below which an amount is written with an exponent
_NOTHING: Final = 1e-9  # dollars below which an amount is what a sum of others left by rounding


def dollars(amount: float | None) -> str:
    """Return dollars as `round_dollars` rounds them; `cost unknown` for None."""
    if amount is None:
        return "cost unknown"
    return f"${amount:.1e}" if _NOTHING < abs(amount) < _TINY else f"${round_dollars(amount):,f}"


def round_dollars(amount: float) -> Decimal:
    """Return dollars to the cent; amounts below a dollar to three digits, those from 10,000 on to the dollar."""
    size = abs(amount)
    if size <= _NOTHING:
        return Decimal("0.00")
    if size >= 0.995:
        return Decimal(f"{amount:.2f}" if size < 10_000 else f"{amount:.0f}")
    value = Decimal(f"{amount:.1e}" if size < _TINY else f"{amount:.3g}")
    cents = value.quantize(_CENT)
    return cents if cents == value else value


def share(value: float) -> str:
    """Return a share in percent, to a tenth if it is not whole."""
    text = f"{100 * value:.1f}"
    # A loss is never rounded away to 100%.
    if text == "100.0" and value < 1:
        text = "99.9"
    return f"{text.removesuffix('.0')}%"


def bounded_dollars(amount: float, *, at_least: bool, at_most: bool) -> str:
    """Return dollars with a sign: `≥` if they may be more, `≤` if they may be less, `≈` if they may be either."""
    sign = {(True, False): "≥", (False, True): "≤", (True, True): "≈"}.get((at_least, at_most), "")
    return f"{sign}{dollars(amount)}"
