r"""Results of a benchmark on disk: one file of JSON lines for each run, with a header and a line for each trial.

    {"kind":"run","version":2,"arm":{…},"run":1,"order":["regex-log",…],…}
    {"kind":"trial","arm":{…},"run":1,"position":1,"task":"regex-log","reward":1.0,…}
    {"kind":"abandoned","arm":{…},"run":1,"task":"extract-elf","why":"killed",…}

A run is one pass through all tasks: a session in the protocol `single`, an attempt in `isolated`. Lines are only
appended, so a run that dies leaves at worst a last line that is cut off. Reading skips such a line with a remark, and
the next append removes it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias

from wane.core.errors import FormatError
from wane.journal.codec import SchemaError, decode, encode
from wane.money import dollars
from wane.strategies.strategy import Annotate


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of model calls. None is an unknown figure."""

    model_calls: int | None = None  # requests sent, the strategy's own included
    input_tokens: int | None = None  # tokens of all requests, including those read from or written to a cache
    cached_tokens: int | None = None  # input tokens read from the provider's cache
    cache_write_tokens: int | None = None  # input tokens written to it
    output_tokens: int | None = None  # tokens of all answers
    cost: float | None = None  # dollars of all calls; None if the cost of any call is unknown
    cost_at_least: float | None = None  # dollars of the calls whose cost is known, if that of others is not
    unreported: int = 0  # calls whose tokens the provider did not report; no figure of tokens has them

    @property
    def known_cost(self) -> float:
        """Dollars of the calls whose cost is known: the whole cost, or a lower bound."""
        return self.cost if self.cost is not None else self.cost_at_least or 0.0


NOTHING: Final = Usage(0, 0, 0, 0, 0, 0.0)  # the usage of an agent that never began


@dataclass(frozen=True, slots=True)
class Total:
    """A figure over some trials. The figures of some trials may be unknown."""

    at_least: float = 0  # the sum, or the largest, of the known figures
    known_trials: int = 0  # number of trials with a known figure
    of: int = 0  # number of all trials

    @classmethod
    def cost(cls, usages: Iterable[Usage]) -> Total:
        total = cls()
        for usage in usages:
            total += cls(usage.known_cost, int(usage.cost is not None), 1)
        return total

    def __add__(self, other: Total) -> Total:
        return Total(self.at_least + other.at_least, self.known_trials + other.known_trials, self.of + other.of)

    @property
    def exact(self) -> float | None:
        """The figure; None if it is unknown for any trial."""
        return self.at_least if self.known_trials == self.of else None

    @property
    def unknown(self) -> bool:
        return self.of > 0 and not self.known_trials and not self.at_least

    def describe(self) -> str:
        """Return dollars in words: `$0.42`, `at least $20.32 (cost known of 8 of 9 trials)` or `cost unknown`."""
        if self.unknown:
            return "cost unknown"
        if self.exact is not None:
            return dollars(self.exact)
        return f"at least {dollars(self.at_least)} (cost known of {self.known_trials:,} of {self.of:,} trials)"


@dataclass(frozen=True, slots=True)
class ContextFigures:
    """Figures of a trial's context and work. None is an unknown figure."""

    passes: int = 0  # how often the strategy evicted anything
    evicted_tokens: int = 0  # tokens that left the view
    peak_view: int = 0  # tokens of the largest request
    over_budget: int = 0  # requests over the budget
    read_again: int = 0  # results that the agent fetched again after they had left the view
    explored_first: int | None = None  # calls that explored before the first change; all such calls if nothing changed
    repeated: int | None = None  # exploring calls repeated in the user's turn, with no change in between
    unended: int | None = None  # episodes that the model began in this trial and did not end in it


VERSION: Final = 2  # version of the file format: the one that this Wane writes, and the only one that it reads
FILE_NAME: Final = "results.jsonl"  # name of a run's file; its folder holds the run's journal and its other files

Protocol: TypeAlias = Literal["isolated", "single"]
"""Whether each task has a session of its own, or one session goes through all of them."""

ErrorKind: TypeAlias = Literal["timeout", "limit", "cancelled", "provider", "environment", "verifier", "agent"]
"""What ended a trial early: its time, a limit of cost or calls, a person, the model's provider, the environment, the
grading, or the agent."""

Phase: TypeAlias = Literal["set-up", "agent", "grading", "tear-down"]
"""Part of a trial: before the agent begins, while it works, while its work is graded, and after that."""


class ResultsError(FormatError):
    """A file of results that cannot be read, or a record that does not belong in it."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: all settings but the task and the run."""

    benchmark: str  # name of the benchmark, such as `terminal-bench-2.0`
    model: str  # the model, as `provider:model`
    strategy: str  # how the context is kept, such as `cwl`; for another agent, its name
    budget: int | None  # tokens that the view may hold; None for no budget
    protocol: Protocol  # `isolated` or `single`
    annotate: Annotate | None = None  # who marks episodes: `model`, `infer` or `host`; None for the strategy's default

    @property
    def words(self) -> str:
        """Its settings except the benchmark, in short."""
        budget = "" if self.budget is None else f" {self.budget}"
        return f"{self.model} {self.strategy_text}{budget} {self.protocol}".lstrip()

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
    """One task, tried once."""

    kind: ClassVar[str] = "trial"

    arm: Arm  # what was tried
    run: int  # number of the run, from 1
    position: int  # place of the task in the run's order, from 1
    task: str
    reward: float | None  # the verifier's reward, 0 to 1; None if nothing was graded
    # Name of the error that ended the trial, such as `AgentTimeoutError` or the provider's own `overloaded_error`; ""
    # for none. A trial may have an error and a reward: a timeout is graded too.
    error: str = ""
    error_message: str = ""  # the error's text, in one line
    phase: Phase | None = None  # when it was raised; None if unknown, or without an error
    # What raised the error; None without one. By default the phase and the error's name decide. Before the agent begins
    # and after the grading, it is the environment; during the grading, the verifier; at any time, a person. While the
    # agent works, the name decides, and an unknown one is the agent's.
    ended_by: ErrorKind | None = None
    started: datetime | None = None  # when the agent began; None if it did not, or if unknown
    seconds: float | None = None  # how long the agent worked, without `waited`; None if unknown
    waited: float | None = None  # seconds lost to a provider that failed; None if unknown
    usage: Usage = field(default_factory=Usage)  # usage of its model calls, in this task alone
    context: ContextFigures | None = None  # figures of its context, in this task alone; None if unknown
    steps: tuple[StepReward, ...] = ()  # the rewards of its steps, for a task of several steps
    # The session's journal after this task, as a path relative to the folder of the file; "" for none. In `single` it
    # holds the earlier tasks too.
    journal: str = ""
    directory: str = ""  # the trial's own folder, as a path relative to the folder of the file; "" for none

    def __post_init__(self) -> None:
        if self.error and self.ended_by is None:
            object.__setattr__(self, "ended_by", _kind_of(self.error, self.phase))

    @property
    def counts(self) -> bool:
        """Whether it says something about the agent: it was graded, or the agent or a limit ended it before that.

        A trial that the provider ended, or the environment while the agent worked, does not count even if it was
        graded, because the agent could not finish it. Harbor grades after most errors of an agent.
        """
        if self.ended_by is None or self.ended_by in _OWN:
            return self.reward is not None or self.ended_by is not None
        return self.ended_by == "environment" and self.phase != "agent" and self.reward is not None

    @property
    def score(self) -> float:
        """The reward; 0 if there is none. Reports have only trials that count."""
        return self.reward or 0.0


def _kind_of(error: str, phase: Phase | None) -> ErrorKind:
    named = _named_kind(error)
    if named == "cancelled" or phase in (None, "agent"):
        return named
    if phase == "grading" and named != "environment":
        return "verifier"
    return "environment"


def _named_kind(error: str) -> ErrorKind:
    if error in _PROVIDER_NAMES:
        return "provider"
    for kind, words in _ERROR_WORDS.items():
        if any(word in error for word in words):
            return kind
    return "agent"


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A trial that was stopped and is tried again: it has no score, but it cost something."""

    kind: ClassVar[str] = "abandoned"

    arm: Arm  # what was tried
    run: int
    task: str
    why: str  # why it was stopped, in a few words
    usage: Usage = field(default_factory=Usage)  # usage of its model calls


@dataclass(frozen=True, slots=True)
class Run:
    """First line of a file: the plan of a run, written before its first trial."""

    kind: ClassVar[str] = "run"

    version: int
    arm: Arm
    run: int  # number of the run, from 1
    order: tuple[str, ...]  # names of all its tasks, in the order of the run
    seed: int | None  # seed of that order; None if it was given
    new_environment: str  # the line that tells the model of a new environment, ahead of each task; "" for none
    margin: float  # differences of scores below this count as none, from 0 to 1; set before the first trial
    created: datetime  # when it began, in UTC
    versions: Mapping[str, str] = field(default_factory=dict)  # by name: `wane`, `harbor`, `python`
    settings: Mapping[str, Any] = field(default_factory=dict)  # limits and the like, for people to read
    benchmark_tasks: int | None = None  # number of all tasks of the benchmark, chosen or not; None if unknown


@dataclass(frozen=True, slots=True)
class RunResults:
    """The content of a file."""

    path: Path
    run: Run
    # Its trials, in order: of a task with several only the last, and none that was abandoned after it had ended
    trials: tuple[Trial, ...]
    abandoned: tuple[Abandoned, ...] = ()  # its trials that were stopped and tried again
    remark: str = ""  # a sentence about ignored content; "" for none

    @property
    def missing(self) -> tuple[str, ...]:
        done = {trial.task for trial in self.trials}
        return tuple(task for task in self.run.order if task not in done)


_OWN: Final = frozenset({"agent", "timeout", "limit"})  # kinds of errors after which an ungraded trial counts

# The first match counts: a VerifierTimeoutError is the verifier's, an EnvironmentStartTimeoutError the environment's,
# and an ApiRateLimitError, as Harbor names errors of other agents' providers, the provider's. So are LiteLLM's names,
# which agents of Harbor's own let through. Harbor has a table of the errors after which no reward is valid
# (`harbor.models.trial.error_policy`), and a test compares the two.
_ERROR_WORDS: Final[Mapping[ErrorKind, tuple[str, ...]]] = {
    "cancelled": ("Cancelled", "KeyboardInterrupt"),
    "provider": (
        "Api",
        "APIConnection",
        "APIError",
        "APIResponse",
        "Authentication",
        "BudgetExceeded",
        "InternalServer",
        "ModelNotFound",
        "NetworkConnection",
        "PermissionDenied",
        "RateLimit",
        "ServiceUnavailable",
        "UnsupportedModelParameters",
        "UnsupportedParams",
    ),
    "verifier": ("Verifier", "Reward", "AddTestsDir", "Regrade"),
    "environment": (
        "AgentSetup",
        "Daytona",
        "Docker",
        "DspyImport",
        "Environment",
        "GKE",
        "Healthcheck",
        "MemoryLimit",
        "MissingExtra",
        "RuntimeRequest",
        "SSHAccess",
        "Sandbox",
        "ServiceOperations",
        "VercelScope",
    ),
    "limit": ("Limit",),
    "timeout": ("Timeout",),
}
_PROVIDER_NAMES: Final = frozenset({"NotFoundError", "Timeout"})
"""LiteLLM's names of a provider's errors of which others hold a part."""


def begin(path: Path, run: Run) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        _write(file.fileno(), _line(run))


def append(path: Path, record: Trial | Abandoned) -> None:
    """Append a record, after removing a last line that is cut off. It is on disk when this returns.

    Raises:
        FileNotFoundError: if the file has not begun.
        ResultsError: for an impossible figure; the file is not changed.
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
        ResultsError: if it is not a file of results, has another version, a damaged line before the last, or an
            impossible figure.
    """
    complete, _, cut_off = path.read_bytes().rpartition(b"\n")
    lines = complete.split(b"\n") if complete else []
    if not lines:
        raise ResultsError(f"{path}: no results: its first line, the run's header, is missing")
    run: Run = _decode_record(path, 1, lines[0], Run)
    if not 0 <= run.margin <= 1:
        raise ResultsError(f"{path}, line 1: margin: {run.margin:g} is not from 0 to 1")
    if len(set(run.order)) != len(run.order):
        raise ResultsError(f"{path}, line 1: order: a task is named twice")
    trials: dict[str, Trial] = {}
    abandoned: list[Abandoned] = []
    for number, line in enumerate(lines[1:], start=2):
        record: Trial | Abandoned = _decode_record(path, number, line, Trial, Abandoned)
        if (record.arm, record.run) != (run.arm, run.run):
            raise ResultsError(f"{path}, line {number}: a trial of another run than the file's header says")
        if record.task not in run.order:
            raise ResultsError(f"{path}, line {number}: task: {record.task!r} is not in the run's order")
        if wrong := _impossible(record):
            raise ResultsError(f"{path}, line {number}: {wrong}")
        # A trial that has ended may be abandoned later, to be done again.
        trials.pop(record.task, None)
        if isinstance(record, Abandoned):
            abandoned.append(record)
        else:
            trials[record.task] = record
    remark = f"{path}: the last line is cut off and was ignored" if cut_off else ""
    return RunResults(path, run, tuple(trials.values()), tuple(abandoned), remark)


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of results in some folders, at any depth, and those named themselves; each once."""
    yielded: set[Path] = set()
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob(FILE_NAME))
        if not files:
            raise ResultsError(f"{path}: no {FILE_NAME} in it")
        for file in files:
            if (resolved := file.resolve()) not in yielded:
                yielded.add(resolved)
                yield file


def _impossible(record: Trial | Abandoned) -> str:
    """Return a sentence about an impossible figure of a record; "" if there is none.

    A single NaN would turn every mean of a report into NaN.
    """
    amounts = {f"usage: {name}": value for name, value in encode(record.usage).items()}
    shares: dict[str, float | None] = {}
    if isinstance(record, Trial):
        if record.position < 1:
            return f"position: {record.position} is less than 1"
        amounts |= {"seconds": record.seconds, "waited": record.waited}
        amounts |= {f"context: {name}": value for name, value in (encode(record.context) or {}).items()}
        shares["reward"] = record.reward
        shares |= {f"steps: {step.name}: reward": step.reward for step in record.steps}
    for name, value in shares.items():
        if value is not None and not 0 <= value <= 1:
            return f"{name}: {value:g} is not from 0 to 1"
    for name, value in amounts.items():
        if value is not None and not 0 <= value < math.inf:
            return f"{name}: {value:g} is not a number from 0"
    return ""


def _decode_record(path: Path, number: int, line: bytes, *kinds: type[Run | Trial | Abandoned]) -> Any:
    """The record of one of these kinds in a line."""
    try:
        data = json.loads(line)
    except ValueError as error:
        raise ResultsError(f"{path}, line {number}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ResultsError(f"{path}, line {number}: not a JSON object")
    name = data.pop("kind", None)
    cls = next((cls for cls in kinds if cls.kind == name), None)
    if number == 1 and cls is None:
        raise ResultsError(f'{path}: not results of a run: it does not begin with {{"kind":"run",…}}')
    if cls is None:
        raise ResultsError(f"{path}, line {number}: a record of unknown kind {name!r}")
    if cls is Run and data.get("version") != VERSION:
        raise ResultsError(
            f"{path}: version {data.get('version')!r} of the format of results; this Wane reads version {VERSION}"
        )
    try:
        return decode(cls, data)
    except SchemaError as error:
        raise ResultsError(f"{path}, line {number}: {error}") from None


def _line(record: Run | Trial | Abandoned) -> bytes:
    return json.dumps({"kind": record.kind, **encode(record)}, separators=(",", ":")).encode("ascii") + b"\n"


def _write(descriptor: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
