"""The command line: which command runs what.

Modules are imported when a command runs, so that help is quick and `wane plan` needs no extra.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wane.cli import failure, flags, texts
from wane.cli.eval.commands import EVAL_COMMANDS, EVAL_GROUPS
from wane.cli.failure import UsageError
from wane.cli.lab.commands import LAB_COMMANDS, LAB_GROUPS
from wane.cli.parser import Command, Values, parse
from wane.cli.proxy import flags as proxy_flags
from wane.cli.proxy import texts as proxy_texts
from wane.cli.run import flags as run_flags
from wane.cli.run import texts as run_texts
from wane.cli.run.split import split
from wane.cli.terminal.text import say
from wane.core.errors import MissingExtraError, WaneError

if TYPE_CHECKING:
    from wane.agent.options import AgentOptions

STDIN: Final = "-"
"""The task that means standard input."""

_AGENT_MODULES: Final = ("pydantic_ai", "pydantic_ai_harness", "genai_prices", "prompt_toolkit", "tree_sitter_bash")


def main(args: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Args:
        args: the command line without the program's name; None for the process's own.
    """
    _make_lenient()
    try:
        code = _run(sys.argv[1:] if args is None else args)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else failure.OK
    except WaneError as error:
        say(str(error))
        code = failure.exit_code(error)
    except KeyboardInterrupt:
        code = failure.INTERRUPTED
    except BrokenPipeError:
        code = failure.FAILED
    except OSError as error:
        say(_told(error))
        code = failure.FAILED
    return _flushed(code)


def _run(args: Sequence[str]) -> int:
    args, rest = split(args)
    name, values = parse(args, COMMANDS, LAB_GROUPS | EVAL_GROUPS)
    if name is None:
        return _agent(values)
    if rest:
        values["arguments"] = rest
    return next(command for command in COMMANDS if command.name == name).run(values)


def _agent(values: Values) -> int:
    """Run the agent: interactively, or for one turn if a task is given."""
    if "prompt" not in values:
        options = agent_options(values)
        from wane.cli.chat.interactive import run_chat

        return run_chat(options)
    from wane.cli.chat.print_mode import run_print, write_failed_start

    try:
        return run_print(agent_options(values))
    except WaneError as error:
        write_failed_start(values, error)
        raise


def agent_options(values: Values) -> AgentOptions:
    """Return the options of the agent.

    Args:
        values: values of the command line.

    Raises:
        UsageError: for options that make no sense together, a directory that does not exist, or an empty task.
        MissingExtraError: if the agent's extra is not installed.
    """
    if values.get("continue_last") and "resume" in values:
        raise UsageError("give -c/--continue or -r/--resume, not both")
    if "output_format" in values and "prompt" not in values:
        raise UsageError("--output-format goes with -p/--print")
    values = dict(values)
    cwd = values.pop("cwd", Path())
    if not cwd.is_dir():
        raise UsageError(f"cannot work in {cwd}: it is not a directory")
    _need_agent("the agent")
    from wane.agent.options import AgentOptions

    if "prompt" in values:
        values["prompt"] = _task(values["prompt"])
    values["save"] = not values.pop("no_session", False)
    if values.pop("no_cwl", False) and values.setdefault("strategy", "none") != "none":
        raise UsageError(f"give --no-cwl or --strategy {values['strategy']}, not both")
    return AgentOptions(cwd=cwd.resolve(), **values)


def _plan(values: Values) -> int:
    from wane.cli.lab.plan import PlanOptions, run_plan

    return run_plan(PlanOptions(**values))


def _sessions(values: Values) -> int:
    from wane.cli.sessions.listing import list_sessions

    return list_sessions(**values)


def _prune(values: Values) -> int:
    from wane.cli.sessions.removing import prune_sessions

    return prune_sessions(values)


def _delete(values: Values) -> int:
    from wane.cli.sessions.removing import delete_sessions

    return delete_sessions(values)


def _show(values: Values) -> int:
    from wane.cli.sessions.show import show_session

    return show_session(**values)


def _proxy(values: Values) -> int:
    from wane.cli.proxy.command import run_proxy

    return run_proxy(values)


def _run_agent(values: Values) -> int:
    from wane.cli.run.command import run_agent

    return run_agent(values)


def _statusline(values: Values) -> int:
    from wane.cli.proxy.statusline import print_statusline

    return print_statusline(**values)


def _demo(values: Values) -> int:
    _need_agent("the demo")
    from wane.cli.demo.command import run_demo

    return run_demo(**values)


COMMANDS: Final = (
    Command("plan", texts.PLAN, flags.PLAN, _plan),
    Command("sessions", texts.SESSIONS, flags.SESSIONS, _sessions),
    Command("sessions prune", texts.PRUNE, flags.PRUNE, _prune),
    Command("sessions delete", texts.DELETE, flags.DELETE, _delete),
    Command("show", texts.SHOW, flags.SHOW, _show),
    Command("proxy", proxy_texts.PROXY, proxy_flags.PROXY, _proxy),
    Command("run", run_texts.RUN, run_flags.RUN, _run_agent),
    Command("statusline", proxy_texts.STATUSLINE, proxy_flags.STATUSLINE, _statusline),
    *LAB_COMMANDS,
    *EVAL_COMMANDS,
    Command("demo", texts.DEMO, flags.DEMO, _demo),
)
"""All commands, in the order of help."""


def _task(text: str) -> str:
    if text == STDIN and isinstance(sys.stdin, io.TextIOWrapper):
        # Read as UTF-8, like files; the model gets bytes that are not text replaced.
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
    task = sys.stdin.read() if text == STDIN else text
    if not task.strip():
        raise UsageError("the task is empty; give it after -p, or on standard input with -p -")
    return task


def _told(error: OSError) -> str:
    try:
        Path.cwd()
    except OSError:
        return "the current directory does not exist any more; change to another one"
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"


def _need_agent(part: str) -> None:
    if any(find_spec(module) is None for module in _AGENT_MODULES):
        raise MissingExtraError(part, "agent")


def _make_lenient() -> None:
    """Let the output print whatever a model wrote, in any encoding."""
    # A stream is None if it is closed, as by `wane … >&-`.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Write out what is buffered, while a failure can still be reported."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # A reader that is gone, such as `head`, is not an error.
        if not isinstance(error, BrokenPipeError):
            say(f"the output could not be written: {error.strerror or error}")
        # Python flushes again when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure.FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
