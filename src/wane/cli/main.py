"""The command line: what there is to say to `wane`, and nothing of how it is done.

What a command needs is imported when it runs, so that help is quick and `wane plan` needs no extra.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from wane.cli import failure, flags, texts
from wane.cli.console import say
from wane.core.errors import ConfigError, MissingExtraError, WaneError

OPTIONAL_VALUES: Final = ("-r", "--resume")
"""Options whose value may be left out."""

STDIN: Final = "-"
"""The task that stands for standard input."""

_AGENT_MODULES: Final = ("pydantic_ai", "pydantic_ai_harness", "genai_prices", "prompt_toolkit")


class _Commands(TyperGroup):
    """The commands, and the options of the agent, which is what runs when no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        valued = {name for param in self.params if not getattr(param, "is_flag", False) for name in param.opts}
        return super().parse_args(ctx, fill_optional(args, valued))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and " " in args[0]:
            ctx.fail(f"{args[0]!r} is not a command. To give the agent a task: wane -p {args[0]!r}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="wane",
    cls=_Commands,
    invoke_without_command=True,
    # Plain text: drawing help with Rich would double the time that it takes.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Args:
        args: the command line without the program's name; that of the process if None.
    """
    _make_lenient()
    try:
        app(args=args, prog_name="wane")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else failure.OK if stop.code is None else failure.FAILED
    except WaneError as error:
        say(str(error))
        code = failure.exit_code(error)
    except KeyboardInterrupt:
        code = failure.INTERRUPTED
    return _flushed(code)


def fill_optional(args: Sequence[str], valued: Collection[str]) -> list[str]:
    """Return arguments in which every option of `OPTIONAL_VALUES` has a value, an empty one where none was given.

    Args:
        args: the arguments; what follows the first that is no option, a command, is left alone.
        valued: options that take the next argument as their value.
    """
    filled: list[str] = []
    rest = list(args)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        arg = rest.pop(0)
        if arg in OPTIONAL_VALUES and (not rest or rest[0].startswith("-")):
            filled.append(f"{OPTIONAL_VALUES[-1]}=")
            continue
        filled.append(arg)
        if arg in valued and rest:
            filled.append(rest.pop(0))
    return filled + rest


@app.callback(help=texts.for_terminal(texts.AGENT))
def agent(
    ctx: typer.Context,
    prompt: flags.Task = None,
    model: flags.Model = None,
    continue_last: flags.Continue = False,
    resume: flags.Resume = None,
    no_session: flags.NoSession = False,
    output_format: flags.Output = None,
    cwd: flags.Cwd = Path(),
    cost_limit: flags.CostLimit = None,
    yolo: flags.Yolo = False,
    budget: flags.AgentBudget = None,
    policy: flags.AgentPolicy = None,
    no_cwl: flags.NoCwl = False,
    version: flags.Version = False,
) -> None:
    """Start the agent, unless a command follows."""
    if version:
        from wane import __version__

        typer.echo(f"wane {__version__}")
        raise typer.Exit
    given = {name for name in ctx.params if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"}
    if command := ctx.invoked_subcommand:
        if given:
            ctx.fail(f"Options of the agent have no meaning before a command; see wane {command} --help")
        return
    if {"continue_last", "resume"} <= given:
        ctx.fail("Give -c/--continue or -r/--resume, not both.")
    if "output_format" in given and prompt is None:
        ctx.fail("--output-format goes with -p/--print.")
    _need_agent("the agent")
    from wane.agent.options import AgentOptions

    options = AgentOptions(
        cwd=cwd.resolve(),
        prompt=_task(prompt),
        model=model,
        continue_last=continue_last,
        resume=resume,
        save=not no_session,
        output_format=output_format or "text",
        cost_limit=cost_limit,
        yolo=yolo or None,
        budget=budget,
        policy=policy,
        strategy="none" if no_cwl else None,
    )
    if prompt is None:
        from wane.cli.chat import run_chat

        raise typer.Exit(run_chat(options))
    from wane.cli.print_mode import run_print

    raise typer.Exit(run_print(options))


@app.command(help=texts.for_terminal(texts.PLAN))
def plan(
    file: flags.File,
    budget: flags.Budget = "80k",
    window: flags.Window = "200k",
    policy: flags.Policy = "default",
    low_water: flags.LowWater = None,
    description_share: flags.DescriptionShare = None,
    counter: flags.Counter = "chars",
    format_: flags.Format = "auto",
    tool_class: flags.ToolClasses = None,
    full: flags.Full = False,
    exit_code: flags.ExitCode = False,
    as_json: flags.Json = False,
) -> None:
    """Print what one pass would evict."""
    from wane.cli.plan import PlanOptions, run_plan

    options = PlanOptions(
        file=file,
        budget=budget,
        window=window,
        policy=policy,
        low_water=low_water,
        description_share=description_share,
        format=format_,
        counter=counter,
        tool_classes=tuple(tool_class or ()),
        as_json=as_json,
        full=full,
        tell=exit_code,
    )
    raise typer.Exit(run_plan(options))


@app.command(help=texts.for_terminal(texts.SESSIONS))
def sessions(every: flags.All = False, as_json: flags.Json = False) -> None:
    """Print the list of sessions."""
    from wane.cli.sessions import list_sessions

    raise typer.Exit(list_sessions(every=every, as_json=as_json))


@app.command(help=texts.for_terminal(texts.SHOW))
def show(session: flags.Session, full: flags.Full = False, as_json: flags.Json = False) -> None:
    """Print a session."""
    from wane.cli.show import show_session

    raise typer.Exit(show_session(session, full=full, as_json=as_json))


@app.command(help=texts.for_terminal(texts.DEMO))
def demo(strategy: flags.Strategy = "cwl", keep: flags.Keep = None, as_json: flags.Json = False) -> None:
    """Run the demo."""
    _need_agent("the demo")
    from wane.cli.demo import run_demo

    raise typer.Exit(run_demo(strategy=strategy, keep=keep, as_json=as_json))


def _task(prompt: str | None) -> str | None:
    if prompt is None:
        return None
    text = sys.stdin.read() if prompt == STDIN else prompt
    if not text.strip():
        raise ConfigError("the task is empty; give it after -p, or on standard input with -p -")
    return text


def _need_agent(part: str) -> None:
    if any(find_spec(module) is None for module in _AGENT_MODULES):
        raise MissingExtraError(part, "agent")


def _make_lenient() -> None:
    """Whatever a model wrote must be printable in whatever encoding the output has."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Write out what is buffered; a reader that has gone, as `head` does, is no error to speak of."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure.FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
