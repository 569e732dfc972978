"""Agents of others: what is asked of Harbor for them, and two of them at work, by themselves and by `wane run`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from research.tests.evaluation.machines import copy_libraries, make_base
from research.tests.evaluation.test_config import config
from research.tests.evaluation.whole import KEY, SOURCES, TASKS

from tests.marks import first_quick
from tests.proxy.clients import install
from wane.core.errors import ConfigError
from wane.journal import UsageRecord
from wane.journal import read as read_journal
from wane.testing import Call, Kind, Reply, Request, ScriptedServer
from wane_research.evaluation.results import FILE_NAME, Arm, read

IMAGE = "with-agents:1"


def test_budgets_count_for_an_agent_whose_context_wane_keeps() -> None:
    arms = config(strategies=["agent:codex", "agent:codex@cwl"], budgets=["40k", "80k"]).arms()
    model, protocol = "anthropic:claude-sonnet-5", "isolated"
    assert arms == (
        Arm("b", model, "agent:codex", None, protocol),
        Arm("b", model, "agent:codex@cwl", 40_000, protocol),
        Arm("b", model, "agent:codex@cwl", 80_000, protocol),
    )


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("agent:aider@cwl", "'agent:aider@cwl': wane run knows claude-code, codex, pi"),
        ("agent:codex@compact", "'agent:codex@compact': the strategies of wane run are none, truncate, streaming"),
    ],
)
def test_what_wane_run_cannot_do_is_refused(strategy: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config(strategies=[strategy])


def test_no_host_marks_what_wane_run_keeps() -> None:
    with pytest.raises(ConfigError, match="annotate: host: no host marks episodes of 'agent:codex@cwl'"):
        config(strategies=["cwl", "agent:codex@cwl"], annotate=["model", "host"])
    arms = config(strategies=["cwl", "agent:codex@truncate"], annotate=["host"], protocols=["isolated"]).arms()
    assert [(arm.strategy, arm.annotate) for arm in arms] == [("cwl", "host"), ("agent:codex@truncate", None)]


COMMANDS = """
import json, pathlib, sys
from wane_research.evaluation import rivals
options = json.loads(sys.argv[1])
for name in ("ClaudeCodeByWane", "CodexByWane", "PiByWane"):
    agent = getattr(rivals, name)(logs_dir=pathlib.Path("/tmp"), model_name="anthropic/claude-sonnet-5", **options)
    print(agent._command())
"""


@pytest.mark.wide
def test_the_command_in_the_place_of_each_program(python: str) -> None:
    options = {"wane_strategy": "mask", "wane_budget": "40000", "wane_max_cost": 2.5}
    done = subprocess.run(
        [python, "-c", COMMANDS, json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    command = (
        "/opt/wane/bin/wane run --quiet --store /logs/agent/wane --log /logs/agent/wane-proxy.log --strategy mask "
        "--budget 40000 --max-cost 2.5 /opt/wane-agent"
    )
    assert done.stdout.splitlines() == [f"{command}/{program}" for program in ("claude", "codex", "pi")]


SETUPS = """
import asyncio, pathlib, sys
from harbor.environments.base import ExecResult
from wane_research.evaluation import harbor, rivals

class Silent:  # its commands all succeed and print nothing
    default_user = None

    async def exec(self, command, **_):
        return ExecResult(stdout=None, return_code=0)

    def __getattr__(self, _name):
        return lambda *_args, **_more: self.exec("")

common = {"logs_dir": pathlib.Path(sys.argv[1]), "model_name": "anthropic/claude-sonnet-5"}
for agent in (harbor.WaneAgent(**common, patch="/testbed"), rivals.CodexByWane(**common)):
    try:
        asyncio.run(agent.setup(Silent()))
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.wide
def test_an_environment_that_says_nothing_is_told(python: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-c", SETUPS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "/testbed is not a git checkout: it said nothing",
        "codex is not installed in this environment: its shell does not find it",
    ]


class Model:
    """Does a task in one command, in an episode if it can, by whichever tool the agent has for commands."""

    def __init__(self) -> None:
        self.marked = 0

    def __call__(self, request: Request) -> Reply:
        tools = request.tools
        name = next((name for name in TASKS if f"the word {name} " in "".join(request.texts(Kind.USER))), None)
        calls = [part for part in request.parts if part.kind is Kind.CALL]
        if name is None or len(calls) > 1 or (calls and "delimiter" not in tools):
            return Reply("Done.")
        if "delimiter" in tools and not calls:
            self.marked += 1
            return Reply(
                calls=(Call("delimiter", {"action": "start", "name": name, "type": "act", "dependencies": []}),)
            )
        command = f"echo {name} >/app/{name}.txt"
        if "Bash" in tools:
            return Reply(calls=(Call("Bash", {"command": command}),))
        return Reply(calls=(Call("exec_command", {"cmd": command}),))


@pytest.fixture(scope="module")
def with_agents(place: Path) -> Path:
    """The task apple, in an image that has Claude Code and Codex."""
    root = make_base(place / "bases", IMAGE)
    for package in (install.CLAUDE, install.CODEX):
        try:
            folder = install.install_client(package).program.parents[1]
        except install.UnavailableError as error:
            pytest.skip(str(error))
        # The program itself: what npm links starts it, and needs Node.
        found = max(folder.rglob(package.program), key=lambda path: path.is_file() and path.stat().st_size).resolve()
        target = root / "usr" / "local" / "bin" / package.program
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(found, target)
        except OSError:
            shutil.copy2(found, target)
        copy_libraries(found, root)
    task = place / "agents" / "apple"
    shutil.copytree(place / "tasks" / "apple", task)
    (task / "environment" / "Dockerfile").write_text(f"FROM {IMAGE}\nWORKDIR /app\n")
    return task.parent


@pytest.mark.wide
@pytest.mark.parametrize(
    ("agent", "model"), first_quick(("claude-code", "anthropic:claude-sonnet-5"), ("codex", "openai:gpt-5.4"))
)
def test_an_agent_works_by_itself_and_by_wane_run(
    evaluate_to_end: Callable[..., str], with_agents: Path, tmp_path: Path, agent: str, model: str
) -> None:
    script = Model()
    with ScriptedServer(script) as server:
        provider = model.partition(":")[0].upper()
        base = server.url if provider == "ANTHROPIC" else f"{server.url}/v1"
        evaluate_to_end(
            "",
            path=str(with_agents),
            models=[model],
            strategies=[f"agent:{agent}", f"agent:{agent}@cwl"],
            env={f"{provider}_BASE_URL": base, f"{provider}_API_KEY": "${TEST_KEY}"},
            protocols=["isolated"],
        )
    found = {it.run.arm.strategy: it for it in map(read, sorted((tmp_path / "out").rglob(FILE_NAME)))}
    for strategy, run in found.items():
        (trial,) = run.trials
        assert (strategy, trial.reward, trial.error) == (strategy, 1.0, "")
        assert trial.usage.input_tokens > 0
        assert run.run.new_environment == ""
    # Only by Wane was there an episode to mark, and its hidden round is in the figures.
    assert script.marked == 1
    by_wane = found[f"agent:{agent}@cwl"]
    (trial,) = by_wane.trials
    folder = by_wane.path.parent / trial.directory / "agent" / "wane"
    records = [it for path in folder.rglob("*.jsonl") for it in read_journal(path).records]
    assert sum(isinstance(it, UsageRecord) for it in records) == trial.usage.model_calls == 3
    assert by_wane.run.arm.budget == 80_000
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert json.loads((by_wane.path.parent / trial.directory / "result.json").read_text())["agent_info"]["version"]
