"""What a scripted model takes from a request."""

from __future__ import annotations

import pytest

from tests.scripted.requests import reply_messages, request, user
from wane.formats.notices import INDEX_CLOSING, INDEX_OPENING
from wane.scripted.sight import Heard, Sight

INDEX = f"{INDEX_OPENING}; `recall` brings it back.\nRead: shop.py [look]{INDEX_CLOSING}"


@pytest.mark.parametrize("text", ["Task 2. Go on.", f"{INDEX}\n\nTask 2. Go on."], ids=["alone", "behind an index"])
def test_the_users_words_are_heard_behind_an_index_in_one_text(text: str) -> None:
    """A turn that follows an index is joined with it, where the history has no two turns in a row."""
    sight = Sight(request(user("Task 1. Begin."), *reply_messages("1.1"), user(text)))
    assert [entry.text for entry in sight.entries if isinstance(entry, Heard)] == ["Task 1. Begin.", "Task 2. Go on."]
    assert (sight.number, sight.at) == (2, "")


def test_an_index_alone_says_nothing_of_the_users() -> None:
    sight = Sight(request(user("Task 1. Begin."), *reply_messages("1.1"), user(INDEX)))
    assert [entry.text for entry in sight.entries if isinstance(entry, Heard)] == ["Task 1. Begin."]
    assert sight.number == 1
