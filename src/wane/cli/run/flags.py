"""Options of `wane run`: those of `wane proxy` that make sense for one agent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wane.cli.flags import Flag
from wane.cli.proxy.flags import CONTEXT, LEVELS, TREATMENT

RUN: Final = (
    Flag(
        ("AGENT",),
        "agent",
        "The agent's program and its own arguments: claude, codex, pi, or with --api any other. They go behind two "
        "dashes, so that its options are not taken for Wane's.",
        "-- AGENT [ARGUMENT ...]",
    ),
    *CONTEXT,
    Flag(
        ("--upstream",),
        "upstream",
        "The provider's base URL. By default the one that the agent would ask by itself.",
        "URL",
    ),
    Flag(
        ("--api",),
        "api",
        "What an agent that Wane does not know speaks: anthropic or openai.",
        "API",
        choices=("anthropic", "openai"),
    ),
    Flag(
        ("--listen",),
        "listen",
        "Where the proxy listens, on loopback only. By default on any free port of 127.0.0.1.",
        "HOST:PORT",
    ),
    *(flag for flag in TREATMENT if flag.key != "log_level"),
    Flag(
        ("--log",),
        "log",
        "Write the proxy's log to FILE. By default to a file of its own in the platform's log directory, where the "
        "last 20 are kept.",
        "FILE",
        Path,
    ),
    Flag(
        ("--log-level",),
        "log_level",
        "What is logged: debug, info (a line for each request, the default), warning or error.",
        "LEVEL",
        choices=LEVELS,
    ),
    Flag(("-q", "--quiet"), "quiet", "Print nothing of Wane's but errors."),
)
"""All of them."""
