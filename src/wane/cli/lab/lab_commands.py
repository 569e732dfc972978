"""The lab's commands: what each takes, what its help says, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

from wane.cli import flag_values
from wane.cli.shared_flags import PRICE, FormatName, IndexShare, Json, MaxUnpacked, MinRoom, WhoMarks
from wane.core import parse_budget
from wane.flags import Flag
from wane.lab.names import MAX_UNPACKED

Sessions: TypeAlias = Annotated[
    Sequence[str],
    Flag(
        "SESSION...",
        "Sessions: files, folders, patterns such as 'runs/**/*.jsonl', ids from wane sessions --all, or - for standard "
        "input. The default is the newest session of this directory.",
        "[SESSION...]",
    ),
]
_AnySessions: TypeAlias = Annotated[
    Sequence[str],
    Flag(
        "SESSION...",
        "Sessions: files, folders, patterns such as 'runs/**/*.jsonl', or ids from wane sessions --all.",
        "[SESSION...]",
    ),
]
TokenBudget: TypeAlias = Annotated[
    int, Flag("--budget", "Tokens that the view may hold. The default is 80k.", "TOKENS", read=parse_budget)
]
_ReplayBudget: TypeAlias = Annotated[
    int | str,
    Flag(
        "--budget",
        "Tokens that the view may hold. The default is 80k; 50% is a share of the model's window; auto goes by what "
        "never leaves a session and by that window.",
        "TOKENS",
        read=flag_values.session_budget,
    ),
]
_AgentBudget: TypeAlias = Annotated[
    int | None,
    Flag(
        "--agent-budget",
        "Tokens that the view of a sub-agent may hold. The default is --budget.",
        "TOKENS",
        read=parse_budget,
    ),
]
_BUDGETS: Final = Flag("--budgets", "Budgets to try: a range, 30k..150k, or a list, 50k,80k,120k.", "BUDGETS")
_TRIED: Final = Flag(
    "--budgets",
    "Budgets to try: a range, 30k..150k; a list, 50k,80k,120k; or auto, for the advised one alone. The default is the "
    "advised one and others around it, which it must not lose to.",
    "BUDGETS",
)
_Steps: TypeAlias = Annotated[
    int | None, Flag("--steps", "Number of budgets in a range, ends included. The default is 5.", "N")
]
_Strategies: TypeAlias = Annotated[
    str,
    Flag(
        "--strategy",
        "Strategies to replay: all (the default: Wane's twelve), peers (other libraries', with wane-research), or "
        "names separated by commas.",
        "NAMES",
    ),
]
_LowWater: TypeAlias = Annotated[
    float | None,
    Flag(
        "--low-water",
        "Strategies evict down to this share of the budget, above 0 and at most 1. The default is each strategy's own.",
        "SHARE",
        read=flag_values.share,
    ),
]
_Report: TypeAlias = Annotated[
    str | None, Flag("--report", "Also write the result as one HTML page that needs no network.", "FILE")
]
_Afresh: TypeAlias = Annotated[bool, Flag("--afresh", "Read everything anew, and keep nothing.")]
_Workers: TypeAlias = Annotated[int | None, Flag("--workers", "Number of processes. The default is one per core.", "N")]
_Redact: TypeAlias = Annotated[
    bool, Flag("--redact", "Leave texts, titles and names out of the HTML page, so that it can be shared.")
]
Sidechains: TypeAlias = Annotated[bool, Flag("--sidechains", "Count sessions of sub-agents as sessions of their own.")]
_Price: TypeAlias = Annotated[
    str | None,
    Flag(
        "--price",
        f"Use the prices of this model. The default is the model that a session recorded, or {PRICE}.",
        "PROVIDER:MODEL",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """How sessions are read and replayed: the common options of replays."""

    price: _Price = None
    cache_hour: Annotated[
        bool,
        Flag(
            "--cache-hour",
            "Simulate a cache that keeps content for an hour, if the provider offers that. The default is the lifetime "
            "of most of the session's recorded cache writes, or else the provider's shortest.",
        ),
    ] = False
    annotate: WhoMarks = "auto"
    counter: Annotated[
        str, Flag("--counter", "How to count tokens if usage was not recorded: chars or tiktoken.", "COUNTER")
    ] = "chars"
    summary_tokens: Annotated[
        int | None,
        Flag(
            "--summary-tokens",
            "Tokens of a summary. The default is the median of those that the session recorded, or 2,000.",
            "N",
        ),
    ] = None
    format: FormatName = "auto"
    max_unpacked: MaxUnpacked = MAX_UNPACKED
    join: Annotated[bool, Flag("--join", "Join all sessions into one, as if one agent had done all of it.")] = False
    sidechains: Sidechains = False
    engine: Annotated[
        Literal["processes", "ray"], Flag("--engine", "Where to run: processes of this machine, or ray.", "ENGINE")
    ] = "processes"
    workers: _Workers = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """Look at a session in the browser: what each call saw, what had been evicted by then, and why.

    The page shows what happened, with passes, compactions and usage as recorded, and beside it what Wane would have
    shown at a budget, with the costs of both. For a session that Wane managed, it shows what never evicting would have
    cost. It is one file that needs no network. It holds the contents of the session, unless --redact is given.

    Examples:
      wane view
      wane view 3f9c
      wane view ~/.claude/projects/my-project/0a1b.jsonl --output session.html
      wane view session.jsonl --redact --output to-share.html
    """

    name: Annotated[
        str | None,
        Flag(
            "SESSION",
            "The session of any agent: its id or the beginning of it, as wane sessions --all lists them, or its file. "
            "Of a folder, the page has all sessions. The default is the newest session of this directory.",
            "[SESSION]",
        ),
    ] = None
    budget: _ReplayBudget = 80_000
    agent_budget: _AgentBudget = None
    price: _Price = None
    output: Annotated[
        str | None, Flag("--output", "Write the page to FILE; the default is a private temporary file.", "FILE")
    ] = None
    open_page: Annotated[
        bool, Flag("--open", "Open the page in the browser; without --output this is the default.")
    ] = False
    format: FormatName = "auto"
    max_unpacked: MaxUnpacked = MAX_UNPACKED
    redact: _Redact = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Replay recorded sessions under every strategy: what each would have cost and lost.

    It reads sessions of Claude Code, Codex, Gemini CLI, OpenCode and other agents (--format list names all formats), of
    Wane and its proxy; ATIF trajectories; and messages of OpenAI, Anthropic, Gemini or Pydantic AI. wane sessions
    --all lists the sessions on this machine. It needs no key and no network, and changes nothing. The agent's
    recorded output stays the same: a replay can say what the agent used and would have missed, but not what it
    would have done with another view.

    Examples:
      wane replay
      wane replay session.jsonl
      wane replay 3f9c 20261122_1
      wane replay ~/.claude/projects --budget 50k --price openai:gpt-6.1-sol
      wane replay runs/ --join --strategy cwl,compact,truncate --json

    Exit codes:
      0    done, even if some files held no session (they are named)
      1    an extra is missing, or a file cannot be read
      2    an option or the input cannot be used
      130  stopped with Ctrl-C
    """

    sessions: Sessions = ()
    strategy: _Strategies = "all"
    budget: Annotated[
        int | str | None,
        Flag(
            "--budget",
            "Tokens that the view may hold. The default is the budget that Wane worked with in a recorded session, or "
            "80k; 50% is a share of the model's window; auto goes by what never leaves a session and by that window.",
            "TOKENS",
            read=flag_values.session_budget,
        ),
    ] = None
    agent_budget: _AgentBudget = None
    low_water: _LowWater = None
    index_share: IndexShare = None
    min_room: MinRoom = None
    lab: LabOptions = field(default_factory=LabOptions)
    report: _Report = None
    redact: _Redact = False
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Replay recorded sessions at several budgets: what a larger window buys, and what a smaller one saves.

    The plot has a letter for each strategy and budget, with cost to the right and what stayed in view
    upwards. A point is on the frontier if no other point costs less and keeps more in view.

    Examples:
      wane sweep session.jsonl
      wane sweep runs/ --budgets 30k..150k --steps 7 --strategy cwl,compact
      wane sweep runs/ --budgets 50k,80k,120k --json
    """

    sessions: Sessions = ()
    budgets: Annotated[
        str | None,
        Flag(
            "--budgets",
            "Budgets to try: a range, 30k..150k, or a list, 50k,80k,120k. The default is 30k..150k, the budget auto, "
            "and the budgets that Wane worked with in recorded sessions.",
            "BUDGETS",
        ),
    ] = None
    steps: _Steps = None
    strategy: _Strategies = "all"
    low_water: _LowWater = None
    lab: LabOptions = field(default_factory=LabOptions)
    report: _Report = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Recommend a budget and a policy for your work, with the reasons.

    It tries budgets and policies on your own recorded sessions. The last line is a command that works with what it
    recommends.

    Examples:
      wane tune ~/.claude/projects/my-project
      wane tune runs/ --join --budgets 40k..120k --price openai:gpt-6.1-sol
    """

    sessions: Sessions = ()
    budgets: Annotated[str | None, _TRIED] = None
    steps: _Steps = None
    save: Annotated[
        bool, Flag("--save", "Keep the recommended budget for --budget auto, in place of one that was kept before.")
    ] = False
    lab: LabOptions = field(default_factory=LabOptions)
    report: _Report = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Show which requests paid again for what the provider had cached, why, and what to do about it.

    It compares the recorded usage of each request with that of the one before. A cause is reported by the provider,
    recorded as an event (a compaction, a pass of Wane, another model, a pause), or inferred from where the read ended.
    Without SESSION, it looks at all sessions of this directory, of any agent. It needs no key and no network.

    Examples:
      wane doctor
      wane doctor 3f9c --full
      wane doctor --report cache.html
      wane doctor ~/.claude/projects --json
      wane doctor --live
    """

    sessions: _AnySessions = ()
    live: Annotated[
        str | None,
        Flag(
            "--live",
            "Ask a running proxy about the sessions that it has in memory. Without URL, the proxy at WANE_PROXY_URL, "
            "or at http://127.0.0.1:8484.",
            "URL",
            bare="",
        ),
    ] = None
    format: FormatName = "auto"
    max_unpacked: MaxUnpacked = MAX_UNPACKED
    full: Annotated[bool, Flag("--full", "List every request that paid again, not only the largest.")] = False
    report: _Report = None
    redact: _Redact = False
    afresh: _Afresh = False
    workers: _Workers = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Show what your coding agents cost, where money and words were lost, and what Wane would have saved.

    Without SESSION, it looks at the last 30 days of all agents on this machine. It says dollars by day, agent and
    model, where the provider's cache broke and what that cost, which of your words compactions took, and what the
    same calls would have cost with Wane; each figure says for how many of the calls it is known. It writes one HTML
    page beside, which needs no network. Figures of files that do not change are kept, so that only the first report
    reads everything.

    Examples:
      wane report
      wane report --days 7 --open
      wane report ~/.claude/projects/my-project --output report.html
      wane report --json
    """

    sessions: _AnySessions = ()
    days: Annotated[
        int | None,
        Flag(
            "--days",
            "Number of days, today included. The default is 30, or all days of the sessions named.",
            "N",
            read=flag_values.days,
        ),
    ] = None
    output: Annotated[
        str | None, Flag("--output", "Write the page to FILE; the default is a private temporary file.", "FILE")
    ] = None
    open_page: Annotated[bool, Flag("--open", "Open the page in the browser.")] = False
    redact: _Redact = False
    budget: TokenBudget = 80_000
    price: Annotated[
        str | None,
        Flag(
            "--price",
            "Simulate calls of a model without known prices at the prices of this one. The default is "
            f"{PRICE}. What was spent goes by the recorded models alone.",
            "PROVIDER:MODEL",
        ),
    ] = None
    replays: Annotated[
        int,
        Flag(
            "--replays",
            "Replay at most this many files to say what Wane would have saved, those with the dearest sessions first. "
            "What earlier reports replayed counts too; the others count unchanged. The default is 10. A replay takes "
            "about half a second.",
            "N",
        ),
    ] = 10
    afresh: _Afresh = False
    workers: _Workers = None
    as_json: Json = False
