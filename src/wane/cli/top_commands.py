"""The options of commands that are in no folder of their own: what each takes, and what its help says.

A help text has paragraphs. One with an indented line is printed unchanged, others are filled; lists show the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias

from wane.agent.options import STRATEGY
from wane.cli import flag_values
from wane.cli.shared_flags import (
    Budget,
    FormatName,
    Full,
    Json,
    MaxUnpacked,
    PolicyName,
    PolicyOptions,
    StoreName,
    ToolClasses,
    WhoMarks,
)
from wane.flags import Flag
from wane.lab.names import MAX_UNPACKED

_Session: TypeAlias = Annotated[
    str, Flag("SESSION", "The session's id or the beginning of it, or the path of its file.", "SESSION")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Show what one pass over a recorded session would evict, and why.

    It changes nothing. It reads what wane replay reads: sessions of coding agents and of wane, and messages in any
    known format. If the agent marked no episodes, they are inferred from its tool calls. The picture has a letter for
    each share of the window: S system, U user, N notices (what the harness put in), R reading, W work that changes
    something, I work outside episodes, P such work before the first episode. The letter's case changes where another
    episode begins.

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

    file: Annotated[
        str,
        Flag(
            "FILE",
            "Messages as JSON or JSONL, or the session of any agent that wane replay reads, by its file or id. If FILE "
            "is -, read standard input.",
            "FILE",
        ),
    ]
    budget: Budget = "80k"
    window: Annotated[
        int | None,
        Flag(
            "--window",
            "The model's window, beyond which no view grows, and of which a budget in percent is a share. The default "
            "is that of the price list; for a budget in percent that of the session's model, or 200k.",
            "TOKENS",
            read=flag_values.window,
        ),
    ] = None
    policy: PolicyName = "default"
    policy_settings: PolicyOptions = field(default_factory=PolicyOptions)
    counter: Annotated[
        str,
        Flag(
            "--counter",
            "How to count tokens: chars (the default: one token for four characters) or tiktoken, which may name an "
            "encoding: tiktoken:cl100k_base.",
            "COUNTER",
        ),
    ] = "chars"
    format: FormatName = "auto"
    max_unpacked: MaxUnpacked = MAX_UNPACKED
    annotate: WhoMarks = "auto"
    tasks: Annotated[bool, Flag("--tasks", "Also read tasks, if the agent grouped its episodes into them.")] = False
    tool_classes: ToolClasses = ()
    full: Full = False
    exit_code: Annotated[bool, Flag("--exit-code", "Exit with 3 if the budget cannot be met.")] = False
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsOptions:
    """List the sessions of this directory, newest first.

    They are in the platform's state directory, or in WANE_SESSION_DIR. With --all, it also lists sessions of other
    agents (Claude Code, Codex, Gemini CLI and others), with the ids that wane view, wane replay and others take: those
    in the agents' usual places, or where a variable such as CLAUDE_CONFIG_DIR or CODEX_HOME says that they are. It says
    their calls, what they cost, and by a bar how large they are.

    Examples:
      wane sessions
      wane sessions --all
      wane sessions --all --json
      wane sessions prune --older-than 30d --dry-run
      wane sessions delete 3f9c
    """

    every: Annotated[bool, Flag("--all", "List the sessions of all directories, and of other agents.")] = False
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions:
    """Delete sessions of the agent and the proxy that have not been written to for some time.

    It looks at the sessions of all directories on this machine, or at those in a store of the proxy. It spares those
    that a process has open, and those of other agents.

    Examples:
      wane sessions prune --older-than 30d --dry-run
      wane sessions prune --older-than 12h
      wane sessions prune --older-than 2w --store redis://localhost/0
    """

    older_than: Annotated[
        float | None,
        Flag(
            "--older-than",
            "Delete what was last written this long ago or longer: 30d, 12h or 2w. Required.",
            "AGE",
            read=flag_values.age,
        ),
    ] = None
    dry_run: Annotated[bool, Flag("--dry-run", "Show what would be deleted, and delete nothing.")] = False
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Delete sessions of the agent or the proxy.

    It deletes all of the given sessions or none: if an id matches no session, or several, nothing is deleted. With
    --turn, it deletes only the texts of one user turn and of the work on it, also where other messages and requests
    quote them; wane verify says which requests can no longer be shown.

    Examples:
      wane sessions delete 3f9c
      wane sessions delete 3f9c --turn 2
      wane sessions delete 9a41c0d2e8b7f356 --store redis://localhost/0
    """

    names: Annotated[
        Sequence[str],
        Flag("SESSION", "Ids of sessions, or the beginnings of ids, as wane sessions lists them.", "SESSION..."),
    ]
    turn: Annotated[
        int | None,
        Flag(
            "--turn",
            "Delete only the texts of this turn of one session in a file; 1 is the first turn that wane show lists.",
            "N",
            read=flag_values.count,
        ),
    ] = None
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """Show a session: its episodes, its passes and what it cost. Or show a request as the model received it.

    Examples:
      wane show 3f9c                              by the beginning of its id
      wane show 3f9c --json
      wane show 3f9c --at 7                       the 7th request, whole
      wane show 3f9c --at 7 --diff 6              how it differs from the 6th
      wane show 3f9c --at 7 --json | jq -j .body  its exact bytes
    """

    name: _Session
    at: Annotated[
        int | None,
        Flag(
            "--at",
            "Show this request, rebuilt from the journal and compared with its digest: messages, tools, parameters. 1 "
            "is the first; failed attempts count too.",
            "N",
            read=flag_values.count,
        ),
    ] = None
    diff: Annotated[
        int | None,
        Flag("--diff", "With --at: show how the request differs from this one.", "N", read=flag_values.count),
    ] = None
    full: Full = False
    as_json: Json = False
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Prove that the requests of a session can be shown as they were sent.

    It rebuilds each request from the journal, compares it with the digest that was recorded when it was sent, and
    checks the chain of these digests. Content that was not kept, or was deleted, is counted; it does not break the
    chain.

    Examples:
      wane verify 3f9c
      wane verify 3f9c --chain LINK    fail unless the chain has this link
      wane verify 9a41c0d2e8b7f356 --store redis://localhost/0

    Exit codes:
      0  every request is what was sent, or its content was not kept or was deleted
      1  a request is not, the journal is damaged, or there is nothing to verify
    """

    name: _Session
    chain: Annotated[
        str | None, Flag("--chain", "A whole link that was printed earlier; the chain must still have it.", "LINK")
    ] = None
    as_json: Json = False
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCommandOptions:
    """Watch an agent do many tasks in one small window.

    It needs no key and no network: the model is a script. All else is real: the agent, its tools, the eviction, and a
    git repository whose own tests check each task.

    Examples:
      wane demo
      wane demo --strategy truncate    drop the oldest messages instead
      wane demo --json                 print the summary only
    """

    strategy: Annotated[str, STRATEGY] = "cwl"
    keep: Annotated[Path | None, Flag("--keep", "Keep the demo's repository in DIR, to look at afterwards.", "DIR")] = (
        None
    )
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsOptions:
    """Say what a word of Wane's tables and reports means, and what it is called in JSON.

    Examples:
      wane words
      wane words low water
    """

    term: Annotated[Sequence[str], Flag("WORD", "The word. The default is all.", "[WORD...]")] = ()
