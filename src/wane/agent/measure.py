"""What every request of the agent carries besides the conversation, measured on a real request."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from wane.agent.config import Settings
from wane.agent.prompt import system_prompt
from wane.agent.session import AgentSession, SessionConfig
from wane.core import Counter
from wane.core.errors import CounterError, MissingExtraError
from wane.counters import get_counter
from wane.integrations.pydantic_ai import definitions_text


def measured() -> tuple[str, list[tuple[str, int]]]:
    """Return the name of the counter, `tiktoken` if it works here, and what there is with its tokens."""
    name, counter = _counter()
    info = _request()
    prompt = system_prompt()
    instructions = info.instructions or ""
    tools = {tool.name: counter(definitions_text([tool])) for tool in info.function_tools}
    total = counter(instructions)
    return name, [
        ("the agent's own instructions", counter(prompt)),
        ("the protocol's guidance", total - counter(prompt)),
        ("system prompt, without the tools' schemas", total),
        *((f"schema of {tool}", tokens) for tool, tokens in tools.items()),
        ("system prompt, with the tools' schemas", total + sum(tools.values())),
    ]


def _counter() -> tuple[str, Counter]:
    try:
        return "tiktoken (o200k_base)", get_counter("tiktoken:o200k_base")
    except (CounterError, MissingExtraError):
        return "chars (a token for every four characters)", get_counter("chars")


def _request() -> AgentInfo:
    """What a model is given in a session's first request."""
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
    """Print what every request of the agent carries, in tokens."""
    counter, rows = measured()
    print(f"counted with {counter}")
    for label, tokens in rows:
        print(f"{tokens:>6,}  {label}")


if __name__ == "__main__":
    main()
