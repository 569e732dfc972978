"""An environment of Harbor that works, but for what fails after a task's work is done."""

from __future__ import annotations

from typing import Any

from harbor.environments.base import ExecResult
from typing_extensions import override

from wane_research.evaluation.environment import LinuxEnvironment
from wane_research.evaluation.sandbox.namespace import SandboxError


class FailingEnvironment(LinuxEnvironment):
    """Cannot hand over the logs of the tasks in `no_logs`, nor store the results of those in `no_room`.

    It breaks while the agent works at those in `breaks`.
    """

    def __init__(self, *args: Any, no_logs: str = "", no_room: str = "", breaks: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        task = self.environment_dir.parent.name
        self._no_logs, self._no_room = task in no_logs.split(), task in no_room.split()
        self._breaks = task in breaks.split()

    @override
    async def exec(self, command: str, *args: Any, **kwargs: Any) -> ExecResult:
        done = await super().exec(command, *args, **kwargs)
        if self._breaks and "--output-format json" in command:
            raise SandboxError("the container is gone")
        return done

    @override
    async def prepare_logs_for_host(self) -> None:
        if self._no_logs:
            raise RuntimeError("the container is gone")

    @override
    async def stop(self, delete: bool) -> None:
        await super().stop(delete)
        if self._no_room:
            # Harbor's own file of results cannot be written then, as on a full disk.
            self.trial_paths.result_path.mkdir(exist_ok=True)
