"""Which cases of a test run in the quick suite."""

from __future__ import annotations

from typing import Any

import pytest


def first_quick(first: Any, *others: Any) -> list[Any]:
    """Return parameters of which the first is for every run, and the others for the full run alone."""
    return [first, *(pytest.param(*_values(other), marks=pytest.mark.full) for other in others)]


def _values(parameter: Any) -> tuple[Any, ...]:
    return parameter if isinstance(parameter, tuple) else (parameter,)
