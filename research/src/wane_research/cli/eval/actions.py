"""What the commands of the group `eval` do."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.lab.common import check_report
from wane.cli.terminal.signals import END, handle_signals
from wane.cli.terminal.text import count_noun, say, write_json
from wane.core.errors import ConfigError
from wane.journal.codec import SchemaError, decode, encode
from wane.money import dollars
from wane_research.cli.eval.commands import (
    CheckOptions,
    GradeOptions,
    LongCliOptions,
    PowerOptions,
    PredictionsOptions,
    RecoveryOptions,
    ReportOptions,
    ResumeOptions,
    RunConfigOptions,
    SweBenchOptions,
    TasksOptions,
)
from wane_research.evaluation import need_harbor
from wane_research.evaluation.longcli import write_longcli
from wane_research.evaluation.planning.checks import problems
from wane_research.evaluation.planning.estimate import Estimate, estimates
from wane_research.evaluation.planning.power import MOST_RUNS, Power, power
from wane_research.evaluation.recovery import write_recovery
from wane_research.evaluation.report import report, to_markdown, write_page
from wane_research.evaluation.results import Total, Trial
from wane_research.evaluation.running.config import (
    BENCHMARKS,
    Config,
    Sample,
    Task,
    draw_sample,
    find_tasks,
    in_order,
    load,
)
from wane_research.evaluation.running.runner import CONFIG_FILE, Evaluation, PausedError, StoppedError
from wane_research.evaluation.swe_bench import grader_command, take_grades, write_predictions, write_tasks


def check(options: CheckOptions) -> int:
    config = load(options.config)
    tasks = tasks_of(config)
    wrong, planned = problems(config, tasks), estimates(config, len(tasks))
    if options.as_json:
        write_json({"problems": wrong, "estimates": [estimate.to_dict() for estimate in planned]})
    else:
        print(*estimate_lines(planned), sep="\n")
        for problem in wrong:
            print(f"! {problem}")
        print(count_noun(len(wrong), "problem") if wrong else "It can run here.")
    return failure.FAILED if wrong else failure.OK


def tasks_of(config: Config) -> list[Task]:
    tasks = {task.name: task for task in find_tasks(Path(config.path), config.tasks, config.exclude)}
    return [tasks[name] for name in draw_sample(tuple(tasks), config.sample)]


def estimate_lines(planned: tuple[Estimate, ...]) -> Iterator[str]:
    """Yield a line for each arm, one for all if there are several, and where the figures come from."""
    for estimate in planned:
        yield estimate.describe()
    priced = [estimate for estimate in planned if estimate.low is not None and estimate.high is not None]
    if len(priced) > 1:
        low = sum(estimate.low or 0 for estimate in priced)
        high = sum(estimate.high or 0 for estimate in priced)
        cost = dollars(low) if low == high else f"{dollars(low)} to {dollars(high)}"
        unpriced = len(planned) - len(priced)
        exception = f", without {count_noun(unpriced, 'arm')} of unknown cost" if unpriced else ""
        yield f"in all: about {cost}{exception}"
    for source in dict.fromkeys(estimate.source for estimate in planned):
        yield f"Estimated {source}."


def show_power(options: PowerOptions) -> int:
    experiment = power(options.places, options.margin, options.tasks)
    if options.as_json:
        write_json(experiment.to_dict())
    else:
        print(*_power_lines(experiment), sep="\n")
    return failure.OK


def _power_lines(experiment: Power) -> Iterator[str]:
    yield f"{'arm':<44}{'tasks':>7}{'trials':>8}{'spread':>8}"
    for spread in experiment.spreads:
        deviation = "-" if spread.variance is None else f"{spread.variance**0.5:.3f}"
        ungraded = f"   {spread.ungraded:,} not graded" if spread.ungraded else ""
        yield f"{spread.arm:<44}{spread.tasks:>7,}{spread.trials:>8,}{deviation:>8}{ungraded}"
    yield ""
    tasks, widest = count_noun(experiment.tasks, "task"), experiment.widest.arm
    yield f"Two equal arms on {tasks}, if their trials vary as those of {widest}:"
    yield f"{'runs':>6}{'apart by chance':>18}{'equal within':>15}"
    for size in experiment.sizes:
        within = "-" if size.margin is None else _points(size.margin)
        yield f"{size.runs:>6}{_points(size.chance):>18}{within:>15}"
    yield ""
    yield "Apart by chance: in 95 of 100 cases. Equal within: the least margin shown by four of five experiments."
    margin = _points(experiment.margin)
    if experiment.needed is not None:
        yield f"Equality within {margin} needs {count_noun(experiment.needed, 'run')} of each arm."
    else:
        least = "" if experiment.least is None else f"; {MOST_RUNS} runs show {_points(experiment.least)}"
        yield (
            f"Equality within {margin} needs more than {MOST_RUNS} runs on so few tasks{least}. "
            "Take more tasks or a wider margin."
        )


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def run_config(options: RunConfigOptions) -> int:
    return _run(load(options.config), options)


def resume(options: ResumeOptions) -> int:
    folder = options.folder
    try:
        data = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        config = decode(Config, data)
    except (SchemaError, ConfigError) as error:
        raise InputError(f"{folder}: {error}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no evaluation was begun in it") from error
    # The folder may have been moved.
    return _run(replace(config, output=str(folder.resolve())), options)


def run_report(options: ReportOptions) -> int:
    check_report(options.html)
    results = report(options.places)
    if not results.rows:
        raise InputError(f"there is nothing to report: no trial has ended in {', '.join(map(str, options.places))}")
    if options.as_json:
        write_json(results.to_dict())
    else:
        sys.stdout.write(to_markdown(results))
    if options.html is not None:
        # Last, so that a full disk does not lose the tables.
        write_page(Path(options.html), results)
    return failure.OK


def _run(config: Config, options: RunConfigOptions | ResumeOptions) -> int:
    def tell(trial: Trial, done: int, total: int) -> None:
        if options.as_json:
            write_json(encode(trial))
        else:
            _print_line(trial, done, total)
        unknown_costs = evaluation.spent.of - evaluation.spent.known_trials
        if trial.usage.cost is None and unknown_costs == 1 and evaluation.not_limited:
            # Warn at the first unknown cost: at the end of the run the money is spent.
            say(evaluation.not_limited)

    evaluation = Evaluation(config, tell, again=options.again)
    # Report mistakes in the configuration first.
    need_harbor("wane eval run")
    with evaluation:
        if evaluation.done < evaluation.total and not options.as_json:
            tasks = tasks_of(config)
            for line in (*estimate_lines(estimates(config, len(tasks))), *problems(config, tasks)):
                say(line)
        try:
            asyncio.run(_stoppable(evaluation))
        except StoppedError as error:
            say(str(error))
            return failure.OVER_BUDGET
        except PausedError as error:
            say(f"{error}. Go on with: wane eval resume {config.output}")
            return failure.UNAVAILABLE
        except asyncio.CancelledError:
            trials = f"{evaluation.done} of {evaluation.total} trials"
            say(f"stopped after {trials}; go on with: wane eval resume {config.output}")
            return failure.INTERRUPTED
    if evaluation.not_limited:
        say(evaluation.not_limited)
    if evaluation.uncounted:
        say(_describe_uncounted(evaluation, config.output))
    if evaluation.empty:
        say(f"no trial counts in {'; '.join(evaluation.empty)}")
        return failure.FAILED
    if not options.as_json:
        say(
            f"{count_noun(evaluation.done, 'trial')} in {config.output}; {evaluation.spent.describe()}. "
            f"Next: wane eval report {config.output}"
        )
    return failure.OK


def _describe_uncounted(evaluation: Evaluation, output: str) -> str:
    """Return a sentence with the trials that do not count, and how to do them again."""
    causes = evaluation.uncounted
    by_cause = ", ".join(f"{cause} {count:,}" for cause, count in causes.items())
    again = "".join(f" --again {cause}" for cause in causes)
    return (
        f"trials that will not be in any score, because something other than the agent ended them: {by_cause}. "
        f"To repeat those of isolated sessions: wane eval resume {output}{again}"
    )


async def _stoppable(evaluation: Evaluation) -> None:
    task = asyncio.current_task()
    assert task is not None
    with handle_signals((signal.SIGINT, *END), task.cancel):
        await evaluation.run()


def _print_line(trial: Trial, done: int, total: int) -> None:
    reward = "-" if trial.reward is None else f"{trial.reward:g}"
    error = f"  {trial.error}" if trial.error else ""
    took = f"{trial.seconds:.0f} s" if trial.seconds is not None else ""
    cost = Total.cost([trial.usage])
    paid = dollars(cost.exact)
    if cost.exact is None and not cost.unknown:
        paid = f"≥{dollars(cost.at_least)}"
    arm, run = trial.arm.words, trial.run
    sys.stdout.write(f"{done}/{total}  {arm}  run {run}  {trial.task}  {reward}  {took}  {paid}{error}\n")
    sys.stdout.flush()


def list_tasks(options: TasksOptions) -> int:
    if options.config is None:
        if options.as_json:
            write_json([asdict(benchmark) for benchmark in BENCHMARKS])
        else:
            for benchmark in BENCHMARKS:
                sys.stdout.write(f"{benchmark.name}: {benchmark.tasks} {benchmark.about}\n  {benchmark.download}\n")
        return failure.OK
    chosen = load(options.config)
    tasks = {task.name: task for task in tasks_of(chosen)}
    names = in_order(tuple(tasks), chosen.seed, 1)
    if options.as_json:
        write_json([{"name": name, "path": str(tasks[name].path), "seconds": tasks[name].seconds} for name in names])
    else:
        print(*names, sep="\n")
    return failure.OK


def write_swe_bench(options: SweBenchOptions) -> int:
    sample = None if options.count is None else Sample(options.count, options.seed)
    names = write_tasks(options.source, options.target, sample)
    return _report_written(names, options.target)


def write_long_cli(options: LongCliOptions) -> int:
    names = write_longcli(options.source, options.target)
    return _report_written(names, options.target)


def predictions(options: PredictionsOptions) -> int:
    for run, path, filled in write_predictions(options.places):
        sys.stdout.write(f"{path}: {filled} of {len(run.trials)} have a change\n  {grader_command(path, run)}\n")
    return failure.OK


def grade(options: GradeOptions) -> int:
    passed, graded = take_grades(options.folder, options.report)
    sys.stdout.write(f"{passed} of {graded} resolved\n")
    return failure.OK


def write_recovered(options: RecoveryOptions) -> int:
    target = options.target
    names = write_recovery(options.traces, options.tasks, target, options.messages)
    if options.messages == "full":
        characters = sum(len((target / name / "instruction.md").read_text(encoding="utf-8")) for name in names)
        say(
            "the transcripts are in user turns, which are never evicted: one session over these tasks would hold about "
            f"{characters // 4:,} tokens of them"
        )
    return _report_written(names, target)


def _report_written(names: Sequence[str], target: Path) -> int:
    sys.stdout.write(f"{count_noun(len(names), 'task')} in {target}\n")
    return failure.OK
