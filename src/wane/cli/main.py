"""The command line: runs a command, and turns its errors into exit codes.

Modules are imported when a command runs, so that help is quick and `wane plan` needs no extra.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wane.agent.options import AgentOptions
from wane.cli import failure
from wane.cli.command_registry import AGENT, find_commands, find_ignored
from wane.cli.failure import UsageError, need_agent
from wane.cli.parser import parse
from wane.cli.terminal.text import say
from wane.core.errors import WaneError
from wane.extensions import blame_extensions

STDIN: Final = "-"
"""The task that means standard input."""

_UNSHIELDED: Final = ("run", "statusline")
"""Commands that keep the user's PATH, because they start what the user names, or nothing."""


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line, given without the program's name, or that of the process; return the exit code."""
    _make_lenient()
    args = sys.argv[1:] if args is None else args
    try:
        with blame_extensions():
            code = _run(args)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else failure.OK
    except WaneError as error:
        say(str(error), error.command)
        code = failure.exit_code(error)
    except KeyboardInterrupt:
        code = failure.INTERRUPTED
    except BrokenPipeError:
        # A reader that is gone, such as `head`, has what it wanted; but then the agent (no command, only options) has
        # not finished its task.
        code = failure.OK if args and not args[0].startswith("-") else failure.FAILED
    except OSError as error:
        say(_os_error_text(error))
        code = failure.FAILED
    return _flush_output(code)


def _run(args: Sequence[str]) -> int:
    arguments: tuple[str, ...] = ()
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    if args[:1] == ["run"]:
        from wane.cli.proxy.proxy_commands import split

        args, arguments = split(args)
    command, options = parse(args, AGENT, find_commands(args))
    if args[:1] != ["statusline"]:  # a client asks for it again and again, and shows each line
        for sentence in find_ignored(args, options):
            say(sentence)
    if not args or args[0] not in _UNSHIELDED:
        from wane.agent.search_path import shield_path

        shield_path(os.environ, Path.cwd())
    return command.run(replace(options, arguments=arguments) if arguments else options)


def run_agent(arguments: AgentOptions) -> int:
    """Run the agent: interactively, or for one turn if a task is given; return the exit code."""
    if arguments.prompt is None:
        options = agent_options(arguments)
        from wane.cli.chat.interactive import run_chat

        return run_chat(options)
    from wane.cli.chat.print_mode import run_print, write_failed_start

    try:
        return run_print(agent_options(arguments))
    except WaneError as error:
        write_failed_start(arguments, error)
        raise


def agent_options(arguments: AgentOptions) -> AgentOptions:
    """Return the options of the agent, ready for a start."""
    if arguments.continue_last and arguments.resume is not None:
        raise UsageError("give -c/--continue or -r/--resume, not both")
    if not arguments.save and (arguments.continue_last or arguments.resume is not None):
        raise UsageError("--no-session cannot be used with -c or -r: a resumed session is always saved")
    if arguments.output_format is not None and arguments.prompt is None:
        raise UsageError("--output-format goes with -p/--print")
    if not arguments.cwd.is_dir():
        raise UsageError(f"cannot work in {arguments.cwd}: it is not a directory")
    need_agent("the agent")
    if arguments.no_wane and arguments.strategy not in (None, "none"):
        raise UsageError(f"give --no-wane or --strategy {arguments.strategy}, not both")
    prompt = arguments.prompt
    if prompt == STDIN:
        if isinstance(sys.stdin, io.TextIOWrapper):
            # Read as UTF-8, like files; bytes that are not text are replaced.
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
        prompt = sys.stdin.read()
    if prompt is not None and not prompt.strip():
        raise UsageError("the task is empty; give it after -p, or on standard input with -p -")
    return replace(
        arguments,
        cwd=arguments.cwd.resolve(),
        prompt=prompt,
        strategy="none" if arguments.no_wane else arguments.strategy,
        no_wane=False,
    )


def _os_error_text(error: OSError) -> str:
    try:
        Path.cwd()
    except OSError:
        return "the current directory no longer exists; change to another one"
    reason = error.strerror or str(error)
    return f"{reason}: {error.filename}" if error.filename else reason


def _make_lenient() -> None:
    """Let the output print whatever a model wrote, in any encoding; replace streams that are closed."""
    # A stream is None if it is closed, as by `wane … >&-`.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush_output(code: int) -> int:
    """Flush standard output while a failure can still be reported; return the exit code."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python flushes again when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say(f"the output could not be written: {error.strerror or error}")
            return failure.FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
