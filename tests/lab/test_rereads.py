"""What sub-agents read again, and sub-agents in files of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.core import Kind
from wane.formats.message_format import Part
from wane.lab.readers import gather
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.lab.rereads import rereads

Made = tuple[str, str, str, float | None]
"""A call as a test makes it: the tool, its file or command, the result's text, and the time."""


def session(name: str, made: Sequence[Made]) -> RecordedSession:
    recorded = RecordedSession(name, "openai")
    for number, (tool, what, text, at) in enumerate(made):
        arguments = json.dumps({"path" if tool == "read" else "command": what})
        first = len(recorded.parts)
        recorded.parts += [
            Part(Kind.CALL, call_id=str(number), tool=tool, arguments=arguments),
            Part(Kind.RESULT, text, call_id=str(number)),
        ]
        recorded.calls.append(ModelCall(first, first + 1, at=at))
    return recorded


def family(parent: Sequence[Made], *sides: Sequence[Made]) -> RecordedSession:
    whole = session("parent", parent)
    whole.sidechains = [session(f"side {number}", side) for number, side in enumerate(sides)]
    return whole


def test_a_file_or_command_of_the_parent_or_a_sibling_counts_if_it_came_before() -> None:
    whole = family(
        [("read", "/w/a.py", "print(41)", 1.0)],
        [("bash", "cat a.py", "print(42)", 2.0), ("bash", "ls", "a.py", 3.0), ("read", "b.py", "", 4.0)],
        [("bash", "ls", "a.py", 5.0), ("read", "c.py", "c", 6.0)],
        [("bash", "ls", "a.py", 2.5)],
    )
    # `cat a.py` shows what the parent has read, two of `ls` are the sibling's, and one result is empty.
    counted = rereads(whole)
    assert (counted.results, counted.repeated, counted.identical, counted.undated) == (5, 3, 2, 0)
    assert counted.describe() == (
        "3 of 5 results (60%) repeat a file or command of the parent or a sibling, 2 to the byte"
    )


@pytest.mark.parametrize("times", [(None, 2.0), (1.0, None), (9.0, 2.0)], ids=["no time", "none here", "goes back"])
def test_an_order_that_is_not_known_gives_a_bound(times: tuple[float | None, float | None]) -> None:
    parent: list[Made] = [("read", "a.py", "a", times[0])]
    if times == (9.0, 2.0):
        parent = [("read", "z.py", "z", 9.0), ("read", "a.py", "a", 1.0)]
    counted = rereads(family(parent, [("read", "a.py", "a", times[1])]))
    assert (counted.repeated, counted.undated) == (0, 1)
    assert counted.describe().startswith("0 to 1 of 1 results repeat")


def test_calls_that_read_nothing_do_not_count() -> None:
    waiting: Made = ("wait_agent", "x", "Wait timed out.", 1.0)
    edit: Made = ("edit", "a.py", "Edited.", 2.0)
    later: list[Made] = [(*call[:3], 3.0 + number) for number, call in enumerate((waiting, edit))]
    assert rereads(family([waiting, edit], later)).results == 0


def test_what_a_sub_agent_began_with_does_not_count() -> None:
    whole = family([("read", "a.py", "a", 1.0)], [("read", "a.py", "a", 2.0), ("read", "a.py", "a", 3.0)])
    side = whole.sidechains[0]
    side.calls[0] = replace(side.calls[0], inherited=True)
    assert rereads(whole).results == 1


MADE = st.tuples(st.sampled_from(["read", "bash"]), st.sampled_from(["ls", "cat a", "b"]), st.sampled_from(["x", "y"]))


@given(st.lists(st.lists(MADE, max_size=5), min_size=1, max_size=4), st.randoms())
def test_counts_are_those_of_a_naive_count_in_any_order(sessions: list[list[tuple[str, str, str]]], random) -> None:  # type: ignore[no-untyped-def]
    times = list(range(sum(map(len, sessions))))
    random.shuffle(times)
    dated: list[list[tuple[str, str, str, float]]] = []
    for calls in sessions:
        # Within a session time goes on.
        own = sorted(times.pop() for _ in calls)
        dated.append([(*made, float(at)) for made, at in zip(calls, own, strict=True)])
    counted = rereads(family(dated[0], *dated[1:]))
    repeated = identical = 0
    for number, side in enumerate(dated[1:], start=1):
        others = [made for calls in dated[:number] + dated[number + 1 :] for made in calls]
        for tool, what, text, at in side:
            earlier = [other for other in others if other[3] < at and same((tool, what), other[:2])]
            repeated += bool(earlier)
            identical += any(other[2] == text for other in earlier)
    assert (counted.repeated, counted.identical, counted.undated) == (repeated, identical, 0)
    assert counted.results == sum(map(len, dated[1:]))


def same(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one == other or not files(one).isdisjoint(files(other))


def files(made: tuple[str, str]) -> set[str]:
    tool, what = made
    if tool == "read":
        return {what}
    return {what.removeprefix("cat ")} if what.startswith("cat ") else set()


# Files of their own


def rollout(folder: Path, name: str, parent: str = "", *, fork: bool = False, text: str = "Look.") -> Path:
    """A session of Codex; a forked one begins with two lines of its parent's."""
    payload: dict[str, object] = {"id": name, "cwd": "/w"}
    if parent:
        payload["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    if fork:
        payload["subagent_history_start_ordinal"] = 3

    def lines() -> Iterator[dict[str, object]]:
        yield {"type": "session_meta", "payload": payload}
        for number in range(1 + fork):
            said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            yield {"type": "response_item", "payload": said}
            answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"{number}"}]}
            yield {"type": "response_item", "payload": answer}

    folder.mkdir(exist_ok=True)
    path = folder / f"rollout-{name}.jsonl"
    stamp = "2026-01-01T00:00:00.000Z"
    rows = [{"timestamp": stamp, "ordinal": number, **line} for number, line in enumerate(lines())]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_sub_agents_of_codex_stand_in_the_session_that_started_them(tmp_path: Path) -> None:
    main = rollout(tmp_path, "main")
    rollout(tmp_path, "sub", "main")
    rollout(tmp_path, "nested", "sub", fork=True)
    rollout(tmp_path, "orphan", "gone")
    for paths in ([tmp_path], [main, tmp_path], [tmp_path, main]):
        outer = [entry.session for entry in gather(paths).recordings]
        assert [one.id for one in outer] == ["main", "orphan"]
        (side,) = outer[0].sidechains
        (inner,) = side.sidechains
        assert (side.id, inner.id) == ("sub", "nested")
        assert [one.parent for one in outer] == ["", "gone"]
    whole = gather([main], sidechains=True)
    assert [(entry.session.id, entry.parent) for entry in whole.recordings] == [
        ("main", None),
        ("sub", "rollout-main"),
        ("nested", "rollout-sub"),
    ]
    nested = whole.recordings[2].session
    assert (len(nested.calls), len(nested.own_calls)) == (2, 1)


def test_two_parents_of_one_id_and_a_circle_leave_sessions_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "twice").mkdir()
    rollout(tmp_path, "main")
    rollout(tmp_path / "twice", "main", text="Another.")
    rollout(tmp_path, "sub", "main")
    one, other = rollout(tmp_path, "one", "other"), rollout(tmp_path, "other", "one")
    own = rollout(tmp_path, "own", "own")
    ids = sorted(entry.session.id for entry in gather([tmp_path]).recordings)
    assert ids == ["main", "main", "one", "other", "own", "sub"]
    for path in (one, other, own):
        assert gather([path]).recordings
