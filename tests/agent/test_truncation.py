"""Recency truncation: what it keeps, and that its cut stays where it is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.agent.provider import Serve
from tests.agent.work import read_long, working
from wane.testing import Kind, Reply

BUDGET = 6_000


@pytest.mark.full
def test_requests_keep_to_the_budget_by_cuts_that_stay_until_the_next_one(serve_model: Serve, repository: Path) -> None:
    (repository / "long.py").write_text("a line of some length\n" * 300)
    script = [read_long(), read_long(), Reply("done")] * 9
    with working(serve_model, repository, script, keep=False, budget=BUDGET, strategy="truncate") as at:
        at.run(*(f"task {number}" for number in range(9)))
    assert max(request.tokens for request in at.requests) < 1.2 * BUDGET
    assert len(at.requests[-1].messages) < 18, "the history is longer"
    views = [[part for part in request.parts if part.kind is not Kind.SYSTEM] for request in at.requests]
    assert {view[0].text for view in views} == {"task 0"}
    moved = [later[1] != earlier[1] for earlier, later in pairwise(views[1:])]
    assert 2 <= sum(moved) <= len(moved) // 2
