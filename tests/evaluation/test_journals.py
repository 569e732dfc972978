"""What is read from the journals of a trial."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.cli.sample import save
from wane.evaluation.results import ContextFigures
from wane.evaluation.running.journals import context_since, journals_in, usage_of


def test_of_copies_of_a_session_the_longest_counts_whatever_their_times_say(tmp_path: Path) -> None:
    whole = save(tmp_path / "trial" / "two", cwd=tmp_path)
    part = tmp_path / "trial" / "one" / whole.name
    part.parent.mkdir()
    part.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:6]))
    os.utime(whole, (0, 0))
    assert journals_in(tmp_path / "trial") == (whole,)


def test_steps_in_sessions_of_their_own_are_summed(tmp_path: Path) -> None:
    journal = save(tmp_path / "trial", cwd=tmp_path, budget=3_000)
    alone = context_since([journal], None, 3_000)
    assert alone is not None
    assert alone.passes > 0
    second = journal.with_name("second.jsonl")
    shutil.copy(journal, second)
    assert journals_in(tmp_path / "trial") == (journal, second)
    both = context_since([journal, second], None, 3_000)
    assert both is not None
    assert (both.passes, both.evicted_tokens) == (2 * alone.passes, 2 * alone.evicted_tokens)
    assert both.peak_view == alone.peak_view
    assert usage_of(journal, second).model_calls == 2 * usage_of(journal).model_calls
    # What was there before does not count, and of what cannot be read nothing is known.
    assert context_since([journal], journal, 3_000) == ContextFigures()
    second.write_text("damaged\n")
    assert context_since([journal, second], None, 3_000) is None
    assert context_since([], None, 3_000) is None
