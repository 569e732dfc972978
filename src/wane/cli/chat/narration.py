"""Writes a turn to the screen as it goes on, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from wane.agent.approval.permissions import ApprovalRequest
from wane.agent.events import SessionEvent, TextDelta, ToolCalled, ToolReturned, Warned
from wane.agent.tools.names import SHELL_TOOL
from wane.agent.turn import Outcome, TurnResult
from wane.cli.chat.footer import spent
from wane.cli.chat.questions import question_lines
from wane.cli.terminal.text import counted, printable
from wane.conversation.events import BudgetUnmet, EpisodeClosed, EpisodeOpened, PassRan, StrategyActed
from wane.core import DELIMITER
from wane.core.report import brief

MAX_LINES: Final = 6
"""Lines of a command's output to show."""

_MAX_ARGUMENTS: Final = 100
# How a refusing verdict of the delimiter begins (`wane.core.delimiter`).
_REFUSED: Final = "Error: "


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks at the beginning of lines."""

    tool: str
    result: str
    opened: str
    closed: str
    evicted: str


UNICODE: Final = Marks("●", "└", "▶", "■", "↯")
ASCII: Final = Marks("*", "`-", ">", "#", "!")


class Narration:
    """Turns events into lines.

    The model's text comes in pieces: whole lines are written at once, and the unfinished line is in `partial`.

    Args:
        write: writes a line.
        marks: marks at the beginning of lines.

    Attributes:
        partial: the model's text since the last line break.
    """

    def __init__(self, write: Callable[[Text], None], marks: Marks = UNICODE) -> None:
        self.partial = ""
        self._write = write
        self._marks = marks
        self._unmet = False
        self._latest = ""

    def event(self, event: SessionEvent) -> None:
        """Write an event."""
        if isinstance(event, TextDelta):
            *lines, self.partial = f"{self.partial}{event.text}".split("\n")
            for words in lines:
                self._write(Text(safe(words)))
        elif (line := self._line(event)) is not None:
            self.flush()
            self._write(line)

    def end(self, result: TurnResult) -> None:
        """Write how the turn ended."""
        self.flush()
        self._unmet = False
        if result.outcome is Outcome.INTERRUPTED:
            self._write(Text("Stopped. The session keeps what was done.", style="yellow"))
        elif result.error is not None:
            self._write(Text(safe(result.error), style="red"))
        calls = counted(result.spent.calls, "model call")
        self._write(Text(f"{calls}, {spent(result.spent)}", style="dim"))

    def question(self, request: ApprovalRequest) -> None:
        """Write what the user is asked to approve."""
        self.flush()
        for line in question_lines(request):
            self._write(line)

    def flush(self) -> None:
        """Write the unfinished line."""
        if self.partial:
            self._write(Text(safe(self.partial)))
            self.partial = ""

    def _line(self, event: SessionEvent) -> Text | None:
        marks = self._marks
        match event:
            case ToolCalled(call_id, tool, arguments) if tool != DELIMITER:
                self._latest = call_id
                return Text(f"{marks.tool} {printable(tool)} {_arguments(arguments)}", style="cyan")
            case ToolReturned(call_id, tool, result, failed) if tool != DELIMITER or failed:
                # A result names its call if it belongs to an earlier one than the call above it.
                return self._returned(tool, result, failed, "" if call_id == self._latest else f"{printable(tool)}: ")
            case ToolReturned(tool=tool, result=result) if tool == DELIMITER and result.startswith(_REFUSED):
                reason = result.removeprefix(_REFUSED).partition(". ")[0]
                return Text(f"  {marks.result} {_cut(f'delimiter refused: {printable(reason)}')}", style="dim")
            case EpisodeOpened(episode) if episode.name is not None:
                behind = f" (on {', '.join(map(_named, episode.dependencies))})" if episode.dependencies else ""
                return Text(f"{marks.opened} {episode.type.value} {_named(episode.name)}{behind}", style="magenta")
            case EpisodeClosed(episode) if episode.name is not None:
                learned = f": {printable(episode.description)}" if episode.description else ""
                return Text(f"{marks.closed} {_named(episode.name)}{learned}", style="magenta")
            case PassRan(report) if report.tokens_after < report.tokens_before:
                freed = report.tokens_before - report.tokens_after
                told = f"evicted {freed:,} tokens; the view holds {report.tokens_after:,} of {report.budget:,}"
                return Text(f"{marks.evicted} {told}", style="yellow")
            case StrategyActed(strategy, _, _, before, after):
                told = f"{strategy}: the view went from {before:,} to {after:,} tokens"
                return Text(f"{marks.evicted} {told}", style="yellow")
            case Warned(text):
                return Text(printable(text), style="yellow")
            case BudgetUnmet(report) if not self._unmet:
                self._unmet = True
                return Text(f"{marks.evicted} {printable(report.shortfall)}", style="yellow")
        return None

    def _returned(self, tool: str, result: str, failed: bool, name: str) -> Text:
        lines = result.rstrip("\n").split("\n")
        style = "red" if failed else "dim"
        if tool != SHELL_TOOL and not failed:
            shown = f"{len(lines)} lines" if len(lines) > 1 else _cut(printable(lines[0]))
            return Text(f"  {self._marks.result} {name}{shown}", style=style)
        more = [f"({len(lines) - MAX_LINES} lines above)"] if len(lines) > MAX_LINES else []
        body = "\n    ".join(_cut(safe(line)) for line in [*more, *lines[-MAX_LINES:]])
        return Text(f"  {self._marks.result} {name}{body}", style=style)


def safe(text: str) -> str:
    r"""Return a line without control characters, which a terminal would obey; tabs stay."""
    return printable(text, keep="\t")


def _arguments(raw: str) -> str:
    """Return arguments on one line: a single value alone, several as `name=value` pairs."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return _cut(printable(raw))
    if not isinstance(data, dict):
        return _cut(printable(raw))
    values = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in data.values()]
    if len(values) == 1:
        return _cut(printable(values[0]))
    return _cut(printable(" ".join(f"{name}={value}" for name, value in zip(data, values, strict=True))))


def _named(name: str) -> str:
    return printable(brief(name))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_ARGUMENTS else f"{text[: _MAX_ARGUMENTS - 1]}…"
