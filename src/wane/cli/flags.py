"""All arguments and options of the command, with their help. `docs/cli.md` is generated from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command; or an argument, which has no dash.

    Attributes:
        names: its spellings; for an argument, its name in help.
        key: name of its value after parsing.
        help: what it does, and its default.
        value: name of its value in help; empty for a switch.
        read: converts the text; raises ValueError if it cannot.
        choices: the possible values; empty for any.
        repeatable: whether it may be given more than once; its value is a list then.
        bare: value of the option if it is given without one; None if it needs one.
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
        """Whether it is given by name, not by position."""
        return self.names[0].startswith("-")

    @property
    def usage(self) -> str:
        """Its spellings and value: `-m, --model PROVIDER:MODEL`."""
        spelled = ", ".join(self.names)
        if not self.is_option or not self.value:
            return spelled
        return f"{spelled} {self.value}" if self.bare is None else f"{spelled} [{self.value}]"


POLICIES: Final = ("default", "paper")
STRATEGIES: Final = (
    *(
        "none",
        "truncate",
        "streaming",
        "compact",
        "memgpt",
        "resum",
        "acon",
        "clear-tools",
        "mask",
        "fold",
        "paper",
        "cwl",
    ),
)
_STRATEGY: Final = (
    "How to manage the context: cwl (evict episodes, the default), paper (the same in the smallest steps), fold "
    "(collapse episodes when they end), truncate (drop the oldest messages), streaming (keep the first and the latest "
    "messages), compact (let the model summarise them), memgpt, resum, acon (as the papers of these names do), clear-"
    "tools (drop old tool results), mask (drop all but the latest ten, whatever the budget) or none."
)
_POLICY: Final = "How to evict: default (in batches) or paper (in the smallest steps)."

JSON: Final = Flag(("--json",), "as_json", "Print JSON instead of tables.")
FULL: Final = Flag(("--full",), "full", "Show all rows of long tables, and whole texts.")

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
    Flag(("-c", "--continue"), "continue_last", "Resume this directory's last session."),
    Flag(
        ("-r", "--resume"),
        "resume",
        "Resume a session, by its id or the beginning of it; without one, choose from a list.",
        "ID",
        bare="",
    ),
    Flag(("--no-session",), "no_session", "Do not save the session."),
    Flag(
        ("--output-format",),
        "output_format",
        "What -p prints: text, json (an object at the end) or stream-json (an object for each event).",
        "FORMAT",
        choices=("text", "json", "stream-json"),
    ),
    Flag(("-C", "--cwd"), "cwd", "Work in DIR instead of here.", "DIR", Path),
    Flag(("-l", "--cost-limit"), "cost_limit", "Make no more model calls once this much is spent.", "DOLLARS", float),
    Flag(("-y", "--yolo"), "yolo", "Run commands and write files without asking. With -p they are refused otherwise."),
    Flag(
        ("--allow",),
        "allow",
        "Do not ask for what matches: 'git diff *', 'edit:docs/*', 'mcp:github_*'. May be repeated.",
        "PATTERN",
        repeatable=True,
    ),
    Flag(("--deny",), "deny", "Refuse what matches, also with --yolo. May be repeated.", "PATTERN", repeatable=True),
    Flag(
        ("--mcp",),
        "mcp",
        "Use the MCP servers in FILE too, such as the project's .mcp.json. May be repeated.",
        "FILE",
        repeatable=True,
    ),
    Flag(("--budget",), "budget", "Tokens that the view may hold: 80k, the default, or 50% of the window.", "TOKENS"),
    Flag(("--policy",), "policy", _POLICY, "POLICY", choices=POLICIES),
    Flag(
        ("--annotate",),
        "annotate",
        "Who marks episodes: model, the default, or infer, which tells them from tool calls if the model marks none.",
        "WHO",
        choices=("model", "infer"),
    ),
    Flag(("--strategy",), "strategy", _STRATEGY, "STRATEGY", choices=STRATEGIES),
    Flag(("--no-cwl",), "no_cwl", "Do not manage the context: no episodes, no eviction. Same as --strategy none."),
)

BUDGET: Final = Flag(
    ("--budget",), "budget", "Tokens that the view may hold: 80k, the default, or 50% of --window.", "TOKENS"
)
WINDOW: Final = Flag(
    ("--window",), "window", "The model's window, for a budget in percent. The default is 200k.", "TOKENS"
)
TOOL_CLASS: Final = Flag(
    ("--tool-class",),
    "tool_classes",
    "Class of a tool: bulk leaves first, artifact next, durable stays until its episode leaves. May be repeated.",
    "NAME=CLASS",
    repeatable=True,
)
LOW_WATER: Final = Flag(
    ("--low-water",),
    "low_water",
    "A pass evicts down to this share of the budget, above 0 to 1. The default is the policy's: 0.5, for paper 1.",
    "SHARE",
    float,
)
DESCRIPTION_SHARE: Final = Flag(
    ("--description-share",),
    "description_share",
    "Share of the budget that descriptions of removed explorations may hold, 0 to 1, or none for no limit. The default "
    "is the policy's: 0.2, for paper none.",
    "SHARE",
)

POLICY_FLAGS: Final = (
    LOW_WATER,
    DESCRIPTION_SHARE,
    Flag(
        ("--prologue",),
        "prologue",
        "Work before the first episode: turns, the default, evicts it like other unannotated work; whole, as in paper, "
        "protects it.",
        "WHAT",
        choices=("turns", "whole"),
    ),
    Flag(
        ("--overflow",),
        "overflow",
        "When no finished work is left to evict: strip, the default, evicts the oldest exchanges of unfinished work; "
        "surface, as in paper, reports that the budget is exceeded.",
        "WHAT",
        choices=("strip", "surface"),
    ),
)
"""Settings that override a policy's own, by the names of its fields."""

FORMATS: Final = (
    "auto",
    "claude-code",
    "codex",
    "pi",
    "copilot-cli",
    "gemini-cli",
    "opencode",
    "goose",
    "aider",
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
    "Who marks episodes: model, infer (from the tool calls), or auto, the default: the model if it marked any.",
    "WHO",
    choices=("auto", "model", "infer"),
)

PLAN: Final = (
    Flag(
        ("FILE",),
        "file",
        "Messages as JSON or JSONL, or the session of any agent that wane replay reads, by its file or id; a dash "
        "reads standard input.",
        "FILE",
    ),
    BUDGET,
    WINDOW,
    Flag(("--policy",), "policy", _POLICY, "POLICY", choices=POLICIES),
    *POLICY_FLAGS,
    Flag(
        ("--counter",),
        "counter",
        "How to count tokens: chars (one for four characters, the default) or tiktoken, also with an encoding: "
        "tiktoken:cl100k_base.",
        "COUNTER",
    ),
    FORMAT,
    WHO_MARKS,
    TOOL_CLASS,
    FULL,
    Flag(("--exit-code",), "tell", "Exit with 3 if the budget cannot be met."),
    JSON,
)

SESSIONS: Final = (Flag(("--all",), "every", "List sessions of all directories, and of other agents."), JSON)

_STORE: Final = Flag(
    ("--store",),
    "store",
    "Where the sessions are, as of wane proxy: a directory, redis://… or postgresql://…. The default is the directory "
    "of all sessions of Wane, or what WANE_PROXY_STORE names.",
    "WHERE",
)

PRUNE: Final = (
    Flag(("--older-than",), "older_than", "How long nobody has written to them: 30d, 12h or 2w.", "AGE"),
    Flag(("--dry-run",), "dry_run", "Show what would be deleted, and delete nothing."),
    _STORE,
)

DELETE: Final = (
    Flag(("SESSION",), "names", "Ids of sessions, or the beginnings of them.", "SESSION...", repeatable=True),
    _STORE,
)

SHOW: Final = (
    Flag(("SESSION",), "name", "The session's id, or the beginning of it, or the path of its file.", "SESSION"),
    FULL,
    JSON,
)

DEMO: Final = (
    Flag(("--strategy",), "strategy", _STRATEGY, "STRATEGY", choices=STRATEGIES),
    Flag(("--keep",), "keep", "Keep the demo's repository in DIR, to look at afterwards.", "DIR", Path),
    JSON,
)
