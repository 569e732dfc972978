"""A person's choice for an episode, by the live page, `wane choose` and an agent's plugin (R23)."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, plain_surroundings, run
from tests.proxy.server.support import Answer, Listening, ask, body, message, provider, proxy, response
from tests.proxy.server.test_managed import replies
from wane.cli.proxy.plugins import MANIFEST, PLUGINS, claude_files
from wane.cli.proxy.proxy_options import show_session
from wane.conversation import ContextSettings
from wane.journal import ChoiceRecord
from wane.proxy.server.status import SessionPages
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store

__all__ = ["plain_surroundings", "run"]  # fixtures

PAGES = SessionPages("the-key", show_session)
SAID = response(message("It is done."), headers={"content-type": "application/json"})
OLD = "the old log says: " + "x" * 400


def body_with_turns(turns: int) -> dict[str, Any]:
    """A request with that many turns behind it, in each of which a file was read."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "read", "input": {"path": f"{turn}.log"}}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": OLD if not turn else "nothing"}
        messages += [
            {"role": "user", "content": f"read {turn}"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": "It is done."}]},
        ]
    return body(stream=False) | {"messages": messages[:-1]}


async def fetch_session(running: Listening) -> dict[str, Any]:
    status = json.loads((await ask(running, path="/wane/status", method="GET")).body)
    session: dict[str, Any] = status["sessions"][0]
    return session


async def choose(running: Listening, session: str, choice: object, key: str = "the-key", **headers: str) -> Answer:
    path = f"/wane/session/{session}/choice"
    return await ask(running, json.dumps(choice).encode(), path, headers={"x-wane-key": key, **headers})


async def test_what_a_person_lets_go_leaves_the_next_request_and_a_restart_repeats_it(tmp_path: Path) -> None:
    store, settings = str(tmp_path), ContextSettings(annotate="infer")
    async with (
        provider(replies(SAID)) as up,
        proxy(up.url, index=SessionIndex(open_store(store), settings), pages=PAGES) as running,
    ):
        await ask(running, body_with_turns(2))
        assert OLD in json.dumps(up.asked[-1].json)
        session = await fetch_session(running)
        first = session["episodes"][0]
        assert (first["number"], first["choice"]) == (0, "")
        assert (await choose(running, session["id"], {"episode": 0, "choice": "drop"})).status == 204
        assert (await fetch_session(running))["episodes"][0]["choice"] == "drop"
        await ask(running, body_with_turns(3))
        assert OLD not in json.dumps(up.asked[-1].json)
        kept = (await fetch_session(running))["episodes"][-1]["number"]
        assert (await choose(running, session["id"], {"episode": kept, "choice": "keep"})).status == 204
        records = await open_store(store).read(session["id"])
        choices = [(it.episode, it.choice) for it in records if isinstance(it, ChoiceRecord)]
        assert choices == [(0, "drop"), (kept, "keep")]
    async with (
        provider(replies(SAID)) as up,
        proxy(up.url, index=SessionIndex(open_store(store), settings), pages=PAGES) as running,
    ):
        await ask(running, body_with_turns(4))
        assert OLD not in json.dumps(up.asked[-1].json)
        again = await fetch_session(running)
        assert again["id"] == session["id"]
        assert [it["number"] for it in again["episodes"] if it["choice"] == "keep"] == [kept]


async def test_who_does_not_know_the_key_chooses_nothing(tmp_path: Path) -> None:
    index = SessionIndex(open_store(str(tmp_path)), ContextSettings(annotate="infer"))
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, pages=PAGES) as running:
        await ask(running, body_with_turns(2))
        session = (await fetch_session(running))["id"]
        drop = {"episode": 0, "choice": "drop"}
        refused = [
            await choose(running, session, drop, ""),
            await choose(running, session, drop, "other"),
            await choose(running, "0" * 24, drop),
        ]
        assert {(it.status, it.body) for it in refused} == {(404, b"no such session, or its key is missing\n")}
        # Any page can make a browser ask: those of other sites are refused before that.
        assert (await choose(running, session, drop, origin="https://elsewhere.example")).status == 403
        simple = await ask(running, b"{}", f"/wane/session/{session}/choice?key=the-key")
        assert simple.status == 404
        assert (await ask(running, path=f"/wane/session/{session}/choice", method="GET")).status == 405
        assert (await fetch_session(running))["episodes"][0]["choice"] == ""


@pytest.mark.parametrize(
    ("choice", "status", "said"),
    [
        ([], 400, "send"),
        ({"episode": "none", "choice": "drop"}, 400, "send"),
        ({"episode": 0, "choice": "drop", "more": "x" * 2_000}, 400, "send"),
        ({"episode": 99, "choice": "drop"}, 409, "episode 99 is not in view"),
        ({"episode": 0, "choice": "hold"}, 409, "choice is 'hold'"),
    ],
)
async def test_what_cannot_be_chosen_is_refused(choice: object, status: int, said: str, tmp_path: Path) -> None:
    index = SessionIndex(open_store(str(tmp_path)), ContextSettings(annotate="infer"))
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, pages=PAGES) as running:
        await ask(running, body_with_turns(2))
        answer = await choose(running, (await fetch_session(running))["id"], choice)
        assert (answer.status, said in answer.body.decode()) == (status, True)


async def test_a_strategy_without_episodes_says_so(tmp_path: Path) -> None:
    index = SessionIndex(open_store(str(tmp_path)), ContextSettings(strategy="truncate"))
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, pages=PAGES) as running:
        await ask(running, body_with_turns(2))
        answer = await choose(running, (await fetch_session(running))["id"], {"episode": 0, "choice": "drop"})
        assert (answer.status, b"does not evict by episode" in answer.body) == (409, True)


async def test_the_terminal_lists_and_chooses(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    index = SessionIndex(open_store(str(tmp_path)), ContextSettings(annotate="infer"))
    async with provider(replies(SAID)) as up, proxy(up.url, index=index, pages=PAGES) as running:
        await ask(running, body_with_turns(2))

        async def done(*arguments: str) -> Any:
            return await asyncio.to_thread(run, "choose", *arguments)

        base = f"http://127.0.0.1:{running.address.port}"
        name = (await fetch_session(running))["episodes"][0]["name"]
        listed = await done("--url", f"{base}/wane/#key=the-key")
        assert (listed.code, name in listed.out) == (0, True)
        monkeypatch.setenv("WANE_PROXY_URL", base)
        refused = await done("drop", "0")
        assert (refused.code, "its key is missing" in refused.err) == (2, True)
        monkeypatch.setenv("WANE_PAGE_KEY", "the-key")
        assert "leaves the view with the next request" in (await done("drop", "0")).out
        assert (await fetch_session(running))["episodes"][0]["choice"] == "drop"
        assert "is evicted like any other again" in (await done("release", name)).out
        assert (await fetch_session(running))["episodes"][0]["choice"] == ""
        wrong = [await done("hold", "0"), await done("keep"), await done("keep", "99")]
        assert [it.code for it in wrong] == [2, 2, 2]
        assert "wane choose lists those that are" in wrong[2].err


VARIABLES = {
    "claude": "CLAUDE_CONFIG_DIR",
    "gemini": "GEMINI_CLI_HOME",
    "opencode": "XDG_CONFIG_HOME",
    "pi": "PI_CODING_AGENT_DIR",
    "qwen": "QWEN_HOME",
}


@pytest.mark.parametrize("agent", VARIABLES)
def test_a_plugin_comes_and_goes_by_one_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, agent: str
) -> None:
    monkeypatch.setenv(VARIABLES[agent], str(tmp_path))
    folder = PLUGINS[agent].locate({VARIABLES[agent]: str(tmp_path)})
    assert folder.is_relative_to(tmp_path)
    assert folder.name == "wane"
    assert run("plugin", "install", agent).code == 0
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert there == set(PLUGINS[agent].files("python"))
    assert run("plugin", "install", agent).code == 0, "an update"
    assert run("plugin", "uninstall", agent).code == 0
    assert not folder.exists()
    assert run("plugin", "uninstall", agent).code != 0
    # What is not Wane's is left alone, and so is what somebody put beside it.
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / "mine.md").write_text("mine")
    refused = run("plugin", "install", agent)
    assert (refused.code, "is not Wane's plugin" in refused.err) == (2, True)
    assert (folder / "commands" / "mine.md").read_text() == "mine"


def test_the_plugins_run_wane_by_the_program_that_installed_them() -> None:
    odd = "/my python's/bin/python"
    for agent, plugin in PLUGINS.items():
        text = " ".join(plugin.files(odd).values())
        assert (json.dumps(odd) if agent in ("copilot", "pi") else "'/my python'") in text
    assert json.loads(claude_files(odd)[MANIFEST])["name"] == "wane"
    for text in PLUGINS["gemini"].files(odd).values():
        assert set(tomllib.loads(text)) == {"description", "prompt"}


def test_only_agents_with_a_plugin_are_named(run: Run) -> None:
    refused = run("plugin", "install", "codex")
    assert (refused.code, "claude, copilot, gemini, opencode, pi and qwen, not for 'codex'" in refused.err) == (2, True)
    assert "!wane choose" in refused.err
    assert run("plugin", "put", "claude").code == 2
