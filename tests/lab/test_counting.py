"""Tokens of a recorded session: shared out exactly where requests grew, estimated elsewhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import median, quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.readers.promises import SESSIONS, needs_sessions
from wane import Kind, chars
from wane.formats.message_format import Part
from wane.lab.counting import LEAST_RATIO, MOST_RATIO, WRAPPING, Material, breaks, count, find_reported, relative_errors
from wane.lab.readers import join, read_session
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Content
from wane.lab.recorded_session import CallUsage, Compaction, RecordedEviction, RecordedSession


def session(*totals: int | None, size: int = 100, output: int | None = None) -> RecordedSession:
    """A session with a turn of `size` tokens and, for each total, an answer and a result of twice as many."""
    builder = SessionBuilder("s", "test")
    builder.user(Content("u" * 4 * size))
    for number, total in enumerate(totals):
        said = Part(Kind.TEXT, "t" * 4 * size)
        call = Part(Kind.CALL, call_id=f"c{number}", tool="bash", arguments="a" * (4 * size - 4))
        usage = None if total is None else CallUsage(total, output=output)
        builder.answer([said, call], usage=usage)
        builder.result(f"c{number}", Content("r" * 8 * size))
    return builder.build()


def tokens(material: Material) -> list[int]:
    return [item.tokens for item in material.items]


def test_without_reported_usage_the_estimates_stand() -> None:
    plain = session(None, None)
    plain.system_tokens = 77
    material = count(plain)
    assert tokens(material) == [100, 100, 100, 200, 100, 100, 200]
    assert (material.overhead, material.output_tokens, material.calibrated) == (77, (200, 200), False)
    assert not relative_errors(material)


def test_what_requests_grew_by_is_what_the_parts_between_them_cost() -> None:
    material = count(session(1_150, 1_750, 2_150, output=33))
    assert tokens(material)[1:4] == [150, 150, 300], "600 over an estimate of 400"
    assert tokens(material)[4:7] == [100, 100, 200], "400"
    assert tokens(material)[:1] == [100], "as most parts did"
    assert material.overhead == 1_050
    assert material.output_tokens == (33, 33, 33)
    assert material.calibrated
    assert relative_errors(material) == [0, 0, 0]


@pytest.mark.parametrize("growth", [-500, 0, 119, 1_751])
def test_growth_that_cannot_be_the_parts_cost_is_not_taken_for_it(growth: int) -> None:
    material = count(session(1_000, 1_600, 1_600 + growth))
    assert tokens(material)[1:4] == [150, 150, 300]
    assert tokens(material)[4:7] == [150, 150, 300], "by the typical ratio"


def test_small_parts_may_cost_what_wraps_them() -> None:
    material = count(session(1_000, 1_166, size=4))
    assert sum(tokens(material)[1:4]) == 166


def test_calls_whose_input_was_not_reported_are_passed_over() -> None:
    material = count(session(1_000, None, 0, 2_800))
    assert tokens(material)[1:10] == [150, 150, 300] * 3
    assert list(find_reported(material.session)) == [(1, 1_000), (10, 2_800)]


@pytest.mark.parametrize("broken", ["compactions", "evictions", "starts", "reasoning_cleared"])
def test_nothing_is_concluded_where_a_request_does_not_continue_the_one_before(broken: str) -> None:
    recorded = session(1_000, 1_600, 2_000, 2_600)
    found = {"compactions": Compaction(6, "", 6), "evictions": RecordedEviction(6, (1,), 9, 8)}
    setattr(recorded, broken, [found.get(broken, 6)])
    material = count(recorded)
    assert breaks(recorded) == [6]
    assert tokens(material)[4:7] == [150, 150, 300], "not 400 in all"
    assert tokens(material)[7:10] == [150, 150, 300]


def test_the_overhead_is_what_the_first_request_held_besides_its_parts_and_a_summary() -> None:
    recorded = session(5_000, 5_400)
    recorded.compactions = [Compaction(1, "s" * 400, 1)]
    assert count(recorded).overhead == 4_900
    recorded.compactions = [Compaction(1, "s" * 400, 0)]
    assert count(recorded).overhead == 4_800
    recorded.compactions, recorded.evictions = [], [RecordedEviction(1, (0,), 100, 0)]
    assert count(recorded).overhead == 5_000
    assert count(session(50, 450)).overhead == 0, "never less than nothing"


def test_errors_leave_out_reasoning_that_the_provider_left_out() -> None:
    builder = SessionBuilder("s", "test")
    builder.user(Content("u" * 400))
    builder.answer([Part(Kind.REASONING, "h" * 400), Part(Kind.TEXT, "t" * 400)], usage=CallUsage(1_000))
    builder.user(Content("u" * 400))
    builder.answer([Part(Kind.TEXT, "t" * 400)], usage=CallUsage(1_200))
    recorded = builder.build()
    recorded.reasoning_cleared = [4]
    material = count(recorded)
    assert tokens(material) == [100, 100, 100, 100, 100]
    assert relative_errors(material) == [0, 0]


def test_items_keep_what_a_window_reads_and_no_more() -> None:
    builder = SessionBuilder("s", "test")
    calls = [
        Part(Kind.CALL, call_id=tool, tool=tool, arguments='{"a":1}', needs=(-1,)) for tool in ("bash", "delimiter")
    ]
    builder.answer([Part(Kind.TEXT, "x"), *calls])
    _, bash, delimiter = count(builder.build()).items
    assert (bash.call_id, bash.tool, bash.arguments, bash.message, bash.needs) == ("bash", "bash", None, 0, (-1,))
    assert delimiter.arguments == '{"a":1}'


def test_it_can_be_left_as_the_counter_gives_it() -> None:
    material = count(session(1_000, 1_600), calibrate=False)
    assert tokens(material) == [100, 100, 100, 200, 100, 100, 200]
    assert (material.overhead, material.calibrated) == (900, False)


def test_any_counter_will_do() -> None:
    assert tokens(count(session(None), counter=len)) == [400, 400, 400, 800]


@given(st.lists(st.integers(0, 5_000) | st.none(), min_size=1, max_size=12), st.integers(1, 300))
def test_every_growth_that_can_be_is_met_exactly(totals: list[int | None], size: int) -> None:
    recorded = session(*totals, size=size)
    material = count(recorded)
    assert all(item.tokens >= 0 for item in material.items)
    assert material.overhead >= 0
    assert material == count(replace(recorded))
    known = find_reported(recorded)
    for (first, before), (stop, after) in pairwise(known):
        estimate = sum(part.item(chars, 0).tokens for part in recorded.parts[first:stop])
        if LEAST_RATIO * estimate <= after - before <= MOST_RATIO * estimate + WRAPPING * (stop - first):
            assert sum(tokens(material)[first:stop]) == after - before


@pytest.mark.full
@needs_sessions
def test_recorded_sessions_are_counted_as_their_providers_did() -> None:
    checked = 0
    for folder in ("claude-code", "codex", "pi"):
        for recorded in read_session(SESSIONS / folder):
            errors = relative_errors(count(recorded))
            assert median(errors) < 0.005, recorded.name
            assert quantiles(errors, n=10)[-1] < 0.11, recorded.name
            checked += len(errors)
    assert checked > 2_000


@pytest.mark.full
@needs_sessions
def test_a_session_without_usage_is_counted_by_its_characters() -> None:
    material = count(join(read_session(SESSIONS / "terminal-bench-2"), "all"))
    assert (sum(tokens(material)), material.overhead, material.calibrated) == (2_560_613, 0, False)
    assert len(material.output_tokens) == 2_612
