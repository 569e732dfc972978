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
        "The agent's program and its arguments: claude, codex, pi, or with --api any other. Everything after its name "
        "goes to it.",
        "AGENT [ARGUMENT ...]",
    ),
    *CONTEXT,
    Flag(
        ("--upstream",),
        "upstream",
        "The provider's base URL. The default is the one that the agent uses by itself.",
        "URL",
    ),
    Flag(
        ("--api",),
        "api",
        "Protocol of an agent that Wane does not know: anthropic or openai.",
        "API",
        choices=("anthropic", "openai"),
    ),
    Flag(
        ("--listen",),
        "listen",
        "Where the proxy listens, on loopback only. The default is any free port of 127.0.0.1.",
        "HOST:PORT",
    ),
    *(flag for flag in TREATMENT if flag.key != "log_level"),
    Flag(
        ("--log",),
        "log",
        "Write the proxy's log to FILE. The default is a new file in the platform's log directory, where the last 20 "
        "are kept.",
        "FILE",
        Path,
    ),
    Flag(
        ("--log-level",),
        "log_level",
        "What to log: debug, info (a line for each request, the default), warning or error.",
        "LEVEL",
        choices=LEVELS,
    ),
    Flag(("-q", "--quiet"), "quiet", "Print only errors of Wane's own."),
)
"""All options, in the order of the help."""
