"""All commands of this distribution; its entry points name the groups."""

from __future__ import annotations

from typing import Final

from wane.cli.parser import Command, CommandGroup

_LAB: Final = """\
Compare strategies on public recordings, check the lab's own simulations, count how agents mark their work, and run the
agent in a closed loop.
"""

_EVAL: Final = """\
Run a benchmark with the agent, in one session or in isolated ones, and report what the scores show.
"""

_LAB_COMMANDS: Final = (
    Command("lab bench", "wane_research.cli.lab.commands:BenchOptions", "wane_research.cli.lab.bench:run_bench"),
    Command(
        "lab validate", "wane_research.cli.lab.commands:ValidateOptions", "wane_research.cli.lab.checks:run_validate"
    ),
    Command(
        "lab annotations",
        "wane_research.cli.lab.commands:AnnotationsOptions",
        "wane_research.cli.lab.checks:run_annotations",
    ),
    Command(
        "lab closed-loop",
        "wane_research.cli.lab.commands:ClosedLoopOptions",
        "wane_research.cli.lab.closed_loop:run_closed_loop",
    ),
)

_EVAL_COMMANDS: Final = (
    Command(
        "eval run", "wane_research.cli.eval.commands:RunConfigOptions", "wane_research.cli.eval.actions:run_config"
    ),
    Command("eval resume", "wane_research.cli.eval.commands:ResumeOptions", "wane_research.cli.eval.actions:resume"),
    Command("eval check", "wane_research.cli.eval.commands:CheckOptions", "wane_research.cli.eval.actions:check"),
    Command("eval power", "wane_research.cli.eval.commands:PowerOptions", "wane_research.cli.eval.actions:show_power"),
    Command(
        "eval report", "wane_research.cli.eval.commands:ReportOptions", "wane_research.cli.eval.actions:run_report"
    ),
    Command("eval tasks", "wane_research.cli.eval.commands:TasksOptions", "wane_research.cli.eval.actions:list_tasks"),
    Command(
        "eval swe-bench",
        "wane_research.cli.eval.commands:SweBenchOptions",
        "wane_research.cli.eval.actions:write_swe_bench",
    ),
    Command(
        "eval recovery",
        "wane_research.cli.eval.commands:RecoveryOptions",
        "wane_research.cli.eval.actions:write_recovered",
    ),
    Command(
        "eval longcli",
        "wane_research.cli.eval.commands:LongCliOptions",
        "wane_research.cli.eval.actions:write_long_cli",
    ),
    Command(
        "eval predictions",
        "wane_research.cli.eval.commands:PredictionsOptions",
        "wane_research.cli.eval.actions:predictions",
    ),
    Command("eval grade", "wane_research.cli.eval.commands:GradeOptions", "wane_research.cli.eval.actions:grade"),
)

LAB: Final = CommandGroup(_LAB, _LAB_COMMANDS)
EVAL: Final = CommandGroup(_EVAL, _EVAL_COMMANDS)
