"""`wane statusline`."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.cli.conftest import COMMAND, Run
from tests.proxy.server.support import ask, body, message, provider, proxy, response
from tests.proxy.server.test_managed import replies
from wane.cli.proxy.statusline import choose_session, line_of
from wane.conversation.thrashing import Thrashing
from wane.core import Room

SESSION = {
    "view": 41_200,
    "budget": 80_000,
    "evicted": 31_000,
    "room": None,
    "thrashing": None,
    "agents": None,
    "views": [[1.0, 71_000, 0], [2.0, 41_200, 31_000]],
    "money": {"spent": 0.75, "unmanaged": 2.5, "calls": 9, "priced_calls": 9},
    "assumed": "",
}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "wane 41.2k/80k | just evicted 31k | 31k evicted | $0.75, about $1.75 less than without Wane"),
        ({"views": [], "money": None, "evicted": 0}, "wane 41.2k/80k"),
        ({"view": 80_900, "views": [[1.0, 80_900, 0]]},
         "wane 80.9k/80k over budget | 31k evicted | $0.75, about $1.75 less than without Wane"),
        ({"room": Room(80_000, system=50_686).to_dict(), "views": [], "money": None, "evicted": 0},
         "wane 41.2k/80k | little room: 50.7k fixed, 127k advised"),
        ({"room": Room(80_000, system=50_686).to_dict(), "views": [], "money": None, "evicted": 0,
          "thrashing": Thrashing(80_000, advised=190_000, passes=5, calls=7).to_dict()},
         "wane 41.2k/80k | thrashing: 190k advised"),
        ({"room": Room(80_000, system=5_686).to_dict(), "views": [], "money": None, "evicted": 0}, "wane 41.2k/80k"),
        ({"view": 950, "budget": 9_500, "views": [], "evicted": 0,
          "money": {"spent": 0.2, "unmanaged": 0.1, "calls": 9, "priced_calls": 9}}, "wane 950/9.5k | $0.20"),
        ({"view": 950, "budget": 9_500, "views": [], "evicted": 0,
          "money": {"spent": 0.2, "unmanaged": 0.1, "calls": 9, "priced_calls": 8}}, "wane 950/9.5k | ≥$0.20"),
        ({"views": [], "evicted": 0, "assumed": "at the prices of openai:gpt-5.2"},
         "wane 41.2k/80k | $0.75 at the prices of openai:gpt-5.2, about $1.75 less than without Wane"),
        ({"views": [], "money": None, "evicted": 0,
          "agents": {"sessions": 1, "assumed": "at the prices of openai:gpt-5.2",
                     "money": {"spent": 0.3, "calls": 4, "priced_calls": 4}}},
         "wane 41.2k/80k | 1 sub-agent $0.30 at the prices of openai:gpt-5.2 more"),
        ({"views": [], "evicted": 0, "agents": {"sessions": 2, "assumed": "",
          "money": {"spent": 0.3, "calls": 4, "priced_calls": 3}}},
         "wane 41.2k/80k | $0.75, about $1.75 less than without Wane | 2 sub-agents ≥$0.30 more"),
        ({"views": [], "money": None, "evicted": 0, "agents": {"sessions": 1, "money": None}},
         "wane 41.2k/80k | 1 sub-agent"),
    ],
)  # fmt: skip
def test_what_it_says_of_a_session(changed: dict[str, object], line: str) -> None:
    assert line_of({**SESSION, **changed}) == line


def test_a_person_means_their_own_session_and_not_a_sub_agent_that_was_served_later() -> None:
    own, later = {"client": "a", "parent": ""}, {"client": "a", "parent": "own"}
    assert choose_session([later, own], "") is own
    assert choose_session([later, own], "a") is own
    assert choose_session([later], "") is later
    assert choose_session([], "") is None


def test_no_proxy_is_no_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANE_PROXY_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for arguments in ((), ("--url", "http://127.0.0.1:9"), ("--url", "nowhere")):
        done = run("statusline", *arguments, stdin=b"{}")
        assert (done.code, done.out) == (0, "wane: no proxy\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0.0.0.0", "2130706433", "[::]", "wane.example"])
async def test_a_proxy_of_the_environment_gets_no_token_that_is_for_this_machine(
    host: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = f"http://{host}:9/~a-token-of-some-length", host == "wane.example"
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async with provider(replies(response(b"{}"))) as other:
        monkeypatch.setenv("http_proxy", other.url)
        done = await asyncio.to_thread(run, "statusline", "--url", url, stdin=b"{}")
        assert done.out == "wane: no proxy\n"
        assert [request.target for request in other.asked] == [f"{url}/wane/status"] * asked


@pytest.mark.full
def test_a_real_proxy_is_asked() -> None:
    async def main() -> list[str]:
        lines = []
        said = response(message("hi", usage={"input_tokens": 900, "output_tokens": 5}))
        async with provider(replies(said)) as up, proxy(up.url) as running:
            for _ in range(2):
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", COMMAND, "statusline", "--url", running.url,
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                lines.append((await process.communicate())[0].decode())
                await ask(running, body(stream=False))
        return lines

    before, after = asyncio.run(main())
    assert before == "wane: no session yet\n"
    assert after.startswith("wane ")
    assert "/80k" in after
