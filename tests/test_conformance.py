"""The shared conformance cases, through the public dry run."""

import json
from pathlib import Path

import pytest

import wane

SHARED = Path(__file__).parents[1].parent / "shared" / "conformance"
FIELDS = ("name", "type", "implicit", "closed", "removed")


def cases() -> list[dict]:
    return [json.loads(line) for path in sorted(SHARED.glob("*.jsonl")) for line in path.read_text().splitlines()]


@pytest.mark.skipif(not SHARED.exists(), reason=f"the shared conformance cases are not at {SHARED}")
def test_there_are_cases() -> None:
    assert len(cases()) >= 164


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_conformance(case: dict) -> None:
    policy = wane.Policy(order="paper", low_water=case["low_water"], description_share=case["description_share"])
    result = wane.plan(case["messages"], budget=case["budget"], policy=policy).to_dict()
    expect = case["expect"]
    assert result["steps"] == expect["steps"]
    assert result["visible"] == expect["visible"]
    assert result["satisfied"] == expect["satisfied"]
    assert {key: result["tokens"][key] for key in ("before", "after")} == expect["tokens"]
    assert [{key: episode[key] for key in FIELDS} for episode in result["episodes"]] == expect["episodes"]
    json.dumps(result)
