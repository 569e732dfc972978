"""Tries one task once, as a trial of Harbor, and records the result."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import ConfigError, WaneError
from wane_research.evaluation import bundle, swe_bench
from wane_research.evaluation.results import NOTHING, Arm, ContextFigures, ErrorKind, Phase, StepReward, Trial, Usage
from wane_research.evaluation.running.config import (
    BY_WANE_AGENTS,
    ORACLE,
    RIVAL,
    Config,
    Task,
    hung_after,
    kept_by_wane,
)
from wane_research.evaluation.running.journals import (
    STORE,
    JournalFigures,
    estimate_of,
    figures_of,
    has_begun,
    journals_in,
    usage_of,
)

if TYPE_CHECKING:
    from harbor.models.trial.result import ExceptionInfo, StepResult, TimingInfo, TrialResult
    from harbor.models.verifier.result import VerifierResult

LINUX: Final = "wane_research.evaluation.environment:LinuxEnvironment"
GRACE: Final = 120.0  # seconds that Harbor waits beyond Wane's own time limit, so that Wane ends first
COST_LIMIT: Final = "CostLimitError"  # name of the error of a trial that reached its cost limit
START: Final = "StartError"  # name of the error of a trial in which Wane did not start
UNGRADED: Final = (START, "ApiUsageLimitError", "SandboxError", "UnknownApiError")
"""Names of errors after which Harbor would grade, although they say nothing about the agent."""
REWARD: Final = "RewardError"  # name of the error of a trial whose verifier gave no usable reward
_MOUNTED: Final = ("linux", "docker", "podman")  # environments that can mount a folder of this machine
_MESSAGE: Final = 500
_REFERENCE: Final = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task to try."""

    arm: Arm
    run: int
    position: int  # place of the task in it, from 1
    task: Task
    folder: Path  # the run's folder
    earlier: Path | None = None  # the session file that this trial continues; None for a session of its own
    allowance: float | None = None  # dollars that it may spend; None for no limit

    @property
    def name(self) -> str:
        return f"{self.position:03}-{self.task.name}"

    @property
    def directory(self) -> Path:
        return self.folder / "trials" / self.name

    @property
    def _is_own(self) -> bool:
        return not self.arm.strategy.startswith(RIVAL)

    def usage_so_far(self) -> Usage:
        """Return the usage so far of a trial that was stopped."""
        began = self.directory.exists()
        if self._is_own:
            began = has_begun(self.directory) or bool(journals_in(self.directory))
        return self.figures(began=began)[0]

    def figures(self, *, began: bool = True) -> tuple[Usage, ContextFigures | None]:
        """Return the trial's usage so far, and the figures of its context if known.

        For Wane's agent both are in its sessions. For another agent the context is unknown, and the usage is in the
        sessions of Wane's proxy, if it uses one. If an agent has begun but left no sessions here, nothing is known.
        """
        if not began:
            return NOTHING, ContextFigures() if self._is_own else None
        if not self._is_own and kept_by_wane(self.arm.strategy) is None:
            return Usage(), None
        journals = journals_in(self.directory) if self._is_own else journals_in(self.directory, STORE)
        if not journals:
            return Usage(), None
        if not self._is_own:
            return usage_of(*journals), None
        try:
            before = figures_of(self.earlier) if self.earlier else JournalFigures()
            return figures_of(*journals).since(before, self.arm.budget)
        except WaneError:
            return Usage(), None


async def try_task(config: Config, attempt: Attempt) -> Trial:
    """Do a task, and return its record, with the error if there was one.

    Raises:
        ConfigError: if a variable that the configuration names is not set.
        asyncio.CancelledError: if it was stopped.
    """
    from harbor.models.trial.config import TaskConfig, TrialConfig, VerifierConfig
    from harbor.models.trial.error_policy import ErrorPolicyOverride
    from harbor.trial.trial import Trial as HarborTrial

    described = TrialConfig(
        task=TaskConfig(path=attempt.task.path, source=config.benchmark),
        trial_name=attempt.name,
        trials_dir=attempt.directory.parent,
        agent=_agent(config, attempt),
        environment=_environment(config),
        # Tasks of SWE-bench are graded afterwards, by its own grader.
        verifier=VerifierConfig(disable=config.benchmark in swe_bench.BENCHMARKS),
        # Harbor grades after an error that it does not know.
        override_error_policy=dict.fromkeys(UNGRADED, ErrorPolicyOverride(should_grade=False, has_valid_reward=False)),
    )
    harbor_trial: HarborTrial | None = None
    result: TrialResult | None = None
    raised: Exception | None = None
    try:
        # It fails for a damaged task, and for one that this environment cannot run. The others can still be tried.
        harbor_trial = await HarborTrial.create(described)
        await harbor_trial.run()
    except Exception as error:
        raised = error
    if harbor_trial is not None:
        # The result counts even if Harbor failed to save the trial's files. There is none if the trial never began.
        with suppress(RuntimeError):
            result = harbor_trial.result
    usage, context = attempt.figures(began=False)
    trial = Trial(attempt.arm, attempt.run, attempt.position, attempt.task.name, None, usage=usage, context=context)
    if result is not None:
        trial = _end_trial(attempt, trial, result)
    if raised is None or trial.error:
        return trial
    phase: Phase = "tear-down" if trial.started else "set-up"
    return replace(trial, error=type(raised).__name__, error_message=_line(str(raised)), phase=phase)


def _agent(config: Config, attempt: Attempt) -> Any:
    from harbor.models.trial.config import AgentConfig

    arm, limits = attempt.arm, config.limits
    seconds = attempt.task.seconds
    if limits.minutes_per_task:
        seconds = limits.minutes_per_task * 60
    elif seconds:
        seconds *= limits.timeout_factor
    env = {name: _resolve_variables(name, value) for name, value in config.env.items()}
    common = {"model_name": arm.model.replace(":", "/", 1) or None, "env": env}
    budget = None if arm.budget is None else str(arm.budget)
    kwargs: dict[str, Any]
    if by_wane := kept_by_wane(arm.strategy):
        kwargs = {
            "wane_strategy": by_wane[1],
            "wane_budget": budget,
            "wane_annotate": arm.annotate,
            "wane_max_cost": attempt.allowance,
        }
        common |= {"import_path": f"wane_research.evaluation.rivals:{BY_WANE_AGENTS[by_wane[0]]}"}
        return AgentConfig(**common, override_timeout_sec=seconds, kwargs=_not_none(kwargs))
    if arm.strategy.startswith(RIVAL):
        name = arm.strategy.removeprefix(RIVAL)
        common |= {"import_path": name} if ":" in name else {"name": name}
        return AgentConfig(**common, override_timeout_sec=seconds)
    cost_limit = attempt.allowance
    if cost_limit is not None and attempt.earlier:
        cost_limit += estimate_of(attempt.earlier)  # the agent's limit is for its whole session
    kwargs = {
        "strategy": arm.strategy,
        "budget": budget,
        "annotate": arm.annotate,
        "new_environment": config.new_environment,
        "time_limit": seconds,
        "patience": limits.patience,
        "cost_limit": cost_limit,
        "patch": swe_bench.CHECKOUT if config.benchmark in swe_bench.BENCHMARKS else None,
        # A session file is in a folder for its directory, below that of all sessions.
        "session": str(attempt.earlier.parents[1]) if attempt.earlier else None,
    }
    return AgentConfig(
        import_path="wane_research.evaluation.harbor:WaneAgent",
        **common,
        # Wane's own limit stands still while it waits for a provider that fails.
        override_timeout_sec=None if seconds is None else hung_after(seconds, limits.patience) + GRACE,
        # In a session over tasks, a task's steps are turns of it; isolated, each step has a session of its own.
        resume_trajectory=arm.protocol == "single",
        kwargs=_not_none(kwargs),
    )


def _not_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _environment(config: Config) -> Any:
    from harbor.models.trial.config import EnvironmentConfig

    settings = config.environment
    named: dict[str, Any] = {"type": settings.type}
    if ":" in settings.type or settings.type == "linux":
        named = {"import_path": LINUX if settings.type == "linux" else settings.type}
    mounts = []
    mount = settings.mount
    if mount is None:
        mount = settings.type in _MOUNTED
    if mount:
        mounts.append({"type": "bind", "source": str(bundle.ensure()), "target": bundle.PLACE, "read_only": True})
    kwargs = dict(settings.kwargs)
    if settings.type in _MOUNTED:
        # A trial that is killed must leave its session here, or nobody knows what it cost.
        kwargs = {"auto_mounting": True, **kwargs}
    return EnvironmentConfig(**named, kwargs=kwargs, mounts=mounts)


def _resolve_variables(name: str, value: str) -> str:
    def of(match: re.Match[str]) -> str:
        variable = os.environ.get(match[1])
        if variable is None:
            raise ConfigError(f"env: {name}: the variable {match[1]} is not set here")
        return variable

    return _REFERENCE.sub(of, value)


def _end_trial(attempt: Attempt, trial: Trial, result: TrialResult) -> Trial:
    parts = (result, *(result.step_results or []))
    contexts = [part.agent_result for part in parts if part.agent_result is not None]
    timings = [part.agent_execution for part in parts if part.agent_execution is not None]
    rival = attempt.arm.strategy.startswith(RIVAL)
    journals = () if rival else journals_in(attempt.directory)
    usage, context = attempt.figures(began=bool(timings))
    if rival and timings and not kept_by_wane(attempt.arm.strategy):
        usage = NOTHING if attempt.arm.strategy == ORACLE else _reported_usage(contexts)
    metadata: Mapping[str, Any] = {}  # of the agent's last turn
    for turn in contexts:
        metadata = turn.metadata or metadata
    waited = _total((turn.metadata or {}).get("waited_seconds") for turn in contexts)
    seconds = _total(_seconds(timing) for timing in timings)
    if seconds is not None:
        seconds -= waited or 0.0
    error, message, phase = _error(result, metadata)
    fault = metadata.get("fault")
    ended_by: ErrorKind | None = "environment" if error == START else None
    if fault:
        error, message = fault["name"], metadata["error"]
        # Without a budget, a context that fills the window is a result of the arm.
        full = fault["kind"] == "context" and attempt.arm.budget is None
        ended_by = "limit" if full else "provider"
    elif error == "AgentTimeoutError" and metadata.get("outcome") == "time_limit":
        message = metadata["error"]  # Harbor names its own limit
    reward, graded_steps, wrong = _read_rewards(result)
    if wrong and not fault:
        error = error or REWARD
        message = f"{message}; {wrong}" if message else wrong
        phase = phase or "grading"
    return replace(
        trial,
        reward=reward,
        error=error,
        error_message=_line(message),
        phase=phase,
        ended_by=ended_by,
        started=timings[0].started_at if timings else None,
        seconds=seconds,
        waited=waited,
        usage=usage,
        context=context,
        steps=graded_steps,
        journal=journals[-1].relative_to(attempt.folder).as_posix() if journals else "",
        directory=attempt.directory.relative_to(attempt.folder).as_posix(),
    )


def _seconds(timing: TimingInfo) -> float | None:
    if timing.started_at is None or timing.finished_at is None:
        return None
    return float((timing.finished_at - timing.started_at).total_seconds())


def _total(values: Iterable[float | None]) -> float | None:
    """Return the sum of some figures; None if there are none, or one is unknown."""
    total: float | None = None
    for value in values:
        if value is None:
            return None
        total = (total or 0.0) + value
    return total


def _error(result: TrialResult, metadata: Mapping[str, Any]) -> tuple[str, str, Phase | None]:
    """Return the name of the error that ended a trial, its text, and the part of the trial in which it was raised."""
    steps = result.step_results or []
    failed_in = next((step for step in steps if step.exception_info), None)
    failed = result.exception_info or (failed_in and failed_in.exception_info)
    limited = metadata.get("outcome") == "cost_limit"
    if failed is None:
        return (COST_LIMIT, "", "agent") if limited else ("", "", None)
    last = failed_in or (steps[-1] if steps else result)
    name = COST_LIMIT if limited else failed.exception_type
    return name, failed.exception_message, _phase(last, failed)


def _phase(part: TrialResult | StepResult, failed: ExceptionInfo) -> Phase:
    """Return when an error was raised, by what had begun and ended in the trial, or in its step."""
    if part.agent_execution is None:
        return "set-up"
    grading = part.verifier
    if grading is None or grading.started_at is None or failed.occurred_at < grading.started_at:
        return "agent"
    return "grading" if part.verifier_result is None else "tear-down"


def _line(text: str) -> str:
    return " ".join(text.split())[:_MESSAGE]


def _read_rewards(result: TrialResult) -> tuple[float | None, tuple[StepReward, ...], str]:
    """Return the rewards of a trial and of its steps, and why they cannot be used; "" if they can."""
    reward, wrong = _reward(result.verifier_result)
    steps = []
    for step in result.step_results or []:
        of_step, wrong_in_step = _reward(step.verifier_result)
        steps.append(StepReward(step.step_name, of_step))
        if wrong_in_step and not wrong:
            wrong = f"{step.step_name}: {wrong_in_step}"
    # The reward of a trial is computed from its steps' rewards.
    return None if wrong else reward, tuple(steps), wrong


def _reward(graded: VerifierResult | None) -> tuple[float | None, str]:
    """Return a verifier's reward, the one named `reward` or the only one, and why it cannot be used."""
    rewards = (graded.rewards or {}) if graded else {}
    if not rewards:
        return None, ""
    if "reward" not in rewards and len(rewards) > 1:
        return None, f"the verifier gave {', '.join(rewards)}, and none that is named reward"
    reward = float(rewards.get("reward", next(iter(rewards.values()))))
    if 0 <= reward <= 1:
        return reward, ""
    return None, f"the verifier's reward {reward:g} is not from 0 to 1"


def _reported_usage(contexts: Iterable[Any]) -> Usage:
    """Return the usage that another agent reports; a figure is unknown unless it is reported for each step."""

    def total(name: str) -> Any:
        values = [getattr(context, name) for context in contexts]
        for value in values:
            if value is None or not 0 <= value < math.inf:
                return None
        return sum(values)

    return Usage(
        input_tokens=total("n_input_tokens"),
        cached_tokens=total("n_cache_tokens"),
        output_tokens=total("n_output_tokens"),
        cost=total("cost_usd"),
    )
