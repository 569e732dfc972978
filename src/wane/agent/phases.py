"""Marks of the agent's program (R18), without a word of the model: each turn is a task, and each phase an episode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from wane.conversation.scopes import OpenScope, new_scope
from wane.core import EpisodeType
from wane.formats.pydantic_ai import raw_arguments
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity

if TYPE_CHECKING:
    from pydantic_ai.messages import ToolCallPart

    from wane.conversation import Conversation

_CALM: Final = 3
"""Answers in a row without a change after which the agent explores again."""


class Phases:
    """Tells an agent's conversation in which phase of a turn it is, by what the tools did that the program ran.

    A turn begins as an exploration. With the answer after a change it is an act, which depends on that exploration; and
    an exploration again after three answers that change nothing.

    Args:
        conversation: the conversation. Without `annotate="host"` it is left alone.
    """

    def __init__(self, conversation: Conversation[Any]) -> None:
        self._conversation = conversation
        self._type = EpisodeType.EXPL
        self._calm = 0

    def turn(self) -> OpenScope:
        """Return the next turn's task, to enter by `with`."""
        self._calm = 0
        self._begin(EpisodeType.EXPL)
        return OpenScope(self._conversation.host.owner, "turn", "task")

    def answered(self, calls: Iterable[ToolCallPart]) -> None:
        """Take in the calls of an answer that have run."""
        activities = [judge_call(call.tool_name, raw_arguments(call)).activity for call in calls]
        self._calm = 0 if Activity.ACT in activities else self._calm + 1
        if Activity.ACT in activities and self._type is EpisodeType.EXPL:
            self._begin(EpisodeType.ACT)
        elif self._type is EpisodeType.ACT and self._calm >= _CALM:
            self._begin(EpisodeType.EXPL)

    def _begin(self, type_: EpisodeType) -> None:
        host = self._conversation.host
        if not host.marks:
            return
        active, self._type = self._conversation.window.active, type_
        explored = [str(active.name)] if type_ is EpisodeType.ACT and active is not None else []
        host.worker = new_scope("change" if type_ is EpisodeType.ACT else "explore", type_, explored)
