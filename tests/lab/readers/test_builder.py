"""What the builder of sessions sees to, whatever a file holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.readers.promises import check, problems
from wane import Kind
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import UNKNOWN_TOOL, SessionBuilder
from wane.lab.readers.building.content import Content
from wane.lab.readers.building.json_lines import NAMED_EACH


@pytest.fixture
def builder() -> SessionBuilder:
    return SessionBuilder("s", "test")


def call(call_id: str) -> Part:
    return Part(Kind.CALL, call_id=call_id, tool="bash", arguments="{}")


def test_ids_that_are_used_again_are_made_unique_and_results_find_the_latest_call(builder: SessionBuilder) -> None:
    for number in range(3):
        builder.answer([call("0"), call("0")])
        builder.result("0", Content(f"first {number}"))
        builder.result("0", Content(f"second {number}"))
    session = check(builder.build())
    calls = {part.call_id: number // 4 for number, part in enumerate(session.parts) if part.kind is Kind.CALL}
    assert list(calls) == ["0", "0#2", "0#3", "0#4", "0#5", "0#6"]
    for part in session.parts:
        if part.kind is Kind.RESULT:
            assert part.call_id is not None
            assert part.text.endswith(str(calls[part.call_id]))


def test_a_result_is_that_of_the_latest_call_of_its_id(builder: SessionBuilder) -> None:
    builder.answer([call("0")])
    builder.answer([call("0")])
    builder.result("0", Content("x"))
    assert [part.call_id for part in check(builder.build()).parts] == ["0", "0#2", "0#2"]


def test_results_without_a_call_and_second_results_are_left_out_and_named(builder: SessionBuilder) -> None:
    builder.user(Content("go"))
    assert not builder.result("never", Content("x"), line=2)
    builder.answer([call("a")])
    assert builder.result("a", Content("x"))
    assert not builder.result("a", Content("y"), line=5)
    session = check(builder.build())
    assert problems(session) == ["2: a result of the unknown call 'never'", "5: a second result of the call 'a'"]


def test_calls_without_an_id_get_one(builder: SessionBuilder) -> None:
    builder.answer([call(""), call("")])
    builder.result("", Content("x"))
    builder.result("", Content("y"))
    session = check(builder.build())
    assert [part.call_id for part in session.parts] == ["call#1", "call#2", "call#1", "call#2"]


def test_a_call_whose_tool_was_lost_has_one_that_is_unknown(builder: SessionBuilder) -> None:
    builder.answer([Part(Kind.CALL, call_id="a", tool="")])
    assert check(builder.build()).parts[0].tool == UNKNOWN_TOOL


def test_open_calls_are_settled_but_for_those_whose_result_is_coming(builder: SessionBuilder) -> None:
    builder.answer([call("a"), call("b")])
    builder.settle("aborted", coming={"b"})
    builder.result("b", Content("done"))
    assert [part.text for part in check(builder.build()).parts[2:]] == ["aborted", "done"]


def test_what_a_message_needs_is_kept_where_a_part_of_it_is_left_out(builder: SessionBuilder) -> None:
    reasoning = Part(Kind.REASONING, "hm", needs=(2,))
    builder.answer([reasoning, Part(Kind.RESULT, "x", call_id="lost"), Part(Kind.TEXT, "so", needs=(-2,))])
    session = check(builder.build())
    assert [part.needs for part in session.parts] == [(1,), (-1,)]


def test_lone_surrogates_leave_with_all_text() -> None:
    builder = SessionBuilder("s\udcff", "test")
    builder.user(Content("a\ud800"))
    builder.answer([Part(Kind.CALL, call_id="\ud800", tool="t\ud800", arguments="\ud800")])
    builder.result("\ud800", Content("\ud800"))
    builder.compaction("\ud800")
    builder.cwd = "/\udcff"
    session = check(builder.build())
    assert "�" in session.name
    repr(session).encode()  # holds none as itself
    assert all(text.isprintable() or text.encode() for part in session.parts for text in (part.text, part.tool or ""))


def test_parts_go_where_they_belong(builder: SessionBuilder) -> None:
    with pytest.raises(ValueError, match=r"answer\(\)"):
        builder.add(Part(Kind.TEXT, "x"))
    with pytest.raises(ValueError, match=r"add\(\)"):
        builder.answer([Part(Kind.USER, "x")])


def test_reasoning_is_cleared_only_where_there_is_some(builder: SessionBuilder) -> None:
    builder.user(Content("go"))
    builder.clear_reasoning()
    builder.answer([Part(Kind.REASONING, "hm")])
    builder.clear_reasoning()
    builder.answer([Part(Kind.TEXT, "so")])
    builder.clear_reasoning()
    assert builder.build().reasoning_cleared == [2]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("answer"), st.lists(st.sampled_from(["", "a", "b", "a#2"]), max_size=3)),
        st.tuples(st.just("result"), st.sampled_from(["", "a", "b", "a#2", "c"])),
        st.tuples(st.just("user"), st.just("")),
        st.tuples(st.just("settle"), st.just("")),
    ),
    max_size=NAMED_EACH,  # so that each problem is named
)


@given(steps)
def test_whatever_happens_the_session_keeps_its_promises(steps: list[tuple[str, object]]) -> None:
    builder = SessionBuilder("s", "test")
    results = 0
    for kind, what in steps:
        if kind == "answer":
            assert isinstance(what, list)
            builder.answer([call(call_id) for call_id in what])
        elif kind == "result":
            results += not builder.result(str(what), Content("x"), line=1)
        elif kind == "user":
            builder.user(Content("hi"))
        else:
            builder.settle("")
            assert builder.unanswered == []
    session = check(builder.build())
    assert len(session.problems) == results
    assert len(session.calls) == sum(kind == "answer" for kind, _ in steps)


def test_words_in_the_systems_place_are_the_systems_until_a_model_has_said_something(builder: SessionBuilder) -> None:
    told = Part(Kind.NOTICE, "be brief", system=True)
    builder.user(Content("go"))
    builder.add(told)
    builder.answer(())  # a call whose answer was lost
    builder.add(told)
    builder.answer([Part(Kind.TEXT, "done")])
    builder.add(told)
    kinds = [part.kind for part in check(builder.build()).parts]
    assert kinds == [Kind.USER, Kind.SYSTEM, Kind.SYSTEM, Kind.TEXT, Kind.NOTICE]
