"""What `--help` says of each command. `docs/cli.md` is made from these too.

An indented line is printed as it stands; other lines are filled. The first sentence serves in lists.
"""

from __future__ import annotations

from typing import Final

AGENT: Final = """\
A coding agent that keeps its context within a budget, and tools to see how it does.

Without a command, an interactive session starts in this directory. The agent marks its work as episodes. When the
window is over the budget, what is easiest to have again is evicted: by rules, without a model call and without a
summary. The session on disk keeps all of it.

Examples:
  wane                                talk to the agent
  wane -p "make the tests pass" -y    do one task and print the answer
  wane -c                             go on where you left off
  wane demo                           watch it work, without a key or a network
  wane plan chat.json --budget 80k    what a pass would evict, and why

Exit codes:
  0    done
  1    it failed: a model error, a missing extra, a damaged session
  2    an option or an input is of no use
  130  stopped with Ctrl-C
"""

PLAN: Final = """\
Show what one pass over a recorded session would evict, and why.

Nothing is changed. It reads what wane replay reads: sessions of Claude Code, Codex, pi and wane, and messages in any
known format. Where the agent marked no episodes, they are inferred from its tool calls. The picture has a letter for
each share of the window: S system, U user, N notices (what the harness put in), E an exploration, A an act, I work
outside episodes, P such work ahead of the first episode. The letter's case changes where another episode begins.

Examples:
  wane plan ~/.claude/projects/-home-me-code/6c0a282a.jsonl
  wane plan chat.json
  wane plan chat.jsonl --budget 40k --policy paper
  wane plan chat.json --budget 50% --window 128k
  wane plan chat.json --tool-class fetch=bulk --counter tiktoken
  jq .body request.json | wane plan - --json | jq .messages

Exit codes:
  0  the plan was made, also if the budget cannot be met ("satisfied" tells)
  2  an option or the input is of no use
  3  with --exit-code: the budget cannot be met
"""

SESSIONS: Final = """\
List the sessions of this directory, the last written first.

They live in the platform's state directory, or where WANE_SESSION_DIR says. With --all, the sessions of other agents
are listed too, with their paths: those that Claude Code, Codex and pi keep in their usual places, or where
CLAUDE_CONFIG_DIR, CODEX_HOME and PI_CODING_AGENT_DIR say.

Examples:
  wane sessions
  wane sessions --all
  wane sessions --all --json
"""

SHOW: Final = """\
Show a session: its episodes, its passes, what it cost.

Examples:
  wane show 3f9c           the session whose id begins with 3f9c
  wane show 3f9c --json
"""

DEMO: Final = """\
Watch an agent do many tasks in one small window.

No key and no network: the model is a script. All the rest is real: the agent, its tools, the eviction, and a git
repository whose own tests check each task.

Examples:
  wane demo
  wane demo --strategy truncate    the oldest messages go instead
  wane demo --json                 the summary alone
"""


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text; one that holds an indented line is to be printed as it stands."""
    return text.strip().split("\n\n")


def is_literal(paragraph: str) -> bool:
    """Whether a paragraph is to be printed as it stands."""
    return "\n  " in paragraph
