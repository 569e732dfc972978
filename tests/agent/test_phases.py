"""Marks by the agent's program (R18): turns are tasks, and what its tools did tells the phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.provider import Serve
from tests.agent.work import working
from wane.core import DELIMITER
from wane.rebuilding import rebuild
from wane.scripted.model_calls import read, shell, write
from wane.testing import Kind, Reply, Request

PLAN = [read("a.txt"), read("a.txt"), write("b.txt", "b"), *[shell("true")] * 3, read("b.txt"), write("c.txt", "c")]


def model(request: Request) -> Reply:
    assert DELIMITER not in request.tools
    turn = max(n for n, message in enumerate(request.messages) if any(part.kind is Kind.USER for part in message.parts))
    done = sum(message.role == "assistant" for message in request.messages[turn:])
    return Reply(calls=(PLAN[done],)) if done < len(PLAN) else Reply("Done.")


@pytest.mark.full
def test_turns_are_tasks_and_changes_tell_the_phases(serve_model: Serve, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("a\n", encoding="utf-8")
    with working(serve_model, project, model, annotate="host") as at:
        at.run("First.")
        resumed = at.resume()
        assert resumed.conversation.settings.annotate == "host"
        at.run("Second.")
    marked = [episode for episode in resumed.episodes if not episode.implicit]
    names = ["turn", "reading", "work", "reading 2", "work 2"]
    assert [str(episode.name) for episode in marked][:5] == names
    assert [str(episode.task and episode.task.name) for episode in marked if not episode.is_task][:5] == [
        *["turn"] * 4,
        "turn 2",
    ]
    assert marked[2].dependencies == ("reading",)
    assert marked[4].dependencies == ("reading 2",)
    assert [episode.closed for episode in marked] == [True] * 5 + [False] + [True] * 3 + [False]  # turn 2, work 4
    rebuilt = rebuild(at.records, resumed.conversation.format)  # type: ignore[arg-type]
    assert [repr(episode) for episode in rebuilt.episodes] == [repr(episode) for episode in resumed.episodes]
