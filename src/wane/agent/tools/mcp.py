"""Runs servers of the Model Context Protocol, whose tools the agent can use. Needs the `mcp` extra."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

from wane.agent.tools import AGENT_TOOLS
from wane.core.errors import ConfigError, MissingExtraError
from wane.core.pass_report import brief

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

USER_FILE: Final = "mcp.json"
"""Name of the file with the user's servers, in the directory of the user's settings."""

PROJECT_FILE: Final = ".mcp.json"
"""Name of a project's file. It is read only if the user names it: a cloned repository must not start programs."""

START_TIMEOUT: Final = 30.0
"""Seconds that a server may take to start. Some are downloaded first; Pydantic AI would wait for 5."""

_ENV_FILE: Final = "FASTMCP_ENV_FILE"
_TAIL: Final = 4_000  # bytes of a log that are read for its last line


@dataclass(slots=True)
class Server:
    """An MCP server; the names of its tools begin with its name."""

    name: str
    toolset: AbstractToolset[Any]
    log: Path | None = None
    """Where its standard error goes; None if it runs elsewhere."""
    problem: str = ""
    """Why it does not work; empty if it works or has not been started."""
    tools: tuple[str, ...] = ()
    """The names of its tools; empty until it has been started."""


class Servers:
    """The MCP servers of a session, which run from its first turn to its end.

    Args:
        files: their configuration files, in the format of Claude Code and others: `{"mcpServers": {...}}`.

    Raises:
        ConfigError: if a file cannot be used, or two servers have the same name.
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
        """The toolsets of the servers that work."""
        return [server.toolset for server in self.servers if server.tools]

    async def start(self, warn: Callable[[str], object]) -> None:
        """Start the servers, unless they are running. One that fails to start is left out, and `warn` called."""
        if self._serving is not None or not self.servers:
            return
        self._stop.clear()
        ready = asyncio.Event()
        # The task that opens a connection must also close it, and each turn is another task.
        self._serving = asyncio.create_task(self._serve(ready, warn))
        await ready.wait()

    def stop(self) -> None:
        """Stop the servers."""
        self._stop.set()

    async def _serve(self, ready: asyncio.Event, warn: Callable[[str], object]) -> None:
        try:
            async with AsyncExitStack() as stack:
                taken = set(AGENT_TOOLS)
                for server in self.servers:
                    await _start(server, stack, warn, taken)
                    taken.update(server.tools)
                ready.set()
                await self._stop.wait()
        finally:
            ready.set()


async def _start(server: Server, stack: AsyncExitStack, warn: Callable[[str], object], taken: Collection[str]) -> None:
    """Start a server, whose tools must have names that are not taken."""
    logged = _size(server.log)
    try:
        toolset = await stack.enter_async_context(server.toolset)
        tools = await toolset.wrapped.list_tools()  # type: ignore[attr-defined]
        names = tuple(f"{server.name}_{tool.name}" for tool in tools)
        if clash := next((name for name in names if name in taken), ""):
            server.tools = ()
            server.problem = f"its tool {clash} has the name of another tool, so it is left out; rename the server"
            warn(f"the MCP server {server.name} is not used: {server.problem}")
            return
        server.tools, server.problem = names, "" if tools else "it has no tools"
    except Exception as error:
        # A server is somebody else's program and may fail in any way.
        reason = " ".join(str(error).split()) or type(error).__name__
        server.problem = f"{reason.rstrip('.')}{_last_words(server.log, logged)}"
        warn(f"the MCP server {server.name} does not work: {server.problem}")


def _size(log: Path | None) -> int:
    return log.stat().st_size if log is not None and log.is_file() else 0


def _last_words(log: Path | None, start: int) -> str:
    """Return the last line that a server wrote to its log from a position on, and where the log is."""
    if log is None or _size(log) <= start:
        return ""
    with log.open("rb") as stream:
        stream.seek(max(start, _size(log) - _TAIL))
        lines = stream.read().decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f'. It wrote "{brief(last)}"; its log is {log}'


def _read(file: Path) -> list[Server]:
    try:  # before anybody installs something for a file that cannot be used
        json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not JSON: {error}"
        raise ConfigError(f"cannot use the MCP servers in {file}: {reason}") from error
    # When it is loaded, fastmcp takes settings from the `.env` of the directory, which may hold secrets.
    users = os.environ.get(_ENV_FILE)
    os.environ[_ENV_FILE] = users or os.devnull
    try:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset, load_mcp_toolsets
    except ImportError as error:
        raise MissingExtraError(f"the list of MCP servers {file}", "mcp") from error
    finally:
        if users is None:
            del os.environ[_ENV_FILE]
    try:
        toolsets = load_mcp_toolsets(file)
    except (OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"cannot use the MCP servers in {file}: {words}") from error
    servers = []
    for toolset in toolsets:
        name, transport = toolset.wrapped.id, toolset.wrapped.client.transport  # type: ignore[attr-defined]
        if isinstance(transport, StdioTransport):
            # Its standard error would appear in the middle of the user's screen.
            log = transport.log_file = _log_file(name)
        else:
            log = None
        # The model reads the error of a failed call as its result, as with the agent's own tools.
        patient = MCPToolset(transport, id=name, init_timeout=START_TIMEOUT, tool_error_behavior="failed")
        servers.append(Server(name, patient.prefixed(name), log))
    return servers


def _log_file(name: str) -> Path:
    try:
        folder = platformdirs.user_log_path("wane", appauthor=False)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return Path(os.devnull)
    return folder / f"mcp-{re.sub('[^A-Za-z0-9_-]', '_', name)}.log"
