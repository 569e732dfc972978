"""The conformance cases that stand beside the repository, if they are there."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import wane
from tests.oracle import items_of
from wane.core import Item, Kind, Standing

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "cases"


def conformance_cases(pattern: str = "*.jsonl") -> list[Any]:
    """Every case as a pytest parameter with its name as id; one skipped parameter if there are none.

    The pattern says which files: those of the folder have one pass each, over plain messages.
    """
    files = sorted(FOLDER.glob(pattern))
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
    fields = ("low_water", "description_share", "prologue", "overflow", "guard", "index_share", "min_room")
    return wane.Policy(order=case["order"], **{name: case[name] for name in fields})


def flagged_items(case: dict[str, Any]) -> list[Item]:
    """The items of a case, with what a format or a host knows of them beyond the messages."""
    items = items_of(case["messages"])
    for key, flags in case["items"].items():
        index, item = int(key), items[int(key)]
        kinds = flags.get("standing", [])
        items[index] = replace(
            item,
            kind=Kind.NOTICE if kinds else item.kind,
            standing=tuple(Standing(kind) for kind in kinds),
            person=flags.get("person", False),
            loads=tuple(flags.get("loads", ())),
            withdraws=tuple(flags.get("withdraws", ())),
        )
    return items


def item_requests(case: dict[str, Any]) -> list[list[Item]]:
    """The items that each request of a case brings, which a pass may follow."""
    items = flagged_items(case)
    stops = [sum((item.message or 0) < count for item in items) for count in case["requests"]]
    return [items[first:stop] for first, stop in pairwise([0, *stops])]
