"""The group `lab`: the checks of the simulation and of agents' marks, on small sessions made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_lab import flat, pi_lines

pytest.importorskip("genai_prices", reason="needs the extra lab")


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A session whose agent marks an exploration and an act, with one mark too many."""
    work: list[tuple[str, dict[str, Any]]] = [
        ("delimiter", {"action": "start", "name": "look", "type": "expl"}),
        ("read", {"path": "a.py"}),
        ("delimiter", {"action": "end", "description": "a.py holds it"}),
        ("delimiter", {"action": "end"}),
        ("delimiter", {"action": "start", "name": "fix", "type": "act", "dependencies": ["look"]}),
        ("edit", {"path": "a.py", "old": "x", "new": "y"}),
        ("delimiter", {"action": "end"}),
    ]
    told: list[dict[str, Any]] = [{"role": "user", "content": "fix a.py"}]
    for number, (tool, arguments) in enumerate(work):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        told.append({"role": "assistant", "content": None, "tool_calls": [call]})
        told.append({"role": "tool", "tool_call_id": f"c{number}", "content": "ok"})
    path = tmp_path / "marked.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


class TestLab:
    def test_validate(self, run: Run, pi: Path, chat: Path) -> None:
        done = run("lab", "validate", pi, chat)
        assert (done.code, done.err) == (0, "")
        text = flat(done.out)
        assert "In all, 6 calls that read " in text
        assert "1 session left out: they record no cache reads." in text
        [session] = json.loads(run("lab", "validate", pi, "--json").out)["sessions"]
        assert (session["name"], session["calls"], len(session["rows"])) == ("pi", 6, 6)

    def test_validate_lists_the_calls_that_differ(self, run: Run, pi: Path) -> None:
        lines = list(pi_lines())
        usage = lines[8]["message"]["usage"]
        usage["cacheWrite"], usage["cacheRead"] = usage["cacheWrite"] + usage["cacheRead"], 0
        pi.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        assert "  call 3: read 0 of " in run("lab", "validate", pi, "--outliers").out

    def test_annotations(self, run: Run, marked: Path, chat: Path) -> None:
        done = run("lab", "annotations", marked, chat)
        assert (done.code, done.err) == (0, "")
        text = flat(done.out)
        assert "1 exploration and 1 act, which declare 1 exploration; 0 without an end." in text
        assert "Refused marks: none active 1." in text
        data = json.loads(run("lab", "annotations", marked, chat, "--json").out)
        assert [it["marked"] for it in data["sessions"]] == [1, 0]
        assert data["total"]["marks"] == data["sessions"][0]["marks"] == 5
        assert "No episode was marked in 1 session." in run("lab", "annotations", chat).out

    def test_nothing_to_compare_with(self, run: Run, chat: Path) -> None:
        done = run("lab", "validate", chat)
        assert (done.code, done.out) == (2, "")
        assert "no session recorded its cache reads" in done.err

    def test_the_group_needs_a_command(self, run: Run) -> None:
        done = run("lab")
        assert (done.code, done.out) == (2, "")
        assert "wane: COMMAND is missing; see wane lab --help" in done.err
