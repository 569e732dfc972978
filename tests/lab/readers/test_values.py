"""Values of recorded JSON that are not what they ought to be."""

from __future__ import annotations

import math

import pytest

from wane.lab.readers.building.values import count, seconds, usage_of
from wane.lab.session import Usage

NO_NUMBERS = [None, True, "5", [], {}, math.nan, math.inf, -math.inf, -1, -0.5, 10**400, -(10**400), 1e300]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_number_of_tokens(value: object) -> None:
    assert count(value) is None


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, "yesterday", "2026-13-01"])
def test_what_is_no_moment(value: object) -> None:
    if value != "5":
        assert seconds(value) is None


def test_moments_of_every_kind() -> None:
    assert seconds("2026-06-01T12:00:00Z") == seconds("2026-06-01T12:00:00") == seconds(1_780_315_200)
    assert seconds(1_780_315_200_000) == 1_780_315_200
    assert count(12.0) == count(12) == 12


def test_usage_is_told_with_the_cached_tokens_in_the_input_or_apart_from_it() -> None:
    assert usage_of(100, read=60, written=10, output=5, reasoning=2) == Usage(30, 60, 10, 7)
    assert usage_of(30, read=60, written=10, output=5, apart=True) == Usage(30, 60, 10, 5)
    assert usage_of(0, read=60, apart=True) == Usage(0, 60)
    assert usage_of(100, output=None, reasoning=2) == Usage(100)
    assert usage_of(100, read=130, written=10) == Usage(0, 100), "no more than the whole"
    assert usage_of(100, read=95, written=10) == Usage(0, 95, 5)
    for nothing in (0, None, "many", -1):
        assert usage_of(nothing, read=60, output=5) is None
