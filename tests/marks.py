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


def then_full(*others: Any) -> list[Any]:
    """Return parameters that `make test` leaves to `.ci/run`."""
    return [pytest.param(*_values(each), marks=pytest.mark.full) for each in others]


def cross_quick(firsts: Iterable[Any], seconds: Iterable[Any]) -> list[Any]:
    """Return all pairs of two lists; but for pairs that have each entry of both lists, for `make test-all` alone."""
    firsts, seconds = list(firsts), list(seconds)
    quick = {(n % len(firsts), n % len(seconds)) for n in range(max(len(firsts), len(seconds)))}
    pairs: list[Any] = []
    for i, first in enumerate(firsts):
        for j, second in enumerate(seconds):
            marks = () if (i, j) in quick else pytest.mark.wide
            pairs.append(pytest.param(first, second, marks=marks))
    return pairs


def _values(parameter: Any) -> tuple[Any, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)
