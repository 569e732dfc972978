"""What one tool call does, as far as its name and arguments tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Activity(IntEnum):
    """What a call is for; of several in one command line the highest tells.

    `NEUTRAL` says nothing of the work (plans, `cd`, waiting). `REVIEW` looks at the state of one's own work
    (`git status`) and `VERIFY` runs something (tests, builds, programs): neither changes what the agent is at.
    `EXPLORE` gathers information, `ACT` changes the environment.
    """

    NEUTRAL = 0
    REVIEW = 1
    EXPLORE = 2
    VERIFY = 3
    ACT = 4


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one call, or one command of it, does.

    Attributes:
        activity: what it is for.
        reads: files that it reads, as far as they are named.
        writes: files that it changes, as far as they are named.
        hint: a word or two for people; empty if there is nothing to say.
    """

    activity: Activity
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hint: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it reads or changes."""
        return self.reads + self.writes


def combined(judgements: Iterable[Judgement]) -> Judgement:
    """Return the judgement of several commands that run as one."""
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
