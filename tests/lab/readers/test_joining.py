"""Sessions joined into one."""

from __future__ import annotations

import pytest

from tests.lab.readers.promises import check, kinds, texts
from wane import ConfigError, Kind
from wane.core import Mark
from wane.formats.message_format import Part
from wane.lab.readers import join
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Content
from wane.lab.recorded_session import CallUsage, Compaction, ModelCall, Problem, RecordedEviction, RecordedSession


def session(
    name: str, *, prompt: str = "be brief", at: float | None = None, open_call: bool = False
) -> RecordedSession:
    builder = SessionBuilder(name, "openai")
    builder.cwd = "/repo"
    builder.add(Part(Kind.SYSTEM, prompt))
    builder.user(Content(f"do {name}"))
    call = Part(Kind.CALL, call_id="c1", tool="bash", arguments="{}")
    builder.answer([Part(Kind.TEXT, "I look"), call], usage=CallUsage(10), at=at)
    builder.result("c1", Content("seen"))
    builder.compaction("so far", first_kept=1, at=at)
    builder.answer([Part(Kind.CALL, call_id="c2", tool="bash", arguments="{}")], at=at)
    if not open_call:
        builder.result("c2", Content("seen"))
    builder.problems.add(3, "odd")
    made = builder.build()
    made.evictions = [RecordedEviction(5, (0, 2, 3), 90, 60, at)]
    made.abandoned, made.unread = [ModelCall(0, 0)] * 2, 1
    made.asides = [ModelCall(5, 5, CallUsage(10))]
    made.sidechains = [RecordedSession(f"{name} side", "openai")]
    return made


def test_what_happened_follows_one_another() -> None:
    joined = check(join([session("a"), session("b")], "both"))
    assert (joined.name, joined.source, joined.cwd, joined.title) == ("both", "openai", "/repo", "do a")
    one = ["user", "text", "call", "result", "call", "result"]
    assert kinds(joined) == ["system", *one, *one], "the same system prompt stands once, at the head"
    assert joined.starts == [0, 7]
    assert [texts(joined)[turn] for turn in joined.user_turns] == ["do a", "do b"]
    assert [(call.first, call.stop) for call in joined.calls] == [(2, 4), (5, 6), (8, 10), (11, 12)]
    assert joined.compactions == [Compaction(5, "so far", 1), Compaction(11, "so far", 7)]
    assert [eviction.removed for eviction in joined.evictions] == [(0, 2, 3), (8, 9)]
    assert [sidechain.name for sidechain in joined.sidechains] == ["a side", "b side"]
    assert (len(joined.abandoned), joined.unread) == (4, 2)
    assert [(call.first, call.stop) for call in joined.asides] == [(5, 5), (11, 11)], "the calls that wrote summaries"
    assert joined.problems == [Problem(3, "a: odd"), Problem(3, "b: odd")]


def test_ids_are_made_unique_and_pairs_stay_pairs() -> None:
    joined = check(join([session("a"), session("b"), session("c")], "all"))
    assert [part.call_id for part in joined.parts if part.kind is Kind.RESULT] == [
        "c1",
        "c2",
        "c1@2",
        "c2@2",
        "c1@3",
        "c2@3",
    ]


def test_another_system_prompt_stays_where_it_was_said() -> None:
    joined = check(join([session("a"), session("b", prompt="be long")], "both"))
    assert kinds(joined)[7:9] == ["system", "user"]


def test_a_call_that_a_session_leaves_open_gets_an_empty_result_if_another_follows() -> None:
    joined = check(join([session("a", open_call=True), session("b", open_call=True)], "both"))
    assert kinds(joined)[6:8] == ["result", "user"]
    assert texts(joined)[6] == ""
    assert kinds(joined)[-1] == "call"


@pytest.mark.parametrize(("times", "kept"), [((1.0, 2.0), True), ((2.0, 1.0), False), ((1.0, None), True)])
def test_times_are_kept_only_if_none_goes_back(times: tuple[float | None, float | None], kept: bool) -> None:
    joined = join([session(str(number), at=at) for number, at in enumerate(times)], "both")
    assert [call.at for call in joined.calls[::2]] == (list(times) if kept else [None, None])
    assert [compaction.at for compaction in joined.compactions] == (list(times) if kept else [None, None])


def test_one_session_joined_is_itself_and_stays_as_it_was() -> None:
    alone = session("a")
    joined = join([alone], "a")
    assert (joined.parts, joined.messages, joined.calls) == (alone.parts, alone.messages, alone.calls)
    assert joined.starts == [0]
    assert not alone.starts


def test_marks_of_a_program_stay_in_one_session_and_are_told_missing_in_several() -> None:
    marked, other = session("a"), session("b")
    marked.marks = {2: (Mark("start", "look", host=True),)}
    assert join([marked], "a").marks == marked.marks
    joined = join([marked, other], "both")
    assert not joined.marks
    assert [problem.what for problem in joined.problems if "marks" in problem.what] == [
        "a: the marks of the program around the agent are left out, because joined sessions may share names"
    ]


def test_nothing_cannot_be_joined() -> None:
    with pytest.raises(ConfigError):
        join([], "nothing")
