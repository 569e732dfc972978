"""The lab's commands. A new command of the group `lab` is an entry here, with a name of two words."""

from __future__ import annotations

from typing import Final

from wane.cli.lab import flags as lab_flags
from wane.cli.lab import texts as lab_texts
from wane.cli.parser import Command, Values


def _replay(values: Values) -> int:
    from wane.cli.lab.replay import ReplayOptions, run_replay

    return run_replay(ReplayOptions(**values))


def _sweep(values: Values) -> int:
    from wane.cli.lab.sweep import SweepOptions, run_sweep

    return run_sweep(SweepOptions(**values))


def _tune(values: Values) -> int:
    from wane.cli.lab.tune import TuneOptions, run_tune

    return run_tune(TuneOptions(**values))


def _view(values: Values) -> int:
    from wane.cli.lab.view import ViewOptions, run_view

    return run_view(ViewOptions(**values))


def _validate(values: Values) -> int:
    from wane.cli.lab.validate import run_validate

    return run_validate(**values)


def _annotations(values: Values) -> int:
    from wane.cli.lab.annotations import run_annotations

    return run_annotations(**values)


def _closed_loop(values: Values) -> int:
    from wane.cli.lab.closed_loop import ClosedLoopOptions, run_closed_loop

    return run_closed_loop(ClosedLoopOptions(**values))


LAB_COMMANDS: Final = (
    Command("view", lab_texts.VIEW, lab_flags.VIEW, _view),
    Command("replay", lab_texts.REPLAY, lab_flags.REPLAY, _replay),
    Command("sweep", lab_texts.SWEEP, lab_flags.SWEEP, _sweep),
    Command("tune", lab_texts.TUNE, lab_flags.TUNE, _tune),
    Command("lab validate", lab_texts.VALIDATE, lab_flags.VALIDATE, _validate),
    Command("lab annotations", lab_texts.ANNOTATIONS, lab_flags.ANNOTATIONS, _annotations),
    Command("lab closed-loop", lab_texts.CLOSED_LOOP, lab_flags.CLOSED_LOOP, _closed_loop),
)
"""All of them, in the order of help."""

LAB_GROUPS: Final = {"lab": lab_texts.LAB}
"""Help texts of the groups of commands, by the first of two words."""
