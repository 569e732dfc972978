"""Help text of `wane proxy`."""

from __future__ import annotations

from typing import Final

PROXY: Final = """\
Stand between an agent and its provider, and keep the agent's context within a budget.

The agent needs no change except its base URL. It gets ordinary answers, streamed as they arrive: the proxy gives the
model the delimiter tool, answers its calls, and evicts whole episodes when the view exceeds the budget. It understands
Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, and passes everything else on byte by byte. It sends
the client's keys to the provider, and never logs or stores them.

Examples:
  wane proxy --upstream https://api.anthropic.com
  wane proxy --upstream https://api.openai.com --budget 60k
  wane proxy --upstream http://127.0.0.1:11434 --annotate infer
  wane proxy --upstream https://openrouter.ai/api/v1 --listen 127.0.0.1:9000
  wane proxy --upstream https://api.anthropic.com --store redis://localhost

What to set in the client:
  ANTHROPIC_BASE_URL=http://127.0.0.1:8484    Claude Code, anthropic SDKs
  OPENAI_BASE_URL=http://127.0.0.1:8484/v1    openai SDKs, and most others
  base_url = "http://127.0.0.1:8484/v1"       in Codex' config.toml

To serve other machines, it needs a token: set WANE_PROXY_TOKEN and --listen 0.0.0.0:8484. Clients then send the header
x-wane-token, or put the token into their base URL, before the path: http://HOST:8484/~TOKEN/v1.

Response headers tell what the proxy did: x-wane-session, x-wane-view, x-wane-budget and x-wane-evicted (tokens),
x-wane-unmanaged (why a request was not managed) and x-wane-warning (what is wrong). Watch the sessions at /wane/, read
them as JSON at /wane/status, or let Prometheus read /wane/metrics. If Wane itself fails, the request is passed on
unchanged, and a session that cannot be stored stays in memory; with --strict, the client gets an error instead.

Ctrl-C or a signal stops it. Open requests get 3 seconds to finish; then those without an answer get an error (503), and
streams end with one. A second Ctrl-C stops at once.

Exit codes:
  0    stopped by Ctrl-C or a signal
  1    an extra is missing, it cannot listen, or its store cannot be reached
  2    an option cannot be used
  130  stopped by a second Ctrl-C, without waiting for open requests
"""

STATUSLINE: Final = """\
Print one line about the session that the proxy served last, for an agent's status line.

It shows the view and its budget, what was evicted just now and in total, and money if prices are known. For Claude
Code, put this into its settings.json:

  {"statusLine": {"type": "command", "command": "wane statusline"}}

Examples:
  wane statusline
  wane statusline --url http://127.0.0.1:8484
"""
