"""The report: figures that can be reckoned by hand, real trials, journals, and the page in a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from research.tests.evaluation import trials

from tests.cli.conftest import Run as Command
from tests.cli.conftest import plain_surroundings, run
from tests.cli.sample import save
from tests.lab.browser import Browser, needs_chromium
from wane_research.evaluation.report import Report, page, report, to_markdown, write_page
from wane_research.evaluation.results import (
    NOTHING,
    VERSION,
    Abandoned,
    Arm,
    ContextFigures,
    Run,
    StepReward,
    Trial,
    Usage,
    append,
    begin,
    read,
)
from wane_research.evaluation.running.journals import SESSIONS

__all__ = ["plain_surroundings", "run"]  # fixtures

SINGLE = Arm("terminal-bench-2.0", "test:model", "cwl", 80_000, "single")
ISOLATED = replace(SINGLE, protocol="isolated")

Scored = Callable[[str, int], float | None]


def write(
    folder: Path,
    arm: Arm,
    scores: Scored,
    *,
    tasks: int = 4,
    runs: int = 2,
    margin: float = 0.03,
    whole: int | None = None,
    **trial: Any,
) -> list[Path]:
    """Write the runs of an arm, each in an order of its own; `scores` gives the reward by task and run.

    `whole` is how many tasks the benchmark has.
    """
    paths = []
    for number in range(1, runs + 1):
        order = [f"task-{task}" for task in range(tasks)]
        Random(number).shuffle(order)
        place = f"{arm.model}-{arm.strategy}-{arm.budget}-{arm.protocol}-{number}".replace(":", "-")
        path = folder / place / "results.jsonl"
        begun = datetime(2026, 11, 22, tzinfo=UTC)
        header = Run(VERSION, arm, number, tuple(order), number, "A new task.", margin, begun, {"wane": "0.1.0"})
        begin(path, replace(header, benchmark_tasks=whole))
        for position, task in enumerate(order, start=1):
            append(path, Trial(arm, number, position, task, scores(task, number), **trial))
        paths.append(path)
    return paths


def rewards(share: float, seed: int = 0) -> Scored:
    return lambda task, number: float(Random(f"{task}/{number}/{seed}").random() < share)


def row(found: Report, place: int = 0) -> dict[str, Any]:
    return dict(found.to_dict()["rows"][place])


def test_a_row_by_hand(tmp_path: Path) -> None:
    context = ContextFigures(3, 1_000, 500, 1, 2)
    usage = Usage(5, 900, 400, 0, 80, 0.25)
    paths = write(
        tmp_path,
        SINGLE,
        lambda task, _: None if task == "task-3" else 1.0,
        error="AgentTimeoutError",
        seconds=30.0,
        waited=12.5,
        usage=usage,
        context=context,
    )
    first = read(paths[0]).trials[0]
    append(paths[0], Abandoned(SINGLE, 1, first.task, "killed", Usage(1, 100, cost=0.5)))
    append(paths[0], first)
    whole = report([tmp_path])
    assert [it for it in whole.remarks if "100 seconds were lost to a provider that failed" in it]
    found = row(whole)
    assert (found["tasks"], found["runs"], found["trials"], found["missing"]) == (4, 2, 8, 0)
    assert found["waited_seconds"] == 100
    assert (found["score"], found["se_by_run"]) == (0.75, 0.0)
    assert found["errors"] == {"timeout": 8}
    assert found["exceptions"] == {"AgentTimeoutError": 8}
    assert (found["input_tokens"], found["cached_tokens"], found["output_tokens"]) == (7_200, 3_200, 640)
    assert (found["cost_usd"], found["abandoned_cost_usd"], found["cost_per_run_usd"]) == (2.0, 0.5, 1.25)
    assert (found["passes"], found["evicted_tokens"], found["peak_view"]) == (24, 8_000, 500)
    assert (found["over_budget"], found["read_again"], found["seconds_per_task"]) == (8, 16, 30.0)
    assert found["pass_at"] == found["pass_all"] == {"1": 0.75, "2": 0.75}
    assert found["difference"] is None


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    write(tmp_path, SINGLE, lambda *_: 1.0, runs=1)
    found = row(report([tmp_path]))
    for key in ("cost_usd", "cost_per_run_usd", "seconds_per_task", "passes", "peak_view", "se_by_run", "annotations"):
        assert found[key] is None, key
    # All passed: the interval is Wilson's, which has a width all the same.
    assert found["ci95"] == [pytest.approx(0.5101, abs=1e-4), 1.0]


def test_what_is_known_in_part_is_a_bound_in_all_three_forms(tmp_path: Path) -> None:
    used = {
        "task-0": Usage(4, 1_000, 500, 0, 100, 0.5),
        "task-1": Usage(4, 3_000, 500, 0, 100, cost_at_least=0.25, unreported=1),
        "task-2": Usage(input_tokens=2_000),
        "task-3": Usage(),
    }
    [path] = write(tmp_path, SINGLE, lambda *_: None, runs=1)
    for position, (task, usage) in enumerate(used.items(), start=1):
        context = ContextFigures(passes=2, peak_view=700) if task == "task-0" else None
        seconds = 30.0 if task == "task-0" else None
        append(path, Trial(SINGLE, 1, position, task, 1.0, usage=usage, context=context, seconds=seconds))
    found = report([tmp_path])
    it = row(found)
    assert [it[key] for key in ("model_calls", "input_tokens", "cost_usd", "cost_per_run_usd", "passes")] == [None] * 5
    least = it["at_least"]
    assert (least["model_calls"], least["input_tokens"], least["cost_usd"], least["passes"]) == (8, 6_000, 0.75, 2)
    assert (it["known_trials"]["input_tokens"], it["known_trials"]["cost"], it["timed_trials"]) == (2, 1, 1)
    assert "| ≥8 | ≥6,000 | ≥1,000 | ≥200 | ≥$0.75 | - | 30 (1 of 4) | ≥2.0 |" in to_markdown(found)
    assert any("known only for 1 of 4 trials: " in it and "cost" in it for it in found.remarks)
    facts = dict(page._facts(found))
    assert facts["Cost"] == "at least $0.75 (cost known of 1 of 4 trials)"
    assert facts["Input tokens"] == "at least 6,000"


def test_means_of_runs_that_are_not_through_are_bounds(tmp_path: Path) -> None:
    usage = Usage(2, 100, 0, 0, 10, 0.5)
    first, _ = write(tmp_path, SINGLE, lambda *_: 1.0, usage=usage)
    first.write_bytes(b"".join(first.read_bytes().splitlines(keepends=True)[:-1]))
    found = report([tmp_path])
    assert (row(found)["cost_usd"], row(found)["cost_per_run_usd"]) == (3.5, None)
    assert row(found)["at_least"]["cost_per_run_usd"] == 1.75
    assert "| ≥7 | ≥350 | ≥0 | ≥35 | ≥$1.75 |" in to_markdown(found)


def test_without_a_budget_nothing_is_over_it(tmp_path: Path) -> None:
    write(tmp_path, replace(SINGLE, budget=None), lambda *_: 1.0, context=ContextFigures(peak_view=9), usage=NOTHING)
    found = report([tmp_path])
    assert (row(found)["over_budget"], row(found)["passes"], row(found)["peak_view"]) == (None, 0, 9)
    assert "| 9 | - | 0.0 |\n" in to_markdown(found)


def test_a_copy_of_isolated_runs_does_not_change_what_they_are_compared_with(tmp_path: Path) -> None:
    write(tmp_path / "a", SINGLE, lambda *_: 1.0)
    write(tmp_path / "b", ISOLATED, lambda *_: 1.0)
    # An older copy, of fewer trials that came out otherwise.
    for path in write(tmp_path / "c", ISOLATED, lambda *_: 0.0):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    found = report([tmp_path])
    assert (row(found, 0)["score"], row(found, 1)["difference"]["value"]) == (1.0, 0.0)
    assert len(found.runs) == 4


def test_what_the_agent_did_not_cause_is_in_no_score(tmp_path: Path) -> None:
    write(tmp_path, ISOLATED, lambda *_: 1.0)
    path = write(tmp_path, SINGLE, lambda task, _: None if task == "task-0" else 1.0)[0]
    results = read(path)
    path.unlink()
    begin(path, results.run)
    for trial in results.trials:
        lost = trial.task == "task-0"
        append(path, replace(trial, error="SandboxError", phase="set-up") if lost else trial)
    found = report([tmp_path])
    single = next(it for it in found.to_dict()["rows"] if it["protocol"] == "single")
    assert single["score"] == 1.0
    assert single["not_counted"] == single["errors"] == {"environment": 1, "not graded": 1}
    # Nor are two arms compared of which one lacks more than the other.
    assert single["difference"]["verdict"] is None
    assert single["difference"]["not_counted"] == [0.25, 0.0]
    assert "none: 25.0 % not counted, and 0.0 % in isolation" in to_markdown(found)
    assert any("in no score: environment 1." in remark for remark in found.remarks)
    assert any("1 trials ended without an error and were not graded" in remark for remark in found.remarks)


def test_a_run_of_which_nothing_counts_is_told(tmp_path: Path) -> None:
    write(tmp_path, SINGLE, lambda *_: None)
    found = report([tmp_path])
    assert not found.rows
    assert all(remark.endswith("no trial counts: not graded 4") for remark in found.remarks)


def test_runs_of_different_tasks_are_told(tmp_path: Path) -> None:
    write(tmp_path, SINGLE, lambda *_: 1.0, tasks=2, runs=2)
    path = write(tmp_path / "more", SINGLE, lambda *_: 1.0, tasks=3, runs=3)[2]
    found = report([*tmp_path.glob("test*"), path])
    assert any("its runs have different tasks" in remark for remark in found.remarks)


@pytest.mark.quick(4)
@pytest.mark.parametrize(("tasks", "runs"), [(1, 1), (1, 2), (2, 1), (2, 2), (30, 1), (30, 3)])
@pytest.mark.parametrize("reward", [0.0, 0.5, 1.0])
def test_no_interval_is_without_a_width(tmp_path: Path, tasks: int, runs: int, reward: float) -> None:
    for arm in (SINGLE, ISOLATED):
        write(tmp_path, arm, lambda *_: reward, tasks=tasks, runs=runs)
    found = report([tmp_path])
    for it in found.to_dict()["rows"]:
        apart = it["difference"] or {}
        ends = [it["ci95"], it["ci95_by_run"], it["drift_ci95"], apart.get("ci95"), apart.get("ci90")]
        assert all(each is None or each[1] - each[0] > 0.01 for each in ends)
        assert (it["ci95"] is None) == (tasks == 1)
    # Two tries of one task that came out the same prove nothing.
    verdicts = {it["difference"]["verdict"] for it in found.to_dict()["rows"] if it["difference"]}
    assert verdicts == {"undecided"}
    assert (tasks == 1) == ("With one task, nothing is known about other tasks." in found.cannot[0].text)
    assert "±0.0 points" not in to_markdown(found)
    assert "nan" not in to_markdown(found).lower()


def test_one_session_is_held_against_isolated_ones_of_its_strategy_and_budget(tmp_path: Path) -> None:
    write(tmp_path, SINGLE, lambda *_: 1.0)
    write(tmp_path, replace(ISOLATED, budget=40_000), lambda *_: 0.0)
    write(tmp_path, replace(ISOLATED, strategy="none", budget=None), lambda task, _: float(task < "task-2"))
    write(tmp_path, replace(ISOLATED, model="test:other"), lambda *_: 0.0)

    def against() -> dict[str, Any]:
        rows = report([tmp_path]).to_dict()["rows"]
        [single] = [it for it in rows if it["protocol"] == "single"]
        return dict(single["difference"])

    assert (against()["to"]["strategy"], against()["value"]) == ("none", 0.5)
    assert "+50.00 (of none at no budget)" in to_markdown(report([tmp_path]))
    write(tmp_path, ISOLATED, lambda task, _: float(task < "task-3"))
    assert (against()["to"]["budget"], against()["value"]) == (80_000, 0.25)
    assert "+25.00 |" in to_markdown(report([tmp_path]))


def test_steps_have_rewards_of_their_own(tmp_path: Path) -> None:
    steps = {1: (StepReward("one", 1.0), StepReward("two", 0.5)), 2: (StepReward("one", 1.0), StepReward("two", None))}
    for number, path in enumerate(write(tmp_path, SINGLE, lambda *_: None, tasks=1, runs=2), start=1):
        append(path, Trial(SINGLE, number, 1, "task-0", 0.75, steps=steps[number]))
    write(tmp_path, ISOLATED, lambda *_: 1.0, tasks=2, runs=1, steps=(StepReward("one", 0.0),))
    isolated, single = (row(report([tmp_path]), place)["steps"] for place in (0, 1))
    assert single == [
        {"task": "task-0", "step": "one", "reward": 1.0, "trials": 2},
        {"task": "task-0", "step": "two", "reward": 0.25, "trials": 2},
    ]
    assert {(it["task"], it["step"], it["reward"]) for it in isolated} == {
        ("task-0", "one", 0.0),
        ("task-1", "one", 0.0),
    }
    text = to_markdown(report([tmp_path]))
    assert "| terminal-bench-2.0 | task-0 | one | 0 | 1 |\n" in text
    assert "| terminal-bench-2.0 | task-0 | two | - | 0.25 |\n" in text
    assert "| terminal-bench-2.0 | task-1 | one | 0 | - |\n" in text


@pytest.mark.full
def test_the_margin_is_the_one_set_before(tmp_path: Path) -> None:
    for arm, seed in ((SINGLE, 1), (ISOLATED, 2)):
        write(tmp_path / "wide", arm, rewards(0.5, seed), tasks=60, runs=5, margin=0.3)
        write(tmp_path / "narrow", arm, rewards(0.5, seed), tasks=60, runs=5, margin=0.01)
    wide, narrow = (row(report([tmp_path / name]), 1)["difference"] for name in ("wide", "narrow"))
    assert (wide["value"], wide["margin"], wide["verdict"]) == (narrow["value"], 0.3, "equivalent")
    assert narrow["verdict"] == "undecided"
    text = to_markdown(report([tmp_path / "narrow"]))
    assert "At a margin of 1.0 points, so few runs could not show even equal arms equal." in text


def test_what_is_incomplete_is_said(tmp_path: Path) -> None:
    first, second = write(tmp_path, SINGLE, lambda *_: 1.0)
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    again = tmp_path / "copy" / "results.jsonl"
    again.parent.mkdir()
    shutil.copy(second, again)
    broken = tmp_path / "empty" / "results.jsonl"
    begin(broken, Run(VERSION, SINGLE, 9, ("task-0",), 1, "", 0.03, datetime(2026, 11, 22, tzinfo=UTC)))
    found = report([tmp_path])
    assert row(found)["missing"] == 1
    said = " ".join(found.remarks)
    assert "the last line is cut off" in said
    assert "hold the same run" in said
    assert "no trial yet" in said
    assert "planned trials without a result: 1; the score is of the others" in said
    assert row(found)["runs"] == 2


def test_some_of_a_benchmark_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    write(tmp_path / "some", SINGLE, rewards(0.5), tasks=23, whole=89)
    some = report([tmp_path / "some"])
    assert (row(some)["tasks"], row(some)["benchmark_tasks"]) == (23, 89)
    assert "The score is of 23 of 89 tasks of the benchmark" in some.cannot[0].text
    assert "| 23 of 89 x 2 |" in to_markdown(some)
    for name, whole in (("all", 23), ("unknown", None)):
        write(tmp_path / name, SINGLE, rewards(0.5), tasks=23, whole=whole)
        found = report([tmp_path / name])
        assert "| 23 x 2 |" in to_markdown(found)
        assert not any("of the benchmark" in it.text for it in found.cannot)


def test_one_run_and_one_order_are_told_for_what_they_are(tmp_path: Path) -> None:
    write(tmp_path, SINGLE, rewards(0.5), tasks=20, runs=1)
    write(tmp_path, ISOLATED, rewards(0.5, 3), tasks=20, runs=1)
    [isolated, single] = [it.text for it in report([tmp_path]).cannot]
    assert "With one run, it is not known how far runs lie apart." in isolated
    assert "One run has one order" in single
    assert "which one run cannot show" in single


def test_what_holds_of_all_arms_is_said_once(tmp_path: Path) -> None:
    for budget in (40_000, 80_000):
        write(tmp_path, replace(SINGLE, budget=budget), rewards(0.5, budget), tasks=20, runs=1)
    both, *each = report([tmp_path]).cannot
    assert both.of == "All arms, single"
    assert both.text.startswith("With one run, ")
    assert len(each) == 2
    assert not any("With one run" in it.text for it in each)


@pytest.mark.full
@trials.needs_trials
def test_real_trials(tmp_path: Path) -> None:
    trials.write(tmp_path, "Qwen3.6-27B", "isolated")
    trials.write(tmp_path, "tmax-27b", "single")
    found = report([tmp_path])
    isolated, single = row(found, 0), row(found, 1)
    assert [round(100 * isolated[key], 2) for key in ("score", "se_naive", "se_by_task", "se_by_run")] == [
        40.96,
        2.38,
        4.68,
        1.41,
    ]
    apart = single["difference"]
    assert [round(100 * apart[key], 2) for key in ("value", "se_paired", "se_unpaired")] == [1.74, 2.23, 6.64]
    assert (apart["verdict"], apart["not_counted"]) == (None, pytest.approx([0.0, 17 / 445]))
    assert (isolated["errors"]["timeout"], isolated["errors"]["cancelled"]) == (57, 14)
    # The tasks stood at random places, in sessions of their own.
    for it in (isolated, single):
        assert it["drift_ci95"][0] < 0 < it["drift_ci95"][1]
    assert [it["chance"] is None for it in found.to_dict()["paper"]["rows"]] == [False, True, True, True]
    assert (
        "With n = 5, differences to isolated sessions under 4.4 points cannot be told from chance"
        in found.cannot[1].text
    )


class TestJournals:
    def test_views_and_marks_come_from_the_journal_after_the_last_task(self, tmp_path: Path) -> None:
        journal = save(tmp_path / "journals", cwd=tmp_path, budget=3_000)
        [path] = write(tmp_path / "runs", SINGLE, lambda *_: 1.0, runs=1, journal=str(journal))
        found = report([path])
        marks = row(found)["annotations"]
        assert (marks["sessions"], marks["explorations"] + marks["acts"] > 3, marks["passes"] > 0) == (1, True, True)
        [view] = found.to_dict()["views"]
        assert len(view["tokens"]) == marks["model_calls"]
        assert len(view["passes"]) == marks["passes"]
        # A pass makes the next request smaller than the one before it.
        assert all(view["tokens"][at] < view["tokens"][at - 1] for at in view["passes"] if at)

    def test_each_isolated_session_counts(self, tmp_path: Path) -> None:
        journals = iter([str(save(tmp_path / f"j{n}", cwd=tmp_path)) for n in range(2)])
        [path] = write(tmp_path / "runs", ISOLATED, lambda *_: 1.0, tasks=2, runs=1)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines[1:]:
            line["journal"] = next(journals)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        found = report([path])
        assert row(found)["annotations"]["sessions"] == 2
        assert found.views == ()

    def test_each_step_of_an_isolated_task_counts(self, tmp_path: Path) -> None:
        trial = {"steps": (StepReward("one", 1.0), StepReward("two", 1.0)), "directory": "trials/task"}
        [path] = write(tmp_path / "runs", ISOLATED, lambda *_: 1.0, tasks=1, runs=1, journal="either.jsonl", **trial)
        for step in ("one", "two"):
            folder = path.parent / "trials" / "task" / "steps" / step / "agent" / SESSIONS
            save(folder, cwd=tmp_path, session_id=step)
        assert row(report([path]))["annotations"]["sessions"] == 2

    def test_a_budget_that_the_provider_did_not_take_is_said(self, tmp_path: Path) -> None:
        for budget in (3_000, 80_000):
            journal = str(save(tmp_path / f"journals-{budget}", cwd=tmp_path, budget=budget))
            write(tmp_path / f"runs-{budget}", SINGLE, lambda *_: 1.0, runs=1, journal=journal)
        lowered, kept = (report([tmp_path / f"runs-{budget}"]).remarks for budget in (3_000, 80_000))
        assert "refused views of its budget, so it was lowered, to 3,000 tokens" in " ".join(lowered)
        assert "lowered" not in " ".join(kept)

    def test_a_journal_that_is_gone_costs_no_report(self, tmp_path: Path) -> None:
        write(tmp_path, SINGLE, lambda *_: 1.0, runs=1, journal="gone.jsonl")
        found = report([tmp_path])
        assert row(found)["annotations"] is None
        assert any("could not be read" in remark for remark in found.remarks)

    def test_only_strategies_by_episodes_have_marks(self, tmp_path: Path) -> None:
        journal = str(save(tmp_path / "journals", cwd=tmp_path))
        for strategy in ("cwl", "truncate"):
            write(tmp_path / "runs", replace(SINGLE, strategy=strategy), lambda *_: 1.0, runs=1, journal=journal)
        text = to_markdown(report([tmp_path / "runs"]))
        marks = text.partition("## How the agent marked its work")[2].partition("\n## ")[0]
        assert ("| cwl |" in marks, "| truncate |" in marks) == (True, False)


class TestMarkdown:
    def test_every_line_of_a_table_has_its_columns(self, tmp_path: Path) -> None:
        journal = str(save(tmp_path / "journals", cwd=tmp_path))
        odd = replace(SINGLE, model="a|b\nc")
        write(tmp_path / "runs", odd, rewards(0.5), journal=journal, context=ContextFigures(), usage=Usage(cost=0.1))
        text = to_markdown(report([tmp_path / "runs"]))
        assert "a\\|b c" in text
        blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
        assert len(blocks) == 4
        for block in blocks:
            assert len({line.replace("\\|", "").count("|") for line in block}) == 1
        for heading in ("Scores", "What it took", "How the agent marked its work", "What this cannot show", "Runs"):
            assert f"\n## {heading}\n" in text


class TestCommand:
    def test_markdown_json_and_a_page(self, run: Command, tmp_path: Path) -> None:
        write(tmp_path / "runs", SINGLE, rewards(0.5))
        page = tmp_path / "report.html"
        done = run("eval", "report", tmp_path / "runs", "--html", page)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("# Evaluation\n")
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert json.loads(run("eval", "report", tmp_path / "runs", "--json").out)["rows"][0]["tasks"] == 4

    def test_folders_that_cannot_be_used(self, run: Command, tmp_path: Path) -> None:
        done = run("eval", "report", tmp_path)
        assert (done.code, done.err) == (2, f"wane: {tmp_path}: no results.jsonl in it\n")
        path = tmp_path / "results.jsonl"
        begin(path, Run(VERSION, SINGLE, 1, (), 1, "", 0.03, datetime(2026, 11, 22, tzinfo=UTC)))
        assert "there is nothing to report: no trial has ended in" in run("eval", "report", tmp_path).err
        path.write_text("{}\n", encoding="utf-8")
        assert run("eval", "report", tmp_path).code == 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@needs_chromium
def test_the_page_has_the_figures_of_the_tables(browser: Browser, tmp_path: Path) -> None:
    known = Usage(4, 400, 200, 0, 100, 0.5)
    [path, _] = write(tmp_path / "runs", SINGLE, lambda *_: 1.0, usage=Usage(), context=None)
    append(path, replace(read(path).trials[0], usage=known, seconds=20.0, context=ContextFigures(3, 90, 700, 1, 1)))
    found = report([tmp_path / "runs"])
    write_page(tmp_path / "report.html", found)
    browser.open(tmp_path / "report.html")
    cells = browser.run("[...document.querySelectorAll('#took table.arms tbody td')].map((it) => it.textContent)")
    [line] = [it for it in to_markdown(found).splitlines() if "≥2 |" in it]
    texts = [text.strip().replace("20 (", "20 s (") for text in line.split("|")[6:-1]]
    assert [it.strip().removesuffix(" s") for it in cells if it != "\u2013"] == [text for text in texts if text != "-"]


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_draws_everything(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    journal = str(save(tmp_path / "journals", cwd=tmp_path))
    hostile = replace(SINGLE, model="</script><script>window.hurt=1</script>")
    steps = tuple(StepReward(f"a-step-with-a-name-{number}", number / 3) for number in range(4))
    for arm in (hostile, replace(hostile, protocol="isolated"), replace(hostile, budget=40_000)):
        write(
            tmp_path / "runs",
            arm,
            rewards(0.5),
            tasks=30,
            runs=3,
            whole=89,
            journal=journal,
            usage=Usage(cost=0.1),
            steps=steps,
        )
    page = tmp_path / "report.html"
    write_page(page, report([tmp_path / "runs"]))
    browser.errors.clear()
    browser.look(width, 900, dark=dark)
    browser.open(page)
    assert not browser.errors
    assert not browser.run("window.hurt")
    assert "30 of 89" in browser.run("document.getElementById('scores').textContent")
    assert "of 30 of 89 tasks of the benchmark" in browser.run("document.getElementById('limits').textContent")
    assert [
        browser.run(f"document.querySelectorAll('#{name} svg circle').length") for name in ("scores", "differences")
    ] == [
        3,
        1,
    ]
    # A session of 30 tasks has three windows; two arms are drawn, one with what isolated sessions score there.
    assert browser.run("document.querySelectorAll('#positions circle').length") == 6
    assert browser.run("document.querySelectorAll('#positions path.series').length") == 3
    assert browser.run("document.querySelectorAll('#views path.series').length") == 6
    assert browser.run("document.querySelectorAll('#budgets .plot svg').length") == 2
    for name in ("steps", "limits", "took", "marks", "paper", "runs"):
        assert browser.run(f"document.querySelectorAll('#{name} tbody tr, #{name} li').length") > 0, name
    assert not browser.run("/NaN|undefined|null|Infinity/.exec(document.getElementById('main').textContent)")
    # Wide tables scroll by themselves, and nothing drawn sticks out.
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run(STICKS_OUT) == []


STICKS_OUT = """[...document.querySelectorAll('.plot svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text, circle, line')]
    .map((it) => [it, it.getBoundingClientRect()])
    .filter(([, box]) => box.right > frame.right + 1 || box.left < frame.left - 1)
    .map(([it]) => it.textContent || it.outerHTML);
})"""
