"""Where a person sees tasks (R17): episodes stand under them, and abandoned ones say so."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conversation.test_scopes import Program
from tests.conversation.test_tasks import Model
from wane import Conversation
from wane.journal import SessionStore


@pytest.fixture
def session_path(tmp_path: Path) -> Path:
    """A session with a task in a task, of which the inner one was abandoned, and an episode outside of both."""
    model = Model(budget="80k")
    model.look("early")
    model.mark(action="start", name="goal", type="task")
    model.task("way", "a", abandoned=True)
    model.look("b")
    model.mark(action="end", name="goal", description="the port was taken")
    model.look("late")
    return save(model.conversation, tmp_path)


def save(conversation: Conversation[Any], folder: Path) -> Path:
    """Write the journal of a conversation."""
    with SessionStore(folder / "sessions").create(folder, message_format="openai", fsync=False) as journal:
        for record in conversation.log.records():
            journal.append(record)
        return journal.path


def measure_indents(out: str, names: str) -> dict[str, int]:
    """How far each name stands from the table's letters, in order."""
    rows = re.findall(rf"^[A-Z]( +)({names})\b", out, re.MULTILINE)
    return {name: len(spaces) for spaces, name in rows}


def test_show_puts_episodes_under_their_tasks(run: Run, session_path: Path) -> None:
    shown = run("show", session_path).out
    depths = measure_indents(shown, "early|goal|way|a|b|late")
    assert list(depths) == ["early", "goal", "way", "a", "b", "late"]
    base = depths["early"]
    assert [depth - base for depth in depths.values()] == [0, 0, 2, 4, 2, 0]
    assert "way (abandoned)" in shown
    assert "goal (abandoned)" not in shown
    assert "T task" in shown


def test_show_as_json(run: Run, session_path: Path) -> None:
    episodes = json.loads(run("show", session_path, "--json").out)["episodes"]
    assert {episode["name"]: (episode["type"], episode["task"], episode["abandoned"]) for episode in episodes} == {
        "early": ("expl", None, False),
        "goal": ("task", None, False),
        "way": ("task", "goal", True),
        "a": ("expl", "way", True),
        "b": ("expl", "goal", False),
        "late": ("expl", None, False),
    }


def view_session(run: Run, journal: Path) -> Any:
    """The session in the page of a journal."""
    page = journal.with_suffix(".html")
    assert run("view", journal, "--output", page).code == 0
    (session,) = data_of(page)["sessions"]
    return session


def data_of(page: Path) -> Any:
    (data,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(data)


def test_the_page_knows_tasks_without_being_told(run: Run, session_path: Path) -> None:
    bars = view_session(run, session_path)["bars"]
    assert [(bar["type"], bar["task"], bar["abandoned"]) for bar in bars] == [
        ("expl", -1, 0),
        ("task", -1, 0),
        ("task", 1, 1),
        ("expl", 2, 1),
        ("expl", 1, 0),
        ("expl", -1, 0),
    ]


def test_the_page_has_the_episodes_that_a_host_marked(run: Run, tmp_path: Path) -> None:
    program = Program()

    async def branch(name: str) -> None:
        with program.conversation.task(name), program.conversation.episode(f"look {name}", "expl") as episode:
            for _ in range(3):
                program.read(name)
                await asyncio.sleep(0)
            episode.describe(f"{name} was read.")

    async def both() -> None:
        await asyncio.gather(branch("a"), branch("b"))

    asyncio.run(both())
    program.say("Done.")
    program.go_on(4)
    journal = save(program.conversation, tmp_path)
    session = view_session(run, journal)
    assert (session["inferred"], session["host"]) == (False, True)
    bars = [bar for bar in session["bars"] if bar["name"]]
    names = {bar["number"]: bar["name"] for bar in bars}
    assert [bar["name"] for bar in bars][:4] == ["a", "look a", "b", "look b"]
    assert {bar["name"]: names.get(bar["task"]) for bar in bars[:5]} == {
        "a": None,
        "look a": "a",
        "b": None,
        "look b": "b",
        "other 0": None,
    }
    assert bars[1]["description"] == "a was read."
    (steps,) = [replay["steps"] for replay in session["runs"] if replay["name"] == "recorded"]
    assert {names.get(step[1]) for step in steps} >= {"look a", "look b"}, "passes took them as what they were marked"
    for budget, strategy in (("0.7k", "cwl"), ("0.6k", "cwl"), ("0.7k", "fold")):
        page = tmp_path / "replayed.html"
        done = run("replay", journal, "--strategy", strategy, "--budget", budget, "--json", "--report", page)
        assert json.loads(done.out)["sessions"][0]["annotation"] == "host"
        (replayed,) = data_of(page)["sessions"]
        titles = {bar["number"]: bar["name"] for bar in replayed["bars"]}
        (steps,) = [replay["steps"] for replay in replayed["runs"] if replay["name"] == strategy]
        taken = {titles[step[1]] for step in steps}
        assert taken >= {"look a", "look b"} if strategy == "cwl" else taken.isdisjoint({"look a", "look b"})
        assert (replayed["host"], replayed["inferred"]) == (strategy == "cwl", strategy == "fold"), "what it shows"
    planned = json.loads(run("plan", journal, "--json").out)
    assert planned["annotation"] == "host"
    assert {"look a", "look b"} <= {episode["name"] for episode in planned["episodes"]}
    assert json.loads(run("plan", journal, "--annotate", "infer", "--json").out)["annotation"] == "inferred"


def test_the_page_infers_what_a_host_marked_if_items_are_missing(run: Run, tmp_path: Path) -> None:
    program = Program()
    with program.conversation.episode("look", "expl"):
        program.read("a")
    program.say("Done.")
    journal = save(program.conversation, tmp_path)
    lines = journal.read_bytes().splitlines(keepends=True)
    message = next(number for number, line in enumerate(lines) if b"Fix it." in line)
    journal.write_bytes(b"".join([*lines[:message], b"damaged\n", *lines[message + 1 :]]))
    session = view_session(run, journal)
    assert (session["inferred"], session["host"]) == (True, False)


def test_a_plan_has_tasks_where_they_are_asked_for(run: Run, tmp_path: Path) -> None:
    model = Model(budget="80k")
    model.task("goal", "a")
    model.look("b")
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps(model.conversation.messages))
    planned = json.loads(run("plan", messages, "--tasks", "--json").out)["episodes"]
    assert [(episode["name"], episode["task"]) for episode in planned] == [("goal", None), ("a", "goal"), ("b", None)]
    assert "goal" not in {episode["name"] for episode in json.loads(run("plan", messages, "--json").out)["episodes"]}
