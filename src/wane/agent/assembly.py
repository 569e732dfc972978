"""The agent, put together: the harness's parts and ours, in the order in which they must stand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import Agent, ModelSettings
from pydantic_ai.capabilities import AbstractCapability, Caching

from wane.agent.approval.capability import Approvals
from wane.agent.prompt import system_prompt
from wane.agent.summary import summarise
from wane.agent.tools.git import GitStatus
from wane.agent.tools.guard import ExplorationGuard
from wane.agent.tools.toolset import Tools, repo_instructions
from wane.integrations.pydantic_ai import ContextLifecycle

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from wane.agent.approval.permissions import Permissions
    from wane.agent.saving.checkpoint import Checkpoint
    from wane.conversation import Conversation

RETRIES: Final = 20
"""Failed calls of one tool in a row after which the model is taken to be stuck: the turn ends, the session does not."""


def build_agent(
    cwd: Path,
    tools: Tools,
    conversation: Conversation[ModelMessage],
    checkpoint: Checkpoint,
    permissions: Permissions,
) -> Agent[None, str]:
    """Return the agent of a session.

    Args:
        cwd: directory that it works in.
        tools: its tools for that directory.
        conversation: its context.
        checkpoint: stands before each model call.
        permissions: decides what it may do unasked.
    """
    capabilities: list[AbstractCapability[Any]] = [
        # What may refuse a call comes before what carries it out; the guard before a question to the user.
        ExplorationGuard(conversation),
        Approvals(permissions),
        *tools.capabilities,
        ContextLifecycle(conversation=conversation, summarise=partial(summarise, checkpoint.recorder)),
        Caching(),
        # At the tail of the view, so after what makes the view; then nothing but the call itself is left.
        GitStatus(cwd),
        checkpoint,
    ]
    prompt = system_prompt(grep=tools.search, list_files=tools.listing, repo_context=repo_instructions(cwd))
    return Agent(
        name="wane",
        instructions=prompt,
        capabilities=capabilities,
        retries={"tools": RETRIES},
        # The git status is in some requests only. What explains such notes, to models that need it explained,
        # would come and go with them ahead of everything else, and each time the cached prefix with it.
        model_settings=ModelSettings(framing_announcement="always"),
    )
