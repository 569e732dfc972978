"""Git status for the model, at the tail of a request and never in the history.

A status in the history would be out of date at once, and one in the system prompt would break the cached
prefix whenever a file changes. So it goes to the end of a request, as a part that lives for that request
only, and only when it differs from what the model was last given. A session that is resumed gives it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, ModelResponse
from typing_extensions import override

from wane.integrations.outgoing import with_note

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.models import ModelRequestContext

TIMEOUT: Final = 3.0
"""Seconds after which a status is given up, for good: a repository this slow must not slow every request."""

MAX_FILES: Final = 20
"""Changed files that are shown."""

COMMITS: Final = 3
"""Latest commits that are shown."""

_MAX_LINE: Final = 160
# Without optional locks: looking must not get in the way of the user's own git commands.
_GIT: Final = ("git", "--no-optional-locks", "-c", "core.quotePath=false", "-c", "color.ui=false")


async def git_status(directory: Path) -> str | None:
    """Return branch, short status and latest commits as text; None where there is no git or no repository.

    Raises:
        TimeoutError: after `TIMEOUT` seconds.
    """
    status = await _git(directory, "status", "--short", "--branch", "--untracked-files=normal")
    if status is None:
        return None
    head, *files = status.splitlines() or [""]
    commits = await _git(directory, "log", f"-{COMMITS}", "--format=%h %s", "--no-show-signature") or ""
    lines = [f"branch: {head.removeprefix('## ')}", *_changes(files), *_commits(commits.splitlines())]
    return "\n".join(line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…" for line in lines)


def _changes(files: Sequence[str]) -> list[str]:
    if not files:
        return ["no uncommitted changes"]
    more = [f"… and {len(files) - MAX_FILES} more"] if len(files) > MAX_FILES else []
    return ["uncommitted changes:", *files[:MAX_FILES], *more]


def _commits(commits: Sequence[str]) -> list[str]:
    return ["latest commits:", *commits] if commits else ["no commits yet"]


async def _git(directory: Path, *arguments: str) -> str | None:
    try:
        process = await asyncio.create_subprocess_exec(
            *_GIT,
            *arguments,
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None  # no git
    try:
        output, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return output.decode("utf-8", "replace") if process.returncode == 0 else None


@dataclass
class GitStatus(AbstractCapability[Any]):
    """Gives the model the git status of a directory whenever it has changed since the model last saw it.

    Attributes:
        directory: where the agent works.
    """

    directory: Path
    _given: str | None = field(default=None, init=False, repr=False)
    _sent: str | None = field(default=None, init=False, repr=False)
    _off: bool = field(default=False, init=False, repr=False)

    @override
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Append the status to this request alone; nothing of it is kept in the run's history."""
        if self._off or not request_context.messages:
            return request_context
        if not isinstance(request_context.messages[-1], ModelRequest):
            return request_context  # a suspended response is being continued: its request must not change
        try:
            status = await git_status(self.directory)
        except TimeoutError:
            self._off = True
            return request_context
        if status is None or status == self._given:
            return request_context
        self._sent = status
        note = f"<git-status>\n{status}\n</git-status>"
        return replace(request_context, messages=with_note(request_context.messages, note))

    @override
    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Only now has the model seen it: after a failed request it is given again."""
        self._given = self._sent or self._given
        return response
