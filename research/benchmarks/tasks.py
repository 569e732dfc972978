"""What `abandoned` saves when an approach was given up (R17).

    python research/benchmarks/tasks.py [--subjects 16] [--seed 0]

A script plays the model and drives a `Conversation`. On each subject it tries three approaches, two of them dead ends,
and keeps needing what it read before. `wane lab closed-loop --mark-tasks` has figures on what lines of tasks keep.
"""

from __future__ import annotations

import itertools
import json
import random
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import wane
from frame import parser, print_table
from wane.core import DELIMITER, chars
from wane_research.closed_loop.world import World, make_world

FILE_SHARE: Final = 1 / 32  # mean size of a module, as a share of the budget: as in the closed loop
GROUND: Final = 8  # modules that the first exploration of a subject reads

READ_PRICE: Final = 0.1
WRITE_PRICE: Final = 1.25  # prices of a cached and of a written token, in tokens of uncached input

EDITED: Final = {"edit_file": "Edited."}

Message = dict[str, Any]


@dataclass
class Counts:
    """Figures of a session."""

    requests: int = 0  # model calls
    input_tokens: int = 0  # tokens of all requests
    cost: float = 0.0  # the same with cached prefixes, in tokens of uncached input
    fetched: int = 0  # modules that were read again because their text was no longer in view
    most: int = 0  # tokens of the largest request


class Script:
    """An agent whose model is a script."""

    def __init__(self, budget: int, world: World, *, tasks: bool) -> None:
        self.conversation = wane.Conversation(budget=budget, tasks=tasks, recall=True)
        self.tasks = tasks
        self.world = world
        self.counts = Counts()
        self._numbers = itertools.count()
        self._before: list[Message] = []

    def hear(self, words: str) -> None:
        self.conversation.append({"role": "user", "content": words})

    def say(self, words: str, *calls: tuple[str, Mapping[str, Any]], results: Mapping[str, str] | None = None) -> None:
        """Make a request and answer it with words and calls; `results` has a tool's result other than a file's text."""
        self._count(self.conversation.request().messages)
        reply: Message = {"role": "assistant", "content": words}
        for name, data in calls:
            function = {"name": name, "arguments": dump_json(data)}
            call = {"id": f"c{next(self._numbers)}", "type": "function", "function": function}
            reply.setdefault("tool_calls", []).append(call)
        for call in self.conversation.append(reply):
            text = (results or {}).get(call.name) or self.world.modules[json.loads(call.arguments)["path"]].text
            self.conversation.append(call.result(text))

    def read(self, paths: Sequence[str], words: str) -> None:
        """Read modules, five at a time."""
        for first in range(0, len(paths), 5):
            self.say(words, *(("read_file", {"path": path}) for path in paths[first : first + 5]))

    def fetch(self, paths: Sequence[str], words: str) -> None:
        """Read the modules again whose text is not in the view of the next request."""
        seen = dump_json(self.conversation.view)
        missing = [path for path in paths if dump_json(self.world.modules[path].text)[1:-1] not in seen]
        self.counts.fetched += len(missing)
        self.read(missing, words)

    def _count(self, messages: Sequence[Message]) -> None:
        sizes = [size(message) for message in messages]
        same = 0
        for message, before in zip(messages, self._before, strict=False):
            if message != before:
                break
            same += 1
        read, total = sum(sizes[:same]), sum(sizes)
        self.counts.requests += 1
        self.counts.input_tokens += total
        self.counts.cost += READ_PRICE * read + WRITE_PRICE * (total - read)
        self.counts.most = max(self.counts.most, total)
        self._before = list(messages)


def size(message: Message) -> int:
    """Return the tokens of a message: of its text, and of its calls' names and arguments."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return chars(message["content"] or "") + sum(chars(call["name"] + call["arguments"]) for call in calls)


def dump_json(value: object) -> str:
    return json.dumps(value)


def mark(action: str, name: str, **others: object) -> tuple[str, Mapping[str, Any]]:
    return DELIMITER, {"action": action, "name": name, **others}


def ways(budget: int, kind: str, *, declares: bool, subjects: int, seed: int) -> Counts:
    """Try three approaches on each subject, of which two are dead ends.

    `budget`: tokens of the view.
    `kind`: `none` for no tasks; `ended` if dead ends are ended like other tasks; `abandoned`.
    `declares`: whether the acts of dead ends declare the exploration on which all approaches build.
    `seed`: selects the session.
    """
    world = make_world(seed, areas=16, modules=10, file_tokens=int(budget * FILE_SHARE))
    pick = random.Random(f"{seed}:ways")
    script = Script(budget, world, tasks=kind != "none")
    for number in range(1, subjects + 1):
        ground, *others = _divide_modules(pick, world)
        _subject(script, number, kind, ground, others, declares=declares)
    return script.counts


def _divide_modules(pick: random.Random, world: World) -> list[list[str]]:
    """Return the modules of the first exploration, and of each approach."""
    paths = pick.sample(list(world.modules), GROUND + 12)
    return [paths[:GROUND], *(paths[first : first + 4] for first in range(GROUND, GROUND + 12, 4))]


def _subject(
    script: Script, number: int, kind: str, ground: Sequence[str], others: Sequence[Sequence[str]], *, declares: bool
) -> None:
    look = f"s{number}-look"
    script.hear(f"Subject {number}. Read {', '.join(ground)} and mend what is wrong.")
    script.say("Look first.", mark("start", look, type="expl"))
    script.read(ground, "Read them.")
    script.say("I know them.", mark("end", look, description=f"Read {', '.join(ground)}."))
    for way, paths in enumerate(others, 1):
        dead = way < len(others)
        needs = [] if dead and not declares else [look]
        _way(script, f"s{number}-w{way}", paths, needs, dead=dead, abandoned=dead and kind == "abandoned")
        # The next approach, and the end of the subject, need the first exploration.
        script.fetch(ground, "I need them again.")
    script.say(f"Subject {number} is done.")


def _way(script: Script, name: str, paths: Sequence[str], needs: Sequence[str], *, dead: bool, abandoned: bool) -> None:
    """Try one approach: look at four modules, change them and run the tests, whose output is long."""
    task = [mark("start", name, type="task")] if script.tasks else []
    script.say("Try this.", *task, mark("start", f"{name}-look", type="expl"))
    script.read(paths, "Read them.")
    script.say("I know them.", mark("end", f"{name}-look", description=f"Read {', '.join(paths)}."))
    start = mark("start", f"{name}-write", type="act", dependencies=[f"{name}-look", *needs])
    edit = ("edit_file", {"path": paths[0], "text": "..." * 200})
    script.say("Change it.", start, edit, results=EDITED)
    output = f"{name}: tests\n" + "12 tests, 3 failed\n" * (script.conversation.settings.budget // 200)
    script.say("Run the tests.", ("shell", {"command": "make test"}), results={"shell": output})
    ends = [mark("end", f"{name}-write")]
    if script.tasks:
        given_up = {"abandoned": True} if abandoned else {}
        ends.append(mark("end", name, description="It does not work." if dead else "It works.", **given_up))
    script.say("That is that.", *ends)


def rows(arguments: Namespace) -> Iterator[list[str]]:
    for budget, declares in itertools.product((80_000, 20_000), (True, False)):
        base = 0.0
        for kind in ("none", "ended", "abandoned"):
            counts = ways(budget, kind, declares=declares, subjects=arguments.subjects, seed=arguments.seed)
            base = base or counts.cost
            yield [
                *(f"{budget:,}", "yes" if declares else "no", kind, str(counts.requests), str(counts.fetched)),
                *(f"{counts.input_tokens:,}", f"{counts.cost:,.0f}", f"{counts.cost / base:.2f}"),
            ]


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--subjects", type=int, default=16)
    command.add_argument("--seed", type=int, default=0)
    arguments = command.parse_args()
    counts = ["requests", "read again", "input tokens", "cost", "to none"]
    print_table(["budget", "dead ends declare", "tasks", *counts], rows(arguments))


if __name__ == "__main__":
    main()
