"""Sessions whose model marks nothing: episodes are inferred, recorded, and brought back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.agent.conftest import chosen, config, dumped
from tests.agent.provider import Serve
from tests.agent.test_session import path_of, run, task
from wane.agent.config import load_settings
from wane.agent.events import SessionEvent, event_json
from wane.agent.options import AgentOptions
from wane.agent.session import AgentSession
from wane.cli.sessions.saved import load_session
from wane.cli.sessions.show import session_dict
from wane.conversation.events import EpisodeOpened, PassRan
from wane.core.errors import ConfigError
from wane.journal import MessageRecord, read
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
def test_a_session_is_resumed_with_what_was_inferred(served: Serve, project: Path) -> None:
    events: list[SessionEvent] = []
    with served([reply for number in range(8) for reply in plain_task(number)]) as server:
        settings = config(project, server.model(), budget=6_000, annotate="infer")
        session = AgentSession.create(settings)
        for number in range(5):
            assert run(session, f"task {number}", on_event=events.append).output == f"Done {number}."
        assert any(isinstance(event, PassRan) and event.report.satisfied for event in events)
        opened = [event.episode for event in events if isinstance(event, EpisodeOpened) and event.episode.name]
        assert [episode.name for episode in opened[:2]] == ["explore-1:long.py", "act-2:out0.txt"]
        assert event_json(next(event for event in events if isinstance(event, EpisodeOpened)))["inferred"]
        # It is the baseline, without `recall` too.
        assert not {"delimiter", "recall"} & set(server.requests[0].tools)
        view, exported = dumped(session.conversation.view), session.window.export()
        session.close()

        resumed = AgentSession.resume(path_of(session), config(project, server.model(), budget=6_000))
        assert resumed.settings.context.annotate == "infer"
        assert dumped(resumed.conversation.view) == view
        assert resumed.window.export() == exported
        assert [e.name for e in resumed.episodes] == [e.name for e in session.episodes]
        for number in range(5, 8):
            assert run(resumed, f"task {number}").output == f"Done {number}."
        names = [episode.name for episode in resumed.episodes if episode.name]
        assert len(names) == len(set(names)) == 16
        resumed.close()
        assert server.refusals == ()
    records = read(path_of(session)).records
    assert sum(isinstance(record, MessageRecord) and bool(record.marks) for record in records) >= 16
    shown = session_dict(load_session(path_of(session)))
    named = [episode for episode in shown["episodes"] if episode["name"]]
    assert [episode["name"] for episode in named] == names
    assert all(episode["inferred"] for episode in named)
    assert shown["messages"] == len(resumed.history)


def test_a_model_that_has_marked_its_work_goes_on_to(served: Serve, project: Path) -> None:
    with served([*task(0), *task(1)]) as server:
        settings = config(project, server.model())
        session = AgentSession.create(settings)
        run(session, "task 0")
        session.close()
        resumed = AgentSession.resume(path_of(session), chosen(settings, annotate="infer"))
        assert any("none are inferred" in warning for warning in resumed.warnings)
        assert resumed.settings.context.annotate == "model"
        run(resumed, "task 1")
        assert not any(episode.inferred for episode in resumed.episodes)
        assert [e.name for e in resumed.episodes if e.name] == ["look-0", "do-0", "look-1", "do-1"]
        resumed.close()


def test_a_session_may_go_over_to_inference_before_anything_was_marked(served: Serve, project: Path) -> None:
    with served([Reply("Hello."), *plain_task(0)]) as server:
        settings = config(project, server.model())
        session = AgentSession.create(settings)
        run(session, "hello")
        session.close()
        resumed = AgentSession.resume(path_of(session), chosen(settings, annotate="infer"))
        assert resumed.warnings == session.warnings
        run(resumed, "task 0")
        assert [episode.inferred for episode in resumed.episodes] == [False, True, True]  # first comes the "Hello."
        resumed.close()
        again = AgentSession.resume(path_of(session), settings)
        assert again.settings.context.annotate == "infer"
        again.close()


def test_the_setting_may_stand_in_a_file(project: Path) -> None:
    (project / ".wane.toml").write_text('annotate = "infer"\n')
    assert load_settings(AgentOptions(cwd=project), os.environ).context.annotate == "infer"
    assert load_settings(AgentOptions(cwd=project, annotate="model"), os.environ).context.annotate == "model"
    (project / ".wane.toml").write_text(f"annotate = {json.dumps('guess')}\n")
    with pytest.raises(ConfigError, match=r"annotate = 'guess': .* it must be one of: model, infer"):
        load_settings(AgentOptions(cwd=project), os.environ)
