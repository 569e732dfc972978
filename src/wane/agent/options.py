"""The options of the command line, before any settings file is read.

None means "not given": then the project's settings, the user's or the defaults decide, in that order
(`wane.agent.config`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wane.strategies.base import Annotate

if TYPE_CHECKING:
    from pydantic_ai.models import Model

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What print mode writes: the answer, one JSON object at the end, or one JSON object for each event."""

PolicyName: TypeAlias = Literal["default", "paper"]
"""The named policies: `Policy()` and `Policy.paper()`."""

Strategy: TypeAlias = Literal[
    "none", "truncate", "streaming", "compact", "memgpt", "resum", "acon", "clear-tools", "mask", "fold", "paper", "cwl"
]
"""How the context is managed: the strategies of `wane.strategies` that need no other package."""

BY_EPISODE: Final[frozenset[str]] = frozenset({"cwl", "paper"})
"""Strategies that evict by episode, with a policy."""

AGENT_FORMAT: Final = "pydantic_ai"
"""Name of the format of the agent's messages; a session in any other format is another program's."""

CHOOSE = ""
"""`AgentOptions.resume` for `--resume` without an id: the user chooses a session from a list."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """One start of the agent, interactive or not.

    Attributes:
        cwd: directory that the agent works in (`-C/--cwd`).
        prompt: the task of print mode (`-p`); None for a chat.
        model: `provider:model` (`-m/--model`), or a Pydantic AI model, as demos and tests pass.
        continue_last: resume the directory's last session (`-c/--continue`).
        resume: id of the session to resume, or its beginning (`-r/--resume`); "" to choose from a list.
        save: keep a journal; False with `--no-session`.
        output_format: what print mode writes (`--output-format`).
        cost_limit: dollars after which no model call is made (`-l/--cost-limit`).
        yolo: run commands and write files without asking (`-y/--yolo`).
        allow: patterns of what needs no approval (`--allow`).
        deny: patterns of what is refused (`--deny`).
        mcp: files with MCP servers (`--mcp`).
        budget: tokens that the view may hold, as `parse_budget` reads them: `80k`, `50%` (`--budget`).
        policy: name of the eviction policy (`--policy`).
        strategy: how the context is managed (`--strategy`); `none` with `--no-cwl`.
        annotate: who marks episodes (`--annotate`).
        sessions: root of the session files instead of the platform's state directory.
    """

    cwd: Path
    prompt: str | None = None
    model: str | Model | None = None
    continue_last: bool = False
    resume: str | None = None
    save: bool = True
    output_format: OutputFormat = "text"
    cost_limit: float | None = None
    yolo: bool | None = None
    allow: Sequence[str] | None = None
    deny: Sequence[str] | None = None
    mcp: Sequence[str] | None = None
    budget: str | int | None = None
    policy: PolicyName | None = None
    strategy: Strategy | None = None
    annotate: Annotate | None = None
    sessions: Path | None = None
