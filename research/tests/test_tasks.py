"""The measurement of what is given up, at a small size."""

from __future__ import annotations

from tasks import ways


def test_what_was_abandoned_leaves_first() -> None:
    counts = [ways(20_000, kind, declares=True, subjects=4, seed=0) for kind in ("none", "abandoned")]
    assert counts[1].cost < counts[0].cost
    assert all(count.most <= 20_000 for count in counts)
