#!/usr/bin/env bash
# Harbor 0.26.0 with openai 3.57.0, an agent in Python whose client raises an error: whether the trial counts as one that the model failed.
#
# Most would expect: it depends on what happened. An error of the connection to the provider is nobody's failure, so that its trial has no valid
# reward, and that of a timeout, which is a kind of connection error in OpenAI's client (`APITimeoutError` inherits from
# `APIConnectionError`), is the same; what Harbor does not know is not held against the model.
# What happens: it depends on the bare name of the error's class. Neither its base classes nor its package are looked at, and a name that is not in
# Harbor's table counts as valid. So the agent's untouched folder is graded, and a timeout of the provider is a reward of 0 in
# means and in pass@k, where a refused connection is left out. Any error of the agent's own code counts like that, too.
#
# Seen (the verifier gives 0 where the work is not done):
#   APIConnectionError: reward 0, valid False
#   APITimeoutError: reward 0, valid True
#   KeyError: reward 0, valid True
set -euo pipefail
export HARBOR_TELEMETRY=off
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.12 -m venv venv
venv/bin/python -m pip --quiet --disable-pip-version-check install harbor==0.26.0 openai==3.57.0
venv/bin/python -W ignore - 2>/dev/null <<'PYTHON'
import asyncio
import shutil
from pathlib import Path

import httpx2
import openai
from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.trial.trial import Trial


class Local(BaseEnvironment):
    """Runs a task's commands in a folder of this machine; `/tests` and the like are folders in it."""

    @staticmethod
    def type():
        return "local"

    def _validate_definition(self):
        pass

    def _place(self, path):
        return Path(f"{self.root}{path}")

    async def start(self, force_build):
        self.root = Path(self.trial_paths.trial_dir).resolve() / "root"
        for name in ("tests", "logs/agent", "logs/verifier", "logs/artifacts", "solution"):
            (self.root / name).mkdir(parents=True, exist_ok=True)

    async def stop(self, delete):
        pass

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        for name in ("/tests", "/logs", "/solution"):
            command = command.replace(name, f"{self.root}{name}")
        process = await asyncio.create_subprocess_exec("bash", "-c", command, stdout=-1, stderr=-2, cwd=self.root)
        try:
            out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return ExecResult(stdout=out.decode(), stderr=None, return_code=process.returncode)

    async def upload_file(self, source_path, target_path):
        self._place(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source_path, self._place(target_path))

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self._place(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path, target_path):
        shutil.copy2(self._place(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        shutil.copytree(self._place(source_dir), target_dir, dirs_exist_ok=True)


class Agent(BaseAgent):
    """Fails with the error at hand before it has done anything."""

    error = None

    @staticmethod
    def name():
        return "agent"

    def version(self):
        return "1"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        raise self.error


def write_task():
    task = Path("task")
    for name in ("tests", "solution", "environment"):
        (task / name).mkdir(parents=True)
    (task / "instruction.md").write_text("Write a file.\n")
    (task / "tests" / "test.sh").write_text('#!/bin/bash\necho 0 >"$(dirname "$0")/../logs/verifier/reward.txt"\n')
    (task / "environment" / "Dockerfile").write_text("FROM debian:bookworm\n")
    (task / "task.toml").write_text('schema_version = "1.4"\n')
    return task


async def main():
    request = httpx2.Request("POST", "http://127.0.0.1")
    errors = [openai.APIConnectionError(request=request), openai.APITimeoutError(request=request), KeyError("path")]
    task, seen = write_task(), []
    for Agent.error in errors:
        config = TrialConfig(
            task=TaskConfig(path=task.resolve()),
            trials_dir=Path("trials").resolve(),
            agent=AgentConfig(import_path="__main__:Agent"),
            environment=EnvironmentConfig(import_path="__main__:Local"),
        )
        result = await (await Trial.create(config)).run()
        reward = result.verifier_result.rewards["reward"]
        seen.append((result.exception_info.exception_type, reward, result.reward_valid))
        print(f"{seen[-1][0]}: reward {reward:g}, valid {result.reward_valid}")
    assert isinstance(errors[1], openai.APIConnectionError)
    assert seen == [("APIConnectionError", 0, False), ("APITimeoutError", 0, True), ("KeyError", 0, True)], "it changed"


asyncio.run(main())
PYTHON
