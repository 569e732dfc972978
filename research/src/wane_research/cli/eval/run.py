"""`wane eval run`, `resume` and `report`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.lab.common import check_report
from wane.cli.terminal.signals import END, handled
from wane.cli.terminal.text import counted, say, write_json
from wane.core.errors import ConfigError
from wane.journal.codec import SchemaError, decode, encode
from wane.money import dollars
from wane_research.cli.eval.commands import ReportOptions, ResumeOptions, RunConfigOptions
from wane_research.cli.eval.planning import estimate_lines, tasks_of
from wane_research.evaluation.needed import need_harbor
from wane_research.evaluation.planning.checks import problems
from wane_research.evaluation.planning.estimate import estimates
from wane_research.evaluation.report import report, to_markdown, write_page
from wane_research.evaluation.results import Trial
from wane_research.evaluation.running.config import Config, load
from wane_research.evaluation.running.runner import CONFIG_FILE, Evaluation, PausedError, StoppedError
from wane_research.evaluation.usage import Total


def run_config(options: RunConfigOptions) -> int:
    """Run a configuration, and return the exit code.

    Raises:
        WaneError: if it cannot be run.
    """
    return _run(load(options.config), options)


def resume(options: ResumeOptions) -> int:
    """Go on with the evaluation in a folder, and return the exit code.

    Raises:
        WaneError: if it cannot be run.
    """
    folder = options.folder
    try:
        data = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        config = decode(Config, data)
    except (OSError, ValueError) as error:
        reason = (
            error if isinstance(error, SchemaError | ConfigError) else "there is no evaluation that was begun in it"
        )
        raise InputError(f"{folder}: {reason}") from error
    # The folder may have been moved.
    return _run(replace(config, output=str(folder.resolve())), options)


def run_report(options: ReportOptions) -> int:
    """Print a report, and return the exit code.

    Raises:
        InputError: if no trial has ended in the folders.
        ResultsError: if a folder holds no results, or none that can be read.
        OSError: if a file cannot be read, or the page cannot be written.
    """
    check_report(options.html)
    results = report(options.places)
    if not results.rows:
        raise InputError(f"there is nothing to report: no trial has ended in {', '.join(map(str, options.places))}")
    if options.as_json:
        write_json(results.to_dict())
    else:
        sys.stdout.write(to_markdown(results))
    if options.html is not None:
        # Last, so that a full disk does not cost the user the tables.
        write_page(Path(options.html), results)
    return failure.OK


def _run(config: Config, options: RunConfigOptions | ResumeOptions) -> int:
    def tell(trial: Trial, done: int, total: int) -> None:
        (_json if options.as_json else _line)(trial, done, total)
        if (
            trial.usage.cost is None
            and evaluation.spent.of - evaluation.spent.known_trials == 1
            and evaluation.not_limited
        ):
            # When it begins: at the end of the run the money is spent.
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
            say(
                f"stopped after {evaluation.done} of {evaluation.total} trials; "
                f"go on with: wane eval resume {config.output}"
            )
            return failure.INTERRUPTED
    if evaluation.not_limited:
        say(evaluation.not_limited)
    if evaluation.uncounted:
        say(_uncounted(evaluation, config.output))
    if evaluation.empty:
        say(f"no trial counts in {'; '.join(evaluation.empty)}")
        return failure.FAILED
    if not options.as_json:
        say(
            f"{counted(evaluation.done, 'trial')} in {config.output}; {evaluation.spent.describe()}. "
            f"Next: wane eval report {config.output}"
        )
    return failure.OK


def _uncounted(evaluation: Evaluation, output: str) -> str:
    """Say which trials do not count, and how to do them again."""
    causes = evaluation.uncounted
    number = sum(causes.values())
    by_cause = ", ".join(f"{cause} {count:,}" for cause, count in causes.items())
    again = "".join(f" --again {cause}" for cause in causes)
    return (
        f"{counted(number, 'trial')} will be in no score, as the agent did not end {'it' if number == 1 else 'them'}: "
        f"{by_cause}. Those of isolated sessions are done again by: wane eval resume {output}{again}"
    )


async def _stoppable(evaluation: Evaluation) -> None:
    task = asyncio.current_task()
    assert task is not None
    with handled((signal.SIGINT, *END), task.cancel):
        await evaluation.run()


def _json(trial: Trial, _done: int, _total: int) -> None:
    write_json(encode(trial))


def _line(trial: Trial, done: int, total: int) -> None:
    arm = trial.arm
    what = " ".join(filter(None, (arm.model, arm.strategy_text, str(arm.budget or ""), arm.protocol)))
    reward = "-" if trial.reward is None else f"{trial.reward:g}"
    error = f"  {trial.error}" if trial.error else ""
    took = f"{trial.seconds:.0f} s" if trial.seconds is not None else ""
    cost = Total.cost([trial.usage])
    paid = dollars(cost.exact) if cost.exact is not None or cost.unknown else f"≥{dollars(cost.at_least)}"
    sys.stdout.write(f"{done}/{total}  {what}  run {trial.run}  {trial.task}  {reward}  {took}  {paid}{error}\n")
    sys.stdout.flush()
