"""Counts the tokens that every request of Wane's agent carries besides the conversation, on a real request.

python benchmarks/agent_prompt.py [--check PAGE]

With --check it prints what a page tells otherwise, by the `chars` count, and fails if there is anything.
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
from wane.agent.config import Settings
from wane.agent.session import AgentSession, SessionConfig
from wane.core import Counter
from wane.core.errors import CounterError, MissingExtraError
from wane.counters import get_counter
from wane.integrations.pydantic_ai import definitions_text


def available() -> tuple[str, Counter]:
    """Return tiktoken if it works here, and else the `chars` count, with a name."""
    try:
        return "tiktoken (o200k_base)", get_counter("tiktoken:o200k_base")
    except (CounterError, MissingExtraError):
        return "chars (a token for every four characters)", get_counter("chars")


def measured(counter: Counter) -> list[tuple[str, int]]:
    info = first_request()
    own, total = counter(system_prompt()), counter(info.instructions or "")
    tools = {tool.name: counter(definitions_text([tool])) for tool in info.function_tools}
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
        session = AgentSession.create(SessionConfig(Path(directory), Settings(model=model)))
        asyncio.run(session.run("Hello."))
    return given[0]


def missing(page: Path) -> list[str]:
    """Return the labels whose tokens a page does not tell. It tells no schema on its own."""
    text = page.read_text(encoding="utf-8")
    rows = measured(get_counter("chars"))
    return [f"{label}: {tokens:,}" for label, tokens in rows if "schema of" not in label and f"{tokens:,}" not in text]


def main(arguments: Sequence[str]) -> int:
    if arguments:
        wrong = missing(Path(arguments[1]))
        print(*(f"{arguments[1]} does not tell {line}" for line in wrong), sep="\n", end="\n" if wrong else "")
        return int(bool(wrong))
    name, counter = available()
    print(f"counted with {name}")
    for label, tokens in measured(counter):
        print(f"{tokens:>6,}  {label}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
