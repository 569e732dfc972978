"""Help text of `wane proxy`."""

from __future__ import annotations

from typing import Final

PROXY: Final = """\
Stand between an agent and its provider, and keep the agent's context within a budget.

The agent needs no change but its base URL. It gets ordinary answers, streamed as they arrive: the proxy gives the model
the delimiter tool, answers its calls, and evicts whole episodes when the view exceeds the budget. It understands
Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, and passes on all else byte by byte. Keys stay in the
client: they go to the provider, and are never logged or stored.

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

To be reached from other machines, it needs a token: with WANE_PROXY_TOKEN set and --listen 0.0.0.0:8484, clients send
the header x-wane-token, or put the token into their base URL, before the path: http://HOST:8484/~TOKEN/v1.

Responses tell what the proxy did: x-wane-session, x-wane-view, x-wane-budget and x-wane-evicted (tokens),
x-wane-unmanaged (why it left a request alone) and x-wane-warning (what is wrong). Watch the sessions at /wane/, read
them as JSON at /wane/status, or let Prometheus read /wane/metrics. If Wane itself fails, a request is sent on as it
came, and a session that cannot be stored stays in memory; with --strict both are refused.

Ctrl-C or a signal stops it. Open requests get 3 seconds to finish; then those without an answer get an error (503), and
streams end with one. A second Ctrl-C does not wait.

Exit codes:
  0    stopped by Ctrl-C or a signal
  1    an extra is missing, it cannot listen there, or its store is out of reach
  2    an option cannot be used
  130  stopped by a second Ctrl-C, without waiting for open requests
"""

STATUSLINE: Final = """\
Print one line on the session that the proxy served last, for an agent's status line.

It shows the view and its budget, what was evicted, just now too, and money where prices are known. For Claude Code, put
this into its settings.json:

  {"statusLine": {"type": "command", "command": "wane statusline"}}

Examples:
  wane statusline
  wane statusline --url http://127.0.0.1:8484
"""
