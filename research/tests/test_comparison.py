"""The comparison of frameworks' own context management with Wane, at a small size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.wide
def test_it_counts_what_each_way_leaves_in_view() -> None:
    pytest.importorskip("langchain_openai", reason="needs the extra langchain, and langchain-openai")
    command = [sys.executable, "research/benchmarks/frameworks/comparison.py", "--json", "--tasks=5"]
    command += [f"--only=LangChain {way}" for way in ("nothing", "`trim", "**Wane**")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, Any]] = {way: it for _, way, it in map(json.loads, done.stdout.splitlines())}
    nothing, wane = found["nothing"], found["**Wane**"]
    assert nothing["done"] == wane["done"] == 5
    assert nothing["over"] > 0 == nothing["again"]
    assert (wane["over"], wane["missing"], wane["summaries"], wane["refused"]) == (0, 0, 0, 0)
    assert 0 < wane["reused"] < wane["tokens"]
    assert found["`trim_messages`"]["missing"] > 0
