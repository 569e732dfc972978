"""Shows the model the git status, at the end of a request and never in the history.

In the history a status would soon be out of date; in the system prompt it would break the cached prefix whenever a file
changes. So it is appended to one request only, and only if it differs from the last one that the model saw. A resumed
session shows it again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, ModelResponse
from typing_extensions import override

from wane.integrations.pydantic_ai_messages import with_note

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.models import ModelRequestContext

    from wane.agent.repositories import RepositoryGuard
    from wane.agent.sandbox.own_git import OwnGit

MAX_FILES: Final = 20
"""Number of changed files that are shown."""

COMMITS: Final = 3
"""Number of latest commits that are shown."""

_MAX_LINE: Final = 160


def git_status(git: OwnGit) -> str | None:
    """Return branch, short status and latest commits as text; None without git or a repository.

    Raises:
        TimeoutError: if Git takes longer than `own_git.TIMEOUT`.
    """
    status, commits = git.ask_all(
        ("status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=all"),
        ("log", f"-{COMMITS}", "--format=%h %s", "--no-show-signature"),
    )
    if status is None:
        return None
    head, *files = status.splitlines() or [""]
    lines = [f"branch: {head.removeprefix('## ')}"]
    lines += ["uncommitted changes:", *files[:MAX_FILES]] if files else ["no uncommitted changes"]
    if len(files) > MAX_FILES:
        lines.append(f"… and {len(files) - MAX_FILES} more")
    lines += ["latest commits:", *commits.splitlines()] if commits else ["no commits yet"]
    return "\n".join(line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…" for line in lines)


@dataclass
class GitStatus(AbstractCapability[Any]):
    """Shows the model the git status whenever it has changed since the model last saw it.

    It shows none if the repository's settings may start a program (`guard`), such as a filter of contents.
    """

    git: OwnGit
    guard: RepositoryGuard
    _seen: str | None = field(default=None, init=False, repr=False)
    _sent: str | None = field(default=None, init=False, repr=False)
    _off: bool = field(default=False, init=False, repr=False)

    @override
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Append the status to this request, not to the history."""
        if self._off or not request_context.messages:
            return request_context
        if not isinstance(request_context.messages[-1], ModelRequest):
            return request_context  # it continues a suspended response, so it must not change
        if not await asyncio.to_thread(self.guard.opens, self.guard.directory, False):
            return request_context
        try:
            status = await asyncio.to_thread(git_status, self.git)
        except TimeoutError:
            self._off = True
            return request_context
        if status is None or status == self._seen:
            return request_context
        self._sent = status
        note = f"<git-status>\n{status}\n</git-status>"
        return replace(request_context, messages=with_note(request_context.messages, note))

    @override
    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Note that the model has seen the status. After a failed request, the next one shows it again."""
        self._seen = self._sent or self._seen
        return response
