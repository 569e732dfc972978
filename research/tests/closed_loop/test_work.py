"""The tasks: the same for a seed, tied to earlier ones as far as they are to be, with tests that know the answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wane_research.closed_loop.sight import turns_in
from wane_research.closed_loop.work import Link, Work, make_work
from wane_research.closed_loop.world import make_world


@pytest.fixture(scope="module")
def work() -> Work:
    return make_work(0, tasks=89, budget=80_000, tokens=80_000_000)


@pytest.mark.full
def test_a_seed_gives_the_same_work(work: Work) -> None:
    assert make_work(0, tasks=89, budget=80_000, tokens=80_000_000) == work
    assert make_work(1, tasks=89, budget=80_000, tokens=80_000_000) != work


def test_tasks_depend_on_what_was_said_and_found_up_to_80_tasks_earlier(work: Work) -> None:
    ties = [tie for task in work.tasks for tie in task.ties]
    assert {tie.link for tie in ties} == set(Link)
    assert max(tie.distance for task in work.tasks for tie in task.ties) == 80
    assert sum(tie.distance >= 40 for tie in ties) >= 20
    assert all(1 <= tie.giver < tie.user for tie in ties)


def test_what_only_the_user_decides_is_said_once(work: Work) -> None:
    for tie in (tie for task in work.tasks for tie in task.ties):
        if tie.link is Link.DECISION:
            said = [task.number for task in work.tasks if f"surcharge for {tie.about} is" in task.prompt]
            assert said == [tie.giver]
            assert str(tie.value) not in work.tasks[tie.user - 1].prompt


def test_every_prompt_is_understood_whole(work: Work) -> None:
    for task in work.tasks:
        (turn,) = turns_in(task.prompt)
        assert (turn.number, turn.target) == (task.number, task.path)
        assert turn.quotas
        assert len(turn.surcharges) == sum(tie.link is Link.DECISION for tie in task.ties)
        assert len(turn.called) == sum(tie.link is Link.CODE for tie in task.ties)
        assert len(turn.highest) == sum(tie.link is Link.FINDING for tie in task.ties)
        assert len(turn.drawn) == sum(tie.link in (Link.DESCRIBED, Link.RECALLED) for tie in task.ties)


def test_a_task_of_its_own_session_is_told_what_it_depends_on_and_no_more(work: Work) -> None:
    for task in work.tasks:
        told = {turn.number for turn in turns_in(work.alone(task))}
        assert told >= {tie.giver for tie in task.ties if tie.link in (Link.DECISION, Link.NAME, Link.CODE)}
        assert len(told) <= 4
    free = next(task for task in work.tasks if not task.ties)
    assert work.alone(free) == free.prompt


def test_more_tokens_mean_more_files_for_each_task() -> None:
    few = make_work(0, tasks=20, budget=80_000, tokens=5_000_000)
    many = make_work(0, tasks=20, budget=80_000, tokens=18_000_000)
    assert len(turns_in(few.tasks[0].prompt)[0].quotas) < len(turns_in(many.tasks[0].prompt)[0].quotas)


def test_the_repository_works_and_its_tickets_can_be_drawn_once(tmp_path: Path) -> None:
    world = make_world(0, areas=2, modules=2, file_tokens=500)
    for path, text in world.files():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)

    area = world.areas[0]
    assert run("tools/check.py", area).stdout == "2 tests, 0 failed\n"
    assert run("tools/draw.py", area).stdout == f"ticket for {area}: {world.tickets[area]}\n"
    again = run("tools/draw.py", area)
    assert again.returncode == 1
    assert "has been drawn already" in again.stderr


def test_files_are_as_long_as_asked_for() -> None:
    modules = make_world(3, areas=4, modules=5, file_tokens=3000).modules.values()
    mean = sum(len(module.text) / 4 for module in modules) / len(modules)
    assert mean == pytest.approx(3000, rel=0.15)
