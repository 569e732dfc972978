"""Amounts and shares, as people write them."""

from __future__ import annotations


def dollars(amount: float) -> str:
    """Return dollars to the cent; amounts below a dollar to three digits."""
    if amount and abs(amount) < 0.995:
        return f"${amount:.3g}" if abs(amount) >= 0.0001 else f"${amount:.1e}"
    return f"${amount:,.2f}" if abs(amount) < 10_000 else f"${amount:,.0f}"


def share(value: float) -> str:
    """Return a share in percent, to a tenth if it is not whole."""
    text = f"{100 * value:.1f}"
    # A loss is never rounded away to 100%.
    if text == "100.0" and value < 1:
        text = "99.9"
    return f"{text.removesuffix('.0')}%"
