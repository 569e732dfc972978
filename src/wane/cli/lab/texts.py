"""Help texts of the lab's commands."""

from __future__ import annotations

from typing import Final

REPLAY: Final = """\
Replay recorded sessions under every strategy: what each would have cost and lost.

Sessions may come from Claude Code, Codex, pi, GitHub Copilot CLI, Gemini CLI, OpenCode, Goose, aider, Wane and its
proxy, or be messages of OpenAI, Anthropic or Pydantic AI; wane sessions --all lists those on this machine. It needs no
key and no network, and changes nothing. The agent's recorded output stays the same: what it would have done with
another view is unknown, only what it used and would have missed.

Examples:
  wane replay session.jsonl
  wane replay 3f9c 20261122_1
  wane replay ~/.claude/projects --budget 50k --price openai:gpt-6.1-sol
  wane replay runs/ --join --strategy cwl,compact,truncate --json

Exit codes:
  0    done, even if some files held no session (they are named)
  1    an extra is missing, or a file cannot be read
  2    an option or the input cannot be used
  130  stopped with Ctrl-C
"""

SWEEP: Final = """\
Replay recorded sessions at several budgets: what a larger window buys, and what a smaller one saves.

The plot has a letter for each strategy and budget, with cost to the right and reference recall upwards; points that
nothing beats at both are on the frontier.

Examples:
  wane sweep session.jsonl
  wane sweep runs/ --budgets 30k..150k --steps 7 --strategy cwl,compact
  wane sweep runs/ --budgets 50k,80k,120k --json
"""

TUNE: Final = """\
Recommend a budget and a policy for your work, with the reasons.

It tries budgets and policies on your own recorded sessions. The last lines go into the agent's settings.

Examples:
  wane tune ~/.claude/projects/my-project
  wane tune runs/ --join --budgets 40k..120k --price openai:gpt-6.1-sol
"""

LAB: Final = """\
Check the lab's own simulations, count how agents mark their work, and run the agent in a closed loop.
"""

VALIDATE: Final = """\
Check the simulated cache against the cache reads that sessions recorded.

The requests are rebuilt as the recording agent made them, so that only the rules of the cache are tested.

Examples:
  wane lab validate session.jsonl
  wane lab validate ~/.codex/sessions --outliers
"""

ANNOTATIONS: Final = """\
Count how well agents marked their own work: what was refused, left unmarked, undeclared, and fetched again.

It needs no key and no network. With it, two wordings of the guidance can be compared by what agents do.

Examples:
  wane lab annotations session.jsonl
  wane lab annotations 3f9c
  wane lab annotations runs/ --json
"""

CLOSED_LOOP: Final = """\
Do 89 tasks in one session with the real agent and a scripted model, and check the results.

The model is a script, not a language model. It reacts only to what it can see: it reads again what has left the view,
and fails a task whose instructions or facts are gone. Tools, files, tests, journal and the model's wire are real.
Tasks depend on what the user said and what was found up to 80 tasks earlier. Each is checked by tests.

Examples:
  wane lab closed-loop --tasks 20 --tokens 10m
  wane lab closed-loop --strategy cwl,paper,truncate --isolated
  wane lab closed-loop --kill-every 100 --keep loop --json

Exit codes:
  0    done, and with cwl and paper nothing was lost
  1    a task was lost, the budget was not held, or a resumed view differed
  2    an option cannot be used
  130  stopped with Ctrl-C
"""

VIEW: Final = """\
Look at a session in the browser: what each call saw, what had been evicted by then, and why.

The page shows what happened, with passes, compactions and usage as recorded, and beside it what Wane would have shown
at a budget, with the costs of both. For a session that Wane managed, it shows what never evicting would have cost. It
is one file that needs no network. It holds the contents of the session, unless --redact is given.

Examples:
  wane view 3f9c
  wane view ~/.claude/projects/my-project/0a1b.jsonl --output session.html
  wane view session.jsonl --redact --output to-share.html
"""
