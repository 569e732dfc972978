"""The agent's tools, from the harness: files, search, shell, and limits on their results.

Wane adds three things. A failed tool gives a result that the model reads and never ends a run. Commands run in a
sandbox unless they were allowed, and end with the agent. A result takes at most a share of the budget.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pydantic_ai.capabilities import AbstractCapability, Toolset
from pydantic_ai.exceptions import AgentRunError, SkipToolExecution, ToolFailed
from pydantic_ai_harness.filesystem import FileSystemToolset
from pydantic_ai_harness.repair_tool_arguments import RepairToolArguments
from pydantic_ai_harness.shell import LLM_API_KEY_ENV_PATTERNS
from pydantic_ai_harness.tool_output_limits import Band, ToolOutputLimits, Truncate
from typing_extensions import override

from wane.agent.project import project_of
from wane.agent.repositories import quiet_environment
from wane.agent.sandbox.wall import Sandbox
from wane.agent.secrets import holds_secret, read_of_project
from wane.agent.tools import FILE_TOOLS, PYTHON_TOOLS, RIPGREP_TOOLS, SHELL_TOOL, ripgrep
from wane.agent.tools.shell_tool import Clearances, SandboxedShell
from wane.core import RECALL
from wane.replacing import replace_file

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition

MAX_OUTPUT: Final = 32_000
"""Characters of a result at most, whatever the budget is."""

MIN_OUTPUT: Final = 4_000
"""Characters to which a result is never limited further, however small the budget is."""

SHELL_TIMEOUT: Final = 120.0
"""Seconds after which a command continues in the background, and the model gets its handles."""

HIDDEN_VARIABLES: Final = (*LLM_API_KEY_ENV_PATTERNS, "*_API_KEY", "AWS_BEARER_TOKEN_*", "HF_TOKEN")
"""Environment variables that commands do not see: providers' keys, which only the agent needs."""

_INSTRUCTIONS: Final = 256 * 1024
"""Bytes of a file of instructions that are read; of all together a prompt has fewer."""

NOT_UTF8: Final = "[\ufffd stands for bytes that are not valid UTF-8; edit_file cannot edit a file with such bytes]\n"
"""Note at the end of a read of a file that is not UTF-8."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The agent's tools for one project, with the names of those that search contents and list files."""

    capabilities: tuple[AbstractCapability[Any], ...]
    search: str
    listing: str
    cleared: Clearances
    """Where calls are noted whose commands were allowed."""
    warning: str | None
    """What the user should know, such as that ripgrep is missing; None for nothing."""


def coding_tools(
    directory: Path,
    budget: int,
    *,
    with_ripgrep: bool = True,
    sandbox: Sandbox | None = None,
    is_inert: Callable[[], bool] = bool,
) -> Tools:
    """Return the tools for working in a directory, which the file tools cannot leave; `budget` limits their output.

    Commands run in the sandbox unless they are cleared; without one, all run as they are. `is_inert` says whether Git
    must not be started in it.
    """
    cleared = Clearances()
    has_ripgrep = with_ripgrep and ripgrep.enable(os.environ, project=directory)
    search_tools = RIPGREP_TOOLS if has_ripgrep else PYTHON_TOOLS
    limit = output_limit(budget)
    files = WholeFiles(
        id="file_system",
        root_dir=directory,
        allowed_patterns=(),
        denied_patterns=(),
        protected_patterns=(),  # `WholeFiles` knows them
        max_read_lines=1_000,
        # Below the limit, so that a read ends with a whole line and says where to continue.
        max_read_chars=limit * 15 // 16,
        max_list_results=1_000,
        max_search_results=200,
        max_find_results=500,
        content_hashes=False,
        tools=(*FILE_TOOLS, *search_tools),
    )
    return Tools(
        capabilities=(
            _BoundOutput(
                id="wane_output",
                bands=[Band(over=limit, action=Truncate(max_chars=limit))],
                # Its pages are bounded already. Each begins where the last one ended, so a cut would lose text.
                per_tool={RECALL: []},
            ),
            _ReadableResults(directory),
            _RepairedArguments(),
            # Pydantic AI asks a capability for its tools in each run, and these take a while to describe.
            Toolset(files),
            SandboxedShell(
                sandbox=sandbox,
                cleared=cleared,
                is_inert=is_inert,
                cwd=directory,
                # Approvals are the gate (`wane.agent.approval`); a list of names would not be safe.
                denied_commands=[],
                default_timeout=SHELL_TIMEOUT,
                env=quiet_environment(ripgrep.undone(os.environ)),
                denied_env_patterns=HIDDEN_VARIABLES,
                tools=[SHELL_TOOL],
            ),
        ),
        search=search_tools[1],
        listing=search_tools[0],
        cleared=cleared,
        warning=None if has_ripgrep else ripgrep.warn_missing(),
    )


def output_limit(budget: int) -> int:
    """Return the characters that a result may have: about a quarter of a budget in tokens, within the bounds above."""
    return max(MIN_OUTPUT, min(MAX_OUTPUT, budget))


def repo_instructions(directory: Path) -> str | None:
    """Return the project's instructions (AGENTS.md, CLAUDE.md), from the repository's root down to a directory.

    A session reads them once, so that the system prompt does not change when the agent edits them. A link that leads
    out of the repository or to a secret is left out: what is read goes to the model unasked.
    """
    root = project_of(directory)
    texts: dict[str, str] = {}
    for folder in reversed([directory, *directory.parents]):
        if not folder.is_relative_to(root):
            continue
        for name in ("CLAUDE.md", "AGENTS.md"):
            try:
                content = read_of_project(folder / name, root, _INSTRUCTIONS)
            except OSError:
                continue  # an unreadable file must not prevent a start
            if content is not None:
                text = content.decode("utf-8", "replace").rstrip("\r\n")
                texts.setdefault(text, os.path.relpath(folder / name, directory))
    # What two names or directories share stands once, under the first.
    blocks = [f'<context-file path="{path}">\n{text}\n</context-file>' for text, path in texts.items()]
    return "\n\n".join(blocks) or None


class _BoundOutput(ToolOutputLimits[Any]):
    """Cuts long results and keeps no copy, so it needs no tool to read one."""

    @override
    def get_toolset(self) -> None:
        return None


class _RepairedArguments(RepairToolArguments[Any]):
    """Passes on arguments that cannot be repaired, such as a number of thousands of digits: the tool refuses them."""

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
    """Turns every outcome of a tool into a text that the model can use."""

    directory: Path

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        # The harness starts the first `rg` on PATH, and the project may have made one since the start.
        if call.tool_name in RIPGREP_TOOLS and ripgrep.may_be_of_project(os.environ, self.directory):
            raise SkipToolExecution(
                "The first rg on PATH belongs to this project, so it is not started; search by a command."
            )
        return args

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
        if call.tool_name == "read_file" and "\ufffd" in result:
            result += NOT_UTF8
        # Text from arguments may contain lone surrogates, which no request can carry.
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
            raise error  # the model failed too often, or the run has ended
        # A full disk, a missing permission, a bug in a tool: the model reads it and continues.
        raise ToolFailed(f"{call.tool_name} failed: {type(error).__name__}: {error}") from error


WHOLE: Final = 8 * 1024**2
"""Bytes up to which a file is read whole; a larger one is read by pieces."""

_PIECE: Final = 64 * 1024
_BLOCK: Final = 1024**2
"""Bytes in which lines are counted: a loop over each of them would take half a minute for a gigabyte of short ones."""


def read_page(path: Path, offset: int, limit: int, room: int) -> str:
    """Return some lines of a large file, with their numbers, from one pass over it that keeps nothing else.

    Args:
        path: the file.
        offset: the number of lines before them.
        limit: how many lines are shown at most.
        room: characters that they may take.
    """
    lines: list[str] = []
    too_long = 0
    with path.open("rb") as stream:
        if b"\0" in stream.read(8_192):
            return f"binary file of {path.stat().st_size:,} bytes; inspect it with a command]\n"
        stream.seek(0)
        total = _skip_lines(stream, offset)
        while total == offset + len(lines) < offset + limit and not too_long:
            head, length = _read_line(stream, 4 * room + 1)
            if not length:
                break
            total += 1
            text = f"{total:>6}\t{head.decode('utf-8', 'replace')}"
            if len(text) <= room:
                lines.append(text)
                room -= len(text)
            elif not lines:
                too_long = length
        total += _count_lines(stream)
    header = f"{total:,} lines]\n"
    if offset >= total:
        return f"{header}... (Offset {offset} is behind the end.)\n"
    if too_long:
        return (
            f"{header}... (Line {offset + 1} has {too_long:,} bytes and does not fit. offset={offset + 1} skips it.)\n"
        )
    body = "".join(lines)
    following = offset + len(lines)
    if following == total:
        return f"{header}{body}"
    return f"{header}{body}... ({total - following:,} more lines. Use offset={following} to continue reading.)\n"


def _skip_lines(stream: BinaryIO, count: int) -> int:
    """Go on behind some lines, and return how many there were: fewer if the file ends before."""
    lines = 0
    ends_within = False
    while lines < count and (block := stream.read(_BLOCK)):
        found = block.count(b"\n")
        if lines + found < count:
            lines += found
            ends_within = not block.endswith(b"\n")
            continue
        position = -1
        for _ in range(count - lines):
            position = block.index(b"\n", position + 1)
        stream.seek(position + 1 - len(block), os.SEEK_CUR)
        return count
    return lines + ends_within


def _count_lines(stream: BinaryIO) -> int:
    """Return how many lines follow."""
    lines = 0
    ends_within = False
    while block := stream.read(_BLOCK):
        lines += block.count(b"\n")
        ends_within = not block.endswith(b"\n")
    return lines + ends_within


def _read_line(stream: BinaryIO, most: int) -> tuple[bytes, int]:
    """Return the beginning of the next line, and how many bytes the line has."""
    head, length = b"", 0
    while piece := stream.readline(_PIECE):
        length += len(piece)
        if len(head) < most:
            head += piece
        if piece.endswith(b"\n"):
            break
    return head, length


_PROTECTED: Final = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_ed25519*",
    "id_ecdsa*",
    "secrets*",
)
"""Names of files and directories that the file tools do not write, wherever they are, however their letters are
written; nor do they write `.git` and what holds secrets by its name."""


def _is_of_git(path: str) -> bool:
    # Git takes no other spelling of its directory either: on some systems it is the same.
    return any(name.lower().rstrip(". ") == ".git" for name in path.replace("\\", "/").split("/"))


def protected_pattern(path: str) -> str | None:
    """Return what protects a path, relative to the project, from being written; None if nothing does."""
    if _is_of_git(path):
        return ".git"
    for name in path.replace("\\", "/").split("/"):
        for pattern in _PROTECTED:
            if fnmatchcase(name.lower(), pattern):
                return pattern
        if holds_secret(name):
            return name
    return None


class WholeFiles(FileSystemToolset[Any]):
    """The harness's file tools, which empty a file before they write it. Here, a new file takes its place.

    Nor do they write repositories' own files, keys and secrets, of which the harness knows those at the root. Secrets
    and what is in `.git`, such as settings with passwords, they do not read, list or search.
    """

    @override
    async def _read_file(
        self, ctx: RunContext[Any] | None, path: str, *, offset: int = 0, limit: int | None = None
    ) -> str:
        resolved = self._safe_resolve(path)
        if ctx is None or not resolved.is_file() or resolved.stat().st_size <= WHOLE:
            return await super()._read_file(ctx, path, offset=offset, limit=limit)
        most = self._max_read_lines if limit is None else limit
        page = await asyncio.to_thread(read_page, resolved, offset, most, self._max_read_chars or MAX_OUTPUT)
        return f"[{path} | {page}"

    @override
    def _check_access(self, path: str, *, write: bool = False, check_allowed: bool = True) -> None:
        if write:
            if pattern := protected_pattern(path):
                raise PermissionError(f"Path {path!r} is protected (matches {pattern!r}).")
        elif self._is_kept(path) and Path(self._real_root, path).is_file():
            raise PermissionError(f"{path} may hold secrets. If you need it, run `cat {path}`: the user is asked then.")
        super()._check_access(path, write=write, check_allowed=check_allowed)

    @override
    def _is_accessible(self, path: str) -> bool:
        return super()._is_accessible(path) and not self._is_kept(path)

    def _is_kept(self, path: str) -> bool:
        """Whether a file is kept from the model: a secret, or what is in `.git` or a repository without one."""
        folder = Path(self._real_root, path).parent
        is_settings = path.endswith(("config", "config.worktree", "credentials"))
        is_bare = is_settings and (folder / "HEAD").exists() and (folder / "objects").exists()
        return is_bare or holds_secret(path) or _is_of_git(path)

    @override
    def open_write(self, resolved: Path, *, read_back: bool, create: bool) -> tuple[BinaryIO, bool]:
        """Open a file as the harness does, and return a copy in memory that replaces the file once it is written."""
        file, created = super().open_write(resolved, read_back=read_back, create=create)
        with file:
            return _Copy(file.read() if read_back else b"", resolved, created), created


class _Copy(BytesIO):
    """The content of a file, which replaces the file if the `with` block ends without an error."""

    def __init__(self, content: bytes, path: Path, created: bool) -> None:
        super().__init__(content)
        self._path = path
        self._created = created

    @override
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        written = False
        try:
            if kind is None:
                replace_file(self._path, self.getvalue())
                written = True
        finally:
            # The harness has made the file, so on a full disk an empty one would stay.
            if self._created and not written:
                self._path.unlink(missing_ok=True)
        super().__exit__(kind, error, at)
