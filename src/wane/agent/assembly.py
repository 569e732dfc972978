"""Builds the Pydantic AI agent of a session: its system prompt, and its capabilities in the order that they need."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import Agent, ModelSettings, capture_run_messages
from pydantic_ai.capabilities import AbstractCapability, Caching
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, SystemPromptPart
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import SummarizingCompaction, compact_now
from typing_extensions import override

from wane.agent.approval.capability import Approvals, ExplorationGuard
from wane.agent.faults import BrokenAnswerError
from wane.agent.recorder import watch
from wane.agent.repositories import RepositoryGuard
from wane.agent.rewind import FileHistory
from wane.agent.sandbox.own_git import OwnGit
from wane.agent.tools.git import GitStatus
from wane.agent.tools.toolset import Tools, repo_instructions
from wane.conversation.scopes import OpenScope, new_scope
from wane.core import EpisodeType
from wane.core.errors import WaneError
from wane.formats.pydantic_ai import raw_arguments
from wane.integrations.pydantic_ai import ContextLifecycle
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity
from wane.words import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models import Model, ModelRequestContext

    from wane.agent.approval.permissions import Permissions
    from wane.agent.recorder import Checkpoint, Recorder
    from wane.agent.sandbox.wall import Sandbox
    from wane.conversation import Conversation, Tool

RETRIES: Final = 20
"""Failed calls of one tool in a row after which the turn ends, because the model is stuck. The session goes on."""

SYSTEM_PROMPT: Final = """\
You are a coding agent. You work in the user's project through tools, one session for any number of tasks.

How to work
- Understand before you change: read the code that a change touches; follow the project's conventions and instructions.
- Search before you read: `{grep}` for text, `{list_files}` for names; both respect .gitignore. Then read only \
the lines you need, with `offset` and `limit`. Output is cut when it is long: narrow the search instead of repeating it.
- Make the smallest change that does the whole task. Prefer `edit_file` to `write_file` for a file that exists.
- Verify: run the tests or the program that show it works, and say what you ran. If you could not verify, say so.
- When a tool fails, read its message and change the call. Do not repeat a call that was refused.
- Paths are relative to the project. Ask only when the task cannot be understood; otherwise decide, and say what.
- Never print secrets. Do not commit, push or delete what you were not asked to.

Answer in Markdown: what you did, what you found, what is left. Be brief."""
"""The agent's own instructions, with the names of the search tools left open.

They are short, because every request carries them. `benchmarks/agent_prompt.py` counts their tokens. What the model
reads about episodes is `wane.core.guidance`, which `ContextLifecycle` adds.
"""

MAX_REPO_CONTEXT: Final = 24_000
"""Characters of a project's instruction files that go into the prompt."""


def settings_for(model: Model) -> ModelSettings:
    """Return the settings of a model's calls: its client does not try again, as the session does, and says so."""
    return ModelSettings() if "max_retries" in model.unsupported_settings else ModelSettings(max_retries=0)


def build_agent(
    cwd: Path,
    tools: Tools,
    conversation: Conversation[ModelMessage],
    checkpoint: Checkpoint,
    permissions: Permissions,
    phases: Phases,
    sandbox: Sandbox,
    files: FileHistory,
) -> Agent[None, str]:
    """Return the agent of a session."""
    git = OwnGit(sandbox, os.environ)
    guard = permissions.repository or RepositoryGuard(cwd, os.environ, ask=git.ask)
    capabilities: list[AbstractCapability[Any]] = [
        # Whatever may refuse a call comes before the tools; the guard comes first, so that the user is not asked about
        # a call that it refuses.
        ExplorationGuard(conversation),
        Approvals(permissions, tools.cleared),
        *tools.capabilities,
        files,
        _Lifecycle(phases, conversation=conversation, summarise=partial(summarise, checkpoint)),
        Caching(),
        # Appends to the view, so it runs after the view is made. Only the model call follows the checkpoint.
        GitStatus(git, guard),
        checkpoint,
    ]
    return Agent(
        name="wane",
        instructions=system_prompt(grep=tools.search, list_files=tools.listing, repo_context=repo_instructions(cwd)),
        capabilities=capabilities,
        retries={"tools": RETRIES},
        # Only some requests carry the git status. If the explanation of such notes came and went with it, at the head
        # of the prompt, each change would break the cached prefix.
        model_settings=ModelSettings(framing_announcement="always"),
    )


_CALM: Final = 3
"""Answers in a row without a change after which the agent explores again."""


class Phases:
    """Marks of the agent's program (R18), without a word of the model, for a conversation with `annotate="host"`.

    Each turn is a task, and begins as an exploration. With the answer after a change it is an act, which depends on
    that exploration; and an exploration again after three answers that change nothing.
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

    def note_calls(self, calls: Iterable[ToolCallPart]) -> None:
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
        host.worker = new_scope(TYPES[type_.value], type_, explored)


class _Lifecycle(ContextLifecycle):
    def __init__(self, phases: Phases, **settings: Any) -> None:
        super().__init__(**settings)
        self._phases = phases
        self._answer: ModelResponse | None = None

    @override
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send the view, in the phase in which the latest answer has left the work."""
        latest = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
        if latest is not None and latest is not self._answer:
            self._phases.note_calls(latest.tool_calls)
            self._answer = latest
        return await super().prepare_model_request(ctx, request_context)

    def tools_of(self, conversation: Conversation[ModelMessage]) -> Sequence[Tool]:
        """Return no tools for a model that does not mark its work: it is the baseline for one that does.

        Under a strategy that needs the model to search, it gets them all the same.
        """
        settings = conversation.settings
        return super().tools_of(conversation) if settings.delimits or settings.searches else ()


def system_prompt(*, grep: str = "grep", list_files: str = "list_files", repo_context: str | None = None) -> str:
    """Return the instructions of a session. They must not change during it: the cached prefix begins with them."""
    prompt = SYSTEM_PROMPT.format(grep=grep, list_files=list_files)
    if not repo_context:
        return prompt
    if len(repo_context) > MAX_REPO_CONTEXT:
        cut = f"[cut after {MAX_REPO_CONTEXT:,} characters; read the files for the rest]"
        repo_context = f"{repo_context[:MAX_REPO_CONTEXT]}\n{cut}"
    return f"{prompt}\n\nThe project's instructions:\n{repo_context}"


@dataclass
class _WholeAnswers(AbstractCapability[None]):
    recorder: Recorder

    @override
    async def after_model_request(
        self, ctx: RunContext[None], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Take the answer if it is whole."""
        self.recorder.check_whole(request_context.model.model_name, response)
        return response


class SummaryError(WaneError):
    """The model returned no summary, so the context cannot be compacted."""


async def summarise(checkpoint: Checkpoint, model: Model, messages: list[ModelMessage], instructions: str) -> str:
    """Have a model summarise messages, for the strategy `compact`.

    The harness's summarising capability makes a call of its own over the messages written out as text, with each tool
    result cut at 500 characters. The provider's cache does not help such a call, but its input is much shorter.

    Raises:
        SummaryError: if the model's answer is empty.
        BrokenAnswerError: if there is no answer, but something else.
    """
    escaped = instructions.replace("{", "{{").replace("}", "}}")
    strategy: SummarizingCompaction[None] = SummarizingCompaction(
        # `compact_now` compacts whatever the size is.
        max_messages=1,
        keep_messages=0,
        preserve_first_user_message=False,
        incremental=False,
        summary_prompt=f"{escaped}\n\n<messages>\n{{messages}}\n</messages>",
        model_settings=settings_for(model),
        summarization_capabilities=[_WholeAnswers(checkpoint.recorder)],
    )
    usage = RunUsage()
    watch(model)
    checkpoint.patience.begin_call()
    with capture_run_messages() as exchanged:
        try:
            # As a capability it would summarise again before every request, because its change does not outlast one.
            compacted = await compact_now(strategy, messages, model=model, usage=usage)
        except UnexpectedModelBehavior as error:
            if isinstance(exchanged[-1], ModelResponse):
                raise
            raise BrokenAnswerError(model.model_name, str(error), phase="read") from error
    checkpoint.patience.end_call()
    checkpoint.recorder.record_spending(usage, model.model_id)
    parts = compacted[0].parts if compacted else []
    texts = [part.content for part in parts if isinstance(part, SystemPromptPart)]
    # The harness begins its message with this heading.
    summary = texts[-1].removeprefix("Summary of previous conversation:\n\n").strip() if texts else ""
    if not summary:
        raise SummaryError("the model answered with an empty summary, so the context cannot be compacted; try again")
    return summary
