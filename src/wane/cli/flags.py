"""Every argument and option of the command, with its help. `docs/cli.md` is made from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command, or an argument, which is one without a dash.

    Attributes:
        names: its spellings; of an argument, how help calls it.
        key: name of its value in what parsing gives.
        help: what it does, and its default.
        value: what help calls its value; empty for a switch.
        read: makes the value from its text, and raises ValueError for one that cannot be.
        choices: the values there are; empty for any.
        repeatable: whether it may be given more than once, and its value is a list.
        bare: value of an option whose value may be left out; None if it may not.
    """

    names: tuple[str, ...]
    key: str
    help: str
    value: str = ""
    read: Callable[[str], object] = str
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    bare: str | None = None

    @property
    def is_option(self) -> bool:
        """Whether it is given by name, not by place."""
        return self.names[0].startswith("-")

    @property
    def usage(self) -> str:
        """How it is written: `-m, --model PROVIDER:MODEL`."""
        spelled = ", ".join(self.names)
        if not self.is_option or not self.value:
            return spelled
        return f"{spelled} {self.value}" if self.bare is None else f"{spelled} [{self.value}]"


POLICIES: Final = ("default", "paper")
STRATEGIES: Final = ("none", "truncate", "compact", "clear-tools", "fold", "paper", "cwl")
_STRATEGY: Final = (
    "How the context is kept: cwl (episodes are evicted, the default), paper (in the smallest steps), fold (they "
    "collapse when they end), truncate (the oldest messages go), compact (they are summarised, by the model), "
    "clear-tools (old tool results go) or none."
)
_POLICY: Final = "How to evict: default (in batches) or paper (the smallest steps that do)."

JSON: Final = Flag(("--json",), "as_json", "Print JSON instead of tables.")
FULL: Final = Flag(("--full",), "full", "Show all rows of long tables, and texts whole.")

VERSION: Final = Flag(("--version",), "version", "Print the version and exit.")

HELP: Final = Flag(("-h", "--help"), "help", "Show this help and exit.")

AGENT: Final = (
    Flag(
        ("-p", "--print"),
        "prompt",
        "Do one task, print the answer and exit; a dash reads the task from standard input.",
        "TASK",
    ),
    Flag(("-m", "--model"), "model", "The model, such as anthropic:claude-sonnet-5-5.", "PROVIDER:MODEL"),
    Flag(("-c", "--continue"), "continue_last", "Go on with this directory's last session."),
    Flag(
        ("-r", "--resume"),
        "resume",
        "Go on with a session, by its id or the beginning of it; without one, choose from a list.",
        "ID",
        bare="",
    ),
    Flag(("--no-session",), "no_session", "Keep no record of the session."),
    Flag(
        ("--output-format",),
        "output_format",
        "What -p prints: text, json (an object at the end) or stream-json (an object for each event).",
        "FORMAT",
        choices=("text", "json", "stream-json"),
    ),
    Flag(("-C", "--cwd"), "cwd", "Work in DIR instead of here.", "DIR", Path),
    Flag(("-l", "--cost-limit"), "cost_limit", "Make no model call once this much has been spent.", "DOLLARS", float),
    Flag(("-y", "--yolo"), "yolo", "Run commands and write files without asking. With -p they are refused otherwise."),
    Flag(("--budget",), "budget", "What the view may hold: 80k, the default, or 50% of the model's window.", "TOKENS"),
    Flag(("--policy",), "policy", _POLICY, "POLICY", choices=POLICIES),
    Flag(
        ("--annotate",),
        "annotate",
        "Who marks episodes: model, the default, or infer, what its tool calls tell, for models that mark none.",
        "WHO",
        choices=("model", "infer"),
    ),
    Flag(("--strategy",), "strategy", _STRATEGY, "STRATEGY", choices=STRATEGIES),
    Flag(("--no-cwl",), "no_cwl", "Leave the context alone: no episodes, no eviction. The same as --strategy none."),
)

LOW_WATER: Final = Flag(
    ("--low-water",),
    "low_water",
    "A pass evicts down to this share of the budget, above 0 to 1. By default the policy's: 0.5, of paper 1.",
    "SHARE",
    float,
)
DESCRIPTION_SHARE: Final = Flag(
    ("--description-share",),
    "description_share",
    "Share of the budget that descriptions of removed explorations may hold, 0 to 1, or none for no limit. "
    "By default the policy's: 0.2, of paper none.",
    "SHARE",
)

POLICY_FLAGS: Final = (
    LOW_WATER,
    DESCRIPTION_SHARE,
    Flag(
        ("--prologue",),
        "prologue",
        "Work ahead of the first start: turns, the default, evicts it like other unannotated work; whole, as in paper, "
        "protects it.",
        "WHAT",
        choices=("turns", "whole"),
    ),
    Flag(
        ("--overflow",),
        "overflow",
        "When nothing finished is left to evict: strip, the default, takes the oldest exchanges of unfinished work; "
        "surface, as in paper, says that the budget is exceeded.",
        "WHAT",
        choices=("strip", "surface"),
    ),
)
"""Settings of a policy that outweigh its own, by the names of its fields."""

FORMATS: Final = (
    "auto",
    "claude-code",
    "codex",
    "pi",
    "journal",
    "openai",
    "anthropic",
    "openai_responses",
    "pydantic_ai",
    "atif",
)
FORMAT: Final = Flag(("--format",), "format", "Format of the input; recognised by default.", "FORMAT", choices=FORMATS)
WHO_MARKS: Final = Flag(
    ("--annotate",),
    "annotate",
    "Who marks episodes: model, infer (what the tool calls tell), or auto, the default: the model where it did.",
    "WHO",
    choices=("auto", "model", "infer"),
)

PLAN: Final = (
    Flag(
        ("FILE",),
        "file",
        "Messages as JSON or JSONL, a session of Claude Code, Codex or pi, or one of wane by its file or its id; a "
        "dash reads standard input.",
        "FILE",
    ),
    Flag(("--budget",), "budget", "What the view may hold: 80k, the default, or 50% of --window.", "TOKENS"),
    Flag(("--window",), "window", "The model's window, for a budget in percent. The default is 200k.", "TOKENS"),
    Flag(("--policy",), "policy", _POLICY, "POLICY", choices=POLICIES),
    *POLICY_FLAGS,
    Flag(
        ("--counter",),
        "counter",
        "How to count tokens: chars (four characters each, the default) or tiktoken, with an encoding if need be: "
        "tiktoken:cl100k_base.",
        "COUNTER",
    ),
    FORMAT,
    WHO_MARKS,
    Flag(
        ("--tool-class",),
        "tool_classes",
        "Class of a tool: bulk goes first, artifact next, durable stays until its episode goes. May be repeated.",
        "NAME=CLASS",
        repeatable=True,
    ),
    FULL,
    Flag(("--exit-code",), "tell", "Exit with 3 if the budget cannot be met."),
    JSON,
)

SESSIONS: Final = (Flag(("--all",), "every", "Those of every directory, and those of other agents."), JSON)

SHOW: Final = (
    Flag(("SESSION",), "name", "The session's id, as much of it as is needed, or the path of its file.", "SESSION"),
    FULL,
    JSON,
)

DEMO: Final = (
    Flag(
        ("--strategy",),
        "strategy",
        _STRATEGY,
        "STRATEGY",
        choices=STRATEGIES,
    ),
    Flag(("--keep",), "keep", "Keep the demo's repository in DIR, to look at afterwards.", "DIR", Path),
    JSON,
)
