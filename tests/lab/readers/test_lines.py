"""JSON Lines that are broken in every way that files are, and values that are not what they ought to be."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.readers.writing import write_lines
from wane.formats.fields import compact, raw_text
from wane.lab.readers.building import json_lines
from wane.lab.readers.building.json_lines import Problems, head, records
from wane.lab.readers.building.values import count, first_words, seconds, sound, usage_of, write_arguments
from wane.lab.recorded_session import CallUsage
from wane.rewrites import explain_reported


def read(path: Path) -> tuple[list[tuple[int, dict[str, object]]], list[str]]:
    problems = Problems()
    found = list(records(path, problems))
    return found, [f"{problem.line}: {problem.what}" for problem in problems.list_sorted()]


def test_each_object_comes_with_its_line_and_empty_lines_are_nothing(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", b"\xef\xbb\xbf" + b'{"a": 1}', "", "   ", {"b": 2})
    assert read(path) == ([(1, {"a": 1}), (4, {"b": 2})], [])


def test_broken_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    garbage = bytes(range(128, 160))
    path = write_lines(tmp_path / "a", {"a": 1}, '{"b": "cut o', garbage, "[1]", "7", {"c": 3}, '{"d":' + "[" * 99_999)
    found, problems = read(path)
    assert [line for line, _ in found] == [1, 6]
    assert problems[0] == '2: not JSON (it breaks off): \'{"b": "cut o\''
    assert [problem.split(":")[0] for problem in problems] == ["2", "3", "4", "5", "7"]
    assert "not a JSON object: '[1]'" in problems[2]


def test_a_line_with_some_bytes_that_are_no_text_is_read_and_named(tmp_path: Path) -> None:
    found, problems = read(write_lines(tmp_path / "a", b'{"a": "x\xff\xfey"}'))
    assert found == [(1, {"a": "x\ufffd\ufffdy"})]
    assert problems == ["1: holds bytes that are not UTF-8; they were read as U+FFFD"]


def test_a_line_longer_than_any_record_is_passed_over(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", {"a": 1}, {"b": "x" * 5000}, {"c": 3})
    problems = Problems()
    assert [line for line, _ in records(path, problems, longest=1000)] == [1, 3]
    assert [problem.what for problem in problems.list_sorted()] == ["the line is longer than 1,000 bytes"]


def test_many_problems_of_one_kind_are_counted_not_listed(tmp_path: Path) -> None:
    _, problems = read(write_lines(tmp_path / "a", *["{"] * 1000))
    assert len(problems) == json_lines.NAMED_EACH + 1
    assert problems[-1] == f"None: {1000 - json_lines.NAMED_EACH:,} more: not JSON"


def test_the_head_of_a_file_is_its_first_values(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", "no json", {"a": 1}, [2], {"b": 3})
    assert head(path, 3) == [{"a": 1}, [2]]
    assert head(write_lines(tmp_path / "empty")) == []


NO_NUMBERS = [None, True, "5", [], {}, math.nan, math.inf, -math.inf, -1, -0.5, 10**400, -(10**400), 1e300]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_number_of_tokens(value: object) -> None:
    assert count(value) is None


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, "yesterday", "2026-13-01"])
def test_what_is_no_moment(value: object) -> None:
    if value != "5":
        assert seconds(value) is None


def test_moments_of_every_kind() -> None:
    assert seconds("2026-06-01T12:00:00Z") == seconds("2026-06-01T12:00:00") == seconds(1_780_315_200)
    assert seconds(1_780_315_200_000) == 1_780_315_200
    assert count(12.0) == count(12) == 12


def test_usage_is_told_with_the_cached_tokens_in_the_input_or_apart_from_it() -> None:
    assert usage_of(100, read=60, written=10, output=5, reasoning=2) == CallUsage(30, 60, 10, 7)
    assert usage_of(30, read=60, written=10, output=5, apart=True) == CallUsage(30, 60, 10, 5)
    assert usage_of(0, read=60, apart=True) == CallUsage(0, 60)
    assert usage_of(100, output=None, reasoning=2) == CallUsage(100)
    assert usage_of(100, read=130, written=10) == CallUsage(0, 100), "no more than the whole"
    assert usage_of(100, read=95, written=10) == CallUsage(0, 95, 5)
    for nothing in (0, None, "many", -1):
        assert usage_of(nothing, read=60, output=5) is None


def test_texts_are_made_sound_and_titles_short() -> None:
    assert sound("cut \ud83d here") == "cut \ufffd here"
    assert sound("whole \U0001f600") == "whole \U0001f600"
    assert first_words(" fix\n the   bug ") == "fix the bug"
    assert first_words("Do this:\n\n# Plan\n  ## Why #5") == "Do this: Plan Why #5"
    assert len(first_words("word " * 100)) == 80


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=5))
def test_the_arguments_of_a_call_have_one_text_for_all_encoders(value: object) -> None:
    assert write_arguments({"path": "src/\x00\x7f\u2028ä", "it": value}) == compact(
        {"path": "src/\x00\x7f\u2028ä", "it": value}
    )


@pytest.mark.parametrize("value", ["\ud83d", {"a": "\ud83d"}, {"a": 1 << 70}, {"a": 1e22}, {1: "a"}, {"\ud83d": 1}, 5])
def test_arguments_that_no_strict_encoder_takes_have_their_text_too(value: object) -> None:
    assert write_arguments(value) == raw_text(value)


def test_a_usage_loses_its_output_and_nothing_else() -> None:
    whole = CallUsage(1, 2, 3, 4, 5, "fast", explain_reported("tools_changed"), 0.5, further_fees=True)
    assert whole.without_output() == replace(whole, output=None)
