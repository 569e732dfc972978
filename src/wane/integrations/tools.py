"""The tools that the agent gets: `delimiter`, and `recall` if asked for.

Their calls never fail validation. Arguments that are wrong in any way reach the tool as the model wrote them, and
come back as an ordinary result that says what would be right, so that they neither use up retries nor end the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic_ai import AbstractToolset, RunContext, ToolDefinition, ToolsetTool

from wane.core.delimiter import DESCRIPTION, SCHEMA
from wane.core.items import DELIMITER
from wane.integrations.sendable import BEYOND_JSON, beyond_json
from wane.integrations.tracker import Tracker
from wane.recall import RECALL, RECALL_DESCRIPTION, RECALL_SCHEMA, answer

_RAW: Final = "raw"


class RawArguments:
    """An argument validator that accepts everything and passes it on as it came."""

    def validate_json(
        self,
        input: str | bytes | bytearray,  # noqa: A002 - the interface's word
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002 - nothing to complete
        **kwargs: Any,  # noqa: ARG002 - context and strictness play no part
    ) -> dict[str, Any]:
        """Return the text as it is."""
        return {_RAW: input if isinstance(input, str) else bytes(input).decode(errors="replace")}

    def validate_python(
        self,
        input: Any,  # noqa: A002
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return the object as JSON text."""
        return {_RAW: json.dumps(input, ensure_ascii=False, default=str)}


class LifecycleToolset(AbstractToolset[Any]):
    """The tools of one tracker.

    Args:
        tracker: keeps the window of the run whose calls come here.
        recall: whether there is a `recall` tool.
    """

    def __init__(self, tracker: Tracker, *, recall: bool) -> None:
        self._tracker = tracker
        self._recall = recall

    @property
    def id(self) -> str:
        """Name of the toolset."""
        return "context_lifecycle"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:  # noqa: ARG002 - the interface's
        """Return the tools, none of which ever asks for a retry."""
        definitions = [ToolDefinition(name=DELIMITER, parameters_json_schema=SCHEMA, description=DESCRIPTION)]
        if self._recall:
            definitions.append(
                ToolDefinition(name=RECALL, parameters_json_schema=RECALL_SCHEMA, description=RECALL_DESCRIPTION)
            )
        return {
            definition.name: ToolsetTool(
                toolset=self, tool_def=definition, max_retries=0, args_validator=RawArguments()
            )
            for definition in definitions
        }

    async def call_tool(
        self,
        name: str,
        tool_args: Mapping[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002 - there is one for each name
    ) -> str:
        """Return the verdict on a `delimiter` call, or the page that a `recall` asks for."""
        # The response that makes the call is in the history; whatever order its tools run in, it is judged as a whole.
        self._tracker.sync(ctx.messages)
        if name == DELIMITER:
            return self._verdict(ctx.tool_call_id)
        return self._page(tool_args[_RAW])

    def _verdict(self, tool_call_id: str | None) -> str:
        verdict = self._tracker.verdict(tool_call_id) if tool_call_id else None
        if verdict is None:
            return "Error: `delimiter` marks the conversation, so it works only as a tool call of its own in a message."
        return verdict.answer(recall=self._recall)

    def _page(self, raw: str) -> str:
        if beyond_json(raw):
            return f"Error: {BEYOND_JSON}"
        return answer(raw, self._tracker.archive)
