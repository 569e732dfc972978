"""`wane eval check` and `power`: what to know before the first call."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from wane.cli import failure
from wane.cli.terminal.text import counted, write_json
from wane.money import dollars
from wane_research.cli.eval.commands import CheckOptions, PowerOptions
from wane_research.evaluation.planning.checks import problems
from wane_research.evaluation.planning.estimate import Estimate, estimates
from wane_research.evaluation.planning.power import MOST_RUNS, Power, power
from wane_research.evaluation.running.config import Config, drawn, load
from wane_research.evaluation.running.tasks import Task, find_tasks


def check(options: CheckOptions) -> int:
    """Print what keeps a configuration from running and what it would cost; return the exit code.

    Raises:
        WaneError: if the configuration cannot be used.
    """
    config = load(options.config)
    tasks = tasks_of(config)
    wrong, planned = problems(config, tasks), estimates(config, len(tasks))
    if options.as_json:
        write_json({"problems": wrong, "estimates": [estimate.to_dict() for estimate in planned]})
    else:
        lines = [*estimate_lines(planned), *(f"! {problem}" for problem in wrong)]
        lines.append(f"{counted(len(wrong), 'problem')}" if wrong else "It can run here.")
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return failure.FAILED if wrong else failure.OK


def tasks_of(config: Config) -> list[Task]:
    """Return the tasks of a configuration.

    Raises:
        ConfigError: if they cannot be found.
    """
    tasks = {task.name: task for task in find_tasks(Path(config.path), config.tasks, config.exclude)}
    return [tasks[name] for name in drawn(tuple(tasks), config.sample)]


def estimate_lines(planned: tuple[Estimate, ...]) -> Iterator[str]:
    """Yield a line for each arm, one for all if there are several, and where the figures come from."""
    for estimate in planned:
        yield estimate.describe()
    priced = [estimate for estimate in planned if estimate.low is not None and estimate.high is not None]
    if len(priced) > 1:
        low, high = sum(estimate.low or 0 for estimate in priced), sum(estimate.high or 0 for estimate in priced)
        cost = dollars(low) if low == high else f"{dollars(low)} to {dollars(high)}"
        unpriced = len(planned) - len(priced)
        exception = f", without {counted(unpriced, 'arm')} of unknown cost" if unpriced else ""
        yield f"in all: about {cost}{exception}"
    for source in dict.fromkeys(estimate.source for estimate in planned):
        yield f"Estimated {source}."


def show_power(options: PowerOptions) -> int:
    """Print the runs that a margin needs, and return the exit code.

    Raises:
        ResultsError: if nothing tells how much trials vary.
        ConfigError: for a value that cannot be.
    """
    experiment = power(options.places, options.margin, options.tasks)
    if options.as_json:
        write_json(experiment.to_dict())
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _power_lines(experiment)))
    return failure.OK


def _power_lines(experiment: Power) -> Iterator[str]:
    yield f"{'arm':<44}{'tasks':>7}{'trials':>8}{'spread':>8}"
    for spread in experiment.spreads:
        deviation = "-" if spread.variance is None else f"{spread.variance**0.5:.3f}"
        ungraded = f"   {spread.ungraded:,} not graded" if spread.ungraded else ""
        yield f"{spread.arm:<44}{spread.tasks:>7,}{spread.trials:>8,}{deviation:>8}{ungraded}"
    yield ""
    tasks, widest = counted(experiment.tasks, "task"), experiment.widest.arm
    yield f"Two equal arms on {tasks}, if their trials vary as those of {widest}:"
    yield f"{'runs':>6}{'apart by chance':>18}{'equal within':>15}"
    for size in experiment.sizes:
        within = "-" if size.margin is None else _points(size.margin)
        yield f"{size.runs:>6}{_points(size.chance):>18}{within:>15}"
    yield ""
    yield "Apart by chance: in 95 of 100 cases. Equal within: the least margin that four of five experiments show."
    margin = _points(experiment.margin)
    if experiment.needed is not None:
        yield f"Equality within {margin} needs {counted(experiment.needed, 'run')} of each arm."
    else:
        least = "" if experiment.least is None else f"; they show {_points(experiment.least)}"
        yield (
            f"Equality within {margin} needs more than {MOST_RUNS} runs on so few tasks{least}. "
            "Take more tasks or a wider margin."
        )


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
