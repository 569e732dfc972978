"""Other agents in Harbor, their context kept by `wane run`: `-a wane_research.evaluation.rivals:ClaudeCodeByWane`.

Harbor installs and starts each agent as usual. In between, its program is replaced by a script that starts it with
`wane run` from the bundle. So the agent's requests go to its provider through a proxy in the environment. The proxy's
sessions and log are in the agent's folder for logs.
"""

from __future__ import annotations

import shlex
from typing import ClassVar, Final

from typing_extensions import override

from wane_research.evaluation import need_harbor

need_harbor("wane_research.evaluation.rivals")

from harbor.agents.installed.base import BaseInstalledAgent  # noqa: E402 - after the check
from harbor.agents.installed.claude_code import ClaudeCode, ClaudeCodeOptions  # noqa: E402
from harbor.agents.installed.codex import Codex, CodexOptions  # noqa: E402
from harbor.agents.installed.pi import Pi, PiOptions  # noqa: E402
from harbor.agents.options import InstalledAgentOptions  # noqa: E402
from harbor.environments.base import BaseEnvironment  # noqa: E402

from wane_research.evaluation import bundle  # noqa: E402
from wane_research.evaluation.harbor import flags, last_line, put_bundle  # noqa: E402
from wane_research.evaluation.running.journals import STORE  # noqa: E402

LOG: Final = "wane-proxy.log"

_REAL: Final = "/opt/wane-agent"
"""The folder for the agent's own program, which keeps its name so that `wane run` knows it."""

_FIND: Final = """\
export PATH="$HOME/.local/bin:$PATH"; if [ -s ~/.nvm/nvm.sh ]; then . ~/.nvm/nvm.sh; fi; command -v {program}"""
# A program may be a link into its package's folder, and find its other files through the link.
_WRAP: Final = """\
mkdir -p {real} &&
if [ -L {found} ]; then ln -s "$(readlink -f {found})" {real}/{program} && rm {found}; else mv {found} {real}/; fi &&
printf '#!/bin/sh\\nexec %s "$@"\\n' {command} >{found} && chmod 755 {found} && chmod -R a+rX {real}"""


class ByWaneOptions(InstalledAgentOptions):  # type: ignore[misc, unused-ignore]
    """Options for `--ak name=value`, on top of the agent's own.

    Attributes:
        wane_strategy: how the context is kept, as `wane run --strategy`; `none` only measures.
        wane_budget: tokens that the view may hold: `80k`.
        wane_annotate: who marks episodes: `model` or `infer`.
        wane_max_cost: dollars after which no more models are called.
        bundle: folder on this machine with a bundle; by default one is made of the installed packages.
    """

    wane_strategy: str = "cwl"
    wane_budget: str | None = None
    wane_annotate: str | None = None
    wane_max_cost: float | None = None
    bundle: str | None = None


class _ByWane(BaseInstalledAgent):  # type: ignore[misc, unused-ignore]
    PROGRAM: ClassVar[str]
    options: ByWaneOptions

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        await super().setup(environment)
        await put_bundle(environment, self.options.bundle)
        program = await self.exec_as_agent(environment, command=_FIND.format(program=self.PROGRAM))
        path = last_line(program.stdout)
        if not path:
            raise RuntimeError(f"{self.PROGRAM} is not installed in this environment: the shell does not find it")
        wrap = _WRAP.format(
            real=_REAL, program=self.PROGRAM, found=shlex.quote(path), command=shlex.quote(self._command())
        )
        await self.exec_as_root(environment, command=wrap)

    def _command(self) -> str:
        chosen, logs = self.options, self.environment_logs_dir
        words = [bundle.COMMAND, "run", "--quiet", "--store", f"{logs}/{STORE}", "--log", f"{logs}/{LOG}"]
        words += flags({"--strategy": chosen.wane_strategy, "--budget": chosen.wane_budget})
        words += flags({"--annotate": chosen.wane_annotate, "--max-cost": chosen.wane_max_cost})
        return shlex.join([*words, f"{_REAL}/{self.PROGRAM}"])


class ClaudeCodeByWaneOptions(ByWaneOptions, ClaudeCodeOptions):  # type: ignore[misc, unused-ignore]
    """Options of Claude Code and of `wane run`."""


class CodexByWaneOptions(ByWaneOptions, CodexOptions):  # type: ignore[misc, unused-ignore]
    """Options of Codex and of `wane run`."""


class PiByWaneOptions(ByWaneOptions, PiOptions):  # type: ignore[misc, unused-ignore]
    """Options of pi and of `wane run`."""


class ClaudeCodeByWane(_ByWane, ClaudeCode):  # type: ignore[misc, unused-ignore]
    """Claude Code, started by `wane run`."""

    PROGRAM = "claude"
    options_model = ClaudeCodeByWaneOptions


class CodexByWane(_ByWane, Codex):  # type: ignore[misc, unused-ignore]
    """Codex, started by `wane run`."""

    PROGRAM = "codex"
    options_model = CodexByWaneOptions


class PiByWane(_ByWane, Pi):  # type: ignore[misc, unused-ignore]
    """pi, started by `wane run`."""

    PROGRAM = "pi"
    options_model = PiByWaneOptions
