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
from typing import Any, Final

import yaml

from wane.core import parse_budget
from wane.core.errors import ConfigError
from wane.journal.codec import SchemaError, decode
from wane.strategies.registry import STRATEGY_NAMES, is_unaided, traits
from wane.strategies.strategy import Annotate
from wane_research.evaluation.results import Arm, Protocol

NEW_ENVIRONMENT: Final = "This is a new task, in a fresh environment: files and processes of earlier tasks are gone."
"""The line before each task. The tasks themselves do not mention a new machine."""

_SILENT: Final = 600.0  # seconds without output after which a call of the agent fails
RIVAL: Final = "agent:"  # prefix of another agent of Harbor, in place of a strategy: `agent:pi`
ORACLE: Final = f"{RIVAL}oracle"  # the reference solution, which calls no model
BY_WANE: Final = "@"  # separates another agent's name from the strategy of `wane run` for it: `agent:pi@cwl`

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
    """A random sample of a benchmark's tasks."""

    count: int
    seed: int

    def __post_init__(self) -> None:
        _at_least("count", self.count, 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of time and cost. None is no limit."""

    cost_per_task: float | None = None  # dollars; at the limit the task ends and is graded as it is
    cost_per_run: float | None = None  # dollars; at the limit the run stops, and can continue with a higher one
    cost_total: float | None = None  # dollars of all runs; at the limit all stop
    minutes_per_task: float | None = None  # for the agent; None for the task's own limit
    timeout_factor: float = 1.0  # factor for the tasks' own limits
    patience: float = 30.0  # minutes of an outage before the run pauses; they do not count as a task's time

    def __post_init__(self) -> None:
        for name in ("cost_per_task", "cost_per_run", "cost_total", "minutes_per_task", "timeout_factor", "patience"):
            value = getattr(self, name)
            # YAML's .nan compares as False with everything, so it would switch a limit off.
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name}: {value:g} is not a number above 0")


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """The environment of the tasks."""

    # `linux`, which is Wane's own and needs no containers; or an environment of Harbor, such as `docker`, `daytona` or
    # `modal`; or `module:Class`
    type: str = "linux"
    mount: bool | None = None  # whether to mount the bundle instead of copying it; None to decide by the type
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # further arguments, such as `bases` for `linux`


@dataclass(frozen=True, slots=True)
class Config:
    """One evaluation: several runs of all combinations of models, strategies, budgets and protocols."""

    benchmark: str  # name of the benchmark; `wane eval tasks` lists the known ones
    path: str  # folder with its tasks, in Harbor's format
    models: tuple[str, ...] = ()  # as `provider:model`
    tasks: tuple[str, ...] = ()  # names of tasks; all tasks of the folder if empty
    exclude: tuple[str, ...] = ()  # names of tasks to leave out
    sample: Sample | None = None  # a sample of the tasks to run; None for all of them
    strategies: tuple[str, ...] = ("cwl",)  # Wane's, `agent:NAME`, or `agent:NAME@STRATEGY` by `wane run`
    budgets: tuple[str, ...] = ("80k",)  # tokens that the view may hold: `80k`
    annotate: tuple[Annotate, ...] = ()  # some of `model`, `infer` and `host`, an arm for each; the default if empty
    protocols: tuple[Protocol, ...] = ("isolated", "single")  # `isolated`, `single` or both
    runs: int = 1  # runs of each combination
    seed: int | None = 1  # of the order of tasks, which differs by run; None for the order of `tasks`, or by name
    new_environment: str = NEW_ENVIRONMENT  # the line before each task that tells the model of a new environment
    margin: float = 0.03  # smaller differences count as none; from 0 to 1
    limits: Limits = field(default_factory=Limits)  # limits of time and cost
    concurrency: int = 1  # number of concurrent runs; with `isolated`, of concurrent tasks
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)  # the environment of the tasks
    env: Mapping[str, str] = field(default_factory=dict)  # the agent's variables; `${NAME}` is one of this machine's
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
            self._check_strategy(strategy)
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

    def _check_strategy(self, strategy: str) -> None:
        if strategy not in STRATEGY_NAMES and not strategy.startswith(RIVAL):
            names = ", ".join(STRATEGY_NAMES)
            raise ConfigError(f"strategies: {strategy!r} is not one of {names}, nor another agent: agent:NAME")
        by_wane = kept_by_wane(strategy)
        if by_wane is None:
            return
        name, wane_strategy = by_wane
        if name not in BY_WANE_AGENTS:
            raise ConfigError(f"strategies: {strategy!r}: wane run knows {', '.join(BY_WANE_AGENTS)}")
        if wane_strategy not in STRATEGY_NAMES or not is_unaided(wane_strategy):
            known = ", ".join(filter(is_unaided, STRATEGY_NAMES))
            raise ConfigError(f"strategies: {strategy!r}: the strategies of wane run are {known}")
        if "host" in self.annotate and traits(wane_strategy).marked:
            raise ConfigError(f"annotate: host: no host marks episodes of {strategy!r}; wane run has model and infer")

    def arms(self) -> tuple[Arm, ...]:
        arms: dict[Arm, None] = {}
        for model, strategy in product(self.models or ("",), self.strategies):
            # Strategies without a budget have one arm for all budgets; other agents do not take one.
            rival = strategy.startswith(RIVAL)
            by_wane = kept_by_wane(strategy)
            unbounded = strategy == "none" or (rival and by_wane is None)
            wane_strategy = by_wane[1] if by_wane else strategy
            markers: tuple[Annotate | None, ...] = (None,)
            if self.annotate and traits(wane_strategy).marked:
                markers = self.annotate
            for budget, protocol, annotate in product(self.budgets, self.protocols, markers):
                if rival and protocol == "single":
                    continue
                tokens = None if unbounded else parse_budget(budget)
                arms[Arm(self.benchmark, model, strategy, tokens, protocol, annotate)] = None
        if not arms:
            raise ConfigError("protocols: agents other than Wane run only in isolated sessions")
        return tuple(arms)


def load(path: Path) -> Config:
    """Return the configuration in a YAML file. Its relative paths are relative to the file's folder."""
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
    """Refuses duplicate keys. PyYAML's own loader takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"line {node.start_mark.line + 1} begins a mapping with the key {key!r} twice")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read(data: object, path: Path) -> Config:
    """Return the configuration in YAML data from the file `path`."""
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: keys and values are needed. {_LEAST}")
    data = dict(data)
    if isinstance(data.get("budgets"), list):
        data["budgets"] = [_budget_text(budget) for budget in data["budgets"]]
    for name in ("models", "strategies", "budgets", "annotate", "protocols", "tasks", "exclude"):
        if isinstance(data.get(name), str | int):
            data[name] = [str(data[name])]
    try:
        config = decode(Config, data)
    except SchemaError as error:
        message = f"{path}: {error}"
        if "benchmark" not in data or "path" not in data:
            message += f". {_LEAST}"
        raise ConfigError(message) from None
    folder = path.resolve().parent
    tasks = folder / Path(config.path).expanduser()
    output = folder / Path(config.output or f"{path.stem}-results").expanduser()
    return replace(config, path=str(tasks), output=str(output))


def _budget_text(budget: object) -> object:
    # 80000 is a number in YAML, and 80k is text.
    return str(budget) if isinstance(budget, int) else budget


def in_order(tasks: tuple[str, ...], seed: int | None, run: int) -> tuple[str, ...]:
    """Return the tasks in the order of a run.

    The order is by a hash of seed and run, so it is the same everywhere, and leaving a task out does not reorder the
    others. Without a seed it is the order given.
    """
    if seed is None:
        return tasks
    return tuple(sorted(tasks, key=lambda task: sha256(f"{seed}/{run}/{task}".encode()).digest()))


def draw_sample(tasks: tuple[str, ...], sample: Sample | None) -> tuple[str, ...]:
    """Return a sample of the tasks, in the order given; all if there is none."""
    if sample is None:
        return tasks
    if sample.count > len(tasks):
        raise ConfigError(f"sample: count is {sample.count}, but there are only {len(tasks)} tasks")
    chosen = set(in_order(tasks, sample.seed, 0)[: sample.count])
    return tuple(task for task in tasks if task in chosen)


def hung_after(seconds: float, patience: float) -> float:
    """Return the seconds after which Wane must have ended a task.

    It waits for at most four outages, and for a call that is silent when the time is over.

    `seconds`: time limit of the task.
    `patience`: minutes that one outage may last.
    """
    return seconds + 5 * 60 * patience + _SILENT + 60


def kept_by_wane(strategy: str) -> tuple[str, str] | None:
    """Return the agent and the strategy of `agent:NAME@STRATEGY`; None for anything else."""
    if not strategy.startswith(RIVAL) or BY_WANE not in strategy:
        return None
    name, _, wane_strategy = strategy.removeprefix(RIVAL).partition(BY_WANE)
    return name, wane_strategy


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name}: {value} is less than {least}")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark that is known by name."""

    name: str  # as configurations name it
    tasks: int  # number of its tasks
    about: str  # its description
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
            '"wane eval tasks" says where to get benchmarks'
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
    """Return the number of tasks of a benchmark: the known one, or that of its folder if larger."""
    known = {row.name: row.tasks for row in BENCHMARKS}
    return max(known.get(benchmark, 0), len(_folders(folder)))


def _folders(folder: Path) -> dict[str, Path]:
    """Return the folders of tasks by name. The folder may itself be the only task."""
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
