"""Has the user approve commands, changes of files and calls of MCP tools before they happen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability, on_event
from pydantic_ai.exceptions import SkipToolExecution
from pydantic_ai_harness.filesystem import FileChangeRequestEvent
from typing_extensions import override

from wane.agent.tools.names import OWN_TOOLS, SHELL_TOOL

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

    from wane.agent.approval.permissions import Permissions


@dataclass
class Approvals(AbstractCapability[Any]):
    """Asks before a tool does something. A refusal is an ordinary tool result with the reason; it uses no retries.

    Attributes:
        permissions: decides.
    """

    permissions: Permissions

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask for a command, or for a tool that is not the agent's own."""
        refusal = None
        if call.tool_name == SHELL_TOOL:
            refusal = await self.permissions.command(str(args.get("command", "")))
        elif call.tool_name not in OWN_TOOLS:
            shown = json.dumps(args, ensure_ascii=False, indent=2, default=str)
            refusal = await self.permissions.tool(call.tool_name, shown)
        if refusal is not None:
            what = "command was not run" if call.tool_name == SHELL_TOOL else "tool was not called"
            raise SkipToolExecution(f"The {what}: {refusal}")
        return args

    @on_event(FileChangeRequestEvent)
    async def _on_change(self, _ctx: RunContext[Any], event: FileChangeRequestEvent) -> None:
        # The file system announces a change once it has found it possible, with its diff.
        diff = f"{event.diff}\n[the rest of the diff is not shown]" if event.truncated else event.diff
        refusal = await self.permissions.change(event.path, diff)
        if refusal is not None:
            event.cancel(refusal)
