"""The measurement of the note at an act's start, at a small size."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from what_comes_back import Case, Way, play


def play_case(way: Way, *, note: bool) -> tuple[Any, Any]:
    tally, counts = play(Case(note, way, 1, 8), pairs=4, budget=16_000, seed=0)
    assert (counts.passed, counts.acts) == (4, 4)
    return tally, counts


@pytest.mark.wide
def test_a_model_that_goes_by_the_note_recalls_and_reads_again_without_it() -> None:
    tally, counts = play_case("by the note", note=True)
    assert counts.noted == counts.lacking == tally.recalls > 0 == counts.fetched
    tally, counts = play_case("by the note", note=False)
    assert counts.lacking > 0 == counts.noted == tally.recalls
    assert counts.fetched > 0
    tally, counts = play_case("reads again", note=True)
    assert counts.noted > 0 == tally.recalls
    assert counts.fetched > 0
