"""The tool that runs commands: the harness's, with Wane's own supervisor.

The harness lets every command outlive the agent. Here a command that the call waits for ends with the agent, even with
one that is killed, and a command that nobody allowed runs in the sandbox.
"""

from __future__ import annotations

import codecs
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from anyio.to_thread import run_sync
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai_harness.shell import CommandOutputEvent, Shell, ShellToolset
from typing_extensions import override

from wane.agent.sandbox.wall import Sandbox, specify_command, supervisor_argv

MAX_WAIT: Final = 270.0
"""Seconds that a call may wait for its command."""

TAIL: Final = 16_000
"""Bytes at the end of a command's output that the model reads."""

_CHUNK: Final = 4_096
_POLL: Final = 0.02  # seconds
_ENDS: Final = 5.0
"""Seconds that the supervisor of a command has to end it."""


@dataclass
class Clearances:
    """The calls whose commands were allowed: by the user, a rule, or because they are harmless in any case.

    All other commands run in the sandbox, so that one that was forgotten here does, too.
    """

    _calls: set[str] = field(default_factory=set)

    def add(self, call_id: str) -> None:
        """Note that the command of a call was allowed."""
        self._calls.add(call_id)

    def take(self, call_id: str | None) -> bool:
        """Return whether the command of a call was allowed, which holds once."""
        if call_id is None or call_id not in self._calls:
            return False
        self._calls.discard(call_id)
        return True


@dataclass
class SandboxedShell(Shell[Any]):
    """Runs commands, in the sandbox unless the user allowed them."""

    sandbox: Sandbox | None = None
    cleared: Clearances = field(default_factory=Clearances)
    is_inert: Callable[[], bool] = bool
    """Whether the settings of the repository may start programs that the user does not trust."""

    @override
    def get_toolset(self) -> ShellToolset[Any]:
        """Return the toolset of the tool."""
        return _SandboxedToolset(
            self.sandbox,
            self.cleared,
            self.is_inert,
            cwd=Path(self.cwd),
            allowed_commands=(),
            denied_commands=self.denied_commands,
            denied_operators=(),
            default_timeout=self.default_timeout,
            max_output_chars=self.max_output_chars,
            persist_cwd=False,
            allow_interactive=False,
            env=self.env,
            denied_env_patterns=self.denied_env_patterns,
            tools=self.tools,
        )


class _SandboxedToolset(ShellToolset[Any]):
    def __init__(
        self, sandbox: Sandbox | None, cleared: Clearances, is_inert: Callable[[], bool], **options: Any
    ) -> None:
        super().__init__(**options)
        self._is_inert = is_inert
        self._sandbox = sandbox
        self._cleared = cleared
        # Their pipes stay open until this program ends.
        self._running: list[subprocess.Popen[bytes]] = []

    @override
    async def for_run(self, ctx: RunContext[Any]) -> ShellToolset[Any]:
        return self

    @override
    async def shell(
        self,
        ctx: RunContext[Any],
        command: str,
        *,
        mode: Literal["foreground", "background"] = "foreground",
        timeout: float | None = None,
    ) -> str:
        """Run a command, and return its output and exit code.

        Foreground waits up to `timeout` seconds (at most 270) for the command to exit. If it has not, it goes on, and
        the result has handles to it: its PID, the path of its output, and the path of a JSON file whose `exit_code` is
        null until the command exits. It ends with this session at the latest. Background returns the handles at once,
        and such a command outlives the session. No notification arrives when it finishes: read those files, and stop
        it with `kill` and the PID.

        Args:
            ctx: The current agent run context.
            command: The shell command to run.
            mode: `foreground` to wait, `background` to return at once.
            timeout: Seconds to wait in foreground mode (default: the configured timeout).
        """
        if sys.platform == "win32":
            return await super().shell(ctx, command, mode=mode, timeout=timeout)
        # Taken first: what is refused below must not leave a clearance for another call.
        allowed = self._cleared.take(ctx.tool_call_id)
        self._check_command(command)
        wait = self._default_timeout if timeout is None else timeout
        if not 0 < wait <= MAX_WAIT:
            raise ModelRetry(f"timeout is {wait:g}; it must be above 0 and at most {MAX_WAIT:g} seconds")
        directory = Path(tempfile.mkdtemp(prefix="wane-shell-"))
        try:
            # In a thread, because the file system is asked.
            specification = partial(self._specification, command, directory, allowed=allowed)
            spec, environ = await run_sync(specification)
            tied = mode == "foreground" or spec["alone"]
            log, status = directory / "output.log", directory / "status.json"
            log.touch(mode=0o600)
            spec |= {"log": str(log), "status": str(status), "tied": tied}
            process = subprocess.Popen(  # noqa: S603 - arguments of our own
                supervisor_argv(spec),
                cwd=self._initial_cwd,
                env=environ,
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        self._running = [running for running in self._running if running.poll() is None] + [process]
        try:
            if mode == "foreground":
                await _follow(ctx, process, log, wait)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await run_sync(_stop, process)
            shutil.rmtree(directory, ignore_errors=True)
            raise
        if process.poll() is None:
            return (
                f"{_tail(log)}PID: {process.pid} (use `kill {process.pid}` to stop it)\nOutput: {log}\n"
                f"Status: {status}\nThe command is still running."
            )
        return _result(process, directory)

    def _specification(
        self, command: str, directory: Path, *, allowed: bool
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        environ = self._resolve_env() or {}
        if self._sandbox is None or (allowed and not self._sandbox.holds_allowed):
            return specify_command(["/bin/sh", "-c", command]), environ
        temporary = directory / "temporary"
        temporary.mkdir(mode=0o700)
        inert = not allowed and self._is_inert()
        spec = self._sandbox.specification(command, environ, str(temporary), allowed=allowed, inert=inert)
        if allowed:
            return spec, environ
        return spec, self._sandbox.environment(environ, self._sandbox.temporary(temporary))


async def _follow(ctx: RunContext[Any], process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Wait for a command, and pass on the beginning of its output as it comes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = TAIL
    with log.open("rb") as output, anyio.move_on_after(seconds):
        ended, chunk = False, b""
        while not ended or chunk:
            ended = process.poll() is not None
            chunk = output.read(min(_CHUNK, left))
            left -= len(chunk)
            if text := decoder.decode(chunk):
                await ctx.emit(CommandOutputEvent(text=text))
            if not ended and not chunk:
                await anyio.sleep(_POLL)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a command by its supervisor, which ends all that it has started."""
    if process.stdin is not None:
        # A word, because the pipe does not close if a process that was forked meanwhile holds it, too.
        with suppress(OSError):  # it has ended
            process.stdin.write(b"end")
            process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_ENDS)
    except subprocess.TimeoutExpired:
        process.kill()  # the kernel ends the command with it
        process.wait()


def _tail(log: Path) -> str:
    with log.open("rb") as output:
        output.seek(max(0, log.stat().st_size - TAIL))
        text = output.read(TAIL).decode("utf-8", "replace")
    return text if not text or text.endswith("\n") else f"{text}\n"


def _result(process: subprocess.Popen[bytes], directory: Path) -> str:
    """Return the end of the output and the exit code. The log stays if there is more of it."""
    log, status = directory / "output.log", directory / "status.json"
    try:
        code = json.loads(status.read_text(encoding="utf-8"))["exit_code"]
    except OSError:
        code = None
    lines = [_tail(log).rstrip("\n") or "(no output)"]
    size = log.stat().st_size
    if code is None:
        # The supervisor could not start it.
        reason = process.stderr.read().decode("utf-8", "replace").strip() if process.stderr is not None else ""
        lines.append(f"[the command could not be started: {reason.rpartition(chr(10))[2]}]")
    elif code:
        lines.append(f"[exit code: {code}]")
    if size > TAIL:
        lines.insert(1, f"[only the end is shown; all {size:,} bytes are in {log}]")
        shutil.rmtree(directory / "temporary", ignore_errors=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return "\n".join(lines)
