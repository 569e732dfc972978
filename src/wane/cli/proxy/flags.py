"""Options of `wane proxy` and `wane statusline`, and those shared with `wane run`."""

from __future__ import annotations

from typing import Final

from wane.cli.flags import BUDGET, POLICIES, POLICY_FLAGS, TOOL_CLASS, WINDOW, Flag

STRATEGIES: Final = ("cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "none")
LEVELS: Final = ("debug", "info", "warning", "error")

CONTEXT: Final = (
    BUDGET,
    WINDOW,
    Flag(
        ("--strategy",),
        "strategy",
        "How to manage the context: cwl (evict episodes, the default), paper (the same in the smallest steps), "
        "truncate (drop the oldest messages), streaming (keep the first and the latest messages), clear-tools (drop "
        "old tool results), mask (drop all but the latest ten, whatever the budget) or none.",
        "STRATEGY",
        choices=STRATEGIES,
    ),
    Flag(
        ("--annotate",),
        "annotate",
        "Who marks episodes: model (the default), with a tool that the proxy adds, or infer, from tool calls if the "
        "model marks none.",
        "WHO",
        choices=("model", "infer"),
    ),
    Flag(
        ("--recall",),
        "recall",
        "Give the model a second tool, recall, to read evicted content again, word for word: an episode, or what a "
        "search finds.",
    ),
    Flag(
        ("--remind-at",),
        "remind_at",
        "Share of the budget that work outside episodes may fill before the model is reminded to mark it, or none for "
        "never. The default is 0.2, and a quarter of that until the first episode starts.",
        "SHARE",
    ),
    Flag(
        ("--policy",),
        "policy",
        "How cwl evicts: default (in batches) or paper (in the smallest steps).",
        "POLICY",
        choices=POLICIES,
    ),
    *POLICY_FLAGS,
    TOOL_CLASS,
    Flag(
        ("--store",),
        "store",
        "Where to store sessions: disk (the default), a directory, or redis://… or postgresql://…, which several "
        "proxies may share; give a URL with a password as WANE_PROXY_STORE instead.",
        "WHERE",
    ),
    Flag(("--no-store",), "no_store", "Keep sessions in memory only, and write nothing to disk."),
    Flag(
        ("--keep",),
        "keep",
        "Delete stored sessions this long after their last use, such as 30d (the default) or 12h; never keeps them.",
        "AGE",
    ),
    Flag(
        ("--idle",),
        "idle",
        "Seconds without a request after which a session leaves memory; a stored one is loaded again when needed. The "
        "default is 900.",
        "SECONDS",
        float,
    ),
)
"""How contexts are managed."""

TREATMENT: Final = (
    Flag(
        ("--strict",),
        "strict",
        "Answer with an error if Wane fails or cannot store a session; by default the request continues, with a "
        "warning.",
    ),
    Flag(
        ("--usage",),
        "usage",
        "Usage to report for a reply that took several requests to the provider: their sum, or that of the last one, "
        "for agents that compact their context by it. auto, the default, reports the last one to Claude Code, Codex "
        "and pi, and the sum to others; with wane run, the default is last.",
        "WHAT",
        choices=("auto", "sum", "last"),
    ),
    Flag(
        ("--max-body",),
        "max_body",
        "The largest model request to accept, decoded. The default is 128m; larger ones get HTTP 413.",
        "BYTES",
    ),
    Flag(
        ("--max-cost",),
        "max_cost",
        "Stop asking models once managed requests have cost this many dollars; clients then get HTTP 402. By default "
        "there is no limit.",
        "DOLLARS",
        float,
    ),
    Flag(
        ("--timeout",),
        "timeout",
        "Seconds to wait for the provider's next byte, the first one included. The default is 600.",
        "SECONDS",
        float,
    ),
    Flag(
        ("--log-level",),
        "log_level",
        "What to log to standard error: debug, info (a line for each request, the default), warning or error.",
        "LEVEL",
        choices=LEVELS,
    ),
)
"""How requests are treated."""

PROXY: Final = (
    Flag(
        ("--upstream",),
        "upstream",
        "The provider's base URL, such as https://api.anthropic.com. Requests go there and nowhere else.",
        "URL",
    ),
    Flag(
        ("--listen",),
        "listen",
        "Where to listen. The default is 127.0.0.1:8484; port 0 takes any free port.",
        "HOST:PORT",
    ),
    *CONTEXT,
    Flag(
        ("--token",),
        "token",
        "Secret that clients must send, at least 16 characters; better set as WANE_PROXY_TOKEN, because other users "
        "can see options. Needed to listen anywhere but on loopback.",
        "TOKEN",
    ),
    *TREATMENT,
    Flag(
        ("--workers",),
        "workers",
        "Number of processes that serve the address together; several need a store that they can share, redis://… or "
        "postgresql://…. The default is 1.",
        "NUMBER",
        int,
    ),
    Flag(
        ("--grace",),
        "grace",
        "Seconds that open requests get to finish when the proxy stops. The default is 3.",
        "SECONDS",
        float,
    ),
    Flag(("-q", "--quiet"), "quiet", "Print warnings only."),
)

STATUSLINE: Final = (
    Flag(
        ("--url",),
        "url",
        "The proxy's address. The default is that of wane run, or the ANTHROPIC_BASE_URL of the agent.",
        "URL",
    ),
)
"""Options of `wane statusline`."""
