"""JSON Lines that are broken in every way that files are."""

from __future__ import annotations

from pathlib import Path

from tests.lab.readers.writing import write_lines
from wane.lab.readers.building import lines
from wane.lab.readers.building.lines import Problems, head, records
from wane.lab.readers.building.values import count, first_words, seconds, sound


def read(path: Path) -> tuple[list[tuple[int, dict[str, object]]], list[str]]:
    problems = Problems()
    found = list(records(path, problems))
    return found, [f"{problem.line}: {problem.what}" for problem in problems.listed()]


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
    assert [problem.what for problem in problems.listed()] == ["the line is longer than 1,000 bytes"]


def test_many_problems_of_one_kind_are_counted_not_listed(tmp_path: Path) -> None:
    _, problems = read(write_lines(tmp_path / "a", *["{"] * 1000))
    assert len(problems) == lines.NAMED_EACH + 1
    assert problems[-1] == f"None: {1000 - lines.NAMED_EACH:,} more: not JSON"


def test_the_head_of_a_file_is_its_first_values(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", "no json", {"a": 1}, [2], {"b": 3})
    assert head(path, 3) == [{"a": 1}, [2]]
    assert head(write_lines(tmp_path / "empty")) == []


def test_values_are_taken_as_what_they_ought_to_be_or_not_at_all() -> None:
    assert [seconds(value) for value in ("2026-01-01T00:00:00.500Z", 1_767_225_600_500, 1_767_225_600.5)] == [
        1_767_225_600.5
    ] * 3
    assert [seconds(value) for value in ("yesterday", None, True, -1, float("nan"))] == [None] * 5
    assert [count(value) for value in (3, 3.0, 0, -1, True, "3", None, float("inf"))] == [3, 3, 0] + [None] * 5
    assert sound("cut \ud83d here") == "cut \ufffd here"
    assert sound("whole \U0001f600") == "whole \U0001f600"
    assert first_words(" fix\n the   bug ") == "fix the bug"
    assert len(first_words("word " * 100)) == 80
