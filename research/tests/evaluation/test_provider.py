"""A provider that fails in the middle of five tasks: the same rewards as without the fault, or a paused run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from research.tests.evaluation.whole import KEY, SOURCES, results

from tests.marks import first_quick
from wane.testing import Break, Call, HttpError, Kind, Reply, Request, ScriptedServer
from wane_research.evaluation.results import RunResults

pytestmark = pytest.mark.wide

NAMES = ("apple", "birch", "cedar", "damson", "elder")
QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": None}}
PASSING = [
    Reply(error=HttpError(429)),
    Reply(error=HttpError(429, headers={"retry-after": "1"})),
    Reply(error=HttpError(500)),
    Reply(error=HttpError(502, body="<html>Bad Gateway</html>")),
    Reply(error=HttpError(503)),
    Reply(error=HttpError(529)),
    Reply("Half of it.", breaks=Break(0, "reset")),
    Reply("Half of it.", breaks=Break(3, "reset")),
    Reply("Half of it.", breaks=Break(3)),
    Reply("Half of it.", breaks=Break(3, "garbage")),
    Reply("Half of it.", breaks=Break(3, "error")),
    *[Reply(error=HttpError(429))] * 4,
]
"""Three for each task."""

LASTING = {
    "quota": HttpError(429, body=QUOTA),
    "key": HttpError(401),
    "model": HttpError(404),
    "region": HttpError(403, body={"type": "error", "error": {"type": "permission_error", "message": "Not here."}}),
    "outage": HttpError(529),
}

MAKE_BUNDLE = """
import json
from wane_research.evaluation import bundle
print(json.dumps([{"type": "bind", "source": str(bundle.ensure()), "target": bundle.PLACE, "read_only": True}]))
"""


@dataclass
class Flaky:
    """Does each task in two calls, and fails at times."""

    # What it answers to the second call of a task, three times, until there are none left
    faults: list[Reply] = field(default_factory=list)
    fails_in: str = ""  # the task in which it always fails with `lasting`
    lasting: HttpError | None = None
    answered: list[str] = field(default_factory=list)  # the tasks of the calls that it answered, in order
    failed: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Request) -> Reply:
        parts = request.parts
        last = max(at for at, part in enumerate(parts) if part.kind is Kind.USER and "Write the word" in part.text)
        name = next(name for name in NAMES if f"the word {name} " in parts[last].text)
        second = any(part.kind is Kind.CALL for part in parts[last:])
        if second and self.faults and self.failed[name] < 3:
            self.failed[name] += 1
            return self.faults.pop(0)
        if second and name == self.fails_in:
            return Reply(error=self.lasting)
        self.answered.append(name)
        if second:
            return Reply(f"The word {name} is written.")
        start = Call("delimiter", {"action": "start", "name": name, "type": "act", "dependencies": []})
        return Reply(calls=(start, Call("shell", {"command": f"echo {name} >/app/{name}.txt"})))


@pytest.fixture
def tasks(place: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    shutil.copytree(place / "tasks", folder)
    for name in NAMES[3:]:
        shutil.copytree(place / "tasks" / "apple", folder / name)
        for path in (folder / name).rglob("*"):
            if path.is_file():
                path.write_text(path.read_text().replace("apple", name))
    return folder


def rewards(found: RunResults) -> dict[str, float | None]:
    return {it.task: it.reward for it in found.trials}


@pytest.mark.wide
@pytest.mark.parametrize("protocol", first_quick("single", "isolated"))
def test_passing_faults_leave_the_rewards_as_they_are(
    evaluate_to_end: Callable[..., str], tasks: Path, tmp_path: Path, protocol: str
) -> None:
    model = Flaky(list(PASSING))
    with ScriptedServer(model) as server:
        # A limit of cost must not take an answer that broke off for a model without a price.
        run = {"path": str(tasks), "protocols": [protocol], "limits": {"cost_per_task": 1, "cost_total": 20}}
        evaluate_to_end(server.url, **run)
        assert server.refusals == ()
    found = results(tmp_path / "out", protocol)
    assert rewards(found) == dict.fromkeys(NAMES, 1.0)
    assert not model.faults
    assert sorted(model.answered) == sorted(2 * NAMES)
    assert [it.ended_by for it in found.trials] == [None] * 5
    assert all(it.waited for it in found.trials)
    assert all(it.seconds is not None for it in found.trials)
    # Answers that broke off were paid for, and nobody knows what they cost.
    broken = sum(bool(it.breaks and it.breaks.after) for it in PASSING)
    assert sum(it.usage.model_calls for it in found.trials) == 10 + broken
    assert [it.usage.cost is None for it in found.trials] == [it.usage.model_calls > 2 for it in found.trials]


@pytest.mark.wide
@pytest.mark.parametrize(("kind", "protocol"), first_quick(*zip(LASTING, ["single", "isolated"] * 3, strict=False)))
def test_a_lasting_fault_pauses_the_run(
    evaluate_to_end: Callable[..., str], tasks: Path, tmp_path: Path, kind: str, protocol: str
) -> None:
    limits = {"limits": {"patience": 0.01}} if kind == "outage" else {}
    run = {"path": str(tasks), "protocols": [protocol], "seed": None, "tasks": list(NAMES), **limits}
    model = Flaky(fails_in="cedar", lasting=LASTING[kind])
    with ScriptedServer(model) as server:
        out = evaluate_to_end(server.url, **run, code=75)
        last = out.strip().splitlines()[-1]
        assert "paused, with 2 of 5 trials done: " in last
        assert f"HTTP {LASTING[kind].status}" in last
        assert last.endswith(f"Go on with: wane eval resume {tmp_path / 'out'}")
        paused = results(tmp_path / "out", protocol)
        assert rewards(paused) == dict.fromkeys(NAMES[:2], 1.0)
        assert [it.task for it in paused.abandoned] == ["cedar"]
        assert paused.abandoned[0].why.startswith("not tried: ")
        assert paused.abandoned[0].usage.model_calls == 1
        model.fails_in = ""
        evaluate_to_end("", "resume", str(tmp_path / "out"))
    found = results(tmp_path / "out", protocol)
    assert rewards(found) == dict.fromkeys(NAMES, 1.0)
    # What was done is not paid for twice.
    done, others = NAMES[:2], NAMES[2:]
    assert model.answered == [done[0], done[0], done[1], done[1], "cedar", *(name for name in others for _ in range(2))]
    assert [it.usage.model_calls for it in found.trials] == [2] * 5


@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "error"), first_quick(("outage", "UnknownApiError"), ("key", "AgentAuthenticationError"))
)
def test_harbor_alone_takes_no_reward_for_valid_either(
    python: str, place: Path, tmp_path: Path, kind: str, error: str
) -> None:
    words = ["run", "-p", place / "tasks" / "apple", "-o", tmp_path / "jobs", "-m", "anthropic/claude-sonnet-5"]
    words += ["-a", "wane_research.evaluation.harbor:WaneAgent", "--ak", "patience=0.01"]
    words += ["-e", "wane_research.evaluation.environment:LinuxEnvironment", "--ek", f"bases={place / 'bases'}"]
    environ = {"PYTHONPATH": SOURCES, "XDG_CACHE_HOME": str(place / "cache"), "HARBOR_TELEMETRY": "off"}
    environ = {**os.environ, **environ, "ANTHROPIC_API_KEY": KEY}
    made = subprocess.run([python, "-c", MAKE_BUNDLE], capture_output=True, text=True, check=True, env=environ)
    words += ["--mounts", made.stdout]
    with ScriptedServer(Flaky(fails_in="apple", lasting=LASTING[kind])) as server:
        done = subprocess.run(
            [Path(python).with_name("harbor"), *words, "--ae", f"ANTHROPIC_BASE_URL={server.url}"],
            capture_output=True,
            text=True,
            check=False,
            env=environ,
        )
    # Harbor's own exit code says nothing of its trials.
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "jobs").glob("*/apple__*/result.json")
    trial = json.loads(path.read_text())
    assert trial["exception_info"]["exception_type"] == error
    assert trial["reward_valid"] is False


def test_what_will_not_start_pauses_the_run_before_it_tries_all(
    evaluate_to_end: Callable[..., str], tasks: Path
) -> None:
    out = evaluate_to_end("", path=str(tasks), protocols=["single"], env={}, code=75)
    assert "paused, with 0 of 5 trials done: StartError in " in out
    assert "set the environment variable ANTHROPIC_API_KEY" in out


@pytest.mark.wide
def test_a_context_that_is_too_long_is_made_to_fit(
    evaluate_to_end: Callable[..., str], tasks: Path, tmp_path: Path
) -> None:
    with ScriptedServer(_verbose(Flaky()), context_limit=9_000) as server:
        evaluate_to_end(server.url, path=str(tasks), protocols=["single"])
        assert server.refusals
    assert rewards(results(tmp_path / "out", "single")) == dict.fromkeys(NAMES, 1.0)


@pytest.mark.wide
def test_without_a_budget_a_full_window_is_what_the_arm_shows(
    evaluate_to_end: Callable[..., str], tasks: Path, tmp_path: Path
) -> None:
    with ScriptedServer(_verbose(Flaky()), context_limit=5_000) as server:
        run = {"path": str(tasks), "tasks": list(NAMES[:3]), "seed": None, "protocols": ["single"]}
        evaluate_to_end(server.url, **run, strategies=["none"])
    trials = results(tmp_path / "out", "single").trials
    assert {it.ended_by for it in trials} == {None, "limit"}
    assert all(it.counts for it in trials)


def _verbose(model: Flaky) -> Callable[[Request], Reply]:
    """The same model, whose every command says a lot."""

    def reply(request: Request) -> Reply:
        answer = model(request)
        calls: list[Call] = []
        for call in answer.calls:
            if call.tool == "shell" and isinstance(call.arguments, Mapping):
                call = replace(call, arguments={"command": f"{call.arguments['command']}; seq 1 1200"})
            calls.append(call)
        return replace(answer, calls=tuple(calls))

    return reply
