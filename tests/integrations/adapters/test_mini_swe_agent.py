"""The adapter of mini-swe-agent over its LiteLLM model, its local environment and two wires."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# Otherwise it sends what a server refuses ten times, and sleeps for minutes in between.
os.environ.setdefault("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")

pytest.importorskip("minisweagent", reason="mini-swe-agent is not installed")

from minisweagent.agents.interactive import InteractiveAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import UserInterruption

from tests.integrations.adapters.support import LOOK, mark
from wane.core import Kind
from wane.formats.message_format import Part
from wane.integrations.mini_swe_agent import ContextLifecycle, MiniFormat
from wane.testing import Call, Reply, ScriptedServer, adapters

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class GoingOn(InteractiveAgent):
    """An agent whose run goes on with the messages of an earlier one."""

    earlier: list[dict[str, Any]]

    def add_messages(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.messages and self.earlier:
            self.messages.extend(self.earlier)
            messages = messages[1:]  # the system prompt is there
        return super().add_messages(*messages)


def agent_of(model: Any, folder: Path, **settings: Any) -> GoingOn:
    agent = GoingOn(
        model,
        LocalEnvironment(cwd=str(folder)),
        system_template="Be good.",
        instance_template="{{task}}",
        mode="yolo",
        confirm_exit=False,
        output_path=folder / "trajectory.json",
        **settings,
    )
    agent.earlier = []
    return agent


def model_of(url: str, name: str = "openai/gpt-x", **settings: Any) -> ContextLifecycle:
    given = {"api_base": url if name.startswith("anthropic") else f"{url}/v1", "api_key": "k", "num_retries": 0}
    return ContextLifecycle(
        model_name=name,
        model_kwargs={**given, **settings.pop("model_kwargs", {})},
        cost_tracking="ignore_errors",
        observation_template=settings.pop("observation_template", "{{output.output}}"),
        **settings,
    )


def bash(command: str, call_id: str) -> Call:
    return Call("bash", {"command": command}, call_id)


def in_bash(reply: Reply) -> Reply:
    """A script's reply by means of this agent: tools are commands, and whoever is done submits."""
    calls = tuple(
        bash(f"cat {next(iter(call.arguments.values()))}", call.id or "")
        if call.tool in ("read", "grep") and isinstance(call.arguments, Mapping)
        else call
        for call in reply.calls
    )
    name = "".join(filter(str.isalnum, reply.text or ""))
    return replace(reply, calls=calls or (bash(f"{SUBMIT}; echo '{reply.text}'", f"submit-{name}"),))


class MiniThread:
    """An agent in a folder, with its trajectory."""

    def __init__(self, adapter: ContextLifecycle, folder: Path) -> None:
        self._folder, self._agent = folder, agent_of(adapter, folder)

    def turn(self, prompt: str, *, stream: bool = False) -> str:
        self._agent.earlier = [message for message in self._agent.messages if message["role"] != "exit"]
        return str(self._agent.run(prompt)["submission"]).strip()

    def read_stored(self) -> Sequence[Part]:
        messages = json.loads((self._folder / "trajectory.json").read_text())["messages"]
        return [part for message in messages if message["role"] != "exit" for part in MiniFormat().parts(message)]

    def again(self, adapter: ContextLifecycle) -> MiniThread:
        thread = MiniThread(adapter, self._folder)
        thread._agent.messages = json.loads((self._folder / "trajectory.json").read_text())["messages"]
        return thread

    def fork(self) -> MiniThread:
        # The same model, with another agent and folder.
        thread = MiniThread(self._agent.model, self._folder.with_name(uuid4().hex))
        shutil.copytree(self._folder, thread._folder)
        thread._agent.messages = list(self._agent.messages)
        return thread


CANNOT: Mapping[str, str] = {
    "stream": "its models do not stream",
    "delegate": "its agents have no sub-agents",
    "threads": "the adapter is the model, which has one provider",
    **dict.fromkeys(
        ("tool-types", "tool-list", "tool-text"),
        "it leaves out an answer with a bad command, and asks for another one",
    ),
}


class TestChat(adapters.AdapterContract):
    """Chat Completions."""

    cannot = CANNOT
    name = "openai/gpt-x"
    model_kwargs: Mapping[str, Any] = {}

    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def adapter(self, url: str, **settings: Any) -> ContextLifecycle:
        return model_of(url, self.name, model_kwargs=dict(self.model_kwargs), **settings)

    def begin(self, url: str, adapter: ContextLifecycle) -> MiniThread:
        folder = self.folder / uuid4().hex
        folder.mkdir()
        for what in (f"{letter}{n}" for letter in "abcd" for n in range(adapters.TURNS)):
            (folder / what).write_text(adapters.content_of(what))
        return MiniThread(adapter, folder)

    def shape_reply(self, reply: Reply) -> Reply:
        return in_bash(reply)


@pytest.mark.wide
class TestAnthropic(TestChat):
    """Messages, with thinking."""

    cannot: Mapping[str, str] = {**CANNOT, **adapters.ONLY_OBJECTS}
    name = "anthropic/claude-sonnet-4-5"
    reasoning = True
    model_kwargs: Mapping[str, Any] = {"max_tokens": 5_000, "thinking": {"type": "enabled", "budget_tokens": 1_024}}


@pytest.mark.wide
class TestResponses(TestChat):
    """Responses, by LiteLLM's own translation."""

    name = "openai/responses/gpt-x"
    reasoning = True


# What this framework does by itself


def serve(*replies: Reply) -> ScriptedServer:
    return ScriptedServer(iter([*replies, Reply(calls=(bash(SUBMIT, "submit"),))]))


def results_of(agent: GoingOn) -> dict[str, str]:
    return {it["tool_call_id"]: it["content"] for it in agent.messages if it["role"] == "tool"}


def test_the_command_takes_it_from_one_line_of_its_yaml(tmp_path: Path) -> None:
    (tmp_path / "wane.yaml").write_text(
        "model:\n"
        "  model_class: wane.integrations.mini_swe_agent.ContextLifecycle\n"
        "  budget: 4k\n"
        "  policy: {low_water: 0.7}\n"
        "  recall: true\n"
        "  on_event: builtins.print\n"
    )
    (tmp_path / "long").write_text(adapters.content_of("long"))
    looks = [
        Reply(calls=(mark(f"l{n}", **{**LOOK, "name": f"look-{n}"}), bash("cat long", f"c{n}")))
        if way == "start"
        else Reply(calls=(mark(f"e{n}", action="end", name=f"look-{n}", description="Lines."),))
        for n in range(4)
        for way in ("start", "end")
    ]
    command = [str(Path(sys.executable).with_name("mini")), "-c", "mini.yaml", "-c", "wane.yaml", "-m", "openai/gpt-x"]
    command += ["-t", "Look.", "-y", "--exit-immediately", "-o", "out.json"]
    with serve(*looks) as server:
        command += ["-c", f"model.model_kwargs.api_base={server.url}/v1", "-c", "model.model_kwargs.api_key=k"]
        env = {**os.environ, "MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path), "MSWEA_CONFIGURED": "true"}
        env |= {"MSWEA_COST_TRACKING": "ignore_errors", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not server.refusals
    assert all(request.tokens <= 4_000 for request in server.requests)
    assert "c0" not in server.requests[-1].results
    assert {"bash", "delimiter", "recall"} == set(server.requests[-1].tools)
    trajectory = json.loads((tmp_path / "out.json").read_text())
    assert sum(message["role"] == "tool" for message in trajectory["messages"]) == 13
    told = trajectory["info"]["config"]["model"]
    assert (told["budget"], told["policy"]["low_water"], told["on_event"]) == ("4k", 0.7, "builtins.print")
    assert "PassRan(" in done.stdout


def test_an_answer_that_the_agent_drops_marks_nothing(tmp_path: Path) -> None:
    start = mark("d1")
    faulty = Reply(calls=(start, Call("bash", {"cmd": "ls"}, "b1")))
    again = Reply(calls=(replace(start, id="d2"), bash("echo seen", "b2")))
    with serve(Reply("Only talk."), faulty, again) as server:
        agent = agent_of(model_of(server.url, format_error_template="Tool call error: {{error}}"), tmp_path)
        agent.run("Go.")
    assert agent.messages[-1]["role"] == "exit"
    assert results_of(agent)["d2"].startswith("Started")
    told = [message for message in agent.messages if "Tool call error" in (message["content"] or "")]
    assert [part.kind for message in told for part in MiniFormat().parts(message)] == [Kind.NOTICE, Kind.NOTICE]
    assert not server.refusals


def test_an_interrupted_answer_is_answered_in_full(tmp_path: Path) -> None:
    class Rejected(GoingOn):
        rejected = False

        def _ask_confirmation_or_interrupt(self, commands: list[str]) -> None:
            if commands == ["rm -rf x"]:
                raise UserInterruption({"role": "user", "content": "No.", "extra": {"interrupt_type": "UserRejection"}})

    calls = (mark("d"), bash("rm -rf x", "b"))
    with serve(Reply(calls=calls)) as server:
        agent = Rejected(
            model_of(server.url, observation_template="{{output.exception_info}}"),
            LocalEnvironment(cwd=str(tmp_path)),
            system_template="Be good.",
            instance_template="{{task}}",
            mode="yolo",
            confirm_exit=False,
        )
        agent.earlier = []
        agent.run("Go.")
    assert server.requests[-1].results["d"].startswith("Started")
    assert server.requests[-1].results["b"] == "action was not executed"
    assert server.requests[-1].texts(Kind.USER) == ("Go.", "No.")
    assert not server.refusals


def test_the_output_of_a_users_command_may_leave_the_view() -> None:
    message = {"role": "user", "content": "a\nb", "extra": {"raw_output": "a\nb", "returncode": 0}}
    assert [part.kind for part in MiniFormat().parts(message)] == [Kind.NOTICE]
    said = {"role": "user", "content": "Go.", "extra": {"interrupt_type": "UserNewTask"}}
    assert [part.kind for part in MiniFormat().parts(said)] == [Kind.USER]


def test_a_history_that_cannot_be_taken_in_is_sent_as_it_is(tmp_path: Path) -> None:
    agent = agent_of(model_of("http://127.0.0.1:9", model_kwargs={"timeout": 5}), tmp_path)
    agent.add_messages({"role": "system", "content": "Be good."}, {"role": "user", "content": "Go."})
    agent.add_messages({"role": "tool", "tool_call_id": "nowhere", "content": "An orphan."})
    with ScriptedServer(lambda request: Reply("Never.")) as server:
        agent.model.config.model_kwargs["api_base"] = f"{server.url}/v1"
        agent.model.abort_exceptions = [Exception]
        with pytest.warns(UserWarning, match="sent as it is"), pytest.raises(Exception, match="nowhere"):
            agent.query()
    assert len(server.refusals) == 1
    assert server.refusals[0].request.tools == ("bash",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"budget": "80"}, "did you mean 80k"),
        ({"bugdet": "80k"}, "bugdet"),
        ({"policy": {"low_watr": 0.7}}, "no field low_watr"),
        ({"policy": {"low_water": 7}}, "at most 1"),
        ({"annotate": "guess"}, "'model', 'infer' or 'host'"),
        ({"tool_classes": {"bash": "reading"}}, "bulk, artifact, durable"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        model_of("", **settings)


def test_what_its_commands_tell_is_inferred(tmp_path: Path) -> None:
    (tmp_path / "long").write_text(adapters.content_of("long"))
    replies = [Reply(calls=(bash(f"cat long; echo {n} > other", f"c{n}"),)) for n in range(12)]
    with serve(*replies) as server:
        agent = agent_of(model_of(server.url, budget=4_000, annotate="infer"), tmp_path)
        agent.run("Look.")
    assert {request.tools for request in server.requests} == {("bash",)}
    assert all(request.tokens <= 4_000 for request in server.requests)
    assert "c0" not in server.requests[-1].results
    assert len(results_of(agent)) == 13
    assert not server.refusals
