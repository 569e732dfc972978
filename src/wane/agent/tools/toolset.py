"""The agent's tools, put together from the harness: files, search, shell, and limits on what they return.

What is ours: every failure of a tool becomes a result that the model reads, never the end of a run; the
shell's handles are left out of a result once the command has ended; one result takes at most a share of
the budget.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import AgentRunError, ToolFailed
from pydantic_ai_harness.filesystem import FileSystem
from pydantic_ai_harness.repair_tool_arguments import RepairToolArguments
from pydantic_ai_harness.repo_context import RepoContext
from pydantic_ai_harness.shell import LLM_API_KEY_ENV_PATTERNS, Shell
from pydantic_ai_harness.tool_output_limits import Band, ToolOutputLimits, Truncate
from typing_extensions import override

from wane.agent.tools import ripgrep
from wane.agent.tools.names import FILE_TOOLS, PYTHON_TOOLS, RIPGREP_TOOLS, SHELL_TOOL
from wane.recall import RECALL

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

MAX_OUTPUT: Final = 32_000
"""Characters that one result may hold, whatever the budget."""

MIN_OUTPUT: Final = 4_000
"""Characters that one result may hold at least, however small the budget."""

SHELL_TIMEOUT: Final = 120.0
"""Seconds after which a command is left to itself, and its handles returned."""

HIDDEN_VARIABLES: Final = (*LLM_API_KEY_ENV_PATTERNS, "*_API_KEY", "AWS_BEARER_TOKEN_*", "HF_TOKEN")
"""Environment variables that commands do not see: the providers' keys are the agent's, not its commands'."""

NOT_UTF8: Final = "[\ufffd stands for bytes that are not valid UTF-8; edit_file cannot edit a file with such bytes]\n"
"""What a read of such a file ends with."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The agent's tools for one project.

    Attributes:
        capabilities: what brings them, for a Pydantic AI agent.
        search: name of the tool that searches contents.
        listing: name of the tool that lists files.
        warning: what the user should know, such as that ripgrep is missing.
    """

    capabilities: tuple[AbstractCapability[Any], ...]
    search: str
    listing: str
    warning: str | None


def coding_tools(directory: Path, budget: int, *, with_ripgrep: bool = True) -> Tools:
    """Return the tools for working in a directory.

    Args:
        directory: the project; files outside it cannot be reached by the file tools.
        budget: tokens of the view. A result may hold a quarter of it, between `MIN_OUTPUT` and `MAX_OUTPUT`.
        with_ripgrep: whether to search with ripgrep if there is one.
    """
    found = with_ripgrep and ripgrep.enable(os.environ)
    search_tools = RIPGREP_TOOLS if found else PYTHON_TOOLS
    limit = output_limit(budget)
    return Tools(
        capabilities=(
            _BoundOutput(
                id="wane_output",
                bands=[Band(over=limit, action=Truncate(max_chars=limit))],
                # Pages have a bound of their own, and the next one begins where the last one ended: nothing may be cut.
                per_tool={RECALL: []},
            ),
            _ReadableResults(),
            _RepairedArguments(),
            FileSystem[Any](
                root_dir=directory,
                content_hashes=False,
                max_read_lines=1_000,
                # Below the limit, so that a read ends with whole lines and says where to go on.
                max_read_chars=limit * 15 // 16,
                max_search_results=200,
                max_find_results=500,
                tools=(*FILE_TOOLS, *search_tools),
            ),
            Shell[Any](
                cwd=directory,
                # Asking first (`wane.agent.approval`) is the gate; a list of names would only look like one.
                denied_commands=[],
                default_timeout=SHELL_TIMEOUT,
                env=ripgrep.undone(os.environ),
                denied_env_patterns=HIDDEN_VARIABLES,
                tools=[SHELL_TOOL],
            ),
        ),
        search=search_tools[1],
        listing=search_tools[0],
        warning=None if found else ripgrep.MISSING,
    )


def output_limit(budget: int) -> int:
    """Characters that one result may hold under a budget in tokens: about a quarter of it."""
    return max(MIN_OUTPUT, min(MAX_OUTPUT, budget))


def repo_instructions(directory: Path) -> str | None:
    """Return the project's own instructions (AGENTS.md, CLAUDE.md), from the repository's root down to `directory`.

    Read once for a session, so that the system prompt stays as it is while the agent edits them.
    """
    root = next((parent for parent in (directory, *directory.parents) if (parent / ".git").exists()), None)
    context = RepoContext[Any](workspace_dir=directory, home_dir=root, expose_inventory_tool=False)
    try:
        text = context.get_instructions()
    except OSError:
        return None  # a file that may not be read is no reason not to start
    return text if isinstance(text, str) else None


class _BoundOutput(ToolOutputLimits[Any]):
    """Cuts without keeping the rest elsewhere, so it needs no tool to read it back."""

    @override
    def get_toolset(self) -> None:
        return None


class _RepairedArguments(RepairToolArguments[Any]):
    """Leaves to the tool what cannot be read for another reason than its form: a number of thousands of digits."""

    @override
    async def before_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: str | dict[str, Any]
    ) -> str | dict[str, Any]:
        try:
            return await super().before_tool_validate(ctx, call=call, tool_def=tool_def, args=args)
        except ValueError:
            return args


@dataclass
class _ReadableResults(AbstractCapability[Any]):
    """Makes every outcome of a tool a text that the model can act on."""

    @override
    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        if not isinstance(result, str):
            return result
        if call.tool_name == SHELL_TOOL:
            result = without_handles(result)
        elif call.tool_name == "read_file" and "\ufffd" in result:
            result += (
                "[\ufffd stands for bytes that are not valid UTF-8; edit_file cannot edit a file with such bytes]\n"
            )
        # What came from arguments may hold lone surrogates, which no request could carry.
        return result.encode("utf-8", "replace").decode("utf-8")

    @override
    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        if isinstance(error, AgentRunError):
            raise error  # the model is stuck, or the run is over
        # No space, no permission, a fault in a tool: the model is told and goes on, and the history stays whole.
        raise ToolFailed(f"{call.tool_name} failed: {type(error).__name__}: {error}") from error


_HANDLES: Final = re.compile(
    r"PID: \d+ \([^\n]*\)\nOutput: (?P<output>[^\n]+)\nStatus: [^\n]+\n"
    r'\{"pid": ?\d+, ?"exit_code": ?(?P<code>-?\d+)\}\s*\Z'
)
_SHOWN: Final = 16_000  # bytes of the log that the harness returns


def without_handles(result: str) -> str:
    """Return a shell result with its exit code in place of the handles of a command that has ended.

    The log is removed, unless the result shows only a part of it: then its path is told.
    """
    match = _HANDLES.search(result)
    if match is None:
        return result
    log, code = Path(match["output"]), int(match["code"])
    lines = [result[: match.start()].rstrip("\n") or "(no output)"]
    try:
        size = log.stat().st_size
    except OSError:
        size = 0
    if size > _SHOWN:
        lines.append(f"[only the end is shown; all {size:,} bytes are in {log}]")
    elif log.parent.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(log.parent, ignore_errors=True)
    if code:
        lines.append(f"[exit code: {code}]")
    return "\n".join(lines)
