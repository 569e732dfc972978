"""How the scripted model understands the user's words: a general grammar that knows no particular task."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_TURN: Final = re.compile(r"^Task (\d+)\. .*$", re.MULTILINE)
_HANDED: Final = re.compile(r"^The ticket for (\w+) is (\d+)\.$", re.MULTILINE)
_TARGET: Final = re.compile(r"Add a function to `([^`]+)`, (?:`(\w+)`|with the name that we agreed on in task (\d+))")
_QUOTAS: Final = re.compile(r"the sum of QUOTA of ((?:`[^`]+`(?:, )?)+)\.")
_DECIDED: Final = re.compile(r"From now on the surcharge for (\w+) is (\d+)")
_AGREED: Final = re.compile(r"A later function shall be named `(\w+)`")
_CHANGE: Final = re.compile(r"Also set QUOTA of `([^`]+)` to (\d+)")
_SURVEY: Final = re.compile(r"Before that, find the highest QUOTA in `\w+/(\w+)/`")
_DRAW: Final = re.compile(r"Before that, draw the ticket for the (\w+) with `[^`]+`, and (note)?")
_SURCHARGE: Final = re.compile(r"Add the surcharge for (\w+), as we decided")
_CALLED: Final = re.compile(r"Add what the function of task (\d+) returns")
_FOUND: Final = re.compile(r"Add the highest QUOTA of the (\w+), which you found in task (\d+)")
_DRAWN: Final = re.compile(r"Add the ticket for the (\w+), which you drew in task (\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """A task as the user gave it, understood.

    Attributes:
        number: the task's number.
        target: the module to which to add a function.
        function: the function's name; None if it is the one that was agreed on in task `named_in`.
        named_in: see `function`.
        quotas: modules whose QUOTA to add up.
        surcharges: topics whose surcharge to add.
        called: numbers of tasks whose function to call.
        found: areas whose highest QUOTA to add, with the task in which it was found.
        drawn: areas whose ticket to add, with the task in which it was drawn.
        change: the new value of the target's own QUOTA.
        survey: area whose highest QUOTA to find.
        draw: area whose ticket to draw, and whether to note its value.
        decided: topics and surcharges that the user decides here.
        agreed: the name that the user sets here for a later function.
    """

    number: int
    target: str
    function: str | None
    named_in: int
    quotas: tuple[str, ...]
    surcharges: tuple[str, ...]
    called: tuple[int, ...]
    found: tuple[tuple[str, int], ...]
    drawn: tuple[tuple[str, int], ...]
    change: int | None
    survey: str | None
    draw: tuple[str, bool] | None
    decided: tuple[tuple[str, int], ...]
    agreed: str | None


@lru_cache(maxsize=4096)
def turns_in(text: str) -> tuple[Turn, ...]:
    """Return the tasks in a text of the user, in order; more than one if it quotes earlier ones."""
    return tuple(_turn(int(match[1]), match[0]) for match in _TURN.finditer(text))


@lru_cache(maxsize=4096)
def handed_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the tickets that the user tells: area and value."""
    return tuple((area, int(value)) for area, value in _HANDED.findall(text))


def _turn(number: int, text: str) -> Turn:
    target = _TARGET.search(text)
    quotas = _QUOTAS.search(text)
    change = _CHANGE.search(text)
    survey = _SURVEY.search(text)
    draw = _DRAW.search(text)
    agreed = _AGREED.search(text)
    return Turn(
        number=number,
        target=target[1] if target else "",
        function=target[2] if target else None,
        named_in=int(target[3] or 0) if target else 0,
        quotas=tuple(re.findall(r"`([^`]+)`", quotas[1])) if quotas else (),
        surcharges=tuple(_SURCHARGE.findall(text)),
        called=tuple(map(int, _CALLED.findall(text))),
        found=tuple((area, int(task)) for area, task in _FOUND.findall(text)),
        drawn=tuple((area, int(task)) for area, task in _DRAWN.findall(text)),
        change=int(change[2]) if change else None,
        survey=survey[1] if survey else None,
        draw=(draw[1], bool(draw[2])) if draw else None,
        decided=tuple((topic, int(value)) for topic, value in _DECIDED.findall(text)),
        agreed=agreed[1] if agreed else None,
    )
