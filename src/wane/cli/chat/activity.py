"""The line above the prompt while a turn goes on: what it does, for how long, what it took, and how to stop it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from wane.agent.costs import Totals
from wane.agent.events import SessionEvent, Spent, TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from wane.cli.chat.footer import short

HINT: Final = "Ctrl-C stops"
WAITING: Final = "waiting for the model"

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_FRAMES: Final = "-\\|/"
_FRAMES_A_SECOND: Final = 10
_NARROWEST: Final = 10  # columns of what it does


@dataclass(slots=True)
class Activity:
    """What a turn is doing.

    Attributes:
        began: when it began, in seconds of any clock.
        before: what the session had spent by then.
        doing: what it does, in a few words.
        now: what the session has spent.
        calls: the calls without a result, by id, as they are told to the user.
    """

    began: float
    before: Totals
    now: Totals
    doing: str = WAITING
    calls: dict[str, str] = field(default_factory=dict)

    def event(self, event: SessionEvent, shown: str = "") -> None:
        """Take in an event of the turn.

        Args:
            event: the event.
            shown: for a call, how it is told to the user.
        """
        match event:
            case ThinkingDelta():
                self.doing = "thinking"
            case TextDelta():
                self.doing = "answering"
            case ToolCalled(call_id):
                self.calls[call_id] = shown
                self.doing = next(iter(self.calls.values()))
            case ToolReturned(call_id):
                # They run one after the other, in the order of the calls.
                self.calls.pop(call_id, None)
                self.doing = next(iter(self.calls.values()), WAITING)
            case Spent(totals):
                self.now = totals

    def line(self, at: float, columns: int, *, unicode: bool = True) -> str:
        """Return the line for a moment, no wider than `columns`."""
        frames = _FRAMES if unicode else _ASCII_FRAMES
        frame = frames[int(at * _FRAMES_A_SECOND) % len(frames)]
        spent = self.now.minus(self.before)
        used = f"  ↑{short(spent.input_tokens)} ↓{short(spent.output_tokens)}" if spent.calls else ""
        rest = f"  {elapsed(at - self.began)}{used}  {HINT}"
        room = columns - 1 - len(frame) - 1 - len(rest)
        if room < _NARROWEST:
            rest = f"  {HINT}"
            room = max(_NARROWEST, columns - 1 - len(frame) - 1 - len(rest))
        doing = self.doing if len(self.doing) <= room else f"{self.doing[: room - 1]}…"
        return f"{frame} {doing}{rest}"


def elapsed(seconds: float) -> str:
    """Return a duration: `7s`, `2m 05s`, `1h 02m`."""
    minutes, left = divmod(int(seconds), 60)
    if not minutes:
        return f"{left}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {left:02}s"
