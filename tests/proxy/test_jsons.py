"""The proxy's JSON says what the standard library's does: nothing that a client sends is changed on its way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.proxy import jsons

NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(DATA)
def test_what_is_read_is_what_was_written(data: object) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        text = json.dumps(data, separators=separators).encode()
        assert repr(jsons.loads(text)) == repr(json.loads(text))
    assert repr(json.loads(jsons.dumps(data))) == repr(json.loads(json.dumps(data)))


@pytest.mark.parametrize("before", [0, 5, (1 << 20) - 30, (1 << 20) - 12, (1 << 20) - 2, 3 << 20])
@pytest.mark.parametrize("number", [2**64, -(2**64), 10**18, 10**40])
def test_long_numbers_are_read_to_the_last_digit_wherever_they_stand(before: int, number: int) -> None:
    data = [" " * before, {"number": number}]
    assert jsons.loads(json.dumps(data).encode()) == data


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nul", '"\x01"', "[" * 200_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the standard library's
        jsons.loads(text.encode())


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON data"):
        jsons.dumps({"key": object()})
