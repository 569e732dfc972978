"""`wane demo`: runs the demo, shows it, and prints its summary."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from wane.agent.search_path import USERS_PATH
from wane.cli import failure
from wane.cli.failure import need_agent
from wane.cli.terminal.program import program
from wane.cli.terminal.signals import END, handle_signals
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import plain_console, printable, say
from wane.cli.top_commands import DemoCommandOptions
from wane.journal import SessionStore, default_root

if TYPE_CHECKING:
    from rich.console import Console

    from wane.scripted.demo.demo_summary import Summary


def run_demo(command: DemoCommandOptions) -> int:
    """Run the demo, and return the exit code: 0 if there are no problems."""
    wane = program()  # before the agent adds the environment's commands to the path
    need_agent("the demo")
    # The demo works in a directory of its own, so not even its commands need the programs of this directory's project.
    os.environ.pop(USERS_PATH, None)

    from wane.cli.demo.live_show import LineShow, LiveShow
    from wane.scripted.demo.play import DemoOptions, play

    console = plain_console(sys.stderr if command.as_json else None)
    options = DemoOptions(strategy=command.strategy, store=SessionStore(default_root(os.environ)), keep=command.keep)

    async def run(show: LineShow | LiveShow) -> Summary:
        # `kill` ends it as Ctrl-C does, so that its directory is removed.
        with handle_signals(END, partial(signal.raise_signal, signal.SIGINT)):
            return await play(options, show)

    with ExitStack() as stack:
        live = console.is_terminal and not console.is_dumb_terminal
        show = stack.enter_context(LiveShow(console)) if live else LineShow(console)
        try:
            summary = asyncio.run(run(show))
        except KeyboardInterrupt:
            stack.close()
            say(f"stopped; to see what was done so far: {wane} show {show.session}")
            raise
    if command.as_json:
        sys.stdout.write(json.dumps(summary.to_dict(), ensure_ascii=False, indent=2) + "\n")
    else:
        _print(summary, console, wane)
    return failure.FAILED if summary.problems else failure.OK


def _print(summary: Summary, console: Console, wane: str) -> None:
    from wane.scripted.demo.demo_summary import NO_MODEL

    style = "bold red" if summary.problems else "bold green"
    console.print(Text(f"\n{summary.passed} of {len(summary.results)} tasks pass the repository's tests", style=style))
    table = plain_table("", ">", "*")
    table.show_header = False
    for name, figure, meaning in summary.rows():
        table.add_row(name, figure, Text(meaning, style="dim"))
    console.print(table)
    for problem in summary.problems:
        console.print(Text(printable(problem), style="red"))
    console.print(f"\n{NO_MODEL}")
    console.print(f"Look at the session:  {wane} view {summary.session}  {wane} show {summary.session}", soft_wrap=True)
    if summary.repository is not None:
        console.print(f"Look at the work:     git -C {summary.repository} log --stat", soft_wrap=True)
    names = [name for name in ("cwl", "truncate", "compact", "none") if name != summary.strategy]
    others = "  ".join(f"{wane} demo --strategy {name}" for name in names)
    console.print(f"Compare:              {others}", soft_wrap=True)
