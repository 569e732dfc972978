"""The judgement of one tool call: what it does, as far as its name and arguments show."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from wane.core.light import light_dataclass


class Activity(IntEnum):
    """The purpose of a call; for several commands in one line, the highest counts.

    `NEUTRAL` says nothing about the work (plans, `cd`, waiting). `REVIEW` looks at the agent's own work (`git status`)
    and `VERIFY` runs something (tests, builds, programs): neither begins a new kind of work. `EXPLORE` gathers
    information, `ACT` changes the environment.
    """

    NEUTRAL = 0
    REVIEW = 1
    EXPLORE = 2
    VERIFY = 3
    ACT = 4


@light_dataclass(frozen=True, slots=True)
class Judgement:
    """What one call, or one command in it, does.

    Attributes:
        activity: its purpose.
        reads: files that it reads, as far as it names them.
        writes: files that it changes, as far as it names them.
        hint: a word or two for people; may be empty.
    """

    activity: Activity
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it reads or changes."""
        return self.reads + self.writes


def combine_judgements(judgements: Iterable[Judgement]) -> Judgement:
    """Return one judgement for several commands that run together."""
    parts = list(judgements)
    if not parts:
        return Judgement(Activity.NEUTRAL)
    leading = max(parts, key=lambda part: (part.activity, bool(part.writes)))
    return Judgement(
        leading.activity,
        tuple(dict.fromkeys(path for part in parts for path in part.reads)),
        tuple(dict.fromkeys(path for part in parts for path in part.writes)),
        leading.hint,
    )
