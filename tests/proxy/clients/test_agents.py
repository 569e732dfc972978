"""Claude Code, Codex, Gemini CLI and pi, as they come, through the proxy: whole sessions, resumed twice.

Each is skipped, with the reason, where it cannot be installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from tests.marks import wide
from tests.proxy.clients import install
from tests.proxy.clients.agents import KEY, Claude, Codex, CodingAgent, GeminiCli, Pi
from tests.proxy.clients.install import Package
from tests.proxy.clients.script import ANSWERS, marked_replies, places, plain, start, turns
from tests.proxy.clients.world import WANE, Place, difference, mask, proxy, request_contents, tools, work
from wane.proxy.sessions.sender import sender_of
from wane.testing import Kind, Reply, Request, ScriptedServer, Usage

pytestmark = pytest.mark.full

AGENTS: dict[str, CodingAgent] = {
    "claude": Claude(),
    "codex": Codex("gpt-5.5"),
    "codex-code-mode": Codex("gpt-6.1-sol"),
    "gemini": GeminiCli(),
    "pi-anthropic": Pi("anthropic-messages"),
    "pi-chat": Pi("openai-completions"),
    "pi-responses": Pi("openai-responses"),
}
# A resumed session of Gemini CLI 0.61 repeats its results, which Gemini refuses, so it resumes only through the proxy.
# One way or the other for what differs in the protocol alone: each takes seconds.
unevicted = pytest.mark.parametrize("name", ["claude", *wide("codex", "pi-anthropic", "pi-responses")])
evicted = pytest.mark.parametrize(
    "name", ["claude", "codex", "pi-chat", *wide("gemini", "codex-code-mode", "pi-anthropic")]
)


def replies(agent: CodingAgent, place: Place, *, marks: bool, aloud: bool = False) -> list[Reply]:
    script: list[Reply] = []
    for turn in turns(agent.hands(place.work)):
        script += marked_replies(turn, aloud=aloud) if marks else plain(turn)
    return script


@pytest.mark.wide
@unevicted
def test_with_nothing_evicted_all_is_as_without_the_proxy(name: str, tmp_path: Path) -> None:
    agent, home = AGENTS[name], tmp_path / "agent"
    place = Place.make(home)
    with ScriptedServer(replies(agent, place, marks=False)) as server:
        direct = work(agent, place, upstream=server.url)
        usual = server.requests
        assert (server.refusals, server.remaining) == ((), 0)
    files, transcript = place.files(), agent.transcript(place.home)
    place = Place.make(home)
    with (
        ScriptedServer(replies(agent, place, marks=True)) as server,
        proxy(server.url, tmp_path, "--budget", "200k", "--strict") as url,
    ):
        proxied = work(agent, place, upstream=url)
        passed = server.requests
        assert (server.refusals, server.remaining) == ((), 0)
    assert direct.answers == proxied.answers == list(ANSWERS)
    assert place.files() == files
    assert files["a.py"] == "print(42)\n"
    # The provider sees the same history, with marks in it, as it would without the proxy.
    which = chain.from_iterable(map(places, turns(agent.hands(place.work))))
    shared = [request for request, kept in zip(passed, which, strict=True) if kept]
    for mine, theirs in zip(shared, usual, strict=True):
        assert not difference(request_contents(mine), request_contents(theirs))
        assert tools(mine) == tools(theirs)
    assert all("delimiter" in request.tools for request in passed)
    # The client has kept the same, and nothing of Wane's.
    assert len(transcript) > 10
    assert not difference(mask(agent.transcript(place.home)), mask(transcript))


@evicted
def test_over_a_small_budget_the_work_is_the_same(name: str, tmp_path: Path) -> None:
    agent = AGENTS[name]
    place, log = Place.make(tmp_path / "agent"), tmp_path / "run.log"
    with ScriptedServer(replies(agent, place, marks=True, aloud=True)) as server:
        # What Claude Code states holds two thirds of its budget here, so the budget must be kept as it is set (R22).
        options = ["--budget", str(agent.budget), "--min-room", "0", "--strict", "--log", str(log)]
        options += run_options(agent, server.url)
        done = work(agent, place, upstream=server.url, before=[*WANE, "run", *options, "--"])
        asked = server.requests
        assert (server.refusals, server.remaining) == ((), 0)
    assert done.answers == list(ANSWERS)
    assert place.files()["a.py"] == "print(42)\n"
    assert place.files()["notes.txt"] == "a.py prints 42\n"
    senders = [sender_of([(b"user-agent", request.headers["user-agent"].encode())], {}) for request in asked]
    assert not any(sender.sums_usage("auto") for sender in senders)
    views, gone = views_of(log)
    steps = chain.from_iterable(turns(agent.hands(place.work)))
    assert len(views) == len(asked) - len([step for step in steps if step.alone])
    assert max(views) <= agent.budget
    assert max(gone) > agent.budget // 4
    # What was read first has gone from later requests, which hold no more than the budget.
    assert [reads(request, "text 1") for request in asked[1:4]] == [False, True, True]
    assert not reads(asked[-3], "text 1")
    assert max(request.tokens for request in asked) <= agent.budget
    seen = "".join(done.outputs) + repr(agent.transcript(place.home))
    assert "delimiter" not in seen
    assert re.search(
        r"wane: \d+ requests.*; the view held [\d,]+ of [\d,]+ tokens at most, [\d,]+ were evicted", done.errors[0]
    )


def run_options(agent: CodingAgent, url: str) -> list[str]:
    return ["--upstream", f"{url}/v1"] if isinstance(agent, Codex) else []


def views_of(log: Path) -> tuple[list[int], list[int]]:
    """The tokens of each view and of what is not in it, as the log tells them."""
    found = re.findall(r" view (\d+)/\d+ evicted (\d+) ", log.read_text())
    return [int(view) for view, _ in found], [int(gone) for _, gone in found]


def reads(request: Request, text: str) -> bool:
    return any(text in result for result in request.texts(Kind.RESULT))


def item_types(request: Request) -> list[str]:
    return [item["type"] for item in request.body["input"]]


@pytest.mark.wide
def test_codex_compacts_its_history_through_the_proxy(tmp_path: Path) -> None:
    agent, place = Codex("gpt-5.5"), Place.make(tmp_path / "agent")
    look = Reply("I look.", calls=(agent.hands(place.work).read("a.py"),), usage=Usage(260_000, 10))
    # What was used is near the model's window, so that the client compacts before it goes on.
    script = [look, Reply("SEALED"), *(Reply(answer) for answer in ANSWERS)]
    with ScriptedServer(script) as server:
        done = work(agent, place, upstream=server.url, before=[*WANE, "run", *run_options(agent, server.url), "--"])
        kinds = [item_types(request) for request in server.requests]
        assert (server.refusals, server.remaining) == ((), 0)
    assert done.answers == list(ANSWERS)
    assert kinds[1][-1] == "compaction_trigger"
    assert all("compaction" in each and "function_call" not in each for each in kinds[2:])


@pytest.mark.wide
@pytest.mark.parametrize("options", [(), ("--usage", "sum")], ids=["by default", "of the sum"])
def test_codex_compacts_by_the_last_round_and_not_by_the_sum(options: tuple[str, ...], tmp_path: Path) -> None:
    """Two rounds of 142,000 tokens are a context of 142,000, and the model's window is 272,000."""
    agent, place = Codex("gpt-5.5"), Place.make(tmp_path / "agent")
    usage = Usage(142_000, 10)
    marks = Reply(calls=(start("look", "expl"),), usage=usage)
    look = Reply("I look.", calls=(agent.hands(place.work).read("a.py"),), usage=usage)
    script = [marks, look, *([Reply("SEALED")] if options else []), *(Reply(answer) for answer in ANSWERS)]
    with ScriptedServer(script) as server, proxy(server.url, tmp_path, *options) as url:
        done = work(agent, place, upstream=url)
        kinds = [item_types(request) for request in server.requests]
        assert (server.refusals, server.remaining) == ((), 0)
    assert done.answers == list(ANSWERS)
    assert any("compaction_trigger" in each for each in kinds) is bool(options)


@pytest.mark.wide
@pytest.mark.parametrize("package", [install.EARLIER_PI, install.PI], ids=["earlier", "current"])
@pytest.mark.parametrize("api", ["anthropic-messages", "openai-responses"])
def test_pi_takes_the_last_round_for_the_size_of_its_context(api: str, package: Package, tmp_path: Path) -> None:
    agent, place = Pi(api, package=package), Place.make(tmp_path / "agent")
    marks = Reply(calls=(start("look", "expl"),), usage=Usage(30_000, 10))
    script = [marks, *(Reply(answer, usage=Usage(31_000, 20)) for answer in ANSWERS)]
    with ScriptedServer(script) as server, proxy(server.url, tmp_path) as url:
        done = work(agent, place, upstream=url)
        assert (server.refusals, server.remaining) == ((), 0)
    assert done.answers == list(ANSWERS)
    lines = [json.loads(line) for path in place.home.rglob("*.jsonl") for line in path.read_text().splitlines()]
    usages = [line["message"]["usage"] for line in lines if line.get("message", {}).get("role") == "assistant"]
    assert [usage["totalTokens"] for usage in usages] == [31_020] * len(ANSWERS)


@dataclass(frozen=True)
class CloudClaude(Claude):
    """Claude Code with a cloud's own API, and a key of that cloud."""

    cloud: tuple[str, str, tuple[tuple[str, str], ...]] = ("", "", ())

    def environ(self, upstream: str) -> Mapping[str, str]:
        switch, variable, others = self.cloud
        quiet = {name: "1" for name in super().environ(upstream) if not name.startswith("ANTHROPIC")}
        return {**quiet, switch: "1", variable: upstream, **dict(others)}


CLOUDS = (
    ("CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_FOUNDRY_BASE_URL", (("ANTHROPIC_FOUNDRY_API_KEY", KEY),)),
    (
        "CLAUDE_CODE_USE_ANTHROPIC_AWS",
        "ANTHROPIC_AWS_BASE_URL",
        (("ANTHROPIC_AWS_API_KEY", KEY), ("ANTHROPIC_AWS_WORKSPACE_ID", "w"), ("AWS_REGION", "us-east-1")),
    ),
    (
        "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
        "ANTHROPIC_GOOGLE_CLOUD_BASE_URL",
        (
            ("CLAUDE_CODE_SKIP_ANTHROPIC_GOOGLE_CLOUD_AUTH", "1"),
            ("ANTHROPIC_GOOGLE_CLOUD_PROJECT", "p"),
            ("ANTHROPIC_GOOGLE_CLOUD_LOCATION", "us-east5"),
            ("ANTHROPIC_GOOGLE_CLOUD_WORKSPACE_ID", "w"),
        ),
    ),
    (
        "CLAUDE_CODE_USE_MANTLE",
        "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
        (("AWS_BEARER_TOKEN_BEDROCK", KEY), ("AWS_REGION", "us-east-1")),
    ),
)


@pytest.mark.wide
@pytest.mark.parametrize("cloud", CLOUDS, ids=[cloud[0] for cloud in CLOUDS])
def test_claude_with_a_cloud_that_speaks_messages_is_managed(
    cloud: tuple[str, str, tuple[tuple[str, str], ...]], tmp_path: Path
) -> None:
    agent, place = CloudClaude(cloud=cloud), Place.make(tmp_path / "agent")
    script = iter([Reply("I look.", calls=(agent.hands(place.work).read("a.py"),)), Reply(ANSWERS[0])])
    # It asks which models there are by requests without tools.
    with ScriptedServer(lambda request: next(script) if request.tools else Reply("Yes.")) as server:
        done = work(agent, place, upstream=server.url, before=[*WANE, "run", "--strict", "--"], prompts=["Look."])
        assert (server.refusals, [each.tools[-1] for each in server.requests if each.tools]) == ((), ["delimiter"] * 2)
    assert done.answers == [ANSWERS[0]]
