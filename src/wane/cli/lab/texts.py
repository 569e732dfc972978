"""What `--help` says of the lab's commands."""

from __future__ import annotations

from typing import Final

REPLAY: Final = """\
Replay recorded sessions under every strategy: what each would have cost and lost.

Sessions may come from Claude Code, Codex, pi, Wane and its proxy, or be messages of OpenAI, Anthropic or Pydantic AI;
wane sessions --all lists those on this machine. No key, no network, and nothing is changed. The agent's recorded output
stays as it was: what it would have done under another view is not known, only what it used that would have been gone.

Examples:
  wane replay session.jsonl
  wane replay ~/.claude/projects --budget 50k --price anthropic:claude-opus-4-5
  wane replay runs/ --join --strategy cwl,compact,truncate --json

Exit codes:
  0    done, also if some files held no session (they are named)
  1    an extra is missing, or a file cannot be read
  2    an option or the input is of no use
  130  stopped with Ctrl-C
"""

SWEEP: Final = """\
Replay recorded sessions at several budgets: what a larger window buys, and what a smaller one saves.

The picture has a letter for each strategy and budget, cost to the right and reference recall upwards; what nothing
else beats at both is the frontier.

Examples:
  wane sweep session.jsonl
  wane sweep runs/ --budgets 30k..150k --steps 7 --strategy cwl,compact
  wane sweep runs/ --budgets 50k,80k,120k --json
"""

TUNE: Final = """\
Recommend a budget and a policy for your work, with the reasons.

Budgets and policies are tried on your own recorded sessions. The last lines are for the agent's settings.

Examples:
  wane tune ~/.claude/projects/my-project
  wane tune runs/ --join --budgets 40k..120k --price openai:gpt-5.2
"""

LAB: Final = """\
Check the lab's own instruments, and run the agent in a closed loop.
"""

VALIDATE: Final = """\
Check the simulated cache against the cache reads that sessions recorded.

The requests are rebuilt as the recording agent made them, so that only the rules of the cache are tested.

Examples:
  wane lab validate session.jsonl
  wane lab validate ~/.codex/sessions --outliers
"""

CLOSED_LOOP: Final = """\
Do 89 tasks in one session with the real agent and a scripted model, and count what became of them.

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
  2    an option is of no use
  130  stopped with Ctrl-C
"""

VIEW: Final = """\
Look at a session in the browser: what each call saw, what had gone by then, and why.

What is shown is what happened, with passes, compactions and usage as they were recorded. The page is one file that
needs no network. It holds what was said, unless --no-contents is given.

Examples:
  wane view 3f9c
  wane view ~/.claude/projects/my-project/0a1b.jsonl --output session.html
  wane view session.jsonl --no-contents --open
"""
