"""Every argument and option of the command, with its help. `docs/cli.md` is made from these.

The help states a default itself, so that it reads the same whatever library prints it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from typer import Argument, Option

PolicyName: TypeAlias = Literal["default", "paper"]
StrategyName: TypeAlias = Literal["cwl", "truncate", "none"]
OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
FormatName: TypeAlias = Literal["auto", "openai", "pydantic_ai"]

# The agent

Task = Annotated[
    str | None,
    Option(
        "-p", "--print", metavar="TASK", help="Do one task, print the answer and exit. - reads it from standard input."
    ),
]
Model = Annotated[
    str | None,
    Option("-m", "--model", metavar="PROVIDER:MODEL", help="The model, such as anthropic:claude-sonnet-4-5."),
]
Continue = Annotated[bool, Option("-c", "--continue", help="Go on with this directory's last session.")]
Resume = Annotated[
    str | None,
    Option("-r", "--resume", metavar="[ID]", help="Go on with a session; without an ID, choose one from a list."),
]
NoSession = Annotated[bool, Option("--no-session", help="Keep no record of the session.")]
Output = Annotated[
    OutputFormat | None,
    Option(
        "--output-format",
        metavar="FORMAT",
        help="What -p prints: text, the answer, by default; json, one object at the end; stream-json, one an event.",
    ),
]
Cwd = Annotated[
    Path,
    Option(
        "-C",
        "--cwd",
        metavar="DIR",
        exists=True,
        show_default=False,
        file_okay=False,
        help="Work in DIR instead of here.",
    ),
]
CostLimit = Annotated[
    float | None, Option("-l", "--cost-limit", metavar="DOLLARS", help="Make no model call once this much is spent.")
]
Yolo = Annotated[
    bool,
    Option("-y", "--yolo", help="Run commands and write files without asking. With -p they are refused otherwise."),
]
AgentBudget = Annotated[
    str | None,
    Option(
        "--budget",
        metavar="TOKENS",
        show_default=False,
        help="What the view may hold: 80k, the default, or 50% of the model's window.",
    ),
]
AgentPolicy = Annotated[
    PolicyName | None,
    Option(
        "--policy",
        metavar="POLICY",
        show_default=False,
        help="How to evict: default (in batches) or paper (the smallest steps that do).",
    ),
]
NoCwl = Annotated[bool, Option("--no-cwl", help="Leave the context alone: no episodes, no eviction.")]
Version = Annotated[bool, Option("--version", help="Print the version and exit.")]

# wane plan

File = Annotated[
    str, Argument(metavar="FILE", help="Messages as JSON or JSONL, or a session of wane. - reads standard input.")
]
Budget = Annotated[
    str,
    Option(
        "--budget",
        metavar="TOKENS",
        show_default=False,
        help="What the view may hold: 80k, the default, or 50% of --window.",
    ),
]
Window = Annotated[
    str,
    Option(
        "--window",
        metavar="TOKENS",
        show_default=False,
        help="The model's window, for a budget in percent. The default is 200k.",
    ),
]
Policy = Annotated[
    PolicyName,
    Option(
        "--policy",
        metavar="POLICY",
        show_default=False,
        help="How to evict: default (in batches) or paper (the smallest steps that do).",
    ),
]
LowWater = Annotated[
    float | None,
    Option(
        "--low-water",
        metavar="SHARE",
        help="A pass evicts down to this share of the budget, above 0 to 1. By default the policy's: 0.7, of paper 1.",
    ),
]
DescriptionShare = Annotated[
    str | None,
    Option(
        "--description-share",
        metavar="SHARE",
        help="Share of the budget that descriptions of removed explorations may hold, 0 to 1, or none for no limit. "
        "By default the policy's: 0.2, of paper none.",
    ),
]
Counter = Annotated[
    str,
    Option(
        "--counter",
        metavar="COUNTER",
        show_default=False,
        help="How to count tokens: chars (four characters each, the default) or tiktoken, with an encoding if need be: "
        "tiktoken:cl100k_base.",
    ),
]
Format = Annotated[
    FormatName,
    Option(
        "--format",
        metavar="FORMAT",
        show_default=False,
        help="Format of the messages: auto (the default), openai or pydantic_ai.",
    ),
]
ToolClasses = Annotated[
    list[str] | None,
    Option(
        "--tool-class",
        metavar="NAME=CLASS",
        help="Class of a tool: bulk goes first, artifact next, durable stays until its episode goes. May be repeated.",
    ),
]
Full = Annotated[bool, Option("--full", help="Show every row of long tables.")]
ExitCode = Annotated[bool, Option("--exit-code", help="Exit with 3 if the budget cannot be met.")]
Json = Annotated[bool, Option("--json", help="Print JSON instead of tables.")]

# wane sessions, wane show

All = Annotated[bool, Option("--all", help="Those of every directory, not of this one alone.")]
Session = Annotated[
    str,
    Argument(metavar="SESSION", help="The session's id, as much of it as is needed, or the path of its file."),
]

# wane demo

Strategy = Annotated[
    StrategyName,
    Option(
        "--strategy",
        metavar="STRATEGY",
        show_default=False,
        help="How the context is kept: cwl (by episodes, the default), truncate (the oldest messages go) or none.",
    ),
]
Keep = Annotated[
    Path | None, Option("--keep", metavar="DIR", help="Keep the demo's repository in DIR, to look at afterwards.")
]
