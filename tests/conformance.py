"""The conformance cases that stand beside the repository, if they are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wane

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "cases"


def conformance_cases() -> list[Any]:
    """Every case as a pytest parameter with its name as id; one skipped parameter if there are none."""
    files = sorted(FOLDER.glob("*.jsonl"))
    if not files:
        reason = "no conformance cases: ../shared/cases (relative to the repository) is not there"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


def as_in_cases(episode: dict[str, Any]) -> dict[str, Any]:
    """An episode with the fields that the cases have."""
    return {name: episode[name] for name in ("name", "type", "implicit", "closed", "removed")}


def policy_of(case: dict[str, Any]) -> wane.Policy:
    """The policy that a case is for."""
    fields = ("low_water", "description_share", "prologue", "overflow")
    # The cases know no index (R20).
    return wane.Policy(order="paper", index_share=0, **{name: case[name] for name in fields})
