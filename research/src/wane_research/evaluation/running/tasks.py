"""The tasks of a benchmark on disk, and the benchmarks that are known by name. None comes with Wane."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.core.errors import ConfigError


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
