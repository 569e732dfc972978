"""Lets tests import the programs of `research/benchmarks`, which are no package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
