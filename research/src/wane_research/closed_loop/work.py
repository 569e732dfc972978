"""The tasks: the user's prompt, the expected result, and the earlier tasks that each depends on.

Every task adds a function that returns one number, and states in words how to compute it. Some terms are in files and
can be read again. Others only the user has stated, 5 to 80 tasks earlier. Others are the output of a command that can
run only once. The acceptance test of a task takes the number from here, not from the model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from wane.core.errors import ConfigError
from wane_research.closed_loop.world import FIRST, PACKAGE, SECOND, TOPICS, World, make_world

MOST_TASKS: Final = 200  # the most tasks of a run
_CALLS_BESIDES_READS: Final = 5
_MEAN_FILL: Final = 0.58  # average size of the view, as a share of the budget, for sizing the work
_FILE_SHARE: Final = 1 / 32
_WIDEST: Final = 0.5
"""Share of the budget that the files of one exploration may hold: it is active, so none of it can be evicted."""


class Link(StrEnum):
    """The kind of a link between a task and an earlier one."""

    DECISION = "decision"  # the user decided a figure then, and has not repeated it
    NAME = "name"  # the user gave the function's name then
    CODE = "code"
    """The function calls that task's function; only the user's turn of that task tells its name and module."""
    FINDING = "finding"  # an exploration found the figure then; reading the files again finds it too
    DESCRIBED = "described"
    """The output of a command that runs only once; the description of the exploration that ran it tells it."""
    RECALLED = "recalled"
    """The same output, but the description leaves it out: after its eviction, only `recall` brings it back."""


TICKETS: Final = (Link.DESCRIBED, Link.RECALLED)

_TEST: Final = """\
import unittest

import {module} as module


class Accepted(unittest.TestCase):
    def test_result(self) -> None:
        self.assertEqual(module.{function}(), {result})
        self.assertIn("{function}", module.__all__)
"""
_QUOTA_TEST: Final = """
    def test_quota_of_{name}(self) -> None:
        import {module} as changed

        self.assertEqual(changed.QUOTA, {quota})
"""

_HEAVY: Final = frozenset({Link.FINDING, *TICKETS})

_PLENTY: Final = {
    Link.DECISION: 0.24,
    Link.NAME: 0.1,
    Link.CODE: 0.12,
    Link.FINDING: 0.07,
    Link.DESCRIBED: 0.06,
    Link.RECALLED: 0.06,
}
"""How many links of each kind there are, as a share of the tasks."""


@dataclass(frozen=True, slots=True)
class Tie:
    """One dependency of a task."""

    link: Link
    giver: int  # number of the earlier task
    user: int  # number of the task that depends on it
    about: str = ""  # the topic, the name or the area that it is about
    value: int = 0  # the figure; 0 for a name and for code, whose value follows from the tasks

    @property
    def distance(self) -> int:
        """How many tasks lie between."""
        return self.user - self.giver


@dataclass(frozen=True, slots=True)
class Task:
    """One task."""

    number: int  # from 1
    prompt: str  # the user's words
    path: str  # the module that the function goes to
    function: str
    result: int  # the number that it must return
    ties: tuple[Tie, ...] = ()  # its dependencies on earlier tasks
    quotas: tuple[tuple[str, int], ...] = ()  # by path of a module, the value that its QUOTA must have afterwards

    @property
    def area(self) -> str:
        """The sub-package that the function goes to."""
        return self.path.split("/")[1]

    def test(self) -> str:
        module = self.path.removesuffix(".py").replace("/", ".")
        text = _TEST.format(module=module, function=self.function, result=self.result)
        for path, quota in self.quotas:
            changed = path.removesuffix(".py").replace("/", ".")
            text += _QUOTA_TEST.format(name=changed.rpartition(".")[2], module=changed, quota=quota)
        return text


@dataclass(frozen=True, slots=True)
class Work:
    """The repository of one run as it is at the beginning, and the tasks in order."""

    world: World
    tasks: tuple[Task, ...]

    def alone(self, task: Task) -> str:
        """Return the prompt for the task in a session of its own.

        It quotes the earlier turns that the task depends on, whole and in order, and the values of tickets that an
        earlier session has drawn.
        """
        needed: set[int] = set()
        handed: list[str] = []
        todo = [task]
        while todo:
            for tie in todo.pop().ties:
                if tie.link in TICKETS:
                    if tie.user == task.number:
                        handed.append(f"The ticket for {tie.about} is {tie.value}.")
                elif tie.giver not in needed:
                    needed.add(tie.giver)
                    # The task needs the earlier function's name, but not its value.
                    giver = self.tasks[tie.giver - 1]
                    names = tuple(earlier for earlier in giver.ties if earlier.link is Link.NAME)
                    todo.append(replace(giver, ties=names))
        prompts = [self.tasks[number - 1].prompt for number in sorted(needed)]
        if not prompts and not handed:
            return task.prompt
        head = "What was said and done before, in other sessions:"
        return "\n\n".join([head, *prompts, *handed, "Now:", task.prompt])


def make_work(seed: int, *, tasks: int, budget: int, tokens: int) -> Work:
    """Return repository and tasks of a seed.

    `seed`: selects them.
    `budget`: tokens that the view may hold; a file has about a thirtieth of it.
    `tokens`: input tokens that a session within the budget should take in all. With more of them each task needs more
    files, up to the limit of one exploration.
    """
    if not 1 <= tasks <= MOST_TASKS:
        raise ConfigError(f"the closed loop has 1 to {MOST_TASKS} tasks, not {tasks}")
    large = tasks > 40
    file_tokens = max(200, int(budget * _FILE_SHARE))
    world = make_world(seed, areas=16 if large else 8, modules=10 if large else 5, file_tokens=file_tokens)
    widest = int(_WIDEST * budget / file_tokens)
    reads = round(tokens / (tasks * budget * _MEAN_FILL)) - _CALLS_BESIDES_READS + 1
    return Work(world, tuple(_Writer(seed, world, tasks, max(3, min(reads, widest))).tasks()))


@dataclass(slots=True)
class _Draft:
    gives: list[Tie] = field(default_factory=list)
    uses: list[Tie] = field(default_factory=list)
    changes: bool = False


class _Writer:
    """Writes the tasks of a run, one after the other, and tracks the true values after each."""

    def __init__(self, seed: int, world: World, count: int, reads: int) -> None:
        self.pick = random.Random(f"{seed}:work")  # noqa: S311 - a seed is to give the same again
        self.world = world
        self.count = count
        self.reads = reads
        self.quotas = {path: module.quota for path, module in world.modules.items()}
        self.drafts = [_Draft() for _ in range(count + 1)]
        self.names = self._names()
        areas = self.pick.sample(world.areas, len(world.areas))
        half = len(areas) // 2
        # Surveyed areas never change, so that the finding stays true.
        self.surveyed, self.changing = areas[:half], areas[half:]
        self.drawn = iter(self.pick.sample(areas, len(areas)))
        self.changed: set[str] = set()
        self.done: list[Task] = []
        self._tie()

    def tasks(self) -> list[Task]:
        for number in range(1, self.count + 1):
            self.done.append(self._task(number))
        return self.done

    def _names(self) -> Iterator[str]:
        both = [f"{first}_{second}" for first in FIRST for second in SECOND]
        self.pick.shuffle(both)
        yield from both
        yield from (f"{name}_again" for name in both)

    def _tie(self) -> None:
        topics = iter(self.pick.sample(TOPICS, len(TOPICS)))
        surveys = iter(self.surveyed)
        least, most = min(5, max(1, self.count // 4)), max(1, min(80, self.count - 1))
        for link, share in _PLENTY.items():
            many = max(1, round(share * self.count))
            for index in range(many):
                distance = max(1, most - (most - least) * index // max(1, many - 1))
                if (ends := self._ends(link, distance)) is None:
                    continue
                giver, user = ends
                about, value = self._about(link, topics, surveys)
                if about is None:
                    continue
                tie = Tie(link, giver, user, about, value)
                self.drafts[giver].gives.append(tie)
                self.drafts[user].uses.append(tie)
        for draft in self.drafts[2:]:
            draft.changes = not draft.gives and self.pick.random() < 0.4

    def _ends(self, link: Link, distance: int) -> tuple[int, int] | None:
        """Return two tasks at this distance that have room for the link, or at the nearest distance that has."""
        for apart in sorted(range(1, self.count), key=lambda gap: abs(gap - distance)):
            givers = [n for n in range(1, self.count + 1 - apart) if self._has_room(link, n, n + apart)]
            if givers:
                giver = self.pick.choice(givers)
                return giver, giver + apart
        return None

    def _has_room(self, link: Link, giver: int, user: int) -> bool:
        gives, uses = self.drafts[giver].gives, self.drafts[user].uses
        if len(uses) >= 2 or link in {tie.link for tie in uses}:
            return False
        if link is Link.CODE:
            return True
        if any(tie.link is not Link.CODE for tie in gives):
            return False
        # No task reads a whole area twice.
        around = {tie.link for tie in (*self.drafts[user].gives, *self.drafts[giver].uses)}
        return link not in _HEAVY or not around & _HEAVY

    def _about(self, link: Link, topics: Iterator[str], surveys: Iterator[str]) -> tuple[str | None, int]:
        match link:
            case Link.DECISION:
                return next(topics, None), self.pick.randrange(100, 999)
            case Link.NAME:
                return next(self.names), 0
            case Link.FINDING:
                area = next(surveys, None)
                if area is None:
                    return None, 0
                return area, max(module.quota for module in self.world.of_area(area))
            case Link.DESCRIBED | Link.RECALLED:
                area = next(self.drawn, None)
                return area, self.world.tickets[area] if area else 0
            case Link.CODE:
                return "", 0

    def _task(self, number: int) -> Task:
        draft = self.drafts[number]
        path = self._target(draft)
        agreed = next((tie for tie in draft.uses if tie.link is Link.NAME), None)
        if agreed is None:
            function = next(self.names)
            named = f"`{function}`"
        else:
            function = agreed.about
            named = f"with the name that we agreed on in task {agreed.giver}"
        surveys = Link.FINDING in [tie.link for tie in (*draft.gives, *draft.uses)]
        others = [module for module in self.world.modules if module != path]
        read = self.pick.sample(others, 2 if surveys else self.reads - 1)
        quotas = ", ".join(f"`{module}`" for module in read)
        sentences = [
            f"Task {number}. Add a function to `{path}`, {named}. It takes nothing and returns one number: the sum of",
            f"QUOTA of {quotas}.",
        ]
        sentences += [self._term(tie) for tie in draft.uses if tie.link is not Link.NAME]
        if draft.changes:
            self.quotas[path] = self.pick.randrange(100, 999)
            sentences.append(f"Also set QUOTA of `{path}` to {self.quotas[path]}.")
        sentences += [self._aside(tie) for tie in draft.gives if tie.link is not Link.CODE]
        changed = ((path, self.quotas[path]),) if draft.changes else ()
        result = sum(self.quotas[module] for module in read) + sum(self._value(tie) for tie in draft.uses)
        return Task(number, " ".join(sentences), path, function, result, tuple(draft.uses), changed)

    def _target(self, draft: _Draft) -> str:
        if not draft.changes:
            return self.pick.choice(list(self.world.modules))
        # Each QUOTA changes once, so that its test stays true.
        paths = [path for path, module in self.world.modules.items() if module.area in self.changing]
        path = self.pick.choice([candidate for candidate in paths if candidate not in self.changed])
        self.changed.add(path)
        return path

    def _value(self, tie: Tie) -> int:
        return self.done[tie.giver - 1].result if tie.link is Link.CODE else tie.value

    def _term(self, tie: Tie) -> str:
        match tie.link:
            case Link.DECISION:
                return f"Add the surcharge for {tie.about}, as we decided."
            case Link.CODE:
                return f"Add what the function of task {tie.giver} returns, by calling it."
            case Link.FINDING:
                return f"Add the highest QUOTA of the {tie.about}, which you found in task {tie.giver}."
            case _:
                return f"Add the ticket for the {tie.about}, which you drew in task {tie.giver}."

    def _aside(self, tie: Tie) -> str:
        match tie.link:
            case Link.DECISION:
                return f"From now on the surcharge for {tie.about} is {tie.value}; a later task will need it."
            case Link.NAME:
                return f"A later function shall be named `{tie.about}`; do not write it yet."
            case Link.FINDING:
                return f"Before that, find the highest QUOTA in `{PACKAGE}/{tie.about}/`; a later task will need it."
            case _:
                draw = f"Before that, draw the ticket for the {tie.about} with `sh draw {tie.about}`"
                return f"{draw}, and go on." if tie.link is Link.RECALLED else f"{draw}, and note what it says."
