from __future__ import annotations

from wane.cli.chat.pasted import MAX_LINES, Pastes


def test_a_long_text_is_a_mark_until_the_line_is_sent() -> None:
    pastes = Pastes()
    text = "\r\n".join(str(number) for number in range(120))
    assert pastes.folded(text) == "[Pasted #1: 120 lines]"
    assert pastes.folded("x" * 2_000) == "[Pasted #2: 2,000 characters]"
    line = "compare [Pasted #1: 120 lines] with [Pasted #2: 2,000 characters], not [Pasted #3: 9 lines]"
    whole = text.replace("\r\n", "\n")
    assert pastes.full(line) == f"compare {whole} with {'x' * 2_000}, not [Pasted #3: 9 lines]"


def test_a_short_text_stays_as_it_is() -> None:
    text = "\n".join("x" * MAX_LINES)
    assert Pastes().folded(f"{text}\n") == f"{text}\n"


def test_a_mark_is_removed_whole() -> None:
    pastes = Pastes()
    mark = pastes.folded("a\n" * 50)
    assert pastes.mark_at_end(f"see {mark}") == len(mark)
    assert pastes.mark_at_end(f"{mark} and") == 0
    assert pastes.mark_at_end("[Pasted #7: 50 lines]") == 0
