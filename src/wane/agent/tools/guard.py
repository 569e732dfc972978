"""No file is edited while an exploration is active: what changes the environment belongs to an act."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipToolExecution
from typing_extensions import override

from wane.agent.tools.names import EDIT_TOOLS
from wane.conversation.events import Event, MessageTaken
from wane.core import DELIMITER, Episode, EpisodeType, Kind
from wane.core.delimiter import quote

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage, ToolCallPart
    from pydantic_ai.tools import ToolDefinition

    from wane.conversation import Conversation


@dataclass
class ExplorationGuard(AbstractCapability[Any]):
    """Refuses edits that stand inside an exploration, by the place of the call in its message (R3, R4).

    The refusal is an ordinary tool result that says what to do; it uses up no retries.

    Attributes:
        conversation: knows which episode a call belongs to.
    """

    conversation: Conversation[ModelMessage]
    _owners: dict[str, Episode] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.conversation.listeners.append(self._note)

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Let a call pass, or refuse it."""
        if call.tool_name not in EDIT_TOOLS or not self.conversation.delimits:
            return args
        self.conversation.ingest(ctx.messages)
        owner = self._owners.pop(call.tool_call_id, None)
        if owner is not None and owner.type is EpisodeType.EXPL and owner.name is not None and not owner.inferred:
            raise SkipToolExecution(_refusal(call.tool_name, owner.name))
        return args

    def _note(self, event: Event) -> None:
        if not isinstance(event, MessageTaken):
            return
        for item, added in zip(event.items, event.added, strict=True):
            if item.kind is Kind.CALL and item.tool in EDIT_TOOLS and item.call_id and added.episode:
                self._owners[item.call_id] = added.episode


def _refusal(tool: str, exploration: str) -> str:
    end = {"action": "end", "name": exploration, "description": "<what you learned>"}
    start = {"action": "start", "name": "<task-object>", "type": "act", "dependencies": [exploration]}
    return (
        f"Error: {tool} was refused, because the exploration {quote(exploration)} is active, and files are changed in "
        f"an action. End it and start an action, then edit: {DELIMITER} {quote(end)}, then {DELIMITER} {quote(start)}"
    )
