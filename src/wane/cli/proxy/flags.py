"""Options of `wane proxy`, and those that it shares with whatever else starts a proxy."""

from __future__ import annotations

from typing import Final

from wane.cli.flags import POLICIES, POLICY_FLAGS, Flag

STRATEGIES: Final = ("cwl", "paper", "truncate", "clear-tools", "none")
LEVELS: Final = ("debug", "info", "warning", "error")

CONTEXT: Final = (
    Flag(("--budget",), "budget", "What the view may hold: 80k, the default, or 50% of --window.", "TOKENS"),
    Flag(("--window",), "window", "The model's window, for a budget in percent. The default is 200k.", "TOKENS"),
    Flag(
        ("--strategy",),
        "strategy",
        "How the context is kept: cwl (episodes are evicted, the default), paper (in the smallest steps), truncate "
        "(the oldest messages go), clear-tools (old tool results go) or none.",
        "STRATEGY",
        choices=STRATEGIES,
    ),
    Flag(
        ("--annotate",),
        "annotate",
        "Who marks episodes: model, the default, through a tool that its requests gain, or infer, what its tool calls "
        "tell, for models that mark none.",
        "WHO",
        choices=("model", "infer"),
    ),
    Flag(
        ("--recall",),
        "recall",
        "Give the model a second tool, recall, by which it reads again, exactly, what was evicted: an episode, or what "
        "a search finds.",
    ),
    Flag(
        ("--remind-at",),
        "remind_at",
        "Share of the budget that work outside episodes may fill before the model is reminded to mark it, or none for "
        "never. The default is 0.2, and a quarter of that as long as no episode has been started.",
        "SHARE",
    ),
    Flag(
        ("--policy",),
        "policy",
        "How cwl evicts: default (in batches) or paper (the smallest steps that do).",
        "POLICY",
        choices=POLICIES,
    ),
    *POLICY_FLAGS,
    Flag(
        ("--tool-class",),
        "tool_classes",
        "Class of a tool: bulk goes first, artifact next, durable stays until its episode goes. May be repeated.",
        "NAME=CLASS",
        repeatable=True,
    ),
    Flag(
        ("--store",),
        "store",
        "Where sessions are kept: disk (the default), a directory, or redis://… or postgresql://…, which several "
        "proxies may share; a URL with a password is better given as WANE_PROXY_STORE.",
        "WHERE",
    ),
    Flag(("--no-store",), "no_store", "Keep sessions in memory only, and nothing of them on disk."),
    Flag(
        ("--idle",),
        "idle",
        "Seconds after which a session that nothing came for leaves memory; a stored one is found again. The default "
        "is 900.",
        "SECONDS",
        float,
    ),
)
"""How contexts are kept."""

TREATMENT: Final = (
    Flag(
        ("--strict",),
        "strict",
        "Answer with an error when Wane fails, or cannot store a session; otherwise the request goes on, with a "
        "warning.",
    ),
    Flag(
        ("--usage",),
        "usage",
        "What a client is told of the usage of a reply that took several requests to the provider: their sum, or that "
        "of the last one, for agents that compact their context by it. auto, the default, tells Claude Code, Codex and "
        "pi the last, and others the sum; with wane run, the default is last.",
        "WHAT",
        choices=("auto", "sum", "last"),
    ),
    Flag(
        ("--max-body",),
        "max_body",
        "The largest model request that is taken, decoded. The default is 128m; larger ones get HTTP 413.",
        "BYTES",
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
        "What is logged, to standard error: debug, info (a line for each request, the default), warning or error.",
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
        "Where to listen. The default is 127.0.0.1:8484; port 0 takes any that is free.",
        "HOST:PORT",
    ),
    *CONTEXT,
    Flag(
        ("--token",),
        "token",
        "What clients must show, 16 characters or more; better given as WANE_PROXY_TOKEN, as options can be seen by "
        "other users. Needed to listen anywhere but on loopback.",
        "TOKEN",
    ),
    *TREATMENT,
    Flag(("-q", "--quiet"), "quiet", "Say nothing but warnings."),
)
