"""`wane eval run` and `wane eval resume`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.terminal.signals import END, handled
from wane.cli.terminal.text import say
from wane.core.errors import ConfigError
from wane.evaluation.needed import need_harbor
from wane.evaluation.results import ErrorKind, Trial
from wane.evaluation.running.config import Config, load
from wane.evaluation.running.runner import CONFIG_FILE, Evaluation, StoppedError
from wane.journal.codec import SchemaError, decode, encode


def run_config(config: Path, again: Sequence[ErrorKind] = (), as_json: bool = False) -> int:
    """Run a configuration, and return the exit code.

    Raises:
        WaneError: if it cannot be run.
    """
    return _run(load(config), again, as_json)


def resume(folder: Path, again: Sequence[ErrorKind] = (), as_json: bool = False) -> int:
    """Go on with the evaluation in a folder, and return the exit code.

    Raises:
        WaneError: if it cannot be run.
    """
    try:
        data = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        config = decode(Config, data)
    except (OSError, ValueError) as error:
        told = error if isinstance(error, SchemaError | ConfigError) else "there is no evaluation that was begun in it"
        raise InputError(f"{folder}: {told}") from error
    # The folder may have been moved.
    return _run(replace(config, output=str(folder.resolve())), again, as_json)


def _run(config: Config, again: Sequence[ErrorKind], as_json: bool) -> int:
    need_harbor("wane eval run")
    with Evaluation(config, _json if as_json else _line, again=again) as evaluation:
        try:
            asyncio.run(_stoppable(evaluation))
        except StoppedError as error:
            say(str(error))
            return failure.OVER_BUDGET
        except asyncio.CancelledError:
            say(
                f"stopped after {evaluation.done} of {evaluation.total} trials; "
                f"go on with: wane eval resume {config.output}"
            )
            return failure.INTERRUPTED
    if not as_json:
        say(
            f"{evaluation.done} trials in {config.output}; ${evaluation.spent:.2f}. "
            f"Next: wane eval report {config.output}"
        )
    return failure.OK


async def _stoppable(evaluation: Evaluation) -> None:
    task = asyncio.current_task()
    assert task is not None
    with handled((signal.SIGINT, *END), task.cancel):
        await evaluation.run()


def _json(trial: Trial, _done: int, _total: int) -> None:
    sys.stdout.write(f"{json.dumps(encode(trial))}\n")
    sys.stdout.flush()


def _line(trial: Trial, done: int, total: int) -> None:
    arm = trial.arm
    what = " ".join(filter(None, (arm.model, arm.strategy, str(arm.budget or ""), arm.protocol)))
    reward = "-" if trial.reward is None else f"{trial.reward:g}"
    error = f"  {trial.error}" if trial.error else ""
    took = f"{trial.seconds:.0f} s" if trial.seconds is not None else ""
    cost = "" if trial.usage.cost is None else f"${trial.usage.cost:.2f}"
    sys.stdout.write(f"{done}/{total}  {what}  run {trial.run}  {trial.task}  {reward}  {took}  {cost}{error}\n")
    sys.stdout.flush()
