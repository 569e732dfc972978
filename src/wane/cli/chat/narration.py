"""What the chat shows: a turn as it goes on, what it is doing, and the line below the prompt.

Finished lines are written to the screen; unfinished ones stay above the prompt and change there.
"""

from __future__ import annotations

import json
import textwrap
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from wane.account import Account
from wane.agent.approval.permissions import Approval, ApprovalRequest
from wane.agent.tools import EDIT_TOOLS, SHELL_TOOL
from wane.agent.turn_events import (
    CommandOutput,
    FileChanged,
    Outcome,
    SessionEvent,
    Spent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
    TurnResult,
    Waiting,
    Warned,
)
from wane.cli.chat.questions import answer_line
from wane.cli.terminal.answer import AnswerStream
from wane.cli.terminal.text import count_noun, cut, printable, short
from wane.conversation.events import BudgetChosen, BudgetUnmet, EpisodeClosed, EpisodeOpened, PassRan, StrategyActed
from wane.core import DELIMITER
from wane.core.pass_report import brief
from wane.formats.fields import objects_in
from wane.strategies.registry import traits
from wane.tools.plans import IN_PROGRESS, PENDING, AgentPlan
from wane.words import TYPES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wane.agent.session import AgentSession

MAX_LINES: Final = 6
"""Lines of a command's output to show."""

MAX_CHANGED: Final = 30
"""Lines of a change to show."""

MAX_LIVE: Final = 8
"""Lines of an unfinished answer to show above the prompt."""

MAX_ALL: Final = 1_000
"""Lines of an output to show on demand."""

_MAX_ARGUMENTS: Final = 100
_MAX_OUTPUT: Final = 300  # characters of a line of a result
_MAX_REST: Final = 2_000
_MAX_ANSWER: Final = 74  # with its mark one line of 80 columns
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "dim"}


@dataclass(frozen=True, slots=True)
class LineMarks:
    """Marks at the beginning of lines."""

    tool: str
    result: str
    opened: str
    closed: str
    evicted: str
    done: str
    todo: str


UNICODE: Final = LineMarks("●", "└", "▶", "■", "↯", "☑", "☐")
ASCII: Final = LineMarks("*", "`-", ">", "#", "!", "[x]", "[ ]")


class Narration:
    """Turns events into lines."""

    def __init__(self, write: Callable[[RenderableType], None], marks: LineMarks = UNICODE) -> None:
        self._folded: list[str] = []  # the last output that was not shown in full
        self._write = write
        self._marks = marks
        self._answer = AnswerStream()
        self._output = OutputTail()
        self._written: dict[str, str] = {}
        self._plan = AgentPlan()
        self._unmet = False
        self._latest = ""
        self._waiting_for = ""

    def event(self, event: SessionEvent) -> None:
        match event:
            case TextDelta(text):
                for block in self._answer.feed(text):
                    self._write(block)
                return
            case CommandOutput(text):
                self._output.feed(text)
                return
            case FileChanged(diff=diff):
                self._write_change([line for line in diff.split("\n") if not line.startswith(("---", "+++"))])
                return
            case ToolCalled(call_id, "write_file", arguments):
                self._written[call_id] = arguments
            case ToolReturned(tool=tool) if tool == SHELL_TOOL:
                self._output = OutputTail()
        if isinstance(event, (ToolCalled, ToolReturned)):
            self.flush()  # also where nothing is written about the call: the next text is of another answer
        if (line := self._line(event)) is not None:
            self.flush()
            self._write(line)
        if isinstance(event, ToolReturned) and (arguments := self._written.pop(event.call_id, "")) and not event.failed:
            self._new_file(arguments)

    def live(self, columns: int) -> list[str]:
        """Return the lines of what is not finished: the end of an answer, or of a running command's output."""
        lines: list[str] = []
        if self._answer.rest.strip():
            for line in safe(self._answer.rest, keep="\t\n").split("\n"):
                lines += textwrap.wrap(line, max(1, columns - 1), drop_whitespace=False) or [""]
        return lines[-MAX_LIVE:] + [cut(line, columns - 1) for line in self._output.lines()]

    def end(self, result: TurnResult) -> None:
        self.flush()
        # The last lines of a command that was interrupted: it will have no result.
        if body := "\n".join(self._output.lines()).lstrip(" "):
            self._write(Text(f"  {self._marks.result} {body}", style="dim"))
        self._output = OutputTail()
        known, self._waiting_for = self._waiting_for, ""
        self._unmet = False
        if result.outcome is Outcome.INTERRUPTED:
            self._write(Text("Stopped. What was done so far is kept.", style="yellow"))
        elif result.error is not None:
            # The reason was written when the waiting began.
            error = result.error.removeprefix(f"{known}; ") if known else result.error
            self._write(Text(safe(f"{error[:1].upper()}{error[1:]}"), style="red"))
        if result.spent.calls:
            calls = count_noun(result.spent.calls, "model call")
            self._write(Text(f"{calls}, {format_usage(result.spent)}", style="dim"))

    def show_answer(self, request: ApprovalRequest, approval: Approval) -> None:
        style = "dim" if approval.allowed else "yellow"
        self._write(Text(f"  {self._marks.result} {cut(answer_line(request, approval), _MAX_ANSWER)}", style=style))

    def unfold(self) -> None:
        """Write the whole of what was last shown in part."""
        lines = self._folded
        for line in lines[-MAX_ALL:]:
            self._write(Text(f"    {safe(line)}", style="dim"))
        if not lines:
            self._write(Text("There is no folded output.", style="dim"))
        elif len(lines) > MAX_ALL:
            self._write(Text(f"    (the last {MAX_ALL:,} of {len(lines):,} lines)", style="dim"))

    def flush(self) -> None:
        for block in self._answer.end():
            self._write(block)

    def _line(self, event: SessionEvent) -> Text | None:
        marks = self._marks
        match event:
            case ToolCalled(call_id, tool, arguments) if tool != DELIMITER:
                self._latest = call_id
                if self._plan.read(tool, arguments):
                    return Text("\n".join(plan_lines(self._plan, marks)), style="cyan")
                return Text(f"{marks.tool} {format_call(tool, arguments)}", style="cyan")
            case ToolReturned(call_id, tool, result, failed) if tool != DELIMITER or failed:
                # A result names its tool if it does not belong to the call right above it.
                return self._format_result(
                    tool, result, failed, "" if call_id == self._latest else f"{printable(tool)}: "
                )
            case EpisodeOpened(episode) if episode.name is not None:
                line = f"{marks.opened} {TYPES[episode.type.value]} {_format_name(episode.name)}"
                if episode.dependencies:
                    line += f" (on {', '.join(map(_format_name, episode.dependencies))})"
                return Text(line, style="magenta")
            case EpisodeClosed(episode) if episode.name is not None:
                line = f"{marks.closed} {_format_name(episode.name)}"
                if episode.given_up:
                    line += " abandoned"
                if episode.description:
                    line += f": {printable(episode.description)}"
                return Text(line, style="magenta")
            case PassRan(report) if report.tokens_after < report.tokens_before:
                freed = count_noun(report.tokens_before - report.tokens_after, "token")
                state = f"the view holds {report.tokens_after:,} of {report.budget_used:,}"
                return Text(f"{marks.evicted} evicted {freed}; {state}", style="yellow")
            case StrategyActed(strategy, _, _, before, after):
                effect = f"{strategy}: the view went from {before:,} to {after:,} tokens"
                return Text(f"{marks.evicted} {effect}", style="yellow")
            case BudgetChosen(budget):
                return Text(str(budget), style="dim")
            case Waiting(reason) if reason != self._waiting_for:
                # The line above the prompt shows further tries.
                self._waiting_for = reason
                return Text(printable(f"{reason[:1].upper()}{reason[1:]}"), style="yellow")
            case Warned(text):
                return Text(printable(text), style="yellow")
            case BudgetUnmet(report) if not self._unmet:
                self._unmet = True
                return Text(f"{marks.evicted} {printable(report.shortfall)}", style="yellow")
        return None

    def _format_result(self, tool: str, result: str, failed: bool, name: str) -> Text:
        if failed and isinstance(data := _json(result), dict) and (error := data.get("error")):
            # What was wrong with the arguments is a list, an entry for each.
            wrong = [
                f"{'.'.join(map(str, entry.get('loc') or ()))}: {entry.get('msg', '')}" for entry in objects_in(error)
            ]
            result = error if isinstance(error, str) else "\n".join(wrong) or result
        lines = result.rstrip("\n").split("\n")
        style = "red" if failed else "dim"
        if tool != SHELL_TOOL and not failed:
            summary = f"{len(lines):,} lines" if len(lines) > 1 else cut(printable(lines[0]), _MAX_ARGUMENTS)
            return Text(f"  {self._marks.result} {name}{summary}", style=style)
        above = max(0, len(lines) - MAX_LINES)
        if above or any(len(line) > _MAX_OUTPUT for line in lines):
            self._folded = lines
        if above:
            lines = [f"({count_noun(above, 'line')} above; Ctrl-O shows all)", *lines[above:]]
        body = "\n    ".join(cut(safe(line), _MAX_OUTPUT) for line in lines)
        return Text(f"  {self._marks.result} {name}{body}", style=style)

    def _write_change(self, lines: list[str]) -> None:
        self.flush()
        for line in lines[:MAX_CHANGED]:
            self._write(Text(f"    {safe(line)}", style=_DIFF_STYLES.get(line[:1], "")))
        if len(lines) > MAX_CHANGED:
            self._folded = lines
            self._write(
                Text(f"    ({count_noun(len(lines) - MAX_CHANGED, 'more line')}; Ctrl-O shows all)", style="dim")
            )

    def _new_file(self, arguments: str) -> None:
        content = _member(arguments, "content")
        if content is not None:
            self._write_change([f"+{line}" for line in content.rstrip("\n").split("\n")])


class OutputTail:
    """The last lines of a running command's output."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._count = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        *lines, self._rest = f"{self._rest}{text}".split("\n")
        self._rest = self._rest[-_MAX_REST:]
        self._lines.extend(lines)
        self._count += len(lines)

    def lines(self) -> list[str]:
        """Return the lines, after the number of those above them."""
        # What a progress bar has overwritten is not shown.
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in (*self._lines, self._rest) if line][-MAX_LINES:]
        above = self._count - len(self._lines)
        if above:
            lines.insert(0, f"({count_noun(above, 'line')} above)")
        return [f"    {safe(line)}" for line in lines]


def plan_lines(plan: AgentPlan, marks: LineMarks) -> list[str]:
    """Return the agent's to-do list, an entry a line; nothing stands ahead of one that was given up."""
    signs = {PENDING: marks.todo, IN_PROGRESS: marks.opened, "completed": marks.done}
    lines = [f"{marks.tool} to do"]
    for entry in plan.entries.values():
        sign = signs.get(entry.status, " " * len(marks.todo))
        lines.append(f"  {sign} {cut(printable(entry.text), _MAX_ARGUMENTS)}")
    return lines


def safe(text: str, keep: str = "\t") -> str:
    r"""Return a line without control characters, which a terminal would obey; tabs stay."""
    return printable(text, keep=keep)


def format_call(tool: str, arguments: str) -> str:
    """Return a call on one line: a single argument alone, several as `name=value` pairs.

    Of a change, it shows only the path, because the diff shows everything else.
    """
    text, data = arguments, _json(arguments)
    if tool in EDIT_TOOLS and (path := _member(arguments, "path")) is not None:
        text = path
    elif isinstance(data, dict):
        pairs = []
        for name, value in data.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            pairs.append(f"{name}={text}")
        if len(pairs) != 1:
            text = " ".join(pairs)
    return f"{printable(tool)} {cut(printable(text), _MAX_ARGUMENTS)}"


def _json(text: str) -> Any:
    """Return the value of a JSON text; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _member(raw: str, name: str) -> str | None:
    """Return a member of a JSON object if it is a text, and None otherwise."""
    data = _json(raw)
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else None


def _format_name(name: str) -> str:
    return printable(brief(name))


def footer(session: AgentSession, columns: int = 0) -> str:
    """Return `↑in ↓out Rcache Wcache $cost view/budget`, the active episode and the model.

    If there are not enough columns, what matters least is left out; 0 is any width.
    """
    from wane.agent.opening import name_of

    window, active = session.window, session.window.active
    account, model = session.account, printable(name_of(session.settings, session.model))
    fill = f"{short(session.tokens)}/{short(window.budget_used)}"
    episode = ""
    if not traits(session.settings.context.strategy).marked:
        episode = f"Wane off ({session.settings.context.strategy})"
    elif active is not None:
        episode = f"{TYPES[active.type.value]} {printable(brief(active.name or ''))}"
    cost = account.brief if account.calls else ""
    fitting = (
        [format_usage(account), fill, episode, model],
        [format_usage(account), fill, episode],
        [cost, fill, episode],
        [cost, fill],
    )
    line = ""
    for parts in fitting:
        line = "  ".join(part for part in parts if part)
        if not columns or len(line) < columns:
            break
    return line


def format_usage(account: Account) -> str:
    """Return the usage so far: `↑12.3k ↓1.2k R10k W2.0k $0.42`. A figure that is 0 is left out."""
    figures = (
        ("↑", account.input_tokens),
        ("↓", account.output_tokens),
        ("R", account.cache_read_tokens),
        ("W", account.cache_write_tokens),
    )
    parts = [f"{sign}{short(tokens)}" for sign, tokens in figures if tokens]
    if account.calls:
        parts.append(account.brief)
    return " ".join(parts)


HINT: Final = "Esc stops"
WAITING: Final = "waiting for the model"

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_FRAMES: Final = "-\\|/"
_FRAMES_A_SECOND: Final = 10
_NARROWEST: Final = 10  # columns for what it does


@dataclass(slots=True)
class TurnActivity:
    """What a turn is doing.

    Attributes:
        began: when it began, in seconds of any clock, plus the seconds that it has waited for the user's answers.
        before: what the session had spent by then.
        calls: the calls without a result, by id, as the user sees them.
    """

    began: float
    before: Account
    now: Account
    doing: str = WAITING
    calls: dict[str, str] = field(default_factory=dict)

    def event(self, event: SessionEvent, description: str = "") -> None:
        match event:
            case Waiting():
                self.doing = event.next_try
            case ThinkingDelta():
                self.doing = "thinking"
            case TextDelta():
                self.doing = "answering"
            case ToolCalled(call_id):
                self.calls[call_id] = description
                self.doing = next(iter(self.calls.values()))
            case ToolReturned(call_id):
                # They run one after the other, in the order of the calls.
                self.calls.pop(call_id, None)
                self.doing = next(iter(self.calls.values()), WAITING)
            case Spent(account):
                self.now = account

    def line(self, at: float, columns: int, *, unicode: bool = True) -> str:
        """Return the line for a moment, no wider than `columns`."""
        frames = _FRAMES if unicode else _ASCII_FRAMES
        frame = frames[int(at * _FRAMES_A_SECOND) % len(frames)]
        spent = self.now.minus(self.before)
        used = f"  ↑{short(spent.input_tokens)} ↓{short(spent.output_tokens)}" if spent.calls else ""
        tail = f"  {format_duration(at - self.began)}{used}  {HINT}"
        room = columns - 1 - len(frame) - 1 - len(tail)
        if room < _NARROWEST:
            tail = f"  {HINT}"
            room = max(_NARROWEST, columns - 1 - len(frame) - 1 - len(tail))
        return f"{frame} {cut(self.doing, room)}{tail}"


def format_duration(seconds: float) -> str:
    """Return a duration: `7s`, `2m 05s`, `1h 02m`."""
    minutes, seconds = divmod(int(seconds), 60)
    if not minutes:
        return f"{seconds}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds:02}s"
