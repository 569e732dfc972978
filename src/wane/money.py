"""Amounts and shares, as people write them."""

from __future__ import annotations


def dollars(amount: float | None) -> str:
    """Return dollars to the cent, amounts below a dollar to three digits; `$?` if the amount is unknown."""
    if amount is None:
        return "$?"
    if not 0 < abs(amount) < 0.995:
        return f"${amount:,.2f}" if abs(amount) < 10_000 else f"${amount:,.0f}"
    if abs(amount) < 0.0001:
        return f"${amount:.1e}"
    units, _, cents = f"{amount:.3g}".partition(".")
    return f"${units}.{cents:0<2}"


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
