"""Servers of the Model Context Protocol, whose tools the agent can use. Needs the `mcp` extra."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

from wane.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

USER_FILE: Final = "mcp.json"
"""The user's own servers, in the directory of their settings."""

PROJECT_FILE: Final = ".mcp.json"
"""A project's servers. It is read only if the user names it: a cloned repository must not start programs."""


@dataclass(slots=True)
class Server:
    """A server.

    Attributes:
        name: its name in the file; its tools begin with it.
        toolset: its tools.
        problem: why it does not work; "" if it does, or has not been started yet.
        tools: the names of its tools, once it has been started.
    """

    name: str
    toolset: AbstractToolset[Any]
    problem: str = ""
    tools: tuple[str, ...] = ()


class Servers:
    """The servers of a session, which run from its first turn to its end.

    Args:
        files: where they are configured, in the form of Claude Code and others: `{"mcpServers": {...}}`.

    Raises:
        ConfigError: if a file cannot be used, or two servers have one name.
        MissingExtraError: if there are files, but the extra is not installed.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.servers = [server for file in files for server in _read(file)]
        names = [server.name for server in self.servers]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two MCP servers have the name {repeated[0]!r}; rename one of them")
        self._serving: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def toolsets(self) -> list[AbstractToolset[Any]]:
        """The tools of the servers that work."""
        return [server.toolset for server in self.servers if server.tools]

    async def start(self, warn: Callable[[str], object]) -> None:
        """Start the servers, unless they have been started; one that does not start is told, and left out."""
        if self._serving is not None or not self.servers:
            return
        self._stop.clear()
        ready = asyncio.Event()
        # A connection must be closed by the task that has opened it, and each turn is a task of its own.
        self._serving = asyncio.create_task(self._serve(ready, warn))
        await ready.wait()

    def stop(self) -> None:
        """Let the servers end."""
        self._stop.set()

    async def _serve(self, ready: asyncio.Event, warn: Callable[[str], object]) -> None:
        try:
            async with AsyncExitStack() as stack:
                for server in self.servers:
                    await _start(server, stack, warn)
                ready.set()
                await self._stop.wait()
        finally:
            ready.set()


async def _start(server: Server, stack: AsyncExitStack, warn: Callable[[str], object]) -> None:
    try:
        toolset = await stack.enter_async_context(server.toolset)
        tools = await toolset.wrapped.list_tools()  # type: ignore[attr-defined]
        server.tools = tuple(f"{server.name}_{tool.name}" for tool in tools)
        server.problem = "" if tools else "it has no tools"
    except Exception as error:
        # A server is anybody's program, and may fail in any way.
        server.problem = " ".join(str(error).split()) or type(error).__name__
        warn(f"the MCP server {server.name} does not work: {server.problem}")


def _read(file: Path) -> list[Server]:
    try:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import load_mcp_toolsets
    except ImportError as error:
        raise MissingExtraError(f"the MCP servers in {file}", "mcp") from error
    try:
        toolsets = load_mcp_toolsets(file)
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"cannot use the MCP servers in {file}: {words}") from error
    found = []
    for toolset in toolsets:
        inner: Any = toolset.wrapped  # type: ignore[attr-defined]
        # A failed call is a result that the model reads, as with the agent's own tools.
        inner.tool_error_behavior = "failed"
        if isinstance(inner.client.transport, StdioTransport):
            # What it writes to standard error would stand in the middle of the user's screen.
            inner.client.transport.log_file = _log_of(inner.id)
        found.append(Server(inner.id, toolset))
    return found


def _log_of(name: str) -> Path:
    try:
        folder = platformdirs.user_log_path("wane", appauthor=False)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return Path(os.devnull)
    return folder / f"mcp-{re.sub('[^A-Za-z0-9_-]', '_', name)}.log"
