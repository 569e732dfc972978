"""The commands of the group `lab`: what each takes, what its help says, and what runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wane.cli import flag_values
from wane.cli.lab.lab_commands import Sessions, Sidechains, TokenBudget
from wane.cli.shared_flags import FormatName, Json, MaxUnpacked
from wane.core import parse_budget
from wane.flags import Flag
from wane.lab.names import MAX_UNPACKED


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Check the simulated cache against the cache reads that sessions recorded.

    The requests are rebuilt as the recording agent made them, so that only the rules of the cache are tested.

    Examples:
      wane lab validate session.jsonl
      wane lab validate ~/.codex/sessions --outliers
    """

    sessions: Sessions
    format: FormatName = "auto"
    max_unpacked: MaxUnpacked = MAX_UNPACKED
    outliers: Annotated[bool, Flag("--outliers", "Also list the calls that differ.")] = False
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationsOptions:
    """Count how well agents marked their own work: refused marks, unmarked work, undeclared links, repeated fetches.

    It needs no key and no network. Use it to compare two wordings of the guidance by what agents do.

    Examples:
      wane lab annotations session.jsonl
      wane lab annotations 3f9c
      wane lab annotations runs/ --json
    """

    sessions: Sessions
    format: FormatName = "auto"
    max_unpacked: MaxUnpacked = MAX_UNPACKED
    sidechains: Sidechains = False
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoopOptions:
    """Do 89 tasks in one session with the real agent and a scripted model, and check the results.

    The model is a script, not a language model. It reacts only to what is in its request: it reads files again that
    have left the view, and fails a task whose instructions or facts are gone. Tools, files, tests, journal and the
    wire are real. Tasks depend on the user's words and on findings up to 80 tasks earlier. Tests check each task.

    Examples:
      wane lab closed-loop --tasks 20 --tokens 10m
      wane lab closed-loop --strategy cwl,paper,truncate --isolated
      wane lab closed-loop --kill-every 100 --keep loop --json

    Exit codes:
      0    done, and with cwl and paper nothing was lost
      1    a task was lost, the budget was not held, or a resumed view differed
      2    an option cannot be used
      130  stopped with Ctrl-C
    """

    tasks: Annotated[int, Flag("--tasks", "Number of tasks. The default is 89, as in the paper.", "N")] = 89
    strategy: Annotated[
        str,
        Flag(
            "--strategy", "How the agent manages its context: names separated by commas. The default is cwl.", "NAMES"
        ),
    ] = "cwl"
    budget: TokenBudget = 80_000
    tokens: Annotated[
        int,
        Flag(
            "--tokens",
            "Input tokens that 89 tasks should take; fewer tasks take fewer in proportion. The default is 80m.",
            "TOKENS",
            read=parse_budget,
        ),
    ] = 80_000_000
    window: Annotated[
        int,
        Flag(
            "--window",
            "The model's own limit; longer requests fail. The default is 200k.",
            "TOKENS",
            read=flag_values.window,
        ),
    ] = 200_000
    mark_tasks: Annotated[
        bool, Flag("--mark-tasks", "Let the model group its episodes in tasks, as wane --tasks does.")
    ] = False
    isolated: Annotated[bool, Flag("--isolated", "Also do each task in a session of its own, to compare with.")] = False
    kill_every: Annotated[
        int,
        Flag(
            "--kill-every",
            "Kill or close the agent about every N model calls, and resume its session. The default is 0: never.",
            "N",
        ),
    ] = 0
    seed: Annotated[int, Flag("--seed", "Selects the repository and the tasks. The default is 0.", "N")] = 0
    workers: Annotated[
        int | None, Flag("--workers", "Number of concurrent runs. The default is one per core.", "N")
    ] = None
    keep: Annotated[Path | None, Flag("--keep", "Keep repositories and sessions in DIR.", "DIR")] = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Compare every strategy and peer on public recordings, without a model: the same figures on any machine.

    FOLDER holds recordings of real agents, which you fetch yourself from public repositories: --sources prints a shell
    script for that, with the licences. A recording with another digest is refused. Recordings, token counts and prices
    are fixed, so a result depends only on code and libraries, whose versions it records. Finished work is kept: after
    Ctrl-C, the same command continues.

    Wane's own strategies take about a minute on two cores; those of other libraries some five.

    Examples:
      wane lab bench recordings --sources | sh
      wane lab bench recordings --strategy all --budgets 80k
      wane lab bench recordings --author "Ada Byron" --output result.json
      wane lab bench recordings --check result.json

    Exit codes:
      0    done; with --check, figures are the same; with --sources, all are there
      1    a recording or library is missing, or a recording or figure differs
      2    an option or the result to check cannot be used
      130  stopped with Ctrl-C
    """

    folder: Annotated[Path, Flag("FOLDER", "The folder of the recordings.", "FOLDER")]
    sources: Annotated[
        bool, Flag("--sources", "Print a shell script that fetches missing recordings, with the state of each.")
    ] = False
    source: Annotated[
        str, Flag("--source", "Sources of recordings, separated by commas. The default is all.", "NAMES")
    ] = "all"
    strategy: Annotated[
        str | None,
        Flag(
            "--strategy",
            "all: Wane's own; peers: those of other installed libraries; or names separated by commas. The default is "
            "all,peers, and with --check the strategies of the result.",
            "NAMES",
        ),
    ] = None
    budgets: Annotated[
        str | None,
        Flag("--budgets", "Budgets: a list or a range. The default is 60k,80k,120k.", "BUDGETS"),
    ] = None
    view: Annotated[
        int,
        Flag(
            "--view",
            "Also compare at this mean view, interpolated between two budgets. The default is 50k.",
            "TOKENS",
            read=parse_budget,
        ),
    ] = 50_000
    author: Annotated[str, Flag("--author", "Your name, for the result.", "NAME")] = ""
    output: Annotated[Path | None, Flag("--output", "Write the result to FILE, as JSON.", "FILE")] = None
    check: Annotated[
        Path | None, Flag("--check", "Measure the rows of the result in FILE again, and print what differs.", "FILE")
    ] = None
    workers: Annotated[int | None, Flag("--workers", "Number of processes. The default is one per core.", "N")] = None
    as_json: Json = False
