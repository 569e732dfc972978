"""Wane as an agent of Harbor: `-a wane_research.evaluation.harbor:WaneAgent -m anthropic/claude-sonnet-5-5`.

The real `wane` works inside the task's environment, from a bundle. Its session is in the trial's own log folder, and
may continue a session of earlier trials.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from typing_extensions import override

import wane
from wane_research.evaluation import need_harbor

need_harbor("wane_research.evaluation.harbor")

from harbor.agents.base import BaseAgent  # noqa: E402 - after the check
from harbor.agents.capabilities import AgentCapabilities  # noqa: E402
from harbor.agents.installed.base import (  # noqa: E402
    AgentAuthenticationError,
    ApiUsageLimitError,
    ContextWindowExceededError,
    ModelNotFoundError,
    NonZeroAgentExitCodeError,
    UnknownApiError,
)
from harbor.agents.options import AgentOptions  # noqa: E402
from harbor.environments.base import BaseEnvironment  # noqa: E402
from harbor.models.agent.context import AgentContext  # noqa: E402

from wane.core.errors import WaneError  # noqa: E402
from wane.journal import read  # noqa: E402
from wane_research.evaluation import bundle  # noqa: E402
from wane_research.evaluation.running.config import NEW_ENVIRONMENT, hung_after  # noqa: E402
from wane_research.evaluation.running.journals import PROMPT, SESSIONS  # noqa: E402
from wane_research.evaluation.sandbox.namespace import write_shared  # noqa: E402
from wane_research.evaluation.swe_bench import PATCH  # noqa: E402
from wane_research.evaluation.trajectory import FILE, write  # noqa: E402

GRACE: Final = 60.0  # seconds that Wane has to end its turn after SIGTERM; after them it is killed

KEYS: Final = ("ANTHROPIC", "OPENAI", "GOOGLE", "GEMINI")
_PASSED_ON: Final = tuple(f"{name}_{what}" for name in KEYS for what in ("API_KEY", "BASE_URL"))
_PROMPT: Final = "/tmp/wane-task.txt"  # noqa: S108 - in the task's environment
_TIMED_OUT: Final = 124  # exit code of `timeout`
_KILLED: Final = 137  # the same if SIGTERM was not enough
_ABOUT: Final = ("session_id", "outcome", "error", "fault", "waited_seconds")
# Harbor grades after an error that it does not know, and takes the reward for a valid one.
_PROVIDER_ERRORS: Final[Mapping[str, type[NonZeroAgentExitCodeError]]] = {
    "outage": UnknownApiError,
    "quota": ApiUsageLimitError,
    "access": AgentAuthenticationError,
    "model": ModelNotFoundError,
    "context": ContextWindowExceededError,
}
"""Harbor's errors, by what is wrong with the provider. Only after the last of them is a reward valid to Harbor."""
_OUTCOMES: Final = {"cost_limit": "the cost limit was reached", "interrupted": "it was interrupted"}


class StartError(RuntimeError):
    """Wane does not start: without a model, key or client, it will not start in another task either."""


class WaneOptions(AgentOptions):  # type: ignore[misc, unused-ignore]
    """Options for `--ak name=value`.

    Attributes:
        strategy: how the context is kept, such as `cwl`.
        budget: tokens that the view may hold: `80k`.
        annotate: who marks episodes: `model`, `infer` or `host`.
        cost_limit: dollars after which the task ends; with `session`, dollars of the whole session.
        time_limit: seconds that Wane may work, without waiting for a provider that fails; a little less than Harbor's
            own limit, so that the session lives on. None leaves it to Harbor, which kills.
        patience: minutes that an outage of the provider may last.
        new_environment: the line ahead of the task; "" for none.
        session: folder on this machine with a session of an earlier trial, which this one continues.
        patch: folder in the environment with a git checkout; its changes are kept as `patch.diff` in the logs.
        bundle: folder on this machine with a bundle; by default one is made of the installed packages.
    """

    strategy: str = "cwl"
    budget: str | None = None
    annotate: str | None = None
    cost_limit: float | None = None
    time_limit: float | None = None
    patience: float = 30.0
    new_environment: str = NEW_ENVIRONMENT
    session: str | None = None
    patch: str | None = None
    bundle: str | None = None


class WaneAgent(BaseAgent):  # type: ignore[misc, unused-ignore]
    """Runs the `wane` command in the environment, one turn for each task or step."""

    capabilities = AgentCapabilities(atif=True, resume=True)
    options_model = WaneOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._chosen = cast(WaneOptions, self.options)
        self._session_id: str | None = None
        self._head = ""
        self._skip = 0
        # Pass on this machine's keys, as Harbor's own agents do.
        for name in _PASSED_ON:
            if name not in self._extra_env and (value := self._get_env(name)):
                self._extra_env[name] = value

    @staticmethod
    @override
    def name() -> str:
        return "wane"

    @override
    def version(self) -> str | None:
        return wane.__version__

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        """Put the bundle into the environment unless it is mounted there."""
        await put_bundle(environment, self._chosen.bundle)
        if self._chosen.patch:
            head = await environment.exec(f"{self._git} rev-parse HEAD")
            self._head = last_line(head.stdout)
            if head.return_code or not self._head:
                raise RuntimeError(
                    f"{self._chosen.patch} is not a git checkout: {_output_tail(head.stdout, head.stderr)}"
                )

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Do the task, and fill in its usage.

        Raises:
            TimeoutError: if the time limit ended it; Harbor grades the task nevertheless.
            StartError: if Wane does not start.
            NonZeroAgentExitCodeError: if it ended before it was done. If the model's provider failed or refused, it is
                one of `_PROVIDER_ERRORS`.
        """
        line = self._chosen.new_environment
        # Each step has a session of its own, unless it is resumed.
        self._session_id = None
        self._skip = 0
        if self._chosen.session:
            earlier = Path(self._chosen.session)
            self._session_id = session_id(earlier)
            self._skip = len(read(_only_session(earlier)).records)
            await environment.upload_dir(earlier, self._sessions)
            await environment.exec(f"chmod -R a+rwX {self._sessions}", user="root")
        try:
            await self._turn(f"{line}\n\n{instruction}" if line else instruction, environment, context)
        finally:
            if self._chosen.patch:
                # Against the commit at the start, because the agent may have committed.
                target = f"{self.environment_logs_dir}/{PATCH}"
                await environment.exec(
                    f"{self._git} add -A && {self._git} diff --cached --binary {self._head} >{target}"
                )

    @override
    async def resume(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Do the next step of a task in the same session; the environment is not new."""
        await self._turn(instruction, environment, context)

    @property
    def _git(self) -> str:
        return f"git -c safe.directory='*' -C {shlex.quote(self._chosen.patch or '')}"

    @property
    def _sessions(self) -> str:
        return f"{self.environment_logs_dir}/{SESSIONS}"

    async def _turn(self, task: str, environment: BaseEnvironment, context: AgentContext) -> None:
        prompt = self.logs_dir / PROMPT
        prompt.parent.mkdir(parents=True, exist_ok=True)
        write_shared(prompt, task)
        # In a file, because a task may be too long for a command line.
        await environment.upload_file(prompt, _PROMPT)
        done = await environment.exec(self._command())
        limit = self._chosen.time_limit
        answer = last_line(done.stdout)
        write_shared(self.logs_dir / "result.json", answer)
        try:
            result = json.loads(answer)
            usage = result["usage"]
        except (ValueError, KeyError, TypeError):
            if limit is not None and done.return_code in (_TIMED_OUT, _KILLED):
                raise TimeoutError(f"wane did not stop after {limit:g} seconds, and was killed") from None
            errors = await environment.exec(f"tail -c 2000 {self.environment_logs_dir}/stderr.txt")
            raise StartError(f"wane did not start: {_output_tail(done.stdout, errors.stdout)}") from None
        if result["session_id"] is None:
            raise StartError(f"wane did not start: {result['error']}")
        self._session_id = result["session_id"]
        sessions = self.logs_dir / SESSIONS
        try:
            if not sessions.exists():  # an environment without mounts
                await environment.download_dir(self._sessions, sessions)
            write(_only_session(sessions), self._skip, self.logs_dir.parent.name, self.logs_dir / FILE)
        except (WaneError, OSError, ValueError) as error:
            # A trial counts even if it cannot be shown.
            self.logger.warning("no trajectory was written: %s", error)
        context.n_input_tokens, context.n_output_tokens = usage["input_tokens"], usage["output_tokens"]
        context.n_cache_tokens, context.cost_usd = usage["cache_read_tokens"], usage["cost_usd"]
        context.metadata = {name: result[name] for name in (*_ABOUT, "usage", "session_usage", "view_tokens", "budget")}
        if result["outcome"] == "time_limit" or (limit is not None and done.return_code == _TIMED_OUT):
            raise TimeoutError(f"wane was asked to stop after {limit:g} seconds")
        if result["outcome"] == "provider":
            raise _PROVIDER_ERRORS[result["fault"]["kind"]](result["error"])
        if result["outcome"] != "done":
            outcome = _OUTCOMES.get(result["outcome"], "it failed")
            raise NonZeroAgentExitCodeError(f"wane ended before the task was done: {outcome}: {result['error']}")

    def _command(self) -> str:
        chosen = self._chosen
        if self.model_name is None:
            raise ValueError("name a model: -m PROVIDER/MODEL")
        # Harbor writes provider/model.
        model = self.model_name if ":" in self.model_name else self.model_name.replace("/", ":", 1)
        words = [bundle.COMMAND, "-p", "-", "-y", "--output-format", "json", "-m", model]
        words += flags({"--strategy": chosen.strategy, "--budget": chosen.budget, "--annotate": chosen.annotate})
        words += flags({"-l": chosen.cost_limit, "-r": self._session_id})
        words += ["--patience", f"{chosen.patience:g}"]
        if chosen.time_limit is not None:
            words += ["--time-limit", f"{chosen.time_limit / 60:g}"]
            # In case it hangs. Only Wane gets the signal, and Wane ends the commands that it runs.
            hung = hung_after(chosen.time_limit, chosen.patience)
            words = ["timeout", "--foreground", f"--kill-after={GRACE:g}", f"{hung:g}", *words]
        return (
            f"WANE_SESSION_DIR={shlex.quote(self._sessions)} {shlex.join(words)} "
            f"<{_PROMPT} 2>>{self.environment_logs_dir}/stderr.txt"
        )


async def put_bundle(environment: BaseEnvironment, folder: str | None) -> None:
    """Put the bundle into an environment, unless it is mounted there.

    `folder`: folder on this machine with a bundle; None for one of the installed packages.
    """
    installed = await environment.exec(f"test -x {bundle.COMMAND}", user="root")
    if installed.return_code:
        source = Path(folder).expanduser() if folder else bundle.ensure()
        await environment.upload_dir(source, bundle.PLACE)
        await environment.exec(f"chmod -R a+rX {bundle.PLACE}; chmod a+x {bundle.PLACE}/bin/*", user="root")
    started = await environment.exec(f"{bundle.COMMAND} --version")
    if started.return_code:
        raise RuntimeError(f"wane does not start in this environment: {_output_tail(started.stdout, started.stderr)}")


def last_line(output: str | None) -> str:
    """Return the last line of a command's output, as a shell may print a greeting first; "" if there is none."""
    return (output or "").strip().rpartition("\n")[2]


def flags(values: Mapping[str, object]) -> list[str]:
    """Return the words of a command for its flags, without those that have no value."""
    words: list[str] = []
    for flag, value in values.items():
        if value is not None:
            words += [flag, str(value)]
    return words


def session_id(folder: Path) -> str:
    """Return the id of the only session in a folder of sessions."""
    with _only_session(folder).open("rb") as file:
        return cast(str, json.loads(file.readline())["id"])


def _only_session(folder: Path) -> Path:
    sessions = sorted(folder.rglob("*.jsonl"))
    if len(sessions) != 1:
        raise ValueError(f"{folder} holds {len(sessions)} sessions; one is needed to continue")
    return sessions[0]


def _output_tail(*texts: str | None) -> str:
    return " ".join(" ".join(text.split()) for text in texts if text)[-1000:] or "it said nothing"
