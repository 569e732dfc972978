"""The line below the prompt: tokens, cost, the view against its budget, and the active episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wane.agent.costs import Totals, dollars
from wane.cli.terminal.text import printable
from wane.core.report import brief
from wane.strategies.base import ANNOTATED

if TYPE_CHECKING:
    from wane.agent.session import AgentSession


def footer(session: AgentSession, columns: int = 0) -> str:
    """Return `↑in ↓out Rcache Wcache $cost view/budget`, the active episode and the model.

    Args:
        session: the session.
        columns: how wide it may be; what matters least is left out. 0 for any width.
    """
    window, active = session.window, session.window.active
    totals, model = session.totals, printable(session.model.model_id)
    held = f"{short(session.tokens)}/{short(window.budget)}"
    episode = ""
    if session.settings.strategy not in ANNOTATED:
        episode = f"cwl off ({session.settings.strategy})"
    elif active is not None:
        episode = f"{active.type.value} {printable(brief(active.name or ''))}"
    fitting = (
        [spent(totals), held, episode, model],
        [spent(totals), held, episode],
        [dollars(totals.cost), held, episode],
        [dollars(totals.cost), held],
    )
    lines = ["  ".join(filter(None, parts)) for parts in fitting]
    return next((line for line in lines if not columns or len(line) < columns), lines[-1])


def spent(totals: Totals) -> str:
    """Return the usage so far: `↑12.3k ↓1.2k R10k W2.0k $0.42`."""
    return (
        f"↑{short(totals.input_tokens)} ↓{short(totals.output_tokens)} R{short(totals.cache_read_tokens)}"
        f" W{short(totals.cache_write_tokens)} {dollars(totals.cost)}"
    )


def short(tokens: int) -> str:
    """Return a number of tokens in few characters: 950, 12.3k, 80k, 1.2M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if abs(tokens) >= size:
            number = f"{tokens / size:.1f}".removesuffix(".0")
            return f"{number}{unit}"
    return str(tokens)
