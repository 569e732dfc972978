"""Files of results: what is written comes back, and a crash costs at most the line it was writing."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from wane.journal import FORK_NOTE, Journal, NoteRecord, UsageRecord
from wane.journal import read as read_journal
from wane.journal.codec import encode
from wane_research.evaluation.results import (
    VERSION,
    Abandoned,
    Arm,
    ContextFigures,
    Phase,
    ResultsError,
    Run,
    StepReward,
    Trial,
    Usage,
    append,
    begin,
    find,
    read,
)
from wane_research.evaluation.running.journals import usage_of

ARM = Arm("terminal-bench-2.0", "anthropic:claude", "cwl", 80_000, "single")
RUN = Run(
    VERSION,
    ARM,
    1,
    ("a", "b", "c"),
    7,
    "New task, in a fresh environment.",
    0.03,
    datetime(2026, 11, 22, 8, tzinfo=UTC),
    {"wane": "0.1.0"},
    {"usd_per_run": 55},
)
FULL = Trial(
    ARM,
    1,
    1,
    "a",
    1.0,
    error="AgentTimeoutError",
    error_message="after 900 s",
    started=datetime(2026, 11, 22, 8, 1, tzinfo=UTC),
    seconds=900.5,
    usage=Usage(12, 100_000, 80_000, 5_000, 2_000, 0.25),
    context=ContextFigures(2, 30_000, 79_000, 1, 3),
    steps=(StepReward("first", 1.0), StepReward("second", None)),
    journal="sessions/x.jsonl",
    directory="001-a",
)


def write_results(tmp_path: Path, *records: Trial | Abandoned) -> Path:
    path = tmp_path / "run-1" / "results.jsonl"
    begin(path, RUN)
    for record in records:
        append(path, record)
    return path


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    broken_off = Abandoned(ARM, 1, "b", "killed", Usage(3, cost=0.1))
    plain = Trial(ARM, 1, 2, "b", None)
    found = read(write_results(tmp_path, FULL, broken_off, plain))
    assert found.run == RUN
    assert found.trials == (FULL, plain)
    assert found.abandoned == (broken_off,)
    assert found.missing == ("c",)
    assert not found.remark
    assert [trial.score for trial in found.trials] == [1.0, 0.0]


def test_a_file_cut_anywhere_loses_the_last_line_alone(tmp_path: Path) -> None:
    path = write_results(tmp_path, FULL, Trial(ARM, 1, 2, "b", 0.0))
    data = path.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for end in range(last + 1, len(data)):
        path.write_bytes(data[:end])
        found = read(path)
        assert found.trials == (FULL,)
        assert "cut off" in found.remark
    append(path, Trial(ARM, 1, 2, "b", 1.0))
    found = read(path)
    assert [trial.reward for trial in found.trials] == [1.0, 1.0]
    assert not found.remark


def test_a_run_is_not_begun_twice(tmp_path: Path) -> None:
    path = write_results(tmp_path)
    with pytest.raises(FileExistsError):
        begin(path, RUN)
    with pytest.raises(FileNotFoundError):
        append(tmp_path / "none.jsonl", FULL)


def test_of_a_task_tried_again_the_last_trial_counts_unless_it_was_given_up(tmp_path: Path) -> None:
    again, given_up = Trial(ARM, 1, 1, "a", 0.0), Abandoned(ARM, 1, "a", "again", FULL.usage)
    path = write_results(tmp_path, FULL, again)
    assert read(path).trials == (again,)
    append(path, given_up)
    found = read(path)
    assert (found.trials, found.abandoned, found.missing) == ((), (given_up,), ("a", "b", "c"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "header, is missing"),
        (b'{"kind":"run"', "header, is missing"),
        (b'{"kind":"session","version":2}\n', "does not begin with"),
        (b'{"kind":"run","version":1}\n', "version 1 of the format of results; this Wane reads version 2"),
        (b"[]\n", "not a JSON object"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=said):
        read(path)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (replace(FULL, reward=float("nan")), "reward: nan is not from 0 to 1"),
        (replace(FULL, steps=(StepReward("first", -1.0),)), "steps: first: reward: -1 is not from 0 to 1"),
        (replace(FULL, usage=Usage(cost=-0.5)), "usage: cost: -0.5 is not a number from 0"),
        (replace(FULL, seconds=float("inf")), "seconds: inf is not a number from 0"),
        (replace(FULL, context=ContextFigures(passes=-1)), "context: passes: -1 is not a number from 0"),
        (replace(FULL, position=0), "position: 0 is less than 1"),
        (Abandoned(ARM, 1, "b", "killed", Usage(cost=-0.5)), "usage: cost: -0.5 is not a number from 0"),
    ],
)
def test_a_figure_that_cannot_be_is_neither_written_nor_read(
    tmp_path: Path, record: Trial | Abandoned, said: str
) -> None:
    path = write_results(tmp_path, FULL)
    with pytest.raises(ResultsError, match=said):
        append(path, record)
    assert read(path).trials == (FULL,)
    with path.open("ab") as file:
        file.write(json.dumps({"kind": record.kind, **encode(record)}).encode() + b"\n")
    with pytest.raises(ResultsError, match=f"line 3: {said}"):
        read(path)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (replace(FULL, task="z"), "line 2: task: 'z' is not in the run's order"),
        (Abandoned(ARM, 2, "b", "killed"), "line 2: a trial of another run"),
    ],
)
def test_a_record_that_does_not_belong_to_the_run_is_refused(
    tmp_path: Path, record: Trial | Abandoned, said: str
) -> None:
    with pytest.raises(ResultsError, match=said):
        read(write_results(tmp_path, record))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"margin": float("nan")}, "line 1: margin: nan is not"),
        ({"order": ("a", "a")}, "line 1: order: a task is named"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = tmp_path / "results.jsonl"
    begin(path, replace(RUN, **changes))
    with pytest.raises(ResultsError, match=said):
        read(path)


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = write_results(tmp_path, FULL, FULL)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:30] + b"\n" + lines[2])
    with pytest.raises(ResultsError, match="line 2: not JSON"):
        read(path)


def test_files_are_found_at_any_depth_and_once(tmp_path: Path) -> None:
    path = write_results(tmp_path)
    assert list(find([tmp_path, path, path.parent])) == [path]
    with pytest.raises(ResultsError, match=r"no results\.jsonl"):
        list(find([tmp_path / "nowhere"]))


@pytest.mark.parametrize(
    ("name", "phase", "kind"),
    [
        # Without a phase the name decides.
        ("AgentTimeoutError", None, "timeout"),
        ("VerifierTimeoutError", None, "verifier"),
        ("RewardFileNotFoundError", None, "verifier"),
        ("EnvironmentStartTimeoutError", None, "environment"),
        ("DaytonaError", None, "environment"),
        ("MemoryLimitExceededError", "agent", "environment"),
        # Names of LiteLLM's, which agents of Harbor's own let through.
        ("RateLimitError", "agent", "provider"),
        ("Timeout", "agent", "provider"),
        ("APIError", "agent", "provider"),
        # Before the agent begins it is the environment's, whatever it is called.
        ("AgentSetupTimeoutError", "set-up", "environment"),
        ("RuntimeError", "set-up", "environment"),
        ("CancelledError", "set-up", "cancelled"),
        ("AgentTimeoutError", "agent", "timeout"),
        ("NonZeroAgentExitCodeError", "agent", "agent"),
        ("CostLimitError", "agent", "limit"),
        ("SandboxError", "agent", "environment"),
        ("UnicodeDecodeError", "grading", "verifier"),
        ("EnvironmentStartTimeoutError", "grading", "environment"),
        ("OSError", "tear-down", "environment"),
    ],
)
def test_where_an_error_was_raised_counts_for_more_than_its_name(name: str, phase: Phase | None, kind: str) -> None:
    assert Trial(ARM, 1, 1, "a", None, error=name, phase=phase).ended_by == kind


def test_a_fork_of_a_session_does_not_count_what_it_began_with_again(tmp_path: Path) -> None:
    call = UsageRecord(1, 1_000, 10, cost=0.25, model="gpt-5.4")
    session = Journal.create(tmp_path / "sessions", cwd=Path("/"), message_format="openai")
    session.append(call)
    session.append(call)
    session.commit()
    session.close()
    first = next(record for record in read_journal(session.path).records if isinstance(record, UsageRecord))
    fork = Journal.create(tmp_path / "sessions", cwd=Path("/"), message_format="openai")
    fork.append(first)
    fork.append(NoteRecord(FORK_NOTE))
    fork.append(replace(call, input_tokens=500))
    fork.commit()
    fork.close()
    used = usage_of(session.path, fork.path)
    assert (used.model_calls, used.input_tokens, used.output_tokens, used.cost) == (3, 2_500, 30, 0.75)


@pytest.mark.parametrize(
    ("error", "phase", "counts"),
    [
        ("AgentTimeoutError", "agent", True),
        ("UnknownApiError", "agent", False),
        # Harbor grades what is left after an error of an agent's run, whatever raised it.
        ("SandboxError", "agent", False),
        ("OSError", "tear-down", True),
    ],
)
def test_a_reward_counts_only_if_the_agent_could_finish(error: str, phase: Phase, counts: bool) -> None:
    assert Trial(ARM, 1, 1, "a", 0.0, error=error, phase=phase).counts == counts


LIST_POLICIES = """
import json
from harbor.models.trial.error_policy import ERROR_POLICIES
print(json.dumps({name: policy.has_valid_reward for name, policy in ERROR_POLICIES.items()}))
"""


@pytest.mark.wide
def test_no_error_counts_after_which_harbor_calls_no_reward_valid(python: str) -> None:
    listed = subprocess.run([python, "-c", LIST_POLICIES], capture_output=True, text=True, check=True)
    valid: dict[str, bool] = json.loads(listed.stdout)
    wrong = {name for name in valid if Trial(ARM, 1, 1, "a", 1.0, error=name, phase="agent").counts != valid[name]}
    # A request that is refused as wrong is the agent's doing here.
    assert wrong == {"BadRequestError", "UnprocessableEntityError"}
