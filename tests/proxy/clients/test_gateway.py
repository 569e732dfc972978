"""The proxy and LiteLLM's, one behind the other in both orders: whole sessions of the official SDKs through both."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest

from tests.marks import first_quick
from tests.proxy.clients.sdks import SDKS
from tests.proxy.clients.test_sdks import SMALL, Provider, Way, session, with_marks
from tests.proxy.clients.world import proxy
from tests.proxy.store.servers import free_port
from wane.proxy.store import open_store
from wane.proxy.team.members import Team
from wane.testing import Kind, Reply, ScriptedServer

pytestmark = pytest.mark.wide

_HOME = platformdirs.user_cache_path("wane-tests") / "litellm-proxy"
_PATIENCE = 120  # seconds: it loads for half a minute on a busy machine


def _program() -> str:
    """LiteLLM's proxy, which needs an environment of its own: it demands an older `rich` than Wane."""
    program = os.environ.get("WANE_TEST_LITELLM") or shutil.which("litellm", path=str(_HOME / "bin"))
    if program is None:
        pytest.skip(
            f"needs LiteLLM's proxy: python -m venv {_HOME} && {_HOME}/bin/pip install 'litellm[proxy]', or its program"
            " as WANE_TEST_LITELLM"
        )
    return program


@contextmanager
def litellm(bases: dict[str, str], folder: Path) -> Iterator[str]:
    """Run LiteLLM's proxy for models by the beginning of their name, and yield its URL.

    Args:
        bases: the address of each kind of model's provider, by the kind.
        folder: for its settings and log.
    """
    port, log = free_port(), folder / "litellm.log"
    models = []
    for kind, base in bases.items():
        own = "anthropic" if "anthropic" in kind else "openai"
        params = {"model": f"{own}/{kind}-*", "api_base": base if own == "anthropic" else f"{base}/v1", "api_key": "k"}
        models.append({"model_name": f"{kind}-*", "litellm_params": params})
    settings = {"model_list": models, "general_settings": {"forward_client_headers_to_llm_api": True}}
    (folder / "config.yaml").write_text(json.dumps(settings))
    command = [_program(), "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    environ["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environ, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health/liveliness", timeout=10):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


@dataclass
class Ways:
    """Both orders, before one provider."""

    behind: Way
    ahead: Way


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    provider, folder = Provider(), tmp_path_factory.mktemp("gateway")
    ahead, behind = folder / "ahead", folder / "behind"
    for place in (ahead, behind):
        place.mkdir()
    with (
        ScriptedServer(provider) as server,
        proxy(server.url, ahead, "--budget", str(SMALL), "--strict") as inner,
        litellm(dict.fromkeys(SDKS, server.url) | {f"ahead-{api}": inner for api in SDKS}, folder) as gateway,
        proxy(gateway, behind, "--budget", str(SMALL), "--strict") as outer,
    ):
        yield Ways(Way(outer, server, provider), Way(gateway, server, provider))


@pytest.mark.parametrize("order", ["behind", "ahead"])
@pytest.mark.parametrize("api", SDKS)
@pytest.mark.parametrize("stream", first_quick(True, False))
def test_litellm_behind_and_ahead_of_the_proxy(ways: Ways, api: str, stream: bool, order: str) -> None:
    model = f"{api}-behind-{stream}" if order == "behind" else f"ahead-{api}-{stream}"
    way = ways.behind if order == "behind" else ways.ahead
    sdk, headers = session(way, api, model, with_marks(aloud=True), stream=stream)
    assert "delimiter" not in repr(sdk.history)
    asked = way.provider.requests[model]
    assert max(request.tokens for request in asked) <= SMALL
    assert not any("big1.txt" in text for text in asked[-3].texts(Kind.RESULT))
    if order == "behind":
        assert max(int(head["x-wane-evicted"]) for head in headers) > SMALL // 2
        assert all("x-litellm-call-id" in head for head in headers)
    else:
        # What the proxy says does not reach the client, or under another name.
        assert not any("x-wane-session" in head for head in headers)


def test_names_behind_litellm_are_those_of_its_clients(tmp_path: Path) -> None:
    """LiteLLM passes on headers that begin with x-, so that each client's token arrives; without one it is refused."""
    store = tmp_path / "sessions"

    async def names() -> list[str]:
        opened = open_store(str(store))
        tokens = [await Team(opened).add(name) for name in ("alice", "bob")]
        await opened.close()
        return tokens

    async def owners() -> list[str]:
        opened = open_store(str(store))
        found = [(await opened.header(session.id)).owner for session in await opened.unwritten(0)]
        await opened.close()
        return sorted(found)

    def ask(url: str, token: str | None) -> int:
        tool = {"name": "read", "input_schema": {"type": "object"}}
        said = [{"role": "user", "content": "The same words."}]
        body = {"model": "team-anthropic-x", "max_tokens": 50, "tools": [tool], "messages": said}
        headers = {"content-type": "application/json"} | ({} if token is None else {"x-wane-token": token})
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)
            ):
                return 200
        except urllib.error.HTTPError as error:
            return error.code

    store.mkdir()
    alice, bob = asyncio.run(names())
    with (
        ScriptedServer(Reply("hi") for _ in range(9)) as server,
        proxy(server.url, tmp_path, "--team", store=str(store)) as inner,
        litellm({"team-anthropic": inner}, tmp_path) as gateway,
    ):
        assert [ask(gateway, token) for token in (alice, bob, alice)] == [200] * 3
        assert ask(gateway, None) == 401
        assert ask(gateway, alice[:-1]) == 401
    assert asyncio.run(owners()) == ["alice", "bob"]
