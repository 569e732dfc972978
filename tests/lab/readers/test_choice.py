"""One session of a file that holds several, by its number or its title."""

from __future__ import annotations

from pathlib import Path

import pytest

from wane.core.errors import SessionNotFoundError
from wane.lab.readers import find_files, gather, read_session

HISTORY = "\n".join(
    [
        *(
            "# aider chat started at 2026-09-01 10:00:00",
            "",
            "#### Make the parser accept comments.  ",
            "",
            "Done.",
            "",
        ),
        *("# aider chat started at 2026-09-02 10:00:00", "", "#### What is in README.md?  ", "", "An overview.", ""),
    ]
)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.md"
    path.write_text(HISTORY)
    return path


@pytest.mark.parametrize("choice", ["2", "What is in README.md?", "readme", "aider 2026-09-02 10:00:00"])
def test_a_number_or_words_of_a_title_name_a_session(history: Path, choice: str) -> None:
    name = f"{history}#{choice}"
    assert find_files(name) == [Path(name)]
    (session,) = read_session(name)
    assert session.title == "What is in README.md?"
    assert [recording.session.name for recording in gather([name]).recordings] == [session.name]


@pytest.mark.parametrize(
    ("choice", "what"),
    [
        ("3", "no session '3'; it has #1 Make the parser accept comments., #2 What is in README.md?"),
        ("0", "no session '0'"),
        ("a", "2 sessions with 'a' in their titles; it has #1"),
    ],
)
def test_a_choice_that_means_none_or_several_is_refused_with_what_there_is(
    history: Path, choice: str, what: str
) -> None:
    with pytest.raises(SessionNotFoundError) as caught:
        read_session(f"{history}#{choice}")
    assert f"history.md holds {what}" in str(caught.value)


def test_sessions_of_one_file_are_numbered(history: Path) -> None:
    assert [(recording.number, recording.of) for recording in gather([history]).recordings] == [(1, 2), (2, 2)]


def test_a_file_may_have_the_mark_in_its_name(history: Path) -> None:
    marked = history.rename(history.with_name("notes#2"))
    assert len(read_session(marked)) == 2
    assert len(read_session(f"{marked}#1")) == 1
    with pytest.raises(SessionNotFoundError, match="there is no file"):
        find_files(f"{history}#1")
