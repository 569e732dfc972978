"""`wane -p TASK`: one task, its answer on standard output, and an exit code."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TextIO

from wane.account import Account
from wane.agent.approval.permissions import Approval, ApprovalRequest, Effect, refuse
from wane.agent.images import images_in
from wane.agent.options import CHOOSE
from wane.agent.turn_events import Outcome, SessionEvent, TurnResult, Waiting, Warned, event_json
from wane.cli import failure
from wane.cli.chat.starting import check_options, open_session
from wane.cli.failure import UsageError
from wane.cli.terminal.signals import END, INTERRUPT, handle_signals
from wane.cli.terminal.text import count_noun, printable, say, write_json
from wane.conversation.events import BudgetChosen, BudgetUnmet
from wane.core.errors import WaneError

if TYPE_CHECKING:
    from wane.agent.options import AgentOptions
    from wane.agent.session import AgentSession

EXIT_CODES: Final = {Outcome.DONE: failure.OK, Outcome.INTERRUPTED: failure.INTERRUPTED}
"""Exit code by outcome; `failure.FAILED` for others, but `failure.UNAVAILABLE` if it may work later."""

STDIN_PATIENCE: Final = 3.0
"""Seconds to wait for the first byte of a pipe, which may be open although nobody writes to it."""

_write: Final = partial(write_json, escaped=False)


def run_print(options: AgentOptions) -> int:
    """Do the task, print the result, and return the exit code: 0, or 1 if the model could not do it."""
    if options.resume == CHOOSE:
        raise UsageError("print mode cannot show a list to choose from; give the session's ID after -r, or use -c")
    prompt = with_stdin(options.prompt or "", sys.stdin)
    refusals = _Refusals()
    session = open_session(options, *check_options(options), refusals)
    try:
        return asyncio.run(_run(session, prompt, options, refusals))
    finally:
        session.close()


def write_failed_start(options: AgentOptions, error: WaneError) -> None:
    """Write the result of a task that could not begin, with the fields of any other result, if JSON is asked for."""
    if options.output_format in (None, "text"):
        return
    about = {"session_id": None, "cwd": str(options.cwd.absolute()), "model": options.model}
    _write_result(about, TurnResult(Outcome.FAILED, "", str(error), Account()), 0, None)


def _write_result(about: dict[str, Any], result: TurnResult, refused: int, session: AgentSession | None) -> None:
    room = None if session is None else session.room
    account = Account() if session is None else session.account
    _write(
        {
            "type": "result",
            **about,
            "outcome": result.outcome.value,
            "result": result.output,
            "error": result.error,
            "fault": None if result.fault is None else result.fault.to_dict(),
            "waited_seconds": round(result.waited, 3),
            "refused_actions": refused,
            "usage": result.spent.to_dict(),
            "session_usage": account.to_dict(),
            "view_tokens": 0 if session is None else session.tokens,
            "budget": None if session is None else session.window.budget,
            "budget_reason": None if session is None or session.auto_budget is None else session.auto_budget.reason,
            "room": None if room is None else room.to_dict(),
        }
    )


def with_stdin(prompt: str, stdin: TextIO | None) -> str:
    """Return the task followed by piped input: `git diff | wane -p "review this"`."""
    if stdin is None or stdin.closed:
        return prompt
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return prompt
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return prompt  # a terminal, or /dev/null
    if os.name == "posix" and not select.select([stdin], [], [], STDIN_PATIENCE)[0]:
        say(f"nothing came on standard input for {STDIN_PATIENCE:g} seconds: continuing without it")
        return prompt
    # Bytes that are not text must not prevent the start, so they are replaced.
    piped = stdin.buffer.read().decode("utf-8", "replace")
    return f"{prompt}\n\n{piped}" if piped.strip() else prompt


class _Refusals:
    """Refuses everything that needs approval, and counts it."""

    def __init__(self) -> None:
        self.effects: Counter[Effect] = Counter()

    async def __call__(self, request: ApprovalRequest) -> Approval:
        if request.effect is not Effect.REPOSITORY:  # of which a warning tells
            self.effects[request.effect] += 1
        return await refuse(request)

    def describe(self) -> str:
        kinds = {Effect.COMMAND: "command", Effect.TOOL: "MCP call", Effect.WRITE: "file change"}
        actions = " and ".join(count_noun(count, kinds[effect]) for effect, count in sorted(self.effects.items()))
        verb = "was" if self.effects.total() == 1 else "were"
        return f"{actions} {verb} refused because nobody could be asked for approval; --allow or -y/--yolo allows them"


async def _run(session: AgentSession, prompt: str, options: AgentOptions, refusals: _Refusals) -> int:
    output = _Output(session, options, refusals)
    for warning in session.warnings:
        say(warning)
    output.begin()
    # After a signal, what has happened is recorded, and the result is still printed.
    with handle_signals(INTERRUPT + END, session.cancel):
        result = await session.run(prompt, output.event, images_in(options.prompt or "", session.cwd))
    output.end(result)
    if result.fault is not None and result.fault.kind in ("outage", "quota"):
        return failure.UNAVAILABLE
    return EXIT_CODES.get(result.outcome, failure.FAILED)


class _Output:
    """Writes the output in one of the three formats."""

    def __init__(self, session: AgentSession, options: AgentOptions, refusals: _Refusals) -> None:
        self._session = session
        self._refusals = refusals
        self._format = options.output_format or "text"
        self._warned = False

    def begin(self) -> None:
        if self._format == "stream-json":
            _write({"type": "session", **self._about()})

    def event(self, event: SessionEvent) -> None:
        if isinstance(event, Warned) and self._format == "text":
            say(event.text)
        if isinstance(event, BudgetChosen) and self._format == "text":
            say(str(event.budget))
        if isinstance(event, Waiting) and self._format != "stream-json":
            say(event.sentence)
        if isinstance(event, BudgetUnmet) and self._format == "text":
            if not self._warned:
                say(event.report.shortfall)
            self._warned = True
        if self._format == "stream-json" and (data := event_json(event)) is not None:
            _write(data)

    def end(self, result: TurnResult) -> None:
        if self._format != "text":
            _write_result(self._about(), result, self._refusals.effects.total(), self._session)
        elif result.outcome is Outcome.DONE:
            # A terminal would obey control characters; a file or pipe gets the text unchanged.
            text = printable(result.output, keep="\n\t") if sys.stdout.isatty() else result.output
            sys.stdout.write(f"{text}\n")
        if result.error is not None:
            say(result.error)
        if self._refusals.effects:
            say(self._refusals.describe())

    def _about(self) -> dict[str, Any]:
        session = self._session
        return {"session_id": session.id, "cwd": str(session.cwd), "model": session.model.model_id}
