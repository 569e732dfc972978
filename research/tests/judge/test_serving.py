"""A small model whose server enforces its window: refused without Wane, never behind its proxy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.marks import first_quick
from tests.proxy.clients.world import proxy
from wane.testing import ScriptedServer
from wane_research.judge.model import Model, is_installed, weights
from wane_research.judge.serving import SmallModel

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not is_installed(), reason="needs the extra judge of wane-research: 270 MB"),
]

WINDOW, BUDGET, CALLS = 2_048, 1_400, 4
TASK = "Read the pages and add up the values."


def page(name: str) -> str:
    """Read a page: some 600 tokens."""
    return "\n".join(f"{name}, line {line}: the measured value is {line * 7 % 11}." for line in range(1, 34))


def own_loop(url: str) -> None:
    import openai

    names = {"type": "string", "enum": ["page-1", "page-2", "page-3"]}
    function = {"name": "page", "parameters": {"type": "object", "properties": {"name": names}}}
    tools: Any = [{"type": "function", "function": function}]
    messages: Any = [{"role": "user", "content": TASK}]
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        while True:
            reply = client.chat.completions.create(model="small", messages=messages, tools=tools)
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                assert call.type == "function"
                read = page(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": read})


def pydantic_ai(url: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="none")))

    @agent.tool_plain(name="page")
    def read(name: Literal["page-1", "page-2", "page-3"]) -> str:
        return page(name)

    agent.run_sync(TASK)


def langchain(url: str) -> None:
    agents = pytest.importorskip("langchain.agents", reason="needs the extra langchain")
    models = pytest.importorskip("langchain_openai", reason="needs langchain-openai")

    def read(name: Literal["page-1", "page-2", "page-3"]) -> str:
        """Read a page."""
        return page(name)

    model = models.ChatOpenAI(model="small", base_url=url, api_key="none", max_retries=0, use_responses_api=False)
    agents.create_agent(model, [read]).invoke({"messages": [{"role": "user", "content": TASK}]})


CLIENTS = (own_loop, pydantic_ai, langchain)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = Model(weights(), WINDOW + 256)
    yield model
    model.close()


@pytest.mark.parametrize("client", first_quick(*CLIENTS))
def test_without_wane_the_server_refuses_once_the_window_is_full(client: Callable[[str], None], model: Model) -> None:
    small = SmallModel(model, WINDOW, CALLS)
    with ScriptedServer(small) as server, pytest.raises(Exception, match=r"maximum context length is 2048 tokens"):
        client(f"{server.url}/v1")
    assert [request.refused for request in small.served] == [*[False] * (len(small.served) - 1), True]
    assert len(small.served) <= CALLS + 1


@pytest.mark.parametrize("client", first_quick(*CLIENTS))
def test_behind_the_proxy_it_never_does(client: Callable[[str], None], model: Model, tmp_path: Path) -> None:
    small = SmallModel(model, WINDOW, CALLS)
    with (
        ScriptedServer(small) as server,
        proxy(server.url, tmp_path, "--annotate", "infer", "--budget", str(BUDGET)) as url,
    ):
        client(f"{url}/v1")
    assert len(small.served) > CALLS
    assert not any(request.refused for request in small.served)
    # Something left: without that, each request is longer than the one before.
    sizes = [request.tokens for request in small.served]
    assert any(later <= earlier for earlier, later in pairwise(sizes))
    # The server's memory serves what a request repeats.
    assert any(later.cached > 0.9 * earlier.tokens for earlier, later in pairwise(small.served))
