"""Counts the tokens that every request of Wane's agent carries besides the conversation, on a real request.

python benchmarks/agent_prompt.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from wane.agent.assembly import system_prompt
from wane.agent.config import Settings
from wane.agent.session import AgentSession, SessionConfig
from wane.core.errors import CounterError, MissingExtraError
from wane.counters import get_counter
from wane.integrations.pydantic_ai import definitions_text


def measured() -> tuple[str, list[tuple[str, int]]]:
    """Return the name of the counter (tiktoken if it works here), and labels with their tokens."""
    name = "tiktoken (o200k_base)"
    try:
        counter = get_counter("tiktoken:o200k_base")
    except (CounterError, MissingExtraError):
        name, counter = "chars (a token for every four characters)", get_counter("chars")
    info = first_request()
    own, total = counter(system_prompt()), counter(info.instructions or "")
    tools = {tool.name: counter(definitions_text([tool])) for tool in info.function_tools}
    return name, [
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
        session = AgentSession.create(SessionConfig(Path(directory), Settings(model=model)))
        asyncio.run(session.run("Hello."))
    return given[0]


def main() -> None:
    """Print the tokens of each part."""
    counter, rows = measured()
    print(f"counted with {counter}")
    for label, tokens in rows:
        print(f"{tokens:>6,}  {label}")


if __name__ == "__main__":
    main()
