#!/usr/bin/env bash
# Harbor 0.26.0, a task of several steps that an agent does in one session (`resume_trajectory`), with pi or Kimi Code.
#
# Most would expect: the figures of a step are those of that step. Its trajectory repeats the steps before it, marked `is_copied_context`,
# with their usage; `n_input_tokens` and `cost_usd` of its result leave these out, as do the trajectory's own `final_metrics`, which say so.
# What happens: `model_usage` in the same result counts them again. It is summed over all steps of the trajectory, copied or not. So the
# tokens and dollars by model of a session of n steps grow with n², and disagree with the totals beside them.
#
# Seen (two turns of one model call each, the second with 200 input tokens, 10 output tokens and $0.50):
#   result of the second step: 200 input tokens, 10 output tokens, $0.50
#   final_metrics of its trajectory: 200 input tokens, 10 output tokens, $0.50
#   model_usage of the result: 300 input tokens, 20 output tokens, $0.75
set -euo pipefail
export HARBOR_TELEMETRY=off LITELLM_LOCAL_MODEL_COST_MAP=True
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.12 -m venv venv
venv/bin/python -m pip --quiet --disable-pip-version-check install harbor==0.26.0
venv/bin/python -W ignore - 2>/dev/null <<'PYTHON'
import asyncio
import json
from pathlib import Path

from harbor.agents.installed.pi import Pi
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory
from harbor.utils.trajectory_utils import load_model_usage_from_trajectory

LOGS = Path("agent").resolve()
SESSION = LOGS / "pi/sessions/session.jsonl"


class Environment:
    """Stands for the environment: what runs in it is pi, which adds a turn to its session."""

    default_user = None

    def __init__(self):
        self.turns = 0

    async def exec(self, command, **_):
        if "--session-dir" in command:
            self.turns += 1
            add_turn(self.turns)
            return ExecResult(stdout="", stderr="", return_code=0)
        process = await asyncio.create_subprocess_shell(command, stdout=-1, stderr=-1)
        out, _ = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr="", return_code=process.returncode)


def add_turn(number):
    usage = {"input": 100 * number, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.25 * number}}
    said = [
        {"role": "user", "content": [{"type": "text", "text": f"task {number}"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}], "usage": usage},
    ]
    SESSION.parent.mkdir(parents=True, exist_ok=True)
    with SESSION.open("a") as file:
        if number == 1:
            file.write(json.dumps({"type": "session", "id": "s", "version": 3}) + "\n")
        for place, message in enumerate(said, start=2 * number):
            event = {"type": "message", "id": str(place), "parentId": str(place - 1) if place > 2 else None}
            file.write(json.dumps(event | {"timestamp": "2026-11-30T10:00:00Z", "message": message}) + "\n")


def tell(what, given, written, cost):
    print(f"{what}: {given} input tokens, {written} output tokens, ${cost:.2f}")
    return given, written, round(cost, 2)


async def main():
    agent = Pi(logs_dir=LOGS, model_name="anthropic/claude-sonnet-5", environment_logs_dir=LOGS)
    environment = Environment()
    context = AgentContext()
    await agent.run("task 1", environment, context)
    agent.populate_context_post_run(context)
    context = AgentContext()
    await agent.resume("task 2", environment, context)
    agent.populate_context_post_run(context)

    file = LOGS / "trajectory.json"
    final = Trajectory.model_validate_json(file.read_text()).final_metrics
    # As a trial does for every agent that gives none itself.
    (by_model,) = load_model_usage_from_trajectory(file).values()
    seen = [
        tell("result of the second step", context.n_input_tokens, context.n_output_tokens, context.cost_usd),
        tell("final_metrics of its trajectory", final.total_prompt_tokens, final.total_completion_tokens, final.total_cost_usd),
        tell("model_usage of the result", by_model.n_input_tokens, by_model.n_output_tokens, by_model.cost_usd),
    ]
    assert seen == [(200, 10, 0.5), (200, 10, 0.5), (300, 20, 0.75)]


asyncio.run(main())
PYTHON
