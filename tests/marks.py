"""Which cases of a test run before each change, and which in `make test-all` alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(first: Any, *others: Any) -> list[Any]:
    """Return parameters of which the first is for every run, and the others for `make test-all` alone."""
    return [first, *wide(*others)]


def wide(*parameters: Any) -> list[Any]:
    """Return parameters for `make test-all` alone."""
    return [pytest.param(*_values(each), marks=pytest.mark.wide) for each in parameters]


def cross_quick(firsts: Iterable[Any], seconds: Iterable[Any]) -> list[Any]:
    """Return all pairs of two lists; those without the first of either list are for `make test-all` alone."""
    firsts, seconds = list(firsts), list(seconds)
    return [
        pytest.param(first, second, marks=() if first == firsts[0] or second == seconds[0] else pytest.mark.wide)
        for first in firsts
        for second in seconds
    ]


def _values(parameter: Any) -> tuple[Any, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)
