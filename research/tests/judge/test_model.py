"""The model itself: it needs the extra `judge`."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

import pytest

from wane_research.judge.model import Model, is_installed, weights

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not is_installed(), reason="needs the extra judge of wane-research: 270 MB"),
]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = Model(weights(), 1_024)
    yield model
    model.close()


def prompt(model: Model, text: str) -> list[int]:
    return [*model.opening, *model.tokens(text)]


def test_tokens_are_those_of_the_text(model: Model) -> None:
    text = "def view(self) -> list[int]:\n"
    assert "".join(model.pieces(model.tokens(text))) == text


def test_what_has_been_read_is_expected(model: Model) -> None:
    name = model.tokens("src/wane/lab/counting.py")
    before, unread = prompt(model, "cat src/wane/lab/counting.py\ncat "), prompt(model, "cat a file\ncat ")
    assert fsum(model.surprise(before, name)) < fsum(model.surprise(unread, name)) / 2


def test_a_prompt_that_goes_on_is_judged_like_a_new_one(model: Model) -> None:
    text = "one two three four five six seven eight nine ten " * 8
    before, continuation = prompt(model, text), model.tokens("one two three")
    model.surprise(before[:40], continuation)
    again = model.surprise(before, continuation)
    assert model.count_shared(before) == len(before) - 1
    model.surprise(prompt(model, "nothing of it"), continuation)
    # Rounding depends on how the work is cut up.
    assert again == pytest.approx(model.surprise(before, continuation), abs=0.5)


def test_it_goes_on(model: Model) -> None:
    counted = [*model.continue_tokens(prompt(model, "1, 2, 3, 4, 5, 6, 7, 8, 9,"), 6)]
    assert "".join(model.pieces(counted)).startswith(" 10, ")
