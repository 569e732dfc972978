"""Refuses tool calls before they run: what the user does not approve, and edits within an exploration."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability, on_event
from pydantic_ai.exceptions import SkipToolExecution
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai_harness.filesystem import FileChangeRequestEvent
from typing_extensions import override

from wane.agent.tools import AGENT_TOOLS, EDIT_TOOLS, SHELL_TOOL
from wane.agent.tools.shell_tool import Clearances
from wane.conversation.events import Event, MessageTaken
from wane.core import DELIMITER, Episode, EpisodeType, Kind
from wane.core.delimiter import quote

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage, ToolCallPart
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import ToolsetTool

    from wane.agent.approval.permissions import Permissions
    from wane.conversation import Conversation


@dataclass
class Approvals(AbstractCapability[Any]):
    """Asks the user before commands and changes of files. Tools of MCP servers ask themselves: `AskingToolset`.

    A refusal is an ordinary tool result with the reason; it does not count as a failed call.
    """

    permissions: Permissions
    cleared: Clearances = field(default_factory=Clearances)

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask about a command."""
        if call.tool_name == SHELL_TOOL:
            clearance = await self.permissions.clear_command(str(args.get("command", "")))
            if clearance.refusal:
                raise SkipToolExecution(f"The command was not run: {clearance.refusal}")
            if not clearance.confined:
                self.cleared.add(call.tool_call_id)
        return args

    @on_event(FileChangeRequestEvent)
    async def _on_change(self, _ctx: RunContext[Any], event: FileChangeRequestEvent) -> None:
        # The harness announces a change, with its diff, once it knows that it can make it.
        diff = f"{event.diff}\n[the rest of the diff is not shown]" if event.truncated else event.diff
        if refusal := await self.permissions.change(event.path, diff):
            event.cancel(refusal)


@dataclass
class AskingToolset(WrapperToolset[Any]):
    """The tools of an MCP server, each of which asks the user before it is called.

    What has to be approved is known by the toolset that a tool comes from, never by its name: a server chooses names.
    """

    permissions: Permissions

    @override
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools, without any that a server has come to name like one of the agent's own."""
        tools = await super().get_tools(ctx)
        return {name: replace(tool, toolset=self) for name, tool in tools.items() if name not in AGENT_TOOLS}

    @override
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool, unless the user refuses it. The refusal is its result."""
        arguments = json.dumps(tool_args, ensure_ascii=False, indent=2, default=str)
        if refusal := await self.permissions.tool(name, arguments):
            return f"The tool was not called: {refusal}"
        return await super().call_tool(name, tool_args, ctx, tool)


@dataclass
class ExplorationGuard(AbstractCapability[Any]):
    """Refuses edits within an exploration, by the place of the call in its message (R3, R4).

    What changes the environment belongs to an action. The refusal is an ordinary tool result that says what to do; it
    does not count as a failed call.
    """

    conversation: Conversation[ModelMessage]
    _owners: dict[str, Episode] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.conversation.listeners.append(self._note_owners)

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Let a call through, or refuse it."""
        if call.tool_name not in EDIT_TOOLS or not self.conversation.settings.delimits:
            return args
        self.conversation.host.ingest(ctx.messages)
        owner = self._owners.pop(call.tool_call_id, None)
        if owner is None or owner.type is not EpisodeType.EXPL or owner.name is None or owner.inferred:
            return args
        end = {"action": "end", "name": owner.name, "description": "<what you learned>"}
        start = {"action": "start", "name": "<task-object>", "type": "act", "dependencies": [owner.name]}
        raise SkipToolExecution(
            f"Error: {call.tool_name} was refused, because the exploration {quote(owner.name)} is active, and files are"
            f" changed in an action. End it and start an action, then edit: {DELIMITER} {quote(end)}, then"
            f" {DELIMITER} {quote(start)}"
        )

    def _note_owners(self, event: Event) -> None:
        if not isinstance(event, MessageTaken):
            return
        for item, added in zip(event.items, event.added, strict=True):
            if item.kind is Kind.CALL and item.tool in EDIT_TOOLS and item.call_id and added.episode:
                self._owners[item.call_id] = added.episode
