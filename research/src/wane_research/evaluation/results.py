r"""Results of a benchmark on disk: one file a run, JSON lines, a header and then a line for each trial.

    {"kind":"run","version":2,"arm":{…},"run":1,"order":["regex-log",…],…}
    {"kind":"trial","arm":{…},"run":1,"position":1,"task":"regex-log","reward":1.0,…}
    {"kind":"abandoned","arm":{…},"run":1,"task":"extract-elf","why":"killed",…}

A run is one pass through all tasks: a session in the protocol `single`, an attempt in `isolated`. Lines are only
appended, so a run that dies leaves at worst a last line that is cut off: reading passes over it and says so, and the
next append takes it away.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from wane.core.errors import FormatError
from wane.journal.codec import SchemaError, decode, encode
from wane.strategies.base import Annotate
from wane_research.evaluation.usage import ContextFigures, Usage

VERSION: Final = 2
"""Version of the file format that this Wane writes, and the only one that it reads."""

FILE_NAME: Final = "results.jsonl"
"""Name of a run's file; its folder holds the run's journal and its other files."""

Protocol: TypeAlias = Literal["isolated", "single"]
"""Whether each task has a session of its own, or one session goes through all of them."""

ErrorKind: TypeAlias = Literal["timeout", "limit", "cancelled", "provider", "environment", "verifier", "agent"]
"""What ended a trial early: its time, a limit of cost or calls, a person, the model's provider, the environment, the
grading, or the agent."""

Phase: TypeAlias = Literal["set-up", "agent", "grading", "tear-down"]
"""Part of a trial: before the agent begins, while it works, while its work is graded, and after that."""

T = TypeVar("T")


class ResultsError(FormatError):
    """A file of results that cannot be read, or to which a record does not belong."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: all settings but the task and the run.

    Attributes:
        benchmark: name of the benchmark, such as `terminal-bench-2.0`.
        model: the model, as `provider:model`.
        strategy: how the context is kept, such as `cwl`; for another agent, its name.
        budget: tokens that the view may hold; None for no budget.
        protocol: `isolated` or `single`.
        annotate: who marks episodes: `model`, `infer` or `host`; None for the strategy's default.
    """

    benchmark: str
    model: str
    strategy: str
    budget: int | None
    protocol: Protocol
    annotate: Annotate | None = None

    @property
    def strategy_text(self) -> str:
        """The strategy, and who marks episodes if that was chosen: `cwl, marks by infer`."""
        return self.strategy if self.annotate is None else f"{self.strategy}, marks by {self.annotate}"


@dataclass(frozen=True, slots=True)
class StepReward:
    """The reward for one step of a task of several steps; None if it was not graded."""

    name: str
    reward: float | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One task, tried once.

    Attributes:
        arm: what was tried.
        run: number of the run, from 1.
        position: place of the task in the run's order, from 1.
        task: name of the task.
        reward: the verifier's reward, 0 to 1; None if nothing was graded.
        error: name of the error that ended the trial, such as `AgentTimeoutError` or the provider's own
            `overloaded_error`; "" for none. A trial may have both: a timeout is graded too.
        error_message: its text, in a line.
        phase: the part of the trial in which it was raised; None if that is not known, or there is no error.
        ended_by: what raised it; None if there is no error. By default the phase and the error's name tell: before the
            agent begins and after the grading it is the environment, while grading it is the verifier, unless it was a
            person; while the agent works, its name decides, and an unknown one is the agent's.
        started: when the agent began; None if it did not or is not known.
        seconds: how long the agent worked, without `waited`; None if it is not known.
        waited: seconds that were lost to a provider that failed; None if that is not known.
        usage: usage of its model calls, in this task alone.
        context: figures of its context, in this task alone; None if they are not known.
        steps: the rewards of its steps, for a task of several steps.
        journal: the session's journal after this task, as a path relative to the folder of the file; "" for none. In
            `single` it holds the earlier tasks as well.
        directory: the trial's own folder, as a path relative to the folder of the file; "" for none.
    """

    kind: ClassVar[str] = "trial"

    arm: Arm
    run: int
    position: int
    task: str
    reward: float | None
    error: str = ""
    error_message: str = ""
    phase: Phase | None = None
    ended_by: ErrorKind | None = None
    started: datetime | None = None
    seconds: float | None = None
    waited: float | None = None
    usage: Usage = field(default_factory=Usage)
    context: ContextFigures | None = None
    steps: tuple[StepReward, ...] = ()
    journal: str = ""
    directory: str = ""

    def __post_init__(self) -> None:
        if self.error and self.ended_by is None:
            object.__setattr__(self, "ended_by", _kind_of(self.error, self.phase))

    @property
    def counts(self) -> bool:
        """Whether it tells something of the agent: it was graded, or the agent or a limit ended it before that.

        What the provider ended does not, even if it was graded, as the agent could not finish it.
        """
        return self.ended_by != "provider" and (self.reward is not None or self.ended_by in _OWN)

    @property
    def score(self) -> float:
        """The reward; 0 if there is none. Only that of a trial that `counts` is in a report."""
        return self.reward or 0.0


def _kind_of(error: str, phase: Phase | None) -> ErrorKind:
    kinds = (kind for kind, words in _ERROR_WORDS.items() if any(word in error for word in words))
    named: ErrorKind = next(kinds, "agent")
    if named == "cancelled" or phase in (None, "agent"):
        return named
    return "verifier" if phase == "grading" and named != "environment" else "environment"


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A trial that was stopped and is tried again: it has no score, but was paid for.

    Attributes:
        arm: what was tried.
        run: number of the run.
        task: name of the task.
        why: why it was stopped, in a few words.
        usage: usage of its model calls.
    """

    kind: ClassVar[str] = "abandoned"

    arm: Arm
    run: int
    task: str
    why: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Run:
    """First line of a file: the plan of a run, written before its first trial.

    Attributes:
        version: version of the file format.
        arm: its arm.
        run: number of the run, from 1.
        order: names of all its tasks, in the order of the run.
        seed: seed of that order; None if it was given.
        new_environment: the line that tells the model of a new environment, ahead of each task; "" for none.
        margin: differences of scores below this count as none, from 0 to 1; set before the first trial.
        created: when it began, in UTC.
        versions: versions of the programs and of the benchmark, by name: `wane`, `harbor`, `python`.
        settings: further settings of the run, such as limits, as JSON data for people to read.
        benchmark_tasks: number of the benchmark's tasks, of which `order` may have only some; None if not known.
    """

    kind: ClassVar[str] = "run"

    version: int
    arm: Arm
    run: int
    order: tuple[str, ...]
    seed: int | None
    new_environment: str
    margin: float
    created: datetime
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    benchmark_tasks: int | None = None


@dataclass(frozen=True, slots=True)
class RunResults:
    """The content of a file.

    Attributes:
        path: the file.
        run: its header.
        trials: its trials, in order; the last one if a task has several, and none that was given up after it had ended.
        abandoned: its trials that were stopped and tried again.
        remark: ignored content, in a sentence; "" for none.
    """

    path: Path
    run: Run
    trials: tuple[Trial, ...]
    abandoned: tuple[Abandoned, ...] = ()
    remark: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Tasks of the order that have no trial."""
        done = {trial.task for trial in self.trials}
        return tuple(task for task in self.run.order if task not in done)


_OWN: Final = frozenset({"agent", "timeout", "limit"})
"""What can end a trial that counts before it is graded."""

# In order: a VerifierTimeoutError is the verifier's, an EnvironmentStartTimeoutError the environment's, and an
# ApiRateLimitError, as Harbor names what other agents say of their provider, no limit of ours.
_ERROR_WORDS: Final[Mapping[ErrorKind, tuple[str, ...]]] = {
    "cancelled": ("Cancelled", "KeyboardInterrupt"),
    "provider": ("Api", "Authentication", "ModelNotFound", "NetworkConnection"),
    "limit": ("Limit",),
    "verifier": ("Verifier", "Reward"),
    "environment": ("Environment", "Docker", "Daytona", "Sandbox", "Healthcheck"),
    "timeout": ("Timeout",),
}


def begin(path: Path, run: Run) -> None:
    """Write the header of a new file.

    Raises:
        FileExistsError: if there is one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        _write(file.fileno(), _line(run))


def append(path: Path, record: Trial | Abandoned) -> None:
    """Append a record, after removing a last line that is cut off. It is on disk when this returns.

    Raises:
        FileNotFoundError: if the file has not begun.
        ResultsError: for a figure that cannot be; the file stays as it was.
    """
    if wrong := _impossible(record):
        raise ResultsError(f"{path}: {record.task}: {wrong}")
    with path.open("r+b") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        file.truncate(end)
        file.seek(end)
        _write(file.fileno(), _line(record))


def read(path: Path) -> RunResults:
    """Read a file.

    Raises:
        OSError: if it cannot be read.
        ResultsError: if it is not a file of results, is of another version, a line before the last is damaged, or a
            figure cannot be.
    """
    complete, _, cut_off = path.read_bytes().rpartition(b"\n")
    lines = complete.split(b"\n") if complete else []
    if not lines:
        raise ResultsError(f"{path}: no results: its first line, the run's header, is missing")
    run = _read_header(path, lines[0])
    trials: dict[str, Trial] = {}
    abandoned: list[Abandoned] = []
    for number, line in enumerate(lines[1:], start=2):
        record = _read_record(path, number, line, run)
        # A trial that had ended may be given up to be done again.
        trials.pop(record.task, None)
        if isinstance(record, Abandoned):
            abandoned.append(record)
        else:
            trials[record.task] = record
    remark = f"{path}: the last line is cut off, and was passed over" if cut_off else ""
    return RunResults(path, run, tuple(trials.values()), tuple(abandoned), remark)


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of results in some folders, at any depth, and those named themselves; each once.

    Raises:
        ResultsError: if a place holds none.
    """
    yielded: set[Path] = set()
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob(FILE_NAME))
        if not files:
            raise ResultsError(f"{path}: no {FILE_NAME} in it")
        for file in files:
            if (resolved := file.resolve()) not in yielded:
                yielded.add(resolved)
                yield file


def _read_header(path: Path, line: bytes) -> Run:
    data = _parsed(path, 1, line)
    if data.pop("kind", None) != Run.kind:
        raise ResultsError(f'{path}: not results of a run: it does not begin with {{"kind":"run",…}}')
    if data.get("version") != VERSION:
        raise ResultsError(
            f"{path}: version {data.get('version')!r} of the format of results; this Wane reads version {VERSION}"
        )
    run = _decoded(path, 1, Run, data)
    if not 0 <= run.margin <= 1:
        raise ResultsError(f"{path}, line 1: margin: {run.margin:g} is not from 0 to 1")
    if len(set(run.order)) != len(run.order):
        raise ResultsError(f"{path}, line 1: order: a task is named twice")
    return run


def _read_record(path: Path, number: int, line: bytes, run: Run) -> Trial | Abandoned:
    data = _parsed(path, number, line)
    kind = data.pop("kind", None)
    if kind not in (Trial.kind, Abandoned.kind):
        raise ResultsError(f"{path}, line {number}: a record of unknown kind {kind!r}")
    record = _decoded(path, number, Trial, data) if kind == Trial.kind else _decoded(path, number, Abandoned, data)
    if (record.arm, record.run) != (run.arm, run.run):
        raise ResultsError(f"{path}, line {number}: a trial of another run than the file's header says")
    wrong = "" if record.task in run.order else f"task: {record.task!r} is not in the run's order"
    if wrong := wrong or _impossible(record):
        raise ResultsError(f"{path}, line {number}: {wrong}")
    return record


def _impossible(record: Trial | Abandoned) -> str:
    """What of a record cannot be: a single NaN would make every mean of a report NaN. "" if all can."""
    amounts = {f"usage: {name}": value for name, value in encode(record.usage).items()}
    shares: dict[str, float | None] = {}
    if isinstance(record, Trial):
        amounts |= {"seconds": record.seconds, "waited": record.waited}
        amounts |= {f"context: {name}": value for name, value in (encode(record.context) or {}).items()}
        shares = {"reward": record.reward} | {f"steps: {step.name}: reward": step.reward for step in record.steps}
        if record.position < 1:
            return f"position: {record.position} is less than 1"
    for limit, what, values in ((1.0, "from 0 to 1", shares), (sys.float_info.max, "a number from 0", amounts)):
        for name, value in values.items():
            if value is not None and not 0 <= value <= limit:
                return f"{name}: {value:g} is not {what}"
    return ""


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ResultsError(f"{path}, line {number}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ResultsError(f"{path}, line {number}: not a JSON object")
    return data


def _decoded(path: Path, number: int, cls: type[T], data: dict[str, Any]) -> T:
    try:
        return decode(cls, data)
    except SchemaError as error:
        raise ResultsError(f"{path}, line {number}: {error}") from None


def _line(record: Run | Trial | Abandoned) -> bytes:
    return json.dumps({"kind": record.kind, **encode(record)}, separators=(",", ":")).encode("ascii") + b"\n"


def _write(descriptor: int, line: bytes) -> None:
    # In one write, so that a crash cannot leave two halves of lines.
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
