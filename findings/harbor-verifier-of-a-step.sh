#!/usr/bin/env bash
# Harbor 0.26.0, a task of several steps whose task.toml has `timeout_sec` under [agent] and under [verifier].
#
# Most would expect: what the task says of its agent and of its verifier holds for its steps, unless a step says otherwise.
# What happens: it does for the agent. A step's verifier has ten minutes, whatever the task says: the default of a step's own [verifier]
# table takes the place of the task's. A task whose checks take longer fails in the first step with a VerifierTimeoutError after 600
# seconds, and the other steps are not run.
#
# Seen (both times are one second in task.toml; the agent or the verifier takes three):
#   one task, a slow verifier: VerifierTimeoutError
#   one task, a slow agent: AgentTimeoutError
#   two steps, a slow verifier: reward 1
#   two steps, a slow agent: AgentTimeoutError
set -euo pipefail
export HARBOR_TELEMETRY=off
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.12 -m venv venv
venv/bin/python -m pip --quiet --disable-pip-version-check install harbor==0.26.0
venv/bin/python -W ignore - 2>/dev/null <<'PYTHON'
import asyncio
import shutil
from pathlib import Path

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


def write_task(name, steps, slow):
    task = Path(name)
    for part in [task / "steps" / step for step in steps] or [task]:
        for folder in ("tests", "solution"):
            (part / folder).mkdir(parents=True)
        (part / "instruction.md").write_text("Wait.\n")
        solve, test = (3, 0) if slow == "agent" else (0, 3)
        (part / "solution" / "solve.sh").write_text(f"#!/bin/bash\nsleep {solve}\n")
        (part / "tests" / "test.sh").write_text(
            f'#!/bin/bash\nsleep {test}\necho 1 >"$(dirname "$0")/../logs/verifier/reward.txt"\n'
        )
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM debian:bookworm\n")
    text = 'schema_version = "1.4"\n[agent]\ntimeout_sec = 1.0\n[verifier]\ntimeout_sec = 1.0\n'
    (task / "task.toml").write_text(text + "".join(f'[[steps]]\nname = "{step}"\n' for step in steps))
    return task


async def main():
    seen = {}
    for kind, steps in (("one task", []), ("two steps", ["first", "second"])):
        for slow in ("verifier", "agent"):
            name = f"{kind}, a slow {slow}"
            task = write_task(name.replace(", ", "-").replace(" ", "-"), steps, slow)
            config = TrialConfig(
                task=TaskConfig(path=task.resolve()),
                trials_dir=Path("trials").resolve(),
                agent=AgentConfig(name="oracle"),
                environment=EnvironmentConfig(import_path="__main__:Local"),
            )
            trial = await Trial.create(config)
            result = await trial.run()
            part = result.step_results[0] if steps else result
            failed = part.exception_info
            seen[name] = failed.exception_type if failed else f"reward {part.verifier_result.rewards['reward']:g}"
            print(f"{name}: {seen[name]}")
    assert list(seen.values()) == ["VerifierTimeoutError", "AgentTimeoutError", "reward 1", "AgentTimeoutError"]


asyncio.run(main())
PYTHON
