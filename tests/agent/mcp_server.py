"""An MCP server on standard input and output, for tests, which also writes to standard error."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")
calls = 0


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it cannot be done")


@server.tool()
def count() -> int:
    """Count the calls of this process."""
    global calls
    calls += 1
    return calls


if len(sys.argv) > 1:
    server.tool(name=sys.argv[1])(count)

if __name__ == "__main__":
    sys.stderr.write("noise\n")
    server.run()
