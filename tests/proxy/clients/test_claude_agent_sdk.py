"""The Claude Agent SDK with its own Claude Code, through `wane run`: a tool in the process, and two turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy.clients.agents import Claude
from tests.proxy.clients.world import WANE, Place
from wane.proxy.sessions.sender import sender_of
from wane.testing import Call, Kind, Reply, Request, ScriptedServer

pytest.importorskip("claude_agent_sdk", reason="the Claude Agent SDK is not installed")
pytestmark = pytest.mark.full

AGENT = """
import asyncio
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, create_sdk_mcp_server, tool

@tool("read", "Read a file.", {"path": str})
async def read(given):
    text = "\\n".join(f"{given['path']}, line {number}, which nobody needs for long." for number in range(450))
    return {"content": [{"type": "text", "text": text}]}

async def main():
    options = ClaudeAgentOptions(
        model="claude-sonnet-5",
        setting_sources=[],
        mcp_servers={"m": create_sdk_mcp_server("m", tools=[read])},
        allowed_tools=["mcp__m__read"],
    )
    async with ClaudeSDKClient(options=options) as client:
        for prompt in ("First, look.", "Now look again."):
            await client.query(prompt)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    print("RESULT:", message.result)

asyncio.run(main())
"""
TURNS, LOOKS = 2, 3
BUDGET = Claude.budget


def script() -> Iterator[Reply]:
    for n in range(TURNS):
        for step in range(LOOKS):
            name, files = f"look-{n}-{step}", (f"a{n}{step}", f"b{n}{step}")
            start = Call("delimiter", {"action": "start", "name": name, "type": "expl"}, f"start-{n}{step}")
            yield Reply(calls=(start, *(Call("mcp__m__read", {"path": path}, path) for path in files)))
            yield Reply(calls=(Call("delimiter", {"action": "end", "name": name, "description": "Lines."}),))
        yield Reply(f"Done {n}.")


def test_an_agent_works_within_the_budget(tmp_path: Path) -> None:
    place, replies = Place.make(tmp_path / "agent"), script()

    def answer(request: Request) -> Reply:
        return next(replies) if "delimiter" in request.tools else Reply("A title.")

    (place.work / "agent.py").write_text(AGENT)
    with ScriptedServer(answer) as server:
        options = ["--api", "anthropic", "--budget", str(BUDGET), "--"]
        done = place.run([*WANE, "run", *options, sys.executable, "agent.py"], Claude().environ(server.url))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("RESULT")] == [
        f"RESULT: Done {n}." for n in range(TURNS)
    ]
    assert next(replies, None) is None
    assert not server.refusals
    asked = [request for request in server.requests if "delimiter" in request.tools]
    assert max(request.tokens for request in asked) <= BUDGET
    assert "a00" in asked[1].results
    assert "a00" not in asked[-1].results
    assert asked[1].results["start-00"].startswith("Started")
    texts = "".join(asked[-1].texts(Kind.USER))
    assert all(prompt in texts for prompt in ("First, look.", "Now look again."))
    # So that usage is told by the last round, and it does not compact by the sum.
    senders = [sender_of([(b"user-agent", request.headers["user-agent"].encode())], {}) for request in asked]
    assert not any(sender.sums_usage("auto") for sender in senders)
