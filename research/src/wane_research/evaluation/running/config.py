"""The configuration of `wane eval run`, a YAML file as frozen dataclasses, with errors that name the key; its tasks.

Tasks are on disk, in the format of Harbor. No benchmark comes with Wane; those of the paper are known by name.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final, get_args

import yaml

from wane.core import parse_budget
from wane.core.errors import ConfigError
from wane.journal.codec import SchemaError, decode
from wane.proxy.settings import StrategyName
from wane.strategies.base import Annotate, traits
from wane.strategies.registry import STRATEGY_NAMES
from wane_research.evaluation.results import Arm, Protocol

NEW_ENVIRONMENT: Final = "This is a new task, in a fresh environment: files and processes of earlier tasks are gone."
"""The line ahead of each task. The tasks themselves do not mention a new machine."""

_SILENT: Final = 600.0  # seconds for which a call of the agent may be silent before it fails
RIVAL: Final = "agent:"  # beginning of the name of another agent of Harbor, in place of a strategy: `agent:pi`
ORACLE: Final = f"{RIVAL}oracle"  # the reference solution, which calls no model
BY_WANE: Final = "@"  # separates the name of another agent from the strategy of `wane run` for it: `agent:pi@cwl`

BY_WANE_AGENTS: Final = {"claude-code": "ClaudeCodeByWane", "codex": "CodexByWane", "pi": "PiByWane"}
"""Agents of Harbor that `wane run` knows, with their classes in `wane_research.evaluation.rivals`."""

_LEAST: Final = """The least that a configuration needs:

benchmark: terminal-bench-2.0
path: terminal-bench-2
models: [anthropic:claude-sonnet-5]
"""

_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_REFERENCE: Final = re.compile(r"\$\{\w+\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MODEL: Final = re.compile(r"[\w./-]+:[\w.:/+-]+")


@dataclass(frozen=True, slots=True)
class Sample:
    """A number of a benchmark's tasks, drawn by a seed."""

    count: int
    seed: int

    def __post_init__(self) -> None:
        _at_least("count", self.count, 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of time and cost. None is no limit."""

    cost_per_task: float | None = None  # dollars; the task ends, and is graded as it is
    cost_per_run: float | None = None  # dollars; the run stops, and can go on with a higher limit
    cost_total: float | None = None  # dollars of all runs; as for a run
    minutes_per_task: float | None = None  # for the agent; None for the task's own limit
    timeout_factor: float = 1.0  # factor for the tasks' own limits
    patience: float = 30.0  # minutes of an outage before the run pauses; a task's time stands still meanwhile

    def __post_init__(self) -> None:
        for name in ("cost_per_task", "cost_per_run", "cost_total", "minutes_per_task", "timeout_factor", "patience"):
            value = getattr(self, name)
            # YAML's .nan is below nothing and above nothing, so it would switch a limit off.
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name}: {value:g} is not a number above 0")


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """The environment of the tasks."""

    # `linux`, ours without containers; or the name of an environment of Harbor, such as `docker`, `daytona` or `modal`;
    # or `module:Class`
    type: str = "linux"
    mount: bool | None = None  # the bundle, instead of a copy in each environment; None to choose by the type
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # its further arguments, such as `bases` for `linux`


@dataclass(frozen=True, slots=True)
class Config:
    """One evaluation: all combinations of models, strategies, budgets and protocols, each some runs."""

    benchmark: str  # name of the benchmark; `wane eval tasks` lists those that are known
    path: str  # folder with its tasks, in Harbor's format
    models: tuple[str, ...] = ()  # as `provider:model`
    tasks: tuple[str, ...] = ()  # names of tasks; all of the folder if empty
    exclude: tuple[str, ...] = ()  # names of tasks to leave out
    sample: Sample | None = None  # draw some of them
    strategies: tuple[str, ...] = ("cwl",)  # Wane's, `agent:NAME`, or `agent:NAME@STRATEGY` by `wane run`
    budgets: tuple[str, ...] = ("80k",)  # tokens that the view may hold: `80k`
    annotate: tuple[Annotate, ...] = ()  # some of `model`, `infer` and `host`, an arm for each; the default if empty
    protocols: tuple[Protocol, ...] = ("isolated", "single")  # `isolated`, `single` or both
    runs: int = 1  # runs of each combination
    seed: int | None = 1  # of the order of tasks, another for each run; None for the order of `tasks`, or by name
    new_environment: str = NEW_ENVIRONMENT  # the line that tells the model of a new environment, ahead of each task
    margin: float = 0.03  # differences below this count as none; from 0 to 1
    limits: Limits = field(default_factory=Limits)  # limits of time and cost
    concurrency: int = 1  # how many runs go on at once; with `isolated`, how many tasks
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)  # the environment of the tasks
    env: Mapping[str, str] = field(default_factory=dict)  # the agent's variables; `${NAME}` is of this machine
    output: str = ""  # folder for results

    def __post_init__(self) -> None:
        _at_least("runs", self.runs, 1)
        _at_least("concurrency", self.concurrency, 1)
        if not 0 <= self.margin <= 1:
            raise ConfigError(f"margin: {self.margin:g} is not from 0 to 1")
        for name in ("benchmark", "path"):
            if not getattr(self, name).strip():
                raise ConfigError(f"{name}: it is empty. {_LEAST}")
        for name in ("strategies", "budgets", "protocols"):
            if not getattr(self, name):
                raise ConfigError(f"{name}: at least one is needed")
        for strategy in self.strategies:
            if strategy not in STRATEGY_NAMES and not strategy.startswith(RIVAL):
                names = ", ".join(STRATEGY_NAMES)
                raise ConfigError(f"strategies: {strategy!r} is not one of {names}, nor another agent: agent:NAME")
            if by_wane := kept_by_wane(strategy):
                name, wane_strategy = by_wane
                if name not in BY_WANE_AGENTS:
                    raise ConfigError(f"strategies: {strategy!r}: wane run knows {', '.join(BY_WANE_AGENTS)}")
                if wane_strategy not in get_args(StrategyName):
                    known = ", ".join(get_args(StrategyName))
                    raise ConfigError(f"strategies: {strategy!r}: those of wane run are {known}")
                if "host" in self.annotate and traits(wane_strategy).marked:
                    raise ConfigError(
                        f"annotate: host: no host marks episodes of {strategy!r}; wane run has model and infer"
                    )
        for budget in self.budgets:
            try:
                parse_budget(budget)
            except ConfigError as error:
                raise ConfigError(f"budgets: {error}") from None
        for model in self.models:
            if not _MODEL.fullmatch(model):
                raise ConfigError(f"models: {model!r} is not written as provider:model")
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name):
                raise ConfigError(f"env: {name!r} is not a variable's name")
            if _SECRET.search(name.upper()) and not _REFERENCE.fullmatch(value):
                raise ConfigError(
                    f"env: {name}: a key does not belong in a file; write ${{{name}}}, and set it where this runs"
                )
        if not self.models and any(strategy != ORACLE for strategy in self.strategies):
            raise ConfigError(f"models: at least one is needed. {_LEAST}")

    def arms(self) -> tuple[Arm, ...]:
        arms: dict[Arm, None] = {}
        for model in self.models or ("",):
            for strategy in self.strategies:
                # Without a budget to keep, all budgets are the same; other agents do not take one.
                by_wane = kept_by_wane(strategy)
                free = strategy == "none" or (strategy.startswith(RIVAL) and by_wane is None)
                marks = self.annotate if traits(by_wane[1] if by_wane else strategy).marked else ()
                for budget, protocol, annotate in product(self.budgets, self.protocols, marks or (None,)):
                    if strategy.startswith(RIVAL) and protocol == "single":
                        continue
                    tokens = None if free else parse_budget(budget)
                    arms[Arm(self.benchmark, model, strategy, tokens, protocol, annotate)] = None
        if not arms:
            raise ConfigError("protocols: another agent than Wane runs in isolated sessions alone")
        return tuple(arms)


def load(path: Path) -> Config:
    """Return the configuration in a YAML file, with paths relative to its folder made absolute."""
    return read(load_yaml(path), path)


def load_yaml(path: Path) -> object:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - it is a safe one
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8; give the configuration as YAML") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Refuses a key that stands there twice; YAML's own loader would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        written = [key.value for key, _ in node.value]
        for key in written:
            if written.count(key) > 1:
                raise yaml.YAMLError(f"line {node.start_mark.line + 1} begins a mapping with the key {key!r} twice")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read(data: object, path: Path) -> Config:
    """Return the configuration that YAML data hold; `path` is the file that they came from."""
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: keys and values are needed. {_LEAST}")
    data = dict(data)
    if isinstance(data.get("budgets"), list):
        # 80000 is a number to YAML, and 80k is not.
        data["budgets"] = [str(budget) if isinstance(budget, int) else budget for budget in data["budgets"]]
    for name in ("models", "strategies", "budgets", "annotate", "protocols", "tasks", "exclude"):
        if isinstance(data.get(name), str | int):
            data[name] = [str(data[name])]
    try:
        config = decode(Config, data)
    except SchemaError as error:
        absent = any(name not in data for name in ("benchmark", "path"))
        raise ConfigError(f"{path}: {error}" + (f". {_LEAST}" if absent else "")) from None
    folder = path.resolve().parent
    output = config.output or f"{path.stem}-results"
    return replace(
        config, path=str(folder / Path(config.path).expanduser()), output=str(folder / Path(output).expanduser())
    )


def in_order(tasks: tuple[str, ...], seed: int | None, run: int) -> tuple[str, ...]:
    """Return the tasks in the order of a run.

    The order follows a hash, so that it is the same everywhere, and leaving a task out does not reorder the others.

    Args:
        tasks: their names.
        seed: of the order; None for the order given.
        run: number of the run, from 1: each has an order of its own.
    """
    if seed is None:
        return tasks
    return tuple(sorted(tasks, key=lambda task: sha256(f"{seed}/{run}/{task}".encode()).digest()))


def drawn(tasks: tuple[str, ...], sample: Sample | None) -> tuple[str, ...]:
    """Return a sample of the tasks, in the order given; all if there is none."""
    if sample is None:
        return tasks
    if sample.count > len(tasks):
        raise ConfigError(f"sample: {sample.count} of {len(tasks)} tasks cannot be drawn")
    chosen = set(in_order(tasks, sample.seed, 0)[: sample.count])
    return tuple(task for task in tasks if task in chosen)


def hung_after(seconds: float, patience: float) -> float:
    """Return the seconds after which Wane in a task must have ended.

    It waits for at most four outages, and for a call that is silent when the time is over.

    `seconds`: that the task may take.
    `patience`: minutes that one outage may last.
    """
    return seconds + 5 * 60 * patience + _SILENT + 60


def kept_by_wane(strategy: str) -> tuple[str, str] | None:
    """Return the agent and the strategy of `agent:NAME@STRATEGY`; None for anything else."""
    name, at, wane_strategy = strategy.removeprefix(RIVAL).partition(BY_WANE)
    return (name, wane_strategy) if at and strategy.startswith(RIVAL) else None


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name}: {value} is less than {least}")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark that is known by name."""

    name: str  # as configurations name it
    tasks: int  # number of its tasks
    about: str  # its description, in a sentence
    download: str  # commands that fetch it


BENCHMARKS: Final = (
    Benchmark(
        "terminal-bench-2.0",
        89,
        "tasks in a terminal, each with a Dockerfile and tests",
        "harbor download terminal-bench@2.0 -o DIR   (or clone laude-institute/terminal-bench-2)",
    ),
    Benchmark(
        "swe-bench-lite",
        300,
        "issues of Python projects; predictions are written for the official grader",
        "save the data set SWE-bench/SWE-bench_Lite as lines of JSON, then: wane eval swe-bench FILE DIR --count 50",
    ),
    Benchmark(
        "recovery-bench",
        89,
        "tasks of Terminal-Bench that another agent failed, in the state that it left",
        "clone letta-ai/recovery-bench with its LFS files, then: wane eval recovery TRACES TASKS DIR",
    ),
    Benchmark(
        "longcli-bench",
        20,
        "long tasks of programming courses",
        "clone finyorko/longcli-bench, build its two base images, then: wane eval longcli CLONE DIR",
    ),
)
"""The benchmarks of the paper, in its order."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task on disk, in Harbor's format."""

    name: str  # its folder's name
    path: Path  # its folder
    seconds: float | None  # for the agent, by its own `task.toml`; None for no limit
    steps: tuple[str, ...] = ()  # names of its steps; empty for a task of one


def find_tasks(folder: Path, names: tuple[str, ...], exclude: tuple[str, ...]) -> tuple[Task, ...]:
    """Return the tasks in a folder: those named, in that order, or all by name.

    Raises:
        ConfigError: if there are none, all are excluded, a named one is missing, or a `task.toml` cannot be read.
    """
    folders = _folders(folder)
    if not folders:
        raise ConfigError(
            f"path: there are no tasks in {folder}: a task is a folder with a task.toml. "
            '"wane eval tasks" tells where benchmarks can be had'
        )
    if unknown := [name for name in (*names, *exclude) if name not in folders]:
        raise ConfigError(f"tasks: {', '.join(unknown)} not found in {folder}")
    chosen = [name for name in (names or folders) if name not in exclude]
    if not chosen:
        raise ConfigError(f"exclude: no task of {folder} is left")
    if len(set(chosen)) != len(chosen):
        raise ConfigError("tasks: a task is named twice")
    return tuple(_read(name, folders[name]) for name in chosen)


def size_of(benchmark: str, folder: Path) -> int:
    """Return how many tasks a benchmark has: as many as are known by its name, or those in its folder if more."""
    listed = {row.name: row.tasks for row in BENCHMARKS}
    return max(listed.get(benchmark, 0), len(_folders(folder)))


def _folders(folder: Path) -> dict[str, Path]:
    """The folders of tasks by name; a folder may itself be the one task."""
    if (folder / "task.toml").exists():
        return {folder.name: folder}
    return {path.parent.name: path.parent for path in sorted(folder.glob("*/task.toml"))}


def _read(name: str, path: Path) -> Task:
    try:
        data = tomllib.loads((path / "task.toml").read_text(encoding="utf-8"))
        steps = data.get("steps", [])
        own = data.get("agent", {}).get("timeout_sec")
        limits = [step.get("agent", {}).get("timeout_sec", own) for step in steps] or [own]
        limit = None if None in limits else max(map(float, limits))
        return Task(name, path.resolve(), limit, tuple(str(step["name"]) for step in steps))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path / 'task.toml'} cannot be used: {type(error).__name__}: {error}") from error
