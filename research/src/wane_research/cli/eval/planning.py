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
        write_json({"problems": wrong, "estimates": [each.to_dict() for each in planned]})
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
    for each in planned:
        yield each.describe()
    known = [each for each in planned if each.low is not None and each.high is not None]
    if len(known) > 1:
        low, high = sum(each.low or 0 for each in known), sum(each.high or 0 for each in known)
        rest = (
            ""
            if len(known) == len(planned)
            else f", without {counted(len(planned) - len(known), 'arm')} of unknown cost"
        )
        cost = dollars(low) if low == high else f"{dollars(low)} to {dollars(high)}"
        yield f"in all: about {cost}{rest}"
    for source in dict.fromkeys(each.source for each in planned):
        yield f"Estimated {source}."


def show_power(options: PowerOptions) -> int:
    """Print the runs that a margin needs, and return the exit code.

    Raises:
        ResultsError: if nothing tells how much trials vary.
        ConfigError: for a value that cannot be.
    """
    found = power(options.places, options.margin, options.tasks)
    if options.as_json:
        write_json(found.to_dict())
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _told(found)))
    return failure.OK


def _told(found: Power) -> Iterator[str]:
    yield f"{'arm':<44}{'tasks':>7}{'trials':>8}{'spread':>8}"
    for each in found.spreads:
        spread = "-" if each.variance is None else f"{each.variance**0.5:.3f}"
        ungraded = f"   {each.ungraded:,} not graded" if each.ungraded else ""
        yield f"{each.arm:<44}{each.tasks:>7,}{each.trials:>8,}{spread:>8}{ungraded}"
    yield ""
    yield f"Two equal arms on {counted(found.tasks, 'task')}, if their trials vary as those of {found.widest.arm}:"
    yield f"{'runs':>6}{'apart by chance':>18}{'equal within':>15}"
    for size in found.sizes:
        margin = "-" if size.margin is None else _points(size.margin)
        yield f"{size.runs:>6}{_points(size.chance):>18}{margin:>15}"
    yield ""
    yield "Apart by chance: in 95 of 100 cases. Equal within: the least margin that four of five experiments show."
    wanted = _points(found.margin)
    if found.needed is not None:
        yield f"Equality within {wanted} needs {counted(found.needed, 'run')} of each arm."
    else:
        least = "" if found.least is None else f"; they show {_points(found.least)}"
        yield (
            f"Equality within {wanted} needs more than {MOST_RUNS} runs on so few tasks{least}. "
            "Take more tasks or a wider margin."
        )


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
