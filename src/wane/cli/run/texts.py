"""What `--help` says of `wane run`."""

from __future__ import annotations

from typing import Final

RUN: Final = """\
Run a coding agent with its context kept within a budget, and nothing of it changed.

A proxy is started on a free port, the agent is pointed at it, and it is stopped when the agent ends. The agent has the
terminal for itself, and its exit code is returned. What is set is set for this run alone: an environment variable for
Claude Code, an option for Codex, an extension for pi. Its login or key, its provider and its other settings stay.

Examples:
  wane run -- claude
  wane run --budget 60k -- claude -p "make the tests pass"
  wane run -- codex exec "make the tests pass"
  wane run -- pi --model anthropic/claude-sonnet-5-5
  wane run --api openai --upstream https://openrouter.ai/api/v1 -- my-agent

At the end one line tells on standard error how many requests there were, how large the view became, and how much was
evicted. WANE_PROXY_URL is set for the agent: the sessions can be watched there at /wane/, and with --listen the
address is known beforehand. How to set a client up for a proxy that stays is told at wane proxy --help.

Exit codes:
  the agent's own, or 128 and the number of the signal that ended it
  1    an extra is missing, or the proxy cannot listen
  2    an option is of no use, or the agent cannot be pointed at a proxy
  127  the agent is not installed
"""
