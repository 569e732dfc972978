"""Arguments and options of the lab's commands, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wane.cli.flags import FORMAT, JSON, WHO_MARKS, Flag

ENGINES: Final = ("processes", "ray")
PRICE: Final = "anthropic:claude-sonnet-4-5"
"""The model whose prices count if a session recorded none with known prices."""

SESSIONS: Final = Flag(
    ("SESSION...",),
    "sessions",
    "Sessions: files, folders, patterns such as 'runs/**/*.jsonl', ids from wane sessions --all, or a dash for "
    "standard input.",
    "SESSION...",
    repeatable=True,
)

_STRATEGY: Final = Flag(
    ("--strategy",),
    "strategy",
    "all (the default) or ours: Wane's twelve; peers: other people's; or names separated by commas.",
    "NAMES",
)
_BUDGET: Final = Flag(("--budget",), "budget", "Tokens that the view may hold. The default is 80k.", "TOKENS")
_BUDGETS: Final = Flag(
    ("--budgets",), "budgets", "Budgets to try: a range, 30k..150k, or a list, 50k,80k,120k.", "BUDGETS"
)
_STEPS: Final = Flag(("--steps",), "steps", "Number of budgets in a range, ends included. The default is 5.", "N", int)
_LOW_WATER: Final = Flag(
    ("--low-water",),
    "low_water",
    "Strategies evict down to this share of the budget, above 0 to 1. The default is each strategy's own.",
    "SHARE",
    float,
)
_REPORT: Final = Flag(("--report",), "report", "Also write the result as one HTML page that needs no network.", "FILE")
_REDACT: Final = Flag(
    ("--redact",), "redact", "Leave out of the page what was said and done, to share it: texts, titles and names."
)

_SIDECHAINS: Final = Flag(("--sidechains",), "sidechains", "Count sessions of sub-agents as sessions of their own.")
_READING: Final = (
    FORMAT,
    Flag(("--join",), "join", "Join all sessions into one, as if one agent had done all of it."),
    _SIDECHAINS,
)
_PRICING: Final = (
    Flag(
        ("--price",),
        "price",
        f"The model whose prices count. The default is the one that a session recorded, or {PRICE}.",
        "PROVIDER:MODEL",
    ),
    Flag(("--cache-hour",), "cache_hour", "Write the cache for an hour, if the provider offers that."),
)
_REPLAYING: Final = (
    WHO_MARKS,
    Flag(("--counter",), "counter", "How to count tokens if usage was not recorded: chars or tiktoken.", "COUNTER"),
    Flag(
        ("--summary-tokens",),
        "summary_tokens",
        "Tokens of a summary. The default is the median of those that the session recorded, or 2,000.",
        "N",
        int,
    ),
)
_RUNNING: Final = (
    Flag(("--engine",), "engine", "Where to run: processes of this machine, or ray.", "ENGINE", choices=ENGINES),
    Flag(("--workers",), "workers", "Number of processes. The default is one per core.", "N", int),
)

REPLAY: Final = (
    SESSIONS,
    _STRATEGY,
    _BUDGET,
    _LOW_WATER,
    *_PRICING,
    *_REPLAYING,
    *_READING,
    *_RUNNING,
    _REPORT,
    _REDACT,
    JSON,
)
SWEEP: Final = (
    SESSIONS,
    _BUDGETS,
    _STEPS,
    _STRATEGY,
    _LOW_WATER,
    *_PRICING,
    *_REPLAYING,
    *_READING,
    *_RUNNING,
    _REPORT,
    JSON,
)
TUNE: Final = (SESSIONS, _BUDGETS, _STEPS, *_PRICING, *_REPLAYING, *_READING, *_RUNNING, JSON)
VALIDATE: Final = (
    SESSIONS,
    FORMAT,
    Flag(("--outliers",), "outliers", "Also list the calls that differ."),
    JSON,
)
ANNOTATIONS: Final = (SESSIONS, FORMAT, _SIDECHAINS, JSON)
CLOSED_LOOP: Final = (
    Flag(("--tasks",), "tasks", "Number of tasks. The default is 89, as in the paper.", "N", int),
    Flag(
        ("--strategy",),
        "strategy",
        "How the agent manages its context: names separated by commas. The default is cwl.",
        "NAMES",
    ),
    _BUDGET,
    Flag(
        ("--tokens",),
        "tokens",
        "Input tokens of 89 tasks, 80m by default, and of fewer in proportion: tasks need more files then.",
        "TOKENS",
    ),
    Flag(("--window",), "window", "The model's own limit; longer requests fail. The default is 200k.", "TOKENS"),
    Flag(("--isolated",), "isolated", "Also do each task in a session of its own, to compare with."),
    Flag(
        ("--kill-every",),
        "kill_every",
        "Kill or close the agent about every N model calls, and resume its session. The default is 0: never.",
        "N",
        int,
    ),
    Flag(("--seed",), "seed", "Selects the repository and the tasks. The default is 0.", "N", int),
    Flag(("--workers",), "workers", "Number of concurrent runs. The default is one per core.", "N", int),
    Flag(("--keep",), "keep", "Keep repositories and sessions in DIR, to look at afterwards.", "DIR", Path),
    JSON,
)
VIEW: Final = (
    Flag(
        ("SESSION",),
        "name",
        "The session of any agent: its id or the beginning of it, as wane sessions --all lists them, or its file.",
        "SESSION",
    ),
    _BUDGET,
    _PRICING[0],
    Flag(("--output",), "output", "Write the page to FILE; the default is a private temporary file.", "FILE"),
    Flag(("--open",), "open_page", "Open the page in the browser; without --output this is the default."),
    FORMAT,
    _REDACT,
)
