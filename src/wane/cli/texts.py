"""Help texts of the commands. `docs/cli.md` is generated from them too.

Paragraphs with an indented line are printed as they stand; others are filled. Lists show the first paragraph.
"""

from __future__ import annotations

from typing import Final

AGENT: Final = """\
A coding agent that keeps its context within a budget, and tools to see how it does.

Without a command, an interactive session starts in this directory. The agent marks its work as episodes. When the
window is over the budget, what is easiest to get again is evicted: by rules, without a model call and without a
summary. The session on disk keeps all of it.

Examples:
  wane                                talk to the agent
  wane -p "make the tests pass" -y    do one task and print the answer
  wane -c                             resume your last session here
  wane demo                           watch it work, without a key or a network
  wane plan chat.json --budget 80k    what a pass would evict, and why

Exit codes:
  0    done
  1    it failed: a model error, a missing extra, a damaged session
  2    an option or the input cannot be used
  130  stopped with Ctrl-C
"""

PLAN: Final = """\
Show what one pass over a recorded session would evict, and why.

It changes nothing. It reads what wane replay reads: sessions of coding agents and of wane, and messages in any known
format. If the agent marked no episodes, they are inferred from its tool calls. The picture has a letter for each
share of the window: S system, U user, N notices (what the harness put in), E an exploration, A an act, I work outside
episodes, P such work before the first episode. The letter's case changes where another episode begins.

Examples:
  wane plan ~/.claude/projects/-home-me-code/6c0a282a.jsonl
  wane plan chat.json
  wane plan chat.jsonl --budget 40k --policy paper
  wane plan chat.json --budget 50% --window 128k
  wane plan chat.json --tool-class fetch=bulk --counter tiktoken
  jq .body request.json | wane plan - --json | jq .messages

Exit codes:
  0  the plan was made, even if the budget cannot be met (see "satisfied")
  2  an option or the input cannot be used
  3  with --exit-code: the budget cannot be met
"""

SESSIONS: Final = """\
List the sessions of this directory, newest first.

They are in the platform's state directory, or in WANE_SESSION_DIR. With --all, it also lists sessions of other agents
by their ids, which view, replay and others take: those of Claude Code, Codex, pi, GitHub Copilot CLI, Gemini CLI,
OpenCode and Goose in their usual places, or in CLAUDE_CONFIG_DIR, CODEX_HOME, COPILOT_HOME, GEMINI_CLI_HOME,
XDG_DATA_HOME and PI_CODING_AGENT_DIR.

Examples:
  wane sessions
  wane sessions --all
  wane sessions --all --json
  wane sessions prune --older-than 30d --dry-run
  wane sessions delete 3f9c
"""

PRUNE: Final = """\
Delete the sessions that nobody has written to for some time, the agent's and the proxy's.

They are those of all directories on this machine, or of a store of the proxy. Sessions that a process has open are
left alone, and so are those of other agents.

Examples:
  wane sessions prune --older-than 30d --dry-run
  wane sessions prune --older-than 12h
  wane sessions prune --older-than 2w --store redis://localhost/0
"""

DELETE: Final = """\
Delete sessions, the agent's or the proxy's.

It deletes all or none of those that it is given: a name that is no session, or several, stops it.

Examples:
  wane sessions delete 3f9c
  wane sessions delete 9a41c0d2e8b7f356 --store redis://localhost/0
"""

SHOW: Final = """\
Show a session: its episodes, its passes, what it cost.

Examples:
  wane show 3f9c           the session whose id begins with 3f9c
  wane show 3f9c --json
"""

DEMO: Final = """\
Watch an agent do many tasks in one small window.

It needs no key and no network: the model is a script. All else is real: the agent, its tools, the eviction, and a git
repository whose own tests check each task.

Examples:
  wane demo
  wane demo --strategy truncate    drop the oldest messages instead
  wane demo --json                 print the summary only
"""


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text."""
    return text.strip().split("\n\n")


def is_literal(paragraph: str) -> bool:
    """Return whether a paragraph holds an indented line, and so is printed as it stands."""
    return "\n  " in paragraph
