"""The audit of marks over sessions of the demo, which counts the same on the wire."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping

import pytest

from tests.scripted.demo.test_command import STRATEGIES, WANE, Run, environment, runs

__all__ = ["runs"]

pytestmark = pytest.mark.wide


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_was_marked_and_read_again_is_counted_from_the_journal_as_on_the_wire(
    runs: Mapping[str, Run], strategy: str
) -> None:
    summary, directory = runs[strategy].summary, runs[strategy].directory
    command = [*WANE, "lab", "annotations", summary["session"], "--json"]
    done = subprocess.run(command, env=environment(directory), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["total"]
    counted = {"read_again": found["read_again"], "recalls": found["recalls"], "model_calls": found["model_calls"]}
    known = {"read_again": "re_read", "recalls": "recalled", "model_calls": "model_calls"}
    assert counted == {name: summary[key] for name, key in known.items()}
    assert sum(found["refused"].values()) == summary["rejected"]
    if strategy == "cwl":
        assert (found["passes"], found["unended"], found["overflows"]) == (summary["passes"], 0, 0)
