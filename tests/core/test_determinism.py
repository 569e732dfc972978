"""R14 across processes: no view may depend on the seed of Python's hashes, and so on the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
from tests.core.test_properties import long_session
from tests.lives import live
from wane.core import ContextWindow, Policy

window = ContextWindow(2_000, Policy(low_water=0.7, description_share=0.2))
passes = [[step.removed for step in report.trace] for report in live(window, long_session(60))]
print(json.dumps([passes, window.export()]))
"""


def outcome(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.full
def test_the_same_view_in_any_process() -> None:
    first = outcome("1")
    assert "delimiter" not in first  # the window keeps no content
    assert len(first) > 1_000
    assert first == outcome("2")
