"""Which cases of a test run in the quick suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(first: Any, *others: Any) -> list[Any]:
    """Return parameters of which the first is for every run, and the others for the full run alone."""
    return [first, *(pytest.param(*_values(other), marks=pytest.mark.full) for other in others)]


def cross_quick(firsts: Iterable[Any], seconds: Iterable[Any]) -> list[Any]:
    """Return all pairs of two lists; those without the first of either list are for the full run alone."""
    firsts, seconds = list(firsts), list(seconds)
    return [
        pytest.param(first, second, marks=() if first == firsts[0] or second == seconds[0] else pytest.mark.full)
        for first in firsts
        for second in seconds
    ]


def _values(parameter: Any) -> tuple[Any, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)
