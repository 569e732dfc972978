"""The interactive session: a prompt that stays at the bottom while the agent's work scrolls by above it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.formatted_text import ANSI, FormattedText, to_formatted_text
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.text import Text

from wane.agent.approval.permissions import Approval, ApprovalRequest
from wane.agent.images import images_in
from wane.agent.tools import SHELL_TOOL
from wane.agent.turn_events import CommandOutput, SessionEvent, ToolCalled, ToolReturned
from wane.cli import failure
from wane.cli.chat import narration
from wane.cli.chat.narration import Narration, TurnActivity, footer, safe
from wane.cli.chat.own_commands import CustomCommand, custom_commands, run_own
from wane.cli.chat.questions import Asking, choice_lines, question_lines
from wane.cli.chat.slash_commands import COMMANDS, ChatCommand, find_command, is_command
from wane.cli.chat.starting import check_options, choose_session, load_agent, open_session, session_store
from wane.cli.chat.typed import ChatCompleter, Pastes, chat_keys, history_at, keyboard
from wane.cli.failure import UsageError
from wane.cli.terminal.answer import hanging
from wane.cli.terminal.signals import INTERRUPT, handle_signals
from wane.cli.terminal.text import (
    COLOURS,
    GREY,
    count_noun,
    cut,
    is_unicode,
    part_command,
    plain_console,
    printable,
    short,
)
from wane.core.errors import WaneError
from wane.strategies.registry import traits

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.input import Input

    from wane.agent.options import AgentOptions
    from wane.agent.session import AgentSession, SessionConfig
    from wane.agent.user_turns import UserTurn

_STOPPED: Final = "the user stopped the turn"
_LINES: Final = "\t\n"
_TICK: Final = 0.1
"""Seconds between two pictures of the spinner."""
_ESCAPE: Final = 0.15
"""Seconds after which an escape character is the Esc key, and not the beginning of another key."""
_MOST_QUEUED: Final = 3
_BOLD_YELLOW: Final = f"{COLOURS['yellow']} bold"
_BOLD_CYAN: Final = f"{COLOURS['cyan']} bold"
_FEWEST_ROWS: Final = 3
"""Rows of what a question is about, however low the terminal is."""
_ROWS_BELOW: Final = 5
"""Rows for the prompt, which may wrap, and for what stands around it."""
_TWICE: Final = 1.0
"""Seconds within which Esc counts as pressed twice."""
_OTHER_WAY: Final = ("/forward goes forward again.", "/rewind goes back again.")


def run_chat(options: AgentOptions) -> int:
    """Talk with the user until they quit, and return the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the interactive session needs a terminal; give the task with -p")
    try:
        options = choose_session(options)
    except EOFError:  # Ctrl-D: none of the sessions
        return failure.OK
    with patch_stdout(raw=True):
        console = plain_console(force_terminal=True)
        return asyncio.run(Chat(options, console, keyboard()).run())


class Chat:
    """One chat.

    Attributes:
        unseen: the last search in this session and how many of its matches were shown; None if all were.
    """

    def __init__(self, options: AgentOptions, console: Console, keys: Input | None = None) -> None:
        self.console = console
        self.store = session_store()
        self.unseen: tuple[str, int] | None = None
        self.pastes = Pastes()
        self._options = options
        self._settings, self._resumed = check_options(options)
        self._session: AgentSession | None = None
        self._failure: BaseException | None = None
        self._unicode = is_unicode(console.encoding)
        marks = narration.UNICODE if self._unicode else narration.ASCII
        self._narration = Narration(lambda line: console.print(hanging(line)), marks)
        self._activity: TurnActivity | None = None
        self._question = Asking()
        self._choice: tuple[str, Callable[[str], None]] | None = None
        self._escaped_at = 0.0
        self._turn: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._waiting: deque[str] = deque()
        self._over = self._leaving = False
        self._draft = ""
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._footer,
            key_bindings=chat_keys(self),
            completer=ThreadedCompleter(ChatCompleter(self._names, options.cwd, self._trusted_settings)),
            complete_while_typing=True,
            history=history_at(
                self.store.root if options.save else None,
                lambda line: bool(line.strip()) and not self._question.open and self._choice is None,
                self.pastes,
            ),
            # Without this, what is above the prompt would stay there: `_line_typed` writes the line itself.
            erase_when_done=True,
            input=keys,
        )
        # With longer timeouts Esc would act late. The bytes of an arrow key, or of Alt with another key, come together.
        self._prompt.app.ttimeoutlen = self._prompt.app.timeoutlen = _ESCAPE

    async def run(self) -> int:
        """Read and run the user's input until the end, and return the exit code.

        The prompt is there at once; what is typed before the agent has been loaded waits.
        """
        with handle_signals(INTERRUPT, self._handle_interrupt):
            opening = asyncio.get_running_loop().create_task(self._open())
            try:
                with self._prompt.input.raw_mode():  # between two prompts, too
                    while not self._over:
                        line = await self._prompt.prompt_async(default=self._take_draft(), handle_sigint=False)
                        self._line_typed(line.strip())
            except EOFError:
                self._over = True
                self.stop()
            finally:
                await opening
                if self._turn is not None:
                    await self._turn
                if self._session is not None:
                    self._session.close()
            if self._failure is not None:
                raise self._failure
            session = self._session
            recorded = session is not None and session.id is not None and session.history
            farewell = f"Resume with: wane --resume {self.session.id}" if recorded else "Nothing was recorded."
            self.console.print(farewell, style="dim")
        return failure.OK

    async def _open(self) -> None:
        try:
            await asyncio.to_thread(load_agent, self._settings)
            if self._over:
                return
            self._session = open_session(self._options, self._settings, self._resumed, self._ask)
        except BaseException as error:
            # `run` raises it when the prompt is gone.
            self._failure, self._over = error, True
            self._leave()
            return
        self._greet()
        reported = len(self.session.warnings)
        await self.session.connect()
        self._warn(self.session.warnings[reported:])
        self._do_waiting()
        self._prompt.app.invalidate()

    def _leave(self) -> None:
        if self._prompt.app.is_running:
            self._prompt.app.exit(result="")

    # For commands

    @property
    def session(self) -> AgentSession:
        """The current session, once it has been opened."""
        assert self._session is not None
        return self._session

    def begin(self) -> None:
        """Begin another session, with the settings of this one."""
        from wane.agent.session import AgentSession

        self._change(AgentSession.create(self._config()))

    def resume(self, path: Path) -> None:
        from wane.agent.session import AgentSession

        if self.session.journal is not None and self.session.journal.path == path:
            raise UsageError("you are in this session already")
        self._change(AgentSession.resume(path, self._config()))

    def offer(self, prompt: str, choose: Callable[[str], None]) -> None:
        self._choice = prompt, choose

    def move(self, direction: str, turn: UserTurn | None = None, *, files: bool) -> None:
        """Go back to before a turn, or forward again."""
        left = self.session
        if turn is not None:
            session, restored = left.go_back(turn, files)
        else:
            session, restored = left.go_forward(files)
        self._session, self.unseen = session, None
        self._show_again()
        self._warn(session.warnings)
        self.console.print(Text(f"You are {direction}, in session {session.id}. {_OTHER_WAY[turn is None]}"))
        for path in restored.paths:
            self.console.print(Text(f"  put back: {printable(path)}", style="dim"))
        for path, reason in restored.left.items():
            self.console.print(Text(f"  left as it is: {printable(path)}: {reason}", style="yellow"))
        if turn is not None:
            self._draft = turn.words

    def quit(self) -> None:
        self._over = True

    # For keys

    def stop(self) -> None:
        """Stop the current turn, and drop the queued lines; they are shown, so that the user can repeat them."""
        for line in self._waiting:
            self.console.print(Text(safe(f"(dropped) {line}"), style="dim"))
        self._waiting.clear()
        if self._question.open:
            self._question.answer(Approval(allowed=False, reason=_STOPPED))
        self._stopping.set()
        if self._session is not None:
            self._session.cancel()

    @property
    def working(self) -> bool:
        return self._turn is not None

    def interrupt(self, buffer: Buffer) -> None:
        """Stop the turn, or clear the line; at an idle prompt, say how to quit, and the second time quit."""
        if self._turn is not None:
            self.stop()
        elif buffer.text or self._choice is not None:
            buffer.reset()
            self._choice = None
        elif self._leaving:
            self._over = True
            self._leave()
            return
        else:
            self.console.print("Press Ctrl-C again to quit, or Ctrl-D.", style="dim")
            self._leaving = True
            return
        self._leaving = False

    def escape(self) -> None:
        """At an idle, empty prompt, the second Esc in a row asks where to go back to; the first does nothing."""
        now = asyncio.get_running_loop().time()
        if self._choice is not None:
            self._choice = None
        elif now - self._escaped_at <= _TWICE and self._session is not None:
            self._escaped_at = 0.0
            self._do("/rewind")
        else:
            self._escaped_at = now

    def take_back(self, buffer: Buffer) -> bool:
        if buffer.text or not self._waiting:
            return False
        buffer.insert_text(self._waiting.pop())
        return True

    @property
    def asking(self) -> bool:
        return self._question.open

    def press(self, buffer: Buffer, digit: str) -> None:
        if buffer.text or self._draft or not self._question.press(digit):
            buffer.insert_text(digit)

    def unfold(self) -> None:
        if self._question.open and self._question.request is not None:
            for line in question_lines(self._question.request):
                self.console.print(hanging(line))
        else:
            self._narration.unfold()

    # Input

    def _line_typed(self, line: str) -> None:
        self._leaving = False
        if self._question.open:
            if not line:
                return  # Enter alone may have been meant for something else
            if line.startswith("/") and is_command(line) and not self._custom(line) and self._looks(line):
                self._do(line)
                return
            if line.startswith("/") and is_command(line):
                self.console.print("Answer the question first; Esc refuses, and stops the turn.", style="yellow")
                return
            if not self._question.take(self.pastes.full(line)):
                self.console.print("Answer with one of the digits below, or in your own words.", style="yellow")
        elif not line and self._choice is None:
            return
        elif self._session is None or (self._turn is not None and (self._custom(line) or not self._looks(line))):
            self._waiting.append(line)
        else:
            self._do(line)

    def _do(self, line: str) -> None:
        choice, self._choice = self._choice, None
        if line:
            self.console.print(Text(f"\n> {safe(line, keep=_LINES)}", style="cyan"))
        if choice is None and (not is_command(line) or self._custom(line)):
            self._turn = asyncio.get_running_loop().create_task(self._work(line))
            return
        try:
            if is_command(line):
                command, argument = self._command(line)
                command.run(self, argument)
            elif choice is not None and line:
                # After a wrong answer the line comes back to be corrected, and the question stays.
                self._choice, self._draft = choice, line
                choice[1](line)
                self._choice = None
                if self._draft == line:
                    self._draft = ""
        except WaneError as error:
            paste = safe(error.command)
            for part in part_command(safe(str(error)), paste):
                self.console.print(Text(part, style="red"), soft_wrap=part == paste)

    def _custom(self, line: str) -> CustomCommand | None:
        """Return the user's own command that a line names; the chat's come first."""
        word = line.split(maxsplit=1)[0] if line.startswith("/") else ""
        if any(word in command.names for command in COMMANDS):
            return None
        return next((command for command in custom_commands(self._cwd, os.environ) if command.name == word), None)

    def _command(self, line: str) -> tuple[ChatCommand, str]:
        return find_command(line, COMMANDS, [command.name for command in custom_commands(self._cwd, os.environ)])

    def _looks(self, line: str) -> bool:
        try:
            if not is_command(line):
                return False
            command, argument = self._command(line)
            return command.only_looks(argument)
        except WaneError:
            return True  # tell the error at once

    @property
    def _cwd(self) -> Path:
        return self._options.cwd if self._session is None else self._session.cwd

    async def _work(self, line: str) -> None:
        line = self.pastes.full(line)
        loop = asyncio.get_running_loop()
        self._activity = TurnActivity(loop.time(), self.session.account, self.session.account)
        ticking = loop.create_task(self._tick())
        try:
            if line.startswith("!"):
                await self._run_own(line[1:].strip())
            else:
                images = images_in(line, self.session.cwd)
                for path in images:
                    self.console.print(Text(safe(f"(image {path})"), style="dim"))
                command = self._custom(line)
                prompt = line if command is None else command.fill_arguments(line.removeprefix(command.name).strip())
                self._narration.end(await self.session.run(prompt, self._narrate, images))
        finally:
            ticking.cancel()
            self._turn = self._activity = None
            self._prompt.app.invalidate()
        self._do_waiting()
        if self._over:
            self._leave()

    async def _run_own(self, command: str) -> None:
        if not command:
            self.console.print("! needs a command to run, such as !git status", style="red")
            return
        assert self._activity is not None
        self._activity.doing = safe(command)
        self._stopping.clear()
        try:
            ran = await run_own(
                command, self.session.cwd, lambda text: self._narrate(CommandOutput(text)), self._stopping
            )
        except OSError as error:
            self.console.print(Text(safe(f"cannot run it: {error.strerror or error}"), style="red"))
            return
        output = ran.output.rstrip("\n")
        if ran.code:
            output = f"{output}\n[exit code: {ran.code}]".lstrip("\n")
        self._narrate(ToolReturned("", SHELL_TOOL, output or "(no output)", failed=bool(ran.code)))
        self.session.note(ran.notice)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._prompt.app.invalidate()

    def _do_waiting(self) -> None:
        while self._waiting and self._turn is None and not self._over:
            self._do(self._waiting.popleft())

    def _narrate(self, event: SessionEvent) -> None:
        self._narration.event(event)
        if self._activity is not None:
            description = narration.format_call(event.tool, event.arguments) if isinstance(event, ToolCalled) else ""
            self._activity.event(event, description)
        self._prompt.app.invalidate()

    async def _ask(self, request: ApprovalRequest) -> Approval:
        self._narration.flush()
        # The user's unfinished line is not the answer.
        buffer = self._prompt.default_buffer
        self._draft = buffer.text
        buffer.reset()
        self._prompt.app.invalidate()
        loop = asyncio.get_running_loop()
        asked = loop.time()
        try:
            approval = await self._question.ask(request)
            self._narration.show_answer(request, approval)
            return approval
        finally:
            if self._activity is not None:
                self._activity.began += loop.time() - asked

    # Output

    def _message(self) -> FormattedText:
        size = self._prompt.app.output.get_size()
        parts: list[tuple[str, str]] = []
        for line in self._narration.live(size.columns)[-max(2, size.rows // 2) :]:
            style = GREY if line.startswith("    ") else ""
            parts.append((style, f"{line}\n"))
        queued = [cut(f"next: {safe(line)}", size.columns - 1) for line in list(self._waiting)[-_MOST_QUEUED:]]
        parts += [(GREY, f"{line}\n") for line in queued]
        if self._question.open:
            parts += self._question_text(size.rows)
            parts.append((_BOLD_YELLOW, self._question.prompt))
        elif self._activity is not None:
            at = asyncio.get_running_loop().time()
            parts.append((COLOURS["magenta"], f"{self._activity.line(at, size.columns, unicode=self._unicode)}\n"))
        elif self._choice is not None:
            parts.append((_BOLD_YELLOW, self._choice[0]))
        parts.append((_BOLD_CYAN if self._turn is None else GREY, "> "))
        return FormattedText(parts)

    def _question_text(self, rows: int) -> list[tuple[str, str]]:
        """Return the open question as far as it fits above the prompt; its answers always do."""
        request = self._question.request
        assert request is not None
        subject, choices = self._draw_lines(question_lines(request)), self._draw_lines(choice_lines(request))
        most = max(_FEWEST_ROWS, rows - len(choices) - _ROWS_BELOW)
        if len(subject) > most:
            left_out = count_noun(len(subject) - most + 1, "more line")
            subject = [*subject[: most - 1], f"  ({left_out}; Ctrl-O shows all)"]
        fragments: list[tuple[str, str]] = []
        for line in (*subject, *choices):
            fragments += [(style, text) for style, text, *_ in to_formatted_text(ANSI(f"{line}\n"))]
        return fragments

    def _draw_lines(self, lines: Iterable[Text]) -> list[str]:
        with self.console.capture() as captured:
            for line in lines:
                self.console.print(hanging(line))
        return captured.get().splitlines()

    def _footer(self) -> str:
        if self._session is None:
            return "starting…" if self._unicode else "starting..."
        return footer(self._session, self._prompt.app.output.get_size().columns)

    def _names(self) -> list[tuple[str, str]]:
        names = [(command.name, command.help) for command in COMMANDS]
        names += [(command.name, command.help) for command in custom_commands(self._cwd, os.environ)]
        names += [(alias, command.help) for command in COMMANDS for alias in command.aliases]
        return names

    def _trusted_settings(self) -> str:
        guard = None if self._session is None else self._session.permissions.repository
        return "" if guard is None else guard.trusted

    def _take_draft(self) -> str:
        if self._question.open:
            return ""
        draft, self._draft = self._draft, ""
        return draft

    def _greet(self) -> None:
        session = self.session
        here = printable(str(session.cwd))
        self.console.print(f"Wane is a coding agent for long work. Say what to do in {here}", style="bold")
        if traits(session.settings.context.strategy).by_episode:
            size = short(session.window.budget)
            text = f"Finished work leaves its view above {size} tokens; the session on disk keeps all."
            self.console.print(text if session.id else text.partition(";")[0] + ".", style="dim")
        if session.sandbox.in_force:
            self.console.print(session.sandbox.describe(), style="dim")
        name = f"Session {session.id}" if session.id else "The session is not saved"
        self.console.print(f"{name}. /help lists the commands.", style="dim")
        self._warn(session.warnings)
        self._show_again()

    def _show_again(self) -> None:
        """Show what was said in the session before."""
        from wane.cli.chat.recap import recap_lines

        for line in recap_lines(self.session):
            if isinstance(line, Text):
                self.console.print(line, no_wrap=True, overflow="ellipsis")
            else:
                self.console.print(line)

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            self.console.print(Text(safe(warning), style="yellow"))

    def _handle_interrupt(self) -> None:
        """Handle Ctrl-C as a signal: from another process, or when there is no prompt."""
        if self._prompt.app.is_running:
            self._prompt.app.key_processor.feed(KeyPress(Keys.ControlC))
            self._prompt.app.key_processor.process_keys()
        else:
            self.stop()

    def _config(self) -> SessionConfig:
        from wane.agent.opening import SessionConfig

        store = self.store if self._options.save else None
        return SessionConfig(self.session.cwd, self.session.settings, store, self._ask)

    def _change(self, session: AgentSession) -> None:
        self.session.close()
        self._session, self.unseen = session, None
        self._greet()
