"""The commands of the group `eval`: what each takes, what its help says, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from wane.cli.shared_flags import Json
from wane.flags import Flag

_Again: TypeAlias = Annotated[
    Sequence[Literal["timeout", "limit", "cancelled", "environment", "verifier", "agent"]],
    Flag("--again", "Repeat isolated trials that ended in this kind of error. May be given several times.", "KIND"),
]
_TrialsAsJson: TypeAlias = Annotated[bool, Flag("--json", "Print each trial as a line of JSON when it ends.")]
_Places: TypeAlias = Annotated[Sequence[Path], Flag("DIR...", "Folders with results, at any depth.", "DIR...")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfigOptions:
    """Run a configuration: models, strategies, budgets and protocols over a benchmark's tasks.

    Each task gets an environment of its own, and Wane works inside it. In the protocol isolated each task has a session
    of its own; in single, one session goes through all tasks in a seeded order, and a killed task leaves nothing in it.
    The tasks, graders and environments are Harbor's. Results are lines in DIR/…/results.jsonl, written as trials end.
    The same command continues a run that stopped.

    A configuration:
      benchmark: terminal-bench-2.0
      path: ~/terminal-bench-2          # wane eval tasks says where to get it
      models: [anthropic:claude-sonnet-5-5]
      strategies: [cwl, none]
      budgets: [80k]
      protocols: [isolated, single]
      runs: 5
      limits: {cost_per_task: 3, cost_total: 600}
      environment: {type: docker}

    Examples:
      wane eval run tb2.yaml

    Exit codes:
      0    all trials have a result
      1    it could not run
      2    the configuration cannot be used
      3    a limit of cost ended it
      130  stopped with Ctrl-C; wane eval resume continues it
    """

    config: Annotated[Path, Flag("CONFIG", "The configuration, as YAML.", "CONFIG")]
    again: _Again = ()
    as_json: _TrialsAsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """Continue an evaluation from where it stopped.

    A killed trial is rolled back and repeated; its cost counts for the limits.

    Examples:
      wane eval resume tb2-results
    """

    folder: Annotated[Path, Flag("DIR", "The folder with the results so far.", "DIR")]
    again: _Again = ()
    as_json: _TrialsAsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Check that an evaluation can run here, and estimate its tokens and dollars. Nothing is spent.

    It checks keys, prices, the environment, base images, disk and Wane's bundle. The estimate comes from earlier trials
    or, for Terminal-Bench 2.0, from the paper's figures.

    Examples:
      wane eval check tb2.yaml

    Exit codes:
      0    it can run
      1    something is missing; each line says what to do
      2    the configuration cannot be used
    """

    config: Annotated[Path, Flag("CONFIG", "The configuration, as YAML.", "CONFIG")]
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOptions:
    """Compute how many runs show two arms equal within a margin, from the variance of trials.

    The trials are those of earlier results, or rows of a table with the columns model, task and reward. The arm whose
    trials vary most decides.

    Examples:
      wane eval power tb2-results --margin 0.05
      wane eval power trials.csv --tasks 50
    """

    places: Annotated[Sequence[Path], Flag("PLACE...", "Folders with results, or tables as CSV.", "PLACE...")]
    margin: Annotated[
        float, Flag("--margin", "Smaller differences of scores count as none. The default is 0.03.", "SHARE")
    ] = 0.03
    tasks: Annotated[
        int | None, Flag("--tasks", "Number of tasks of the experiment. The default is that of the trials.", "N")
    ] = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Report what the results of runs show and cannot show: scores with errors, one session against isolated ones.

    It prints Markdown, and needs no key, no network and no Harbor. Runs may be in several folders, with any benchmarks,
    models, strategies and budgets. One session through all tasks is compared with isolated sessions of the same
    benchmark and model: of the same strategy and budget, or else of the strategy none. The verdict uses the margin that
    the runs set before their first trial.

    Examples:
      wane eval report tb2-results
      wane eval report tb2-single tb2-isolated --html report.html
      wane eval report tb2-results --json

    Exit codes:
      0    done, even if trials are missing (they are counted)
      1    a file cannot be read or written
      2    a folder holds no results, or a file of results is damaged
    """

    places: _Places
    html: Annotated[
        str | None, Flag("--html", "Also write the report as one HTML page that needs no network.", "FILE")
    ] = None
    as_json: Annotated[bool, Flag("--json", "Print JSON instead of Markdown.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksOptions:
    """List the known benchmarks and where to get them, or the tasks that a configuration would run.

    No benchmark comes with Wane.

    Examples:
      wane eval tasks
      wane eval tasks --config tb2.yaml
    """

    config: Annotated[
        Path | None, Flag("--config", "List the tasks of this configuration, in the order of its first run.", "FILE")
    ] = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweBenchOptions:
    """Write instances of SWE-bench as tasks.

    The data set is not part of Wane. Each task builds on the image that SWE-bench publishes for its instance.

    Examples:
      wane eval swe-bench swe-bench-lite.jsonl lite --count 50 --seed 1
    """

    source: Annotated[Path, Flag("FILE", "The instances: a file with a JSON object in each line.", "FILE")]
    target: Annotated[Path, Flag("DIR", "The folder for the tasks.", "DIR")]
    count: Annotated[int | None, Flag("--count", "Write only N instances, drawn at random.", "N")] = None
    seed: Annotated[int, Flag("--seed", "Seed of --count. The default is 1.", "N")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """Write tasks that another agent failed, in the state that it left, as Recovery-Bench does.

    The commands of the failed attempt are replayed when an environment is built. With --messages full, its whole
    transcript is in the user's turn, which is never evicted. In one session over many tasks, the transcripts alone may
    exceed the budget.

    Examples:
      wane eval recovery recovery-bench/runs terminal-bench-2 recovery-tasks
    """

    traces: Annotated[Path, Flag("TRACES", "Trials of the agent that failed, with ATIF trajectories.", "TRACES")]
    tasks: Annotated[Path, Flag("TASKS", "The tasks that it failed.", "TASKS")]
    target: Annotated[Path, Flag("DIR", "The folder for the new tasks.", "DIR")]
    messages: Annotated[
        Literal["full", "summary", "none"],
        Flag(
            "--messages",
            "What the agent learns about the failed attempt: full (its transcript), summary, or none, the default.",
            "MODE",
        ),
    ] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCliOptions:
    """Write the tasks of LongCLI-Bench in the format of Harbor's tasks.

    A task passes if the tests of the requested change and those of earlier behaviour pass. The results also have the
    share of each that passed.

    The images build on two base images of the benchmark, to be built first:
      cd longcli-bench/longcli_dockerImage
      docker build -f Dockerfile.make-pytest-base -t tb/make-pytest:v0 .
      docker build -f Dockerfile.c-env-base -t tb/c-env:v0 .

    Examples:
      wane eval longcli longcli-bench longcli-tasks
    """

    source: Annotated[Path, Flag("SOURCE", "A clone of LongCLI-Bench, or a folder of its tasks.", "SOURCE")]
    target: Annotated[Path, Flag("DIR", "The folder for the new tasks.", "DIR")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionsOptions:
    """Write what agents changed as predictions for SWE-bench's grader, and the command that grades them.

    The file predictions.jsonl goes into the folder of each run.

    Examples:
      wane eval predictions lite-results
    """

    places: _Places


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeOptions:
    """Add the verdicts of SWE-bench's grader to the results of a run.

    Examples:
      wane eval grade lite-results/anthropic-…-cwl-80000-single/run-1 report.json
    """

    folder: Annotated[Path, Flag("DIR", "The folder of one run.", "DIR")]
    report: Annotated[Path, Flag("REPORT", "The grader's report, as JSON.", "REPORT")]
