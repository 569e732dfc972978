"""`wane doctor` on small sessions made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_lab import pi_lines
from tests.lab.readers.writing import write_lines

pytest.importorskip("genai_prices", reason="needs the extra lab")

BROKEN = 3
"""The request that reads nothing, though the one before had cached 5,300 tokens."""


def recorded(path: Path, *broken: int) -> Path:
    """Write a session of pi in which some requests read nothing."""
    lines: list[dict[str, Any]] = list(pi_lines())
    usages = [line["message"]["usage"] for line in lines if line.get("message", {}).get("role") == "assistant"]
    for number in broken:
        usages[number]["cacheWrite"] += usages[number]["cacheRead"]
        usages[number]["cacheRead"] = 0
    write_lines(path, lines)
    return path


def test_names_the_request_the_cause_and_the_price(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("doctor", recorded(tmp_path / "pi.jsonl", BROKEN))
    assert done.code == 0, done.err
    assert "1 request paid again for 5k tokens" in done.out
    assert "head" in done.out
    assert f"call {BROKEN + 1}" in done.out
    assert "nothing was read, though 5,300 tokens were cached 1 s before" in done.out


def test_finds_nothing_where_nothing_changed(run: Run, tmp_path: Path) -> None:
    done = run("doctor", recorded(tmp_path / "pi.jsonl"))
    assert done.code == 0, done.err
    assert "No request paid again" in done.out


def test_json_has_every_rewrite(run: Run, tmp_path: Path) -> None:
    done = run("doctor", recorded(tmp_path / "pi.jsonl", 2, 4), "--json")
    assert done.code == 0, done.err
    (session,) = json.loads(done.out)["sessions"]
    assert [(entry["call"], entry["cause"], entry["certainty"]) for entry in session["rewrites"]] == [
        (2, "head", "inferred"),
        (4, "head", "inferred"),
    ]
    assert session["tokens"] == sum(entry["tokens"] for entry in session["rewrites"])


def test_without_cache_reads_it_is_not_known(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(
        json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])
    )
    done = run("doctor", tmp_path / "chat.json")
    assert done.code == 0, done.err
    assert "Not known for 1 session that recorded no cache reads: chat." in done.out
    assert "paid again" not in done.out


def test_without_sessions_here_it_says_how_to_name_one(run: Run) -> None:
    done = run("doctor")
    assert done.code == 2
    assert "no agent has a session of" in done.err
    assert "wane sessions --all" in done.err
