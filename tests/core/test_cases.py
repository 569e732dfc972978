"""The fourth edition's conformance cases, at the level of items: flags, passes, room (R10, R15, R21, R22)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import as_in_cases, conformance_cases, item_requests, policy_of
from tests.lives import Life, revive, rules_of
from tests.oracle import visible
from wane.core import ContextWindow, FitReport


def describe_request(report: FitReport, shown: list[int], fixed: int) -> dict[str, Any]:
    """A request as the cases have it."""
    return {
        "satisfied": report.satisfied,
        "tokens": {"before": report.tokens_before, "after": report.tokens_after},
        "budget": {"set": report.budget, "used": report.budget_used, "fixed": fixed},
        "steps": [
            {
                "episode": s.episode,
                "level": s.level.value,
                "tokens_before": s.tokens_before,
                "tokens_after": s.tokens_after,
            }
            for s in report.steps
        ],
        "visible": shown,
    }


def expected_requests(case: dict[str, Any]) -> list[dict[str, Any]]:
    """What a case expects of its requests, in order."""
    last = {name: value for name, value in case["expect"].items() if name not in ("episodes", "earlier")}
    return [*case["expect"].get("earlier", ()), last]


@pytest.mark.quick(200)
@pytest.mark.parametrize("case", conformance_cases("fourth/*.jsonl"))
def test_window(case: dict[str, Any]) -> None:
    window = ContextWindow(case["budget"], policy_of(case), overhead=case["overhead"], window=case["window"])
    requests = []
    for items in item_requests(case):
        window.extend(items)
        fixed = window.room.fixed
        report = window.fit()
        requests.append(describe_request(report, window.visible, fixed))
        window = revive(window)
    assert requests == expected_requests(case)
    wanted = [episode for episode in case["expect"]["episodes"] if not episode["removed"]]
    live = [{name: getattr(episode, name) for name in wanted[0]} for episode in window.episodes]
    assert live == wanted


@pytest.mark.quick(200)
@pytest.mark.parametrize("case", conformance_cases("fourth/*.jsonl"))
def test_oracle(case: dict[str, Any]) -> None:
    life = Life(rules_of(policy_of(case), case["budget"], window=case["window"]), overhead=case["overhead"])
    requests = []
    for items in item_requests(case):
        life.items += items
        outcome = life.fit()
        steps = [
            {"episode": s.episode, "level": s.level, "tokens_before": s.before, "tokens_after": s.after}
            for s in outcome.steps
        ]
        requests.append(
            {
                "satisfied": outcome.satisfied,
                "tokens": {"before": outcome.before, "after": outcome.after},
                "budget": {"set": case["budget"], "used": outcome.used, "fixed": outcome.fixed},
                "steps": steps,
                "visible": visible(life.items, life.state),
            }
        )
    assert requests == expected_requests(case)
    episodes = [vars(episode) | {"removed": life.state.is_removed(episode)} for episode in life.reading.episodes]
    assert [as_in_cases(episode) for episode in episodes] == case["expect"]["episodes"]
