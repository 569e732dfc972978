"""Help text of `wane run`."""

from __future__ import annotations

from typing import Final

RUN: Final = """\
Run a coding agent with its context kept within a budget, without changing the agent's setup.

A proxy starts on a free port, and stops when the agent ends. The agent has the terminal for itself, and its exit code
is returned. It is pointed at the proxy for this run only: by an environment variable for Claude Code, an option for
Codex, an extension for pi. Its login or key, its provider and its other settings stay the same.

Examples:
  wane run claude
  wane run --budget 60k claude -p "make the tests pass"
  wane run codex exec "make the tests pass"
  wane run pi --model anthropic/claude-sonnet-5-5
  wane run --api openai --upstream https://openrouter.ai/api/v1 my-agent

At the end, one line on standard error tells the number of requests, the largest view, and how much was evicted. Watch
the sessions at /wane/ of the proxy, whose address the agent gets as WANE_PROXY_URL; --listen sets it in advance. For a
proxy that keeps running, see wane proxy --help.

Exit codes:
  the agent's own, or 128 and the number of the signal that ended it
  1    an extra is missing, or the proxy cannot listen
  2    an option cannot be used, or the agent cannot be pointed at a proxy
  127  the agent is not installed
"""
