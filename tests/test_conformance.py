"""The shared conformance cases, through the public dry run."""

import json

import pytest

import wane
from tests.conformance import FOLDER, as_in_cases, conformance_cases, policy_of
from wane.formats.openai import OpenAIFormat


@pytest.mark.skipif(not FOLDER.exists(), reason=f"the shared conformance cases are not at {FOLDER}")
def test_there_are_cases() -> None:
    assert len(conformance_cases()) >= 174
    assert len(conformance_cases("fourth/*.jsonl")) >= 1_563


@pytest.mark.parametrize("case", conformance_cases())
def test_conformance(case: dict) -> None:
    # The cases are of items that need no others: of a server that does not demand a call's reasoning.
    chosen, policy = OpenAIFormat(demands_reasoning=False), policy_of(case)
    plan = wane.plan(case["messages"], budget=case["budget"], policy=policy, format=chosen, annotate="model")
    result = plan.to_dict()
    expect = case["expect"]
    assert result["steps"] == expect["steps"]
    assert result["visible"] == expect["visible"]
    assert result["satisfied"] == expect["satisfied"]
    assert {key: result["tokens"][key] for key in ("before", "after")} == expect["tokens"]
    assert [as_in_cases(episode) for episode in result["episodes"]] == expect["episodes"]
    json.dumps(result)
