"""The lines around the prompt: what was spent and what the view holds, and what a turn is doing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wane.account import Account
from wane.agent.events import SessionEvent, Spent, TextDelta, ThinkingDelta, ToolCalled, ToolReturned, Waiting
from wane.cli.terminal.text import cut, printable, short
from wane.core.report import brief
from wane.strategies.base import traits

if TYPE_CHECKING:
    from wane.agent.session import AgentSession


def footer(session: AgentSession, columns: int = 0) -> str:
    """Return `↑in ↓out Rcache Wcache $cost view/budget`, the active episode and the model.

    Args:
        session: the session.
        columns: how wide it may be; what matters least is left out. 0 for any width.
    """
    window, active = session.window, session.window.active
    account, model = session.account, printable(session.model.model_id)
    fill = f"{short(session.tokens)}/{short(window.budget)}"
    episode = ""
    if not traits(session.settings.context.strategy).marked:
        episode = f"cwl off ({session.settings.context.strategy})"
    elif active is not None:
        episode = f"{active.type.value} {printable(brief(active.name or ''))}"
    fitting = (
        [spent(account), fill, episode, model],
        [spent(account), fill, episode],
        [account.brief, fill, episode],
        [account.brief, fill],
    )
    lines = ["  ".join(filter(None, parts)) for parts in fitting]
    return next((line for line in lines if not columns or len(line) < columns), lines[-1])


def spent(account: Account) -> str:
    """Return the usage so far: `↑12.3k ↓1.2k R10k W2.0k $0.42`."""
    return (
        f"↑{short(account.input_tokens)} ↓{short(account.output_tokens)} R{short(account.cache_read_tokens)}"
        f" W{short(account.cache_write_tokens)} {account.brief}"
    )


HINT: Final = "Esc stops"
WAITING: Final = "waiting for the model"

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_FRAMES: Final = "-\\|/"
_FRAMES_A_SECOND: Final = 10
_NARROWEST: Final = 10  # columns of what it does


@dataclass(slots=True)
class Activity:
    """What a turn is doing.

    Attributes:
        began: when it began, in seconds of any clock; later by as long as it has waited for the user's answers.
        before: what the session had spent by then.
        doing: what it does, in a few words.
        now: what the session has spent.
        calls: the calls without a result, by id, as they are told to the user.
    """

    began: float
    before: Account
    now: Account
    doing: str = WAITING
    calls: dict[str, str] = field(default_factory=dict)

    def event(self, event: SessionEvent, description: str = "") -> None:
        """Take in an event of the turn."""
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
        tail = f"  {elapsed(at - self.began)}{used}  {HINT}"
        room = columns - 1 - len(frame) - 1 - len(tail)
        if room < _NARROWEST:
            tail = f"  {HINT}"
            room = max(_NARROWEST, columns - 1 - len(frame) - 1 - len(tail))
        return f"{frame} {cut(self.doing, room)}{tail}"


def elapsed(seconds: float) -> str:
    """Return a duration: `7s`, `2m 05s`, `1h 02m`."""
    minutes, seconds = divmod(int(seconds), 60)
    if not minutes:
        return f"{seconds}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds:02}s"
