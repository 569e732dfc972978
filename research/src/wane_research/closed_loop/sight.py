"""How the closed loop's model reads a request: it extracts facts and the user's tasks.

If two texts disagree, the later one counts, as for a reader. But a change that the user ordered counts as made once
that task is over, whatever the model read in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from wane.core import DELIMITER
from wane.core.delimiter import TASKS_DESCRIPTION
from wane.scripted import sight as scripted
from wane.scripted.sight import Heard, Seen
from wane.testing import Request

About: TypeAlias = Literal["quota", "exports", "listing", "ticket", "finding", "surcharge"]
"""The kind of a fact: the QUOTA or the exports of a path; the modules, the ticket or the highest QUOTA of an area; the
surcharge of a topic."""

Need: TypeAlias = tuple[About, str]  # the kind of a needed fact, and its subject
Fact: TypeAlias = tuple[About, str, str]  # the same, and its value
_QUOTA: Final = re.compile(r"^(?: *\d+\t)?QUOTA: Final = (\d+)$", re.MULTILINE)
_EXPORTS: Final = re.compile(r"^(?: *\d+\t)?(__all__ = \[.*\])$", re.MULTILINE)
_TICKET: Final = re.compile(r"\bticket for (?:the )?(\w+)(?:: | is )(\d+)")
_FINDING: Final = re.compile(r"The highest QUOTA of the (\w+) is (\d+)")

# The user's words: a general grammar that knows no particular task.
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
    """A task, parsed from the user's words."""

    number: int  # the task's number
    target: str  # the module to which to add a function
    function: str | None  # the function's name; None if task `named_in` has it
    named_in: int  # number of the task that agreed on the function's name; 0 if `function` has it
    quotas: tuple[str, ...]  # modules whose QUOTA to add up
    surcharges: tuple[str, ...]  # topics whose surcharge to add
    called: tuple[int, ...]  # numbers of tasks whose function to call
    highest: tuple[tuple[str, int], ...]  # areas whose highest QUOTA to add, with the task in which it was found
    drawn: tuple[tuple[str, int], ...]  # areas whose ticket to add, with the task in which it was drawn
    change: int | None  # the new value of the target's own QUOTA
    survey: str | None  # area whose highest QUOTA to find
    draw: tuple[str, bool] | None  # area whose ticket to draw, and whether to note its value
    decided: tuple[tuple[str, int], ...]  # topics and surcharges that the user decides here
    agreed: str | None  # the name that the user sets here for a later function


class Sight(scripted.Sight):
    """A request, as the closed loop's model reads it."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        offered = request.body.get("tools", ())
        # Whether the model may mark tasks, too (R17)
        self.marks_tasks = TASKS_DESCRIPTION in [tool.get("description") for tool in offered]
        self.facts: dict[Need, str] = {}  # the known facts, by need
        self.turns: dict[int, Turn] = {}  # the user's tasks in view, by number
        self.task: Turn | None = None  # the latest of these
        self._understand()

    def _understand(self) -> None:
        for entry in self.entries:
            if isinstance(entry, Heard):
                self._hear(entry.text)
            elif isinstance(entry, Seen) and entry.result is not None:
                for about, of, value in _facts_of(entry.tool, entry.raw, entry.result):
                    self.facts[about, of] = value
        if self.task is None or self.task.number != self.number:
            # The model's latest words are about a task that is no longer in view.
            self.at = self.words = ""

    def _hear(self, text: str) -> None:
        for area, value in _handed_in(text):
            self.facts["ticket", area] = str(value)
        for turn in turns_in(text):
            if self.task and self.task.change is not None:
                self.facts["quota", self.task.target] = str(self.task.change)
            for topic, surcharge in turn.decided:
                self.facts["surcharge", topic] = str(surcharge)
            self.turns[turn.number] = self.task = turn


# A call and its result yield the same facts in every request, so each is read once.
@lru_cache(maxsize=20_000)
def _facts_of(tool: str, call: str, result: str) -> tuple[Fact, ...]:
    return tuple(_facts(Seen("", tool, call, result, "", latest=False)))


def _facts(call: Seen) -> Iterator[Fact]:
    tool, arguments, result, path = call.tool, call.arguments, call.result or "", call.path
    if tool == "read_file":
        yield from _of_file(path, result)
    elif tool == "edit_file" and result.startswith("Edited"):
        for entry in arguments.get("replacements") or [arguments]:
            yield from _of_file(path, str(entry.get("new_text", "")))
    elif tool in ("list_files", "find_files"):
        by_area: dict[str, list[str]] = {}
        for module in sorted(set(re.findall(r"\bdepot/\w+/[a-z]+\.py\b", result))):
            by_area.setdefault(module.split("/")[1], []).append(module)
        for area, modules in by_area.items():
            yield "listing", area, " ".join(modules)
    elif tool in ("shell", "recall"):
        yield from _tickets(result)
    elif tool == DELIMITER:
        description = str(arguments.get("description", ""))
        yield from _tickets(description)
        for area, value in _FINDING.findall(description):
            yield "finding", area, value


def _tickets(text: str) -> Iterator[Fact]:
    for area, value in _TICKET.findall(text):
        yield "ticket", area, value


def _of_file(path: str, text: str) -> Iterator[Fact]:
    for match in _QUOTA.finditer(text):
        yield "quota", path, match[1]
    for match in _EXPORTS.finditer(text):
        yield "exports", path, match[1]


@lru_cache(maxsize=4096)
def turns_in(text: str) -> tuple[Turn, ...]:
    """Return the tasks in a text of the user, in order. There are several if it quotes earlier ones."""
    return tuple(_turn(int(match[1]), match[0]) for match in _TURN.finditer(text))


@lru_cache(maxsize=4096)
def _handed_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the tickets in a text of the user: area and value."""
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
        highest=tuple((area, int(task)) for area, task in _FOUND.findall(text)),
        drawn=tuple((area, int(task)) for area, task in _DRAWN.findall(text)),
        change=int(change[2]) if change else None,
        survey=survey[1] if survey else None,
        draw=(draw[1], bool(draw[2])) if draw else None,
        decided=tuple((topic, int(value)) for topic, value in _DECIDED.findall(text)),
        agreed=agreed[1] if agreed else None,
    )
