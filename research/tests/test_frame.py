"""What the programs of `research/benchmarks` do with their arguments, and their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from frame import parser_of_sessions, recorded_sessions, table_head, table_row


def test_without_sessions_they_print_no_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser_of_sessions(None).parse_args([])
    assert "required: sessions" in capsys.readouterr().err


def test_a_session_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: .*nothing\.jsonl"):
        recorded_sessions([tmp_path / "nothing.jsonl"])


def test_figures_are_aligned_to_the_right() -> None:
    assert table_head(["session", "calls"], words=1) == "| session | calls |\n|---|--:|"
    assert table_head(["session", "model"]) == "| session | model |\n|---|---|"
    assert table_row(["a", 5]) == "| a | 5 |"
