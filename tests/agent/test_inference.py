"""Sessions whose model marks nothing: episodes are inferred, recorded, and brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.conftest import config, dump_messages
from tests.agent.provider import Serve
from tests.agent.work import task, working
from wane.agent.turn_events import event_json
from wane.cli.sessions.show import load_session, session_dict
from wane.conversation.events import EpisodeOpened, PassRan
from wane.journal import MessageRecord
from wane.testing import Call, Reply


def plain_task(number: int) -> list[Reply]:
    """One task of a model that knows nothing of episodes."""
    file = {"path": f"out{number}.txt", "content": f"{number}\n"}
    return [
        Reply(calls=(Call("read_file", {"path": "long.py"}), Call("grep", {"pattern": f"value_{number}$"}))),
        Reply(calls=(Call("write_file", file), Call("shell", {"command": f"cat out{number}.txt"}))),
        Reply(f"Done {number}."),
    ]


@pytest.mark.full
def test_a_session_is_resumed_with_what_was_inferred(serve_model: Serve, project: Path) -> None:
    script = [reply for number in range(8) for reply in plain_task(number)]
    with working(serve_model, project, script, budget=6_000, annotate="infer") as at:
        assert [at.run(f"task {number}").output for number in range(5)] == [f"Done {number}." for number in range(5)]
        assert any(event.report.satisfied for event in at.of(PassRan))
        opened = [event.episode.name for event in at.of(EpisodeOpened) if event.episode.name]
        assert opened[:2] == ["reading-1:long.py", "work-2:out0.txt"]
        data = event_json(at.of(EpisodeOpened)[0])
        assert data is not None
        assert data["inferred"]
        # It is the baseline, without `recall` too.
        assert not {"delimiter", "recall"} & set(at.requests[0].tools)
        before = at.session
        at.given = config(project, at.given.settings.model, budget=6_000)
        resumed = at.resume()
        assert resumed.settings.context.annotate == "infer"
        assert dump_messages(resumed.conversation.view) == dump_messages(before.conversation.view)
        assert resumed.window.export() == before.window.export()
        assert [e.name for e in resumed.episodes] == [e.name for e in before.episodes]
        at.run(*(f"task {number}" for number in range(5, 8)))
        names = [episode.name for episode in resumed.episodes if episode.name]
        assert len(names) == len(set(names)) == 16
    assert sum(isinstance(record, MessageRecord) and bool(record.marks) for record in at.records) >= 16
    shown = session_dict(load_session(at.path))
    named = [episode for episode in shown["episodes"] if episode["name"]]
    assert [episode["name"] for episode in named] == names
    assert all(episode["inferred"] for episode in named)
    assert shown["messages"] == len(resumed.history)


def test_a_model_that_has_marked_its_work_goes_on_to(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [*task(0), *task(1)]) as at:
        at.run("task 0")
        resumed = at.resume(annotate="infer")
        assert any("none are inferred" in warning for warning in resumed.warnings)
        assert resumed.settings.context.annotate == "model"
        at.run("task 1")
        assert not any(episode.inferred for episode in resumed.episodes)
        assert [e.name for e in resumed.episodes if e.name] == ["look-0", "do-0", "look-1", "do-1"]


def test_a_session_may_go_over_to_inference_before_anything_was_marked(serve_model: Serve, project: Path) -> None:
    with working(serve_model, project, [Reply("Hello."), *plain_task(0)]) as at:
        at.run("hello")
        warnings = at.session.warnings
        resumed = at.resume(annotate="infer")
        assert resumed.warnings == warnings
        at.run("task 0")
        assert [episode.inferred for episode in resumed.episodes] == [False, True, True]  # first comes the "Hello."
        assert at.resume().settings.context.annotate == "infer"
