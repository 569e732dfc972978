"""The oracle itself, held against the conformance cases: only then is it worth comparing the core with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.conformance import as_in_cases, conformance_cases, policy_of
from tests.lives import rules_of
from tests.oracle import State, items_of, read, run_pass, visible


@pytest.mark.quick(60)
@pytest.mark.parametrize("case", conformance_cases())
def test_conformance(case: dict[str, Any]) -> None:
    items = items_of(case["messages"])
    rules = rules_of(policy_of(case), case["budget"])
    outcome = run_pass(items, State(), rules)
    episodes = [asdict(episode) | {"removed": outcome.state.is_removed(episode)} for episode in read(items).episodes]
    assert case["expect"] == {
        "visible": visible(items, outcome.state),
        "steps": [
            {"episode": s.episode, "level": s.level, "tokens_before": s.before, "tokens_after": s.after}
            for s in outcome.steps
        ],
        "tokens": {"before": outcome.before, "after": outcome.after},
        "satisfied": outcome.satisfied,
        "episodes": [as_in_cases(episode) for episode in episodes],
    }
