"""Every door tells the same cost of a session without Wane: the run, page, status line, `view` and `replay`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.cli.test_run import Run, agent, environ, run
from wane.money import dollars
from wane.testing import Call, Reply, Request, ScriptedServer, Usage

__all__ = ["environ", "run"]  # fixtures

# An agent that speaks 24 times, and keeps what the proxy tells of its session.
TALKING = """
    import json, os, subprocess, sys, urllib.request
    base = os.environ["ANTHROPIC_BASE_URL"]
    headers = {"content-type": "application/json", "x-api-key": "sk-secret", "anthropic-version": "2023-06-01"}
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    messages = []
    for turn in range(24):
        messages.append({"role": "user", "content": f"Turn {turn}. " + "Look again. " * 60})
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages, "tools": tools}
        request = urllib.request.Request(base + "/v1/messages", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            messages.append({"role": "assistant", "content": json.load(answer)["content"]})
    with urllib.request.urlopen(base + "/wane/status") as answer, open("status.json", "wb") as file:
        file.write(answer.read())
    command = [sys.executable, "-m", "wane.cli.main", "statusline", "--url", base]
    with open("statusline.txt", "wb") as file:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, check=True)
"""


def test_every_door_tells_the_same_cost_without_wane(tmp_path: Path, environ: dict[str, str], run: Run) -> None:
    agent(tmp_path, TALKING)
    marks = Call("delimiter", {"action": "start", "name": "look", "type": "act"})
    replies = iter([Reply(calls=(marks,)), Reply("So it is.")])
    requests: list[list[str]] = [[]]

    def answer(request: Request) -> Reply:
        """Report the messages at the head of the request before as read from the cache."""
        messages = [json.dumps(message) for message in request.body["messages"]]
        same = [len(now) for now, before in zip(messages, requests[-1], strict=False) if now == before]
        read, total = sum(same) // 4, sum(map(len, messages)) // 4 + 600
        requests.append(messages)
        reply = next(replies, Reply(f"Found {len(requests)}. " + "This holds a lot of text. " * 150))
        return replace(reply, usage=Usage(total, 40, cache_read=read, cache_write=total - read))

    with ScriptedServer(answer) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        done = run("--budget", "9k", "--", "claude")
    assert done.returncode == 0, done.stderr
    (status,) = json.loads((tmp_path / "status.json").read_text())["sessions"]
    spent, unmanaged = status["money"]["spent"], status["money"]["unmanaged"]
    assert status["evicted"] > 1_000
    assert unmanaged > spent + 0.01
    name = status["id"]

    def ask(*arguments: str) -> str:
        command = [sys.executable, "-m", "wane.cli.main", *arguments]
        asked = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
        return asked.stdout

    told = json.loads(ask("replay", name, "--budget", "9k", "--json"))
    assert told["lowest"]["what"] == "without Wane, estimated from the recorded calls"
    assert told["lowest"]["cost_usd"] == pytest.approx(unmanaged, abs=1e-6)
    (compared,) = json.loads(ask("report", name, "--json"))["agents"]
    # Rounded to the status's six digits.
    assert compared["compared"]["without_wane_usd"] == pytest.approx(unmanaged, abs=1e-6)
    ask("view", name, "--output", "view.html")
    assert f'"value":"{dollars(unmanaged)} → {dollars(spent)}"' in (tmp_path / "view.html").read_text()
    # In words, to the cent.
    sentences = {
        "run": done.stderr,
        "status line": (tmp_path / "statusline.txt").read_text(),
        "view": (tmp_path / "view.html").read_text(),
    }
    for door, text in sentences.items():
        net = re.search(r"\$(\d+\.\d+) less", text)
        assert net is not None, door
        assert float(net[1]) == pytest.approx(unmanaged - spent, abs=0.011), door
    assert f"{dollars(unmanaged)} without Wane" in told["verdict"]
    # No other figure bears that name, and without --budget it is compared at the one that it had.
    text = ask("replay", name)
    assert set(re.findall(r"(\S+) without Wane", text)) == {dollars(unmanaged)}
    assert "Wane worked with 9,000 tokens when this was recorded" in text
    assert json.loads(ask("replay", name, "--json"))["sessions"][0]["budget"] == 9_000
    swept = json.loads(ask("sweep", name, "--strategy", "cwl", "--json"))
    assert swept["budgets"] == [9_000, 30_000, 60_000, 80_000, 90_000, 120_000, 150_000]  # 80,000 is `auto`
    assert 9_000 not in json.loads(ask("sweep", name, "--strategy", "cwl", "--budgets", "30k,40k", "--json"))["budgets"]
    assert "It is the budget that Wane worked with here." in ask("tune", name)


def test_what_the_shadow_says_is_what_a_replay_and_the_view_say(
    tmp_path: Path, environ: dict[str, str], run: Run
) -> None:
    agent(tmp_path, TALKING)
    replies = [Reply(f"Found {number}. " + "This holds a lot of text. " * 150) for number in range(24)]
    with ScriptedServer(replies) as server:
        environ["ANTHROPIC_BASE_URL"] = server.url
        done = run("--shadow", "--budget", "9k", "--", "claude")
    assert done.returncode == 0, done.stderr
    (status,) = json.loads((tmp_path / "status.json").read_text())["sessions"]
    ask = partial(subprocess.run, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    wane = [sys.executable, "-m", "wane.cli.main"]
    replayed = ask([*wane, "replay", status["id"], "--budget", "9k", "--strategy", "cwl", "--json"]).stdout
    told = json.loads(replayed)
    verdict = told["verdict"]
    assert f"wane: shadow: {verdict}.\n" in done.stderr
    assert "Wane was off" not in done.stderr
    assert told["recorded"]["cost_usd"] == pytest.approx(status["money"]["spent"], abs=1e-6)
    ask([*wane, "view", status["id"], "--budget", "9k", "--output", "view.html"])
    # The tile has the same two figures and their difference, the sentence behind it what they are.
    found = re.match(
        r"(\S+) if nothing is evicted, simulated → (\S+) with Wane (at 9,000 tokens .+), simulated: (.+)", verdict
    )
    assert found is not None
    page = (tmp_path / "view.html").read_text()
    assert f'"value":"{found[1]} → {found[2]}"' in page
    bound = f"If nothing is evicted, simulated; with Wane {found[3]}, simulated."
    assert f'"then":"{found[4]}","bound":"{bound}"' in page
