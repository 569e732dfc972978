"""The options of the command line, before any settings file is read.

None means "not given": then the project's settings, the user's or the defaults decide, in that order
(`wane.agent.config`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from wane.flags import Flag, read_by

if TYPE_CHECKING:
    from pydantic_ai.models import Model
else:
    # The flags are read from the types, and help must not load Pydantic AI for that.
    Model = object

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What print mode writes: the answer, one JSON object at the end, or one JSON object for each event."""

PolicyName: TypeAlias = Literal["default", "paper"]
"""The named policies: `Policy()` and `Policy.paper()`."""

SandboxMode: TypeAlias = Literal["off", "reads", "all"]
"""What runs in a sandbox: nothing, what only reads and was not asked about, or also what was allowed."""

AGENT_FORMAT: Final = "pydantic_ai"
"""Name of the format of the agent's messages; a session in any other format is another program's."""

CHOOSE: Final = ""
"""`AgentOptions.resume` for `--resume` without an id: the user chooses a session from a list."""


STRATEGY: Final = Flag(
    "--strategy",
    "How to manage the context: cwl (Wane's own, the default: evict episodes), paper (the same in the smallest steps), "
    "fold (collapse episodes when they end), truncate (drop the oldest messages), streaming (keep the first and the "
    "latest messages), compact (let the model summarise them), memgpt, resum, acon (as in the papers of these names), "
    "clear-tools (drop old tool results), mask (drop all tool results but the latest ten, whatever the budget), none, "
    "or one that an extension adds.",
    "STRATEGY",
    read=read_by("wane.strategies.registry:check_live"),
)
"""A strategy that a live agent can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """One start of the agent, interactive or not. Tests give a Pydantic AI model as `model`."""

    prompt: Annotated[
        str | None,
        Flag(
            "-p, --print", "Do one task, print the answer and exit. If TASK is -, read it from standard input.", "TASK"
        ),
    ] = None
    model: Annotated[
        str | Model | None,
        Flag(
            "-m, --model",
            "The model, such as anthropic:claude-sonnet-5-5. The default depends on whose key is in the environment.",
            "PROVIDER:MODEL",
        ),
    ] = None
    continue_last: Annotated[bool, Flag("-c, --continue", "Resume this directory's last session.")] = False
    resume: Annotated[
        str | None,
        Flag(
            "-r, --resume",
            "Resume the session whose id begins with ID; without ID, choose one from a list.",
            "ID",
            bare=CHOOSE,
        ),
    ] = None
    save: Annotated[bool, Flag("--no-session", "Do not save the new session.")] = True
    output_format: Annotated[
        OutputFormat | None,
        Flag(
            "--output-format",
            "What -p prints: text (the default), json (one object at the end) or stream-json (one for each event).",
            "FORMAT",
        ),
    ] = None
    cwd: Annotated[Path, Flag("-C, --cwd", "Work in DIR instead of here.", "DIR")] = Path()
    cost_limit: Annotated[
        float | None,
        Flag(
            "-l, --cost-limit",
            "Make no more model calls once this many dollars are spent. By default there is no limit.",
            "DOLLARS",
        ),
    ] = None
    time_limit: Annotated[
        float | None,
        Flag(
            "--time-limit",
            "End a task after this many minutes. Waiting for a provider that fails does not count.",
            "MINUTES",
        ),
    ] = None
    patience: Annotated[
        float | None,
        Flag(
            "--patience",
            "How long to try again while the provider fails: 5 minutes by default, 0 to give up at once.",
            "MINUTES",
        ),
    ] = None
    yolo: Annotated[
        bool | None,
        Flag(
            "-y, --yolo",
            "Run commands and write files without asking. Without it, -p refuses whatever would be asked about.",
        ),
    ] = None
    allow: Annotated[
        Sequence[str] | None,
        Flag(
            "--allow",
            "Do not ask about what matches: 'git diff *', 'edit:docs/*', 'mcp:github_*'. May be repeated.",
            "PATTERN",
        ),
    ] = None
    deny: Annotated[
        Sequence[str] | None, Flag("--deny", "Refuse what matches, even with --yolo. May be repeated.", "PATTERN")
    ] = None
    sandbox: Annotated[
        SandboxMode | None,
        Flag(
            "--sandbox",
            "What runs in a sandbox of the kernel: reads (the default: what only reads, without a question), all (also "
            "what you allow, which then writes below this directory only) or off (nothing, so more is asked about).",
            "WHAT",
        ),
    ] = None
    mcp: Annotated[
        Sequence[str] | None,
        Flag(
            "--mcp",
            "Also use the MCP servers that FILE lists, such as the project's .mcp.json. May be repeated.",
            "FILE",
        ),
    ] = None
    budget: Annotated[
        str | int | None,
        Flag(
            "--budget",
            "Tokens that the view may hold: 80k, the default; 50% of the window; or auto, which goes by what never "
            "leaves and by the window.",
            "TOKENS",
        ),
    ] = None
    policy: Annotated[
        PolicyName | None,
        Flag("--policy", "How to evict: default (in batches) or paper (in the smallest steps).", "POLICY"),
    ] = None
    annotate: Annotated[
        Literal["model", "infer", "host"] | None,
        Flag(
            "--annotate",
            "Who marks episodes: model (the default), infer (from tool calls, if the model marks none), or host (each "
            "turn is a task, and its phases before and after a change are episodes).",
            "WHO",
        ),
    ] = None
    tasks: Annotated[
        bool | None,
        Flag(
            "--tasks",
            "Let the model group episodes in tasks. When the work of a task has left, one line about it stays.",
        ),
    ] = None
    strategy: Annotated[str | None, STRATEGY] = None
    no_wane: Annotated[
        bool, Flag("--no-wane", "Do not manage the context: no episodes, no eviction. Same as --strategy none.")
    ] = False
