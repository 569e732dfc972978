"""Arguments and options of the group `eval`, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wane.cli.flags import JSON, Flag

_AGAIN: Final = Flag(
    ("--again",),
    "again",
    "Do isolated trials again that ended in this kind of error. May be repeated.",
    "KIND",
    choices=("timeout", "limit", "cancelled", "environment", "verifier", "agent"),
    repeatable=True,
)
_JSON: Final = Flag(("--json",), "as_json", "Print each trial as a line of JSON when it has ended.")

RUN: Final = (Flag(("CONFIG",), "config", "The configuration, as YAML.", "CONFIG", Path), _AGAIN, _JSON)

RESUME: Final = (Flag(("DIR",), "folder", "The folder with the results so far.", "DIR", Path), _AGAIN, _JSON)

REPORT: Final = (
    Flag(("DIR...",), "places", "Folders with results, at any depth.", "DIR...", Path, repeatable=True),
    Flag(("--html",), "html", "Also write the report as one HTML page that needs no network.", "FILE"),
    Flag(("--json",), "as_json", "Print JSON instead of Markdown."),
)

TASKS: Final = (
    Flag(("--config",), "config", "List the tasks of this configuration, in the order of its first run.", "FILE", Path),
    JSON,
)

SWE_BENCH: Final = (
    Flag(("FILE",), "source", "The instances: a file with a JSON object in each line.", "FILE", Path),
    Flag(("DIR",), "target", "The folder for the tasks.", "DIR", Path),
    Flag(("--count",), "count", "Write only so many, drawn by the seed.", "N", int),
    Flag(("--seed",), "seed", "Seed of the draw. The default is 1.", "N", int),
)

PREDICTIONS: Final = (
    Flag(("DIR...",), "places", "Folders with results, at any depth.", "DIR...", Path, repeatable=True),
)

GRADE: Final = (
    Flag(("DIR",), "place", "The folder of one run.", "DIR", Path),
    Flag(("REPORT",), "report", "The grader's report, as JSON.", "REPORT", Path),
)

RECOVERY: Final = (
    Flag(("TRACES",), "traces", "Trials of the agent that failed, with ATIF trajectories.", "TRACES", Path),
    Flag(("TASKS",), "tasks", "The tasks that it failed.", "TASKS", Path),
    Flag(("DIR",), "target", "The folder for the new tasks.", "DIR", Path),
    Flag(
        ("--messages",),
        "messages",
        "What the agent is told of the failed attempt: full (its transcript), summary, or none, the default.",
        "MODE",
        choices=("full", "summary", "none"),
    ),
)

LONGCLI: Final = (
    Flag(("SOURCE",), "source", "A clone of LongCLI-Bench, or a folder of its tasks.", "SOURCE", Path),
    Flag(("DIR",), "target", "The folder for the new tasks.", "DIR", Path),
)
