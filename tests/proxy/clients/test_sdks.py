"""The official SDKs through the proxy, streamed and not: whole sessions with many tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import pytest

from tests.marks import cross_quick
from tests.proxy.clients.script import ANSWERS, PROMPTS, marked_replies, places, plain, turns
from tests.proxy.clients.sdks import SDKS, Headers, Sdk, SdkHands, turn
from tests.proxy.clients.world import difference, mask, proxy, request_contents
from wane.testing import Kind, Reply, Request, ScriptedServer

pytestmark = pytest.mark.full

SMALL = 4_000
TURNS = turns(SdkHands())


@dataclass
class Provider:
    """Scripts by the name of the model: one server for all tests, and one proxy of each kind."""

    scripts: dict[str, Iterator[Reply]] = field(default_factory=dict)
    requests: dict[str, list[Request]] = field(default_factory=dict)

    def __call__(self, request: Request) -> Reply:
        self.requests.setdefault(request.model, []).append(request)
        return next(self.scripts[request.model])


@dataclass
class Way:
    """A way to a provider."""

    url: str
    server: ScriptedServer
    provider: Provider


@pytest.fixture(scope="module")
def direct() -> Iterator[Way]:
    provider = Provider()
    with ScriptedServer(provider) as server:
        yield Way(server.url, server, provider)


@pytest.fixture(scope="module")
def roomy(direct: Way, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with proxy(direct.url, tmp_path_factory.mktemp("roomy"), "--budget", "200k", "--strict") as url:
        yield Way(url, direct.server, direct.provider)


@pytest.fixture(scope="module")
def small(direct: Way, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with proxy(direct.url, tmp_path_factory.mktemp("small"), "--budget", str(SMALL), "--strict") as url:
        yield Way(url, direct.server, direct.provider)


def session(way: Way, api: str, model: str, replies: Iterator[Reply], *, stream: bool) -> tuple[Sdk, Headers]:
    """Have an agent do its three turns, and return it with the headers of all answers."""
    way.provider.scripts[model] = replies
    headers = Headers()
    sdk: Sdk = SDKS[api](way.url, model, headers)

    async def all_turns() -> list[str]:
        return [await turn(sdk, prompt, stream=stream) for prompt in PROMPTS]

    assert asyncio.run(all_turns()) == list(ANSWERS)
    assert next(replies, None) is None
    assert way.server.refusals == ()
    return sdk, headers


def plain_replies() -> Iterator[Reply]:
    return chain.from_iterable(plain(steps) for steps in TURNS)


def with_marks(*, aloud: bool) -> Iterator[Reply]:
    return chain.from_iterable(marked_replies(steps, aloud=aloud) for steps in TURNS)


@pytest.mark.parametrize(("api", "stream"), cross_quick(SDKS, (True, False)))
def test_with_nothing_evicted_all_is_as_without_the_proxy(direct: Way, roomy: Way, api: str, stream: bool) -> None:
    usual, _ = session(direct, api, f"usual-{api}-{stream}", plain_replies(), stream=stream)
    proxied, headers = session(roomy, api, f"roomy-{api}-{stream}", with_marks(aloud=False), stream=stream)
    assert not difference(mask(proxied.history), mask(usual.history))
    asked = direct.provider.requests[f"usual-{api}-{stream}"]
    which = chain.from_iterable(map(places, TURNS))
    passed = zip(direct.provider.requests[f"roomy-{api}-{stream}"], which, strict=True)
    for mine, theirs in zip((request for request, kept in passed if kept), asked, strict=True):
        assert not difference(request_contents(mine), request_contents(theirs))
    assert [head["x-wane-evicted"] for head in headers] == ["0"] * len(asked)
    assert {head["x-wane-session"] for head in headers} == {headers[0]["x-wane-session"]}


@pytest.mark.parametrize(("api", "stream"), cross_quick(SDKS, (False, True)))
def test_over_a_small_budget_the_work_is_the_same(small: Way, api: str, stream: bool) -> None:
    model = f"small-{api}-{stream}"
    sdk, headers = session(small, api, model, with_marks(aloud=True), stream=stream)
    assert "delimiter" not in repr(sdk.history)
    assert max(int(head["x-wane-evicted"]) for head in headers) > SMALL // 2
    assert max(int(head["x-wane-view"]) for head in headers) <= SMALL
    assert not any("x-wane-warning" in head for head in headers)
    asked = small.provider.requests[model]
    assert max(request.tokens for request in asked) <= SMALL
    assert any("big1.txt" in text for text in asked[2].texts(Kind.RESULT))
    assert not any("big1.txt" in text for text in asked[-3].texts(Kind.RESULT))
