"""The number of runs that a claim of equivalence needs, from the spread of earlier trials."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wane.core.errors import ConfigError
from wane_research.evaluation.results import ResultsError, find, read
from wane_research.evaluation.statistics import Table, chance, equivalence_margin, within_variance

RUNS: Final = (1, 2, 3, 5, 10, 20)  # numbers of runs in the table
MOST_RUNS: Final = 200  # largest number of runs considered
_COLUMNS: Final = ("model", "task", "reward")


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of an arm's trials."""

    arm: str
    tasks: int  # number of its tasks
    trials: int  # number of its graded trials
    ungraded: int  # number of trials without a reward, which are left out
    variance: float | None  # variance of a trial's score around its task's mean; None if no task was tried twice


@dataclass(frozen=True, slots=True)
class Size:
    """An experiment of a number of runs; differences of scores are from 0 to 1."""

    runs: int  # runs of each arm
    chance: float  # how far apart two equal arms land in 95 of 100 cases
    margin: float | None  # the least margin that shows equal arms equal in four of five cases; None if unknown


@dataclass(frozen=True, slots=True)
class Power:
    """The runs that a margin needs."""

    spreads: tuple[Spread, ...]  # the arms of the trials
    widest: Spread  # the arm whose trials vary most; the other figures follow from it
    tasks: int  # number of tasks of the experiment
    margin: float
    needed: int | None  # runs of each arm that show equal arms equal within the margin; None if MOST_RUNS are too few
    sizes: tuple[Size, ...]  # experiments of other numbers of runs
    least: float | None  # the margin that MOST_RUNS runs show

    def to_dict(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "margin": self.margin,
            "runs_needed": self.needed,
            "widest": self.widest.arm,
            "sizes": [asdict(size) for size in self.sizes],
            "arms": [asdict(spread) for spread in self.spreads],
        }


def power(places: Iterable[Path], margin: float, tasks: int | None = None) -> Power:
    """Return the runs that a margin needs.

    Args:
        places: folders with results, and tables of trials as CSV.
        margin: smaller differences count as none; from 0 to 1.
        tasks: number of tasks of the experiment; None for that of the widest arm.

    Raises:
        ResultsError: if a place holds no results, or no task was tried twice by an arm.
        ConfigError: for a table without the needed columns, or an impossible margin or number.
    """
    if not 0 < margin <= 1:
        raise ConfigError(f"margin: {margin:g} is not above 0 and at most 1")
    if tasks is not None and tasks < 1:
        raise ConfigError(f"tasks: {tasks} is less than 1")
    places = list(places)
    spreads = tuple(spread for path in places for spread in _spreads(path))
    measured = [spread for spread in spreads if spread.variance is not None]
    if not measured:
        named = ", ".join(map(str, places))
        raise ResultsError(f"{named}: no task was tried twice by the same arm, so its spread is not known")
    widest = max(measured, key=lambda spread: spread.variance or 0.0)
    variance, count = widest.variance or 0.0, tasks or widest.tasks

    def shows(runs: int) -> bool:
        least = equivalence_margin(variance, count, runs)
        return least is not None and least <= margin

    needed: int | None = 1
    if not shows(1):
        # From two runs on, more runs show a smaller margin.
        fewest = 2 + bisect_left(range(2, MOST_RUNS), True, key=shows)
        needed = fewest if shows(fewest) else None
    sizes = [Size(runs, chance(variance, count, runs), equivalence_margin(variance, count, runs)) for runs in RUNS]
    least = equivalence_margin(variance, count, MOST_RUNS)
    return Power(spreads, widest, count, margin, needed, tuple(sizes), least)


def _spreads(path: Path) -> list[Spread]:
    if path.suffix.lower() == ".csv":
        return _of_csv(path)
    tables: dict[str, dict[str, dict[int, float]]] = {}
    ungraded: dict[str, int] = {}
    for file in find([path]):
        results = read(file)
        arm = results.run.arm
        name = f"{arm.benchmark} {arm.words}"
        for trial in results.trials:
            reward = trial.score if trial.counts else None
            _note(tables.setdefault(name, {}), ungraded, name, trial.task, reward)
    return [_spread(name, table, ungraded.get(name, 0)) for name, table in tables.items()]


def _note(
    table: dict[str, dict[int, float]], ungraded: dict[str, int], arm: str, task: str, reward: float | None
) -> None:
    """Add a trial of an arm. Runs are renumbered, because several folders may have a run 1."""
    if reward is None:
        ungraded[arm] = ungraded.get(arm, 0) + 1
        return
    tries = table.setdefault(task, {})
    tries[len(tries) + 1] = reward


def _of_csv(path: Path) -> list[Spread]:
    tables: dict[str, dict[str, dict[int, float]]] = {}
    ungraded: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if absent := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
                needed = ", ".join(_COLUMNS)
                raise ConfigError(
                    f"{path}: a table of trials needs the columns {needed}; not there: {', '.join(absent)}"
                )
            for row in rows:
                model, task, text = (row[name] or "" for name in _COLUMNS)
                reward = _reward(text, f"{path}, line {rows.line_num}") if text else None
                _note(tables.setdefault(model, {}), ungraded, model, task, reward)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return [_spread(model, table, ungraded.get(model, 0)) for model, table in tables.items()]


def _reward(text: str, where: str) -> float:
    try:
        reward = float(text)
    except ValueError:
        reward = -1.0
    if not 0 <= reward <= 1:
        raise ConfigError(f"{where}: reward: {text!r} is not from 0 to 1")
    return reward


def _spread(arm: str, table: Table, ungraded: int) -> Spread:
    return Spread(arm, len(table), sum(map(len, table.values())), ungraded, within_variance(table))
