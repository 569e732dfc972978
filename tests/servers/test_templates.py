"""What a llama-server accepts without Wane, it accepts with Wane: real chat templates behind all doors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.marks import cross_quick
from tests.proxy.clients.install import UnavailableError
from tests.proxy.server.support import ask, proxy
from tests.servers.endpoints import ENDPOINTS
from tests.servers.install import NAMES, install_server
from tests.servers.llama import CONTEXT, TOOLS, WITHOUT_CALLS, LlamaServer, history, serve
from wane import Conversation, Policy
from wane.conversation.context import ContextSettings
from wane.core import exact_budget
from wane.proxy.server.running import ProxyOptions, running
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl
from wane.proxy.store import open_store

pytestmark = pytest.mark.full

DELIMITER_FUNCTION = Conversation().tools[0]
STRATEGIES = ("cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "fold")


TEMPLATES = sorted(NAMES.values())
every_template = pytest.mark.parametrize("server", TEMPLATES, indirect=True)
every_endpoint = pytest.mark.parametrize(("server", "api"), cross_quick(TEMPLATES, ENDPOINTS), indirect=["server"])
"""Each template with one of its server's endpoints, and in `make test-all` with each."""


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    try:
        llama = install_server()
    except UnavailableError as error:
        pytest.skip(str(error))
    with serve(llama, str(request.param), tmp_path_factory.mktemp("llama")) as running:
        yield running


@every_template
def test_a_loop_of_ones_own_goes_on(server: LlamaServer) -> None:
    for seed, strategy in enumerate(STRATEGIES):
        messages = history(server.template, seed)
        conversation = Conversation(budget=exact_budget(120 + 60 * seed), strategy=strategy, annotate="infer")
        evicted = 0
        for number, message in enumerate(messages):
            if message["role"] == "assistant":
                server.render(messages[:number], TOOLS)
                server.render(conversation.request().messages, TOOLS)
                evicted = max(evicted, conversation.evicted)
            conversation.append(message)
        assert evicted or server.template in WITHOUT_CALLS


@every_endpoint
async def test_a_client_goes_on_behind_the_proxy(server: LlamaServer, api: str) -> None:
    endpoint = ENDPOINTS[api]
    settings = ContextSettings(budget=exact_budget(300), annotate="infer")
    messages = history(server.template, 50, turns=5)
    evicted = 0
    async with proxy(server.url, index=SessionIndex(open_store(None), settings)) as running:
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            body = endpoint.body(messages[:number])
            status, answer = server.post(endpoint.counts, body)
            assert status == 200, answer
            managed = await ask(running, json.dumps(body).encode(), endpoint.path)
            assert managed.status == 200, managed.body
            assert managed.header("x-wane-unmanaged") is None
            evicted = max(evicted, int(managed.header("x-wane-evicted") or 0))
    assert evicted


@every_endpoint
def test_what_wane_says_reaches_the_model(server: LlamaServer, api: str) -> None:
    """Guidance, index and reminder: templates move or drop what stands where they do not expect it."""
    endpoint = ENDPOINTS[api]
    policy = replace(Policy(), index_share=0.1)
    conversation: Conversation = Conversation(endpoint.format, budget=exact_budget(600), remind_at=0.3, policy=policy)
    messages = history(server.template, 80, turns=9)
    messages[0]["content"] += f"\n\n{conversation.instructions}"
    count, kinds = 0, set[str]()
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        body = endpoint.body(messages[:number])
        key = "input" if "input" in body else "messages"
        conversation.extend(body[key][count:])
        count = len(body[key])
        request = conversation.request()
        index = conversation.window.index
        own = {"guidance": conversation.instructions, "reminder": request.reminder, "index": index and index.text}
        own = {kind: text for kind, text in own.items() if text}
        if server.template == "mistral-nemo" and messages[number - 1]["role"] == "tool":
            # It leaves out the whole system prompt unless the last message is the user's.
            del own["guidance"]
        if own.keys() <= kinds:
            continue
        kinds.update(own)
        tools = [*body["tools"], *conversation.tools]
        status, answer = server.post(endpoint.path, {**body, key: request.messages, "tools": tools})
        assert status == 200, answer
        prompt = server.prompt
        assert [kind for kind, text in own.items() if text not in prompt] == []
        assert ("Be brief." in prompt) == ("guidance" in own)
    # Without calls there is nothing to mark or to list.
    assert kinds == ({"guidance"} if server.template in WITHOUT_CALLS else {"guidance", "reminder", "index"})


@every_endpoint
async def test_a_client_fits_into_the_servers_window(server: LlamaServer, api: str) -> None:
    """The server's count and its window calibrate the budget on all its endpoints."""
    endpoint = ENDPOINTS[api]
    settings = ContextSettings(budget=100_000, annotate="infer")
    messages = history(server.template, 7, turns=20, scale=12)
    assert server.post(endpoint.counts, endpoint.body(messages[:-1]))[1]["input_tokens"] > 2 * CONTEXT
    async with proxy(server.url, index=SessionIndex(open_store(None), settings)) as running:
        body = endpoint.body(messages[:-1])
        refused, answer = server.post(endpoint.path, body)
        assert (refused, answer["error"]["type"]) == (400, "exceed_context_size_error")
        managed = await ask(running, json.dumps(body).encode(), endpoint.path)
        assert managed.status == 200, managed.body
        assert "the provider takes no view of" in str(managed.header("x-wane-warning"))


@every_endpoint
def test_a_mark_that_is_no_json_goes_back_so_that_the_server_takes_it(server: LlamaServer, api: str) -> None:
    endpoint = ENDPOINTS[api]
    if server.template in WITHOUT_CALLS or api == "messages":
        pytest.skip("it takes no calls, or none whose arguments are text")
    function = {"name": "delimiter", "arguments": '{"action": "start", "name": "look'}
    call = {"id": "Abc123Xyz", "type": "function", "function": function}
    body = endpoint.body(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
    )
    key = "input" if "input" in body else "messages"
    conversation: Conversation = Conversation(endpoint.format)
    conversation.extend(body[key][:-1])
    conversation.request()
    conversation.append(body[key][-1])
    status, answer = server.post(endpoint.path, {**body, key: conversation.request().messages})
    assert status == 200, answer


@every_template
async def test_a_template_that_shows_no_tools_says_so(server: LlamaServer) -> None:
    settings = ServerSettings(UpstreamUrl.parse(f"{server.url}/v1"), Address("127.0.0.1", 0))
    async with running(ProxyOptions(settings)) as started:
        shown = "delimiter" in server.render(history(server.template, 1)[:2], [DELIMITER_FUNCTION])
        assert started.sessions.settings.annotate == ("model" if shown else "infer")
