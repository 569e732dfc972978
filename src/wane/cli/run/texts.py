"""Help text of `wane run`."""

from __future__ import annotations

from typing import Final

RUN: Final = """\
Run a coding agent with its context kept within a budget, and change nothing about it.

A proxy starts on a free port, the agent is pointed at it, and it stops when the agent ends. The agent has the terminal
for itself, and its exit code is returned. It is set up for this run alone: by an environment variable for Claude Code,
an option for Codex, an extension for pi. Its login or key, its provider and its other settings stay.

Examples:
  wane run claude
  wane run --budget 60k claude -p "make the tests pass"
  wane run codex exec "make the tests pass"
  wane run pi --model anthropic/claude-sonnet-5-5
  wane run --api openai --upstream https://openrouter.ai/api/v1 my-agent

At the end, one line on standard error tells how many requests there were, how large the view became, and how much was
evicted. The agent gets WANE_PROXY_URL: its sessions can be watched there at /wane/. With --listen the address is known
in advance. See wane proxy --help for setting up a client with a proxy that stays.

Exit codes:
  the agent's own, or 128 and the number of the signal that ended it
  1    an extra is missing, or the proxy cannot listen
  2    an option cannot be used, or the agent cannot be pointed at a proxy
  127  the agent is not installed
"""
