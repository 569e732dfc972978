"""Counts the tokens of a request of Wane's agent besides the conversation, at four characters a token.

python benchmarks/agent_prompt.py [--check PAGE]

With --check it prints the counts that a page lacks, and fails if there are any.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from wane.agent.assembly import system_prompt
from wane.agent.config import AgentSettings
from wane.agent.session import AgentSession, SessionConfig
from wane.core import chars
from wane.integrations.pydantic_ai import definitions_text


def measure_prompt() -> list[tuple[str, int]]:
    info = first_request()
    own, total = chars(system_prompt()), chars(info.instructions or "")
    tools = {tool.name: chars(definitions_text([tool])) for tool in info.function_tools}
    return [
        ("the agent's own instructions", own),
        ("the protocol's guidance", total - own),
        ("system prompt, without the tools' schemas", total),
        *((f"schema of {tool}", tokens) for tool, tokens in tools.items()),
        ("system prompt, with the tools' schemas", total + sum(tools.values())),
    ]


def first_request() -> AgentInfo:
    """Return what a model receives with a session's first request."""
    given: list[AgentInfo] = []

    async def stream(_messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        given.append(info)
        yield "ok"

    def respond(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("ok")])

    with tempfile.TemporaryDirectory() as directory:
        model = FunctionModel(respond, stream_function=stream)
        session = AgentSession.create(SessionConfig(Path(directory), AgentSettings(model=model)))
        asyncio.run(session.run("Hello."))
    return given[0]


def missing(page: Path) -> list[str]:
    """Return the counts that a page lacks. It has no schema on its own."""
    text = page.read_text(encoding="utf-8")
    rows = [(label, f"{tokens:,}") for label, tokens in measure_prompt() if "schema of" not in label]
    return [f"{label}: {tokens}" for label, tokens in rows if tokens not in text]


def main(arguments: Sequence[str]) -> int:
    if arguments:
        lines = missing(Path(arguments[1]))
        for line in lines:
            print(f"{arguments[1]} lacks {line}")
        return int(bool(lines))
    for label, tokens in measure_prompt():
        print(f"{tokens:>6,}  {label}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
