"""Tries one task once, as a trial of Harbor, and records the result."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import ConfigError, WaneError
from wane.evaluation import bundle, swe_bench
from wane.evaluation.results import Arm, ContextFigures, StepReward, Trial, Usage
from wane.evaluation.running.config import BY_WANE_AGENTS, RIVAL, Config, kept_by_wane
from wane.evaluation.running.journals import STORE, figures_of, journals_in, usage_of
from wane.evaluation.running.tasks import Task

if TYPE_CHECKING:
    from harbor.models.trial.config import TrialConfig
    from harbor.models.trial.result import TrialResult

LINUX: Final = "wane.evaluation.environment:LinuxEnvironment"
GRACE: Final = 120.0
"""Seconds that Harbor waits beyond Wane's own time limit, so that Wane ends first."""

COST_LIMIT: Final = "CostLimitError"
"""Name of the error of a trial that reached its cost limit."""

_MOUNTED: Final = ("linux", "docker", "podman")
"""Environments that can mount a folder of this machine."""

_MESSAGE: Final = 500
_REFERENCE: Final = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task to try.

    Attributes:
        arm: its arm.
        run: number of the run.
        position: place of the task in it, from 1.
        task: the task.
        folder: the run's folder.
        earlier: the session file that this trial continues, as it is now; None for a session of its own.
        allowance: dollars that it may spend; None for no limit.
    """

    arm: Arm
    run: int
    position: int
    task: Task
    folder: Path
    earlier: Path | None = None
    allowance: float | None = None

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.position:03}-{self.task.name}"

    @property
    def directory(self) -> Path:
        """Its folder."""
        return self.folder / "trials" / self.name

    @property
    def spent_before(self) -> Usage:
        """The session's usage before this trial."""
        return usage_of(*self._earlier)

    def spent(self) -> Usage:
        """Return the trial's usage so far."""
        return self.figures()[0]

    def figures(self) -> tuple[Usage, ContextFigures | None]:
        """Return the trial's usage so far, and the figures of its context if they are known.

        Those of Wane's agent are in its sessions. Of another agent the context is not known, and its usage is in the
        sessions of Wane's proxy, if it uses one.
        """
        if kept_by_wane(self.arm.strategy):
            return usage_of(*journals_in(self.directory, STORE)), None
        if self.arm.strategy.startswith(RIVAL):
            return Usage(), None
        if not (journals := journals_in(self.directory)):
            # The environment did not start, so there is no copy of the session.
            return Usage(cost=0.0), None
        try:
            return figures_of(*journals).since(figures_of(*self._earlier), self.arm.budget)
        except WaneError:
            return Usage(), None

    @property
    def _earlier(self) -> tuple[Path, ...]:
        return (self.earlier,) if self.earlier else ()


async def try_task(config: Config, attempt: Attempt) -> Trial:
    """Do a task, and return its record, with the error if there was one.

    Raises:
        ConfigError: if a variable that the configuration names is not set.
        asyncio.CancelledError: if it was stopped.
    """
    from harbor.trial.trial import Trial as HarborTrial

    described = _trial_config(config, attempt)
    try:
        trial = await HarborTrial.create(described)
    except Exception as error:
        # A task that this environment cannot run, or that is damaged: the others can be tried.
        return Trial(
            arm=attempt.arm,
            run=attempt.run,
            position=attempt.position,
            task=attempt.task.name,
            reward=None,
            error=f"Environment{type(error).__name__}",
            error_message=_line(str(error)),
        )
    return _record(attempt, await trial.run())


def _trial_config(config: Config, attempt: Attempt) -> TrialConfig:
    from harbor.models.trial.config import TaskConfig, TrialConfig, VerifierConfig

    return TrialConfig(
        task=TaskConfig(path=attempt.task.path, source=config.benchmark),
        trial_name=attempt.name,
        trials_dir=attempt.directory.parent,
        agent=_agent(config, attempt),
        environment=_environment(config),
        # Tasks of SWE-bench are graded afterwards, by its own grader.
        verifier=VerifierConfig(disable=config.benchmark in swe_bench.BENCHMARKS),
    )


def _agent(config: Config, attempt: Attempt) -> Any:
    from harbor.models.trial.config import AgentConfig

    arm, limits = attempt.arm, config.limits
    own = attempt.task.seconds
    seconds = limits.minutes_per_task * 60 if limits.minutes_per_task else own and own * limits.timeout_factor
    env = {name: _resolved(name, value) for name, value in config.env.items()}
    common = {"model_name": arm.model.replace(":", "/", 1) or None, "env": env}
    if kept := kept_by_wane(arm.strategy):
        return AgentConfig(
            import_path=f"wane.evaluation.rivals:{BY_WANE_AGENTS[kept[0]]}",
            **common,
            override_timeout_sec=seconds,
            kwargs=_given(
                wane_strategy=kept[1],
                wane_budget=None if arm.budget is None else str(arm.budget),
                wane_annotate=config.annotate,
                wane_max_cost=attempt.allowance,
            ),
        )
    if arm.strategy.startswith(RIVAL):
        name = arm.strategy.removeprefix(RIVAL)
        named = {"import_path": name} if ":" in name else {"name": name}
        return AgentConfig(**named, **common, override_timeout_sec=seconds)
    kwargs = _given(
        strategy=arm.strategy,
        budget=None if arm.budget is None else str(arm.budget),
        annotate=config.annotate,
        new_environment=config.new_environment,
        time_limit=seconds,
        # The agent's limit is for its whole session.
        cost_limit=None if attempt.allowance is None else attempt.allowance + (attempt.spent_before.cost or 0.0),
        patch=swe_bench.CHECKOUT if config.benchmark in swe_bench.BENCHMARKS else None,
        # A session file is in a folder for its directory, below that of all sessions.
        session=str(attempt.earlier.parents[1]) if attempt.earlier else None,
    )
    return AgentConfig(
        import_path="wane.evaluation.harbor:WaneAgent",
        **common,
        override_timeout_sec=seconds and seconds + GRACE,
        # In a session over tasks, a task's steps are turns of it; isolated, each step has a session of its own.
        resume_trajectory=arm.protocol == "single",
        kwargs=kwargs,
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _environment(config: Config) -> Any:
    from harbor.models.trial.config import EnvironmentConfig

    place = config.environment
    named: dict[str, Any] = {"type": place.type}
    if ":" in place.type or place.type == "linux":
        named = {"import_path": LINUX if place.type == "linux" else place.type}
    mounts = []
    if place.type in _MOUNTED if place.mount is None else place.mount:
        mounts.append({"type": "bind", "source": str(bundle.made()), "target": bundle.PLACE, "read_only": True})
    return EnvironmentConfig(**named, kwargs=dict(place.kwargs), mounts=mounts)


def _resolved(name: str, value: str) -> str:
    def of(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"env: {name}: the variable {match[1]} is not set here")
        return found

    return _REFERENCE.sub(of, value)


def _record(attempt: Attempt, result: TrialResult) -> Trial:
    steps = result.step_results or []
    results = [result.agent_result, *(step.agent_result for step in steps)]
    said: Mapping[str, Any] = next((it.metadata for it in reversed(results) if it and it.metadata), {})
    failed = result.exception_info
    failed = failed or next((step.exception_info for step in steps if step.exception_info), None)
    error, message = (failed.exception_type, failed.exception_message) if failed else ("", "")
    if said.get("outcome") == "cost_limit":
        error = COST_LIMIT
    timing = result.agent_execution
    timings = [timing] if timing else [step.agent_execution for step in steps if step.agent_execution]
    spans = [(it.finished_at - it.started_at).total_seconds() for it in timings if it.finished_at and it.started_at]
    rival = attempt.arm.strategy.startswith(RIVAL)
    journals = () if rival else journals_in(attempt.directory)
    journal = journals[-1] if journals else None
    usage, context = attempt.figures()
    if rival and not kept_by_wane(attempt.arm.strategy):
        usage = _told(result)
    return Trial(
        arm=attempt.arm,
        run=attempt.run,
        position=attempt.position,
        task=attempt.task.name,
        reward=_reward(result.verifier_result),
        error=error,
        error_message=_line(message),
        started=timings[0].started_at if timings else None,
        seconds=sum(spans) if spans else None,
        usage=usage,
        context=context,
        steps=tuple(StepReward(it.step_name, _reward(it.verifier_result)) for it in steps),
        journal=journal.relative_to(attempt.folder).as_posix() if journal else "",
        directory=attempt.directory.relative_to(attempt.folder).as_posix(),
    )


def _line(text: str) -> str:
    return " ".join(text.split())[:_MESSAGE]


def _reward(graded: Any) -> float | None:
    """The reward that a verifier gave: the one named `reward`, or the only one."""
    rewards = (graded.rewards or {}) if graded else {}
    if "reward" in rewards:
        return float(rewards["reward"])
    return float(next(iter(rewards.values()))) if len(rewards) == 1 else None


def _told(result: TrialResult) -> Usage:
    """The usage that another agent tells of itself."""
    tokens_in, cached, out, cost = result.compute_token_cost_totals()
    return Usage(input_tokens=tokens_in or 0, cached_tokens=cached or 0, output_tokens=out or 0, cost=cost)
