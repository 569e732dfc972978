"""What tasks keep of a long session, and what leaves first of a way that was given up (R17).

    python research/benchmarks/tasks.py lines [--tasks 89] [--seed 0]
    python research/benchmarks/tasks.py ways [--subjects 16] [--seed 0]

A script plays the model, and drives a `Conversation`. Lines: in each task it draws a ticket, reads fourteen modules and
adds a function; at the end, what of each task is still in view? Ways: on each subject it tries three ways of which two
are dead ends, and needs what it has read before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import wane
from wane.core import DELIMITER, chars
from wane_research.closed_loop.world import World, make_world

MODULES: Final = 14
"""Modules that a task reads: as in the closed loop."""

FILE_SHARE: Final = 1 / 32
"""Mean size of a module, as a share of the budget: as in the closed loop."""

GROUND: Final = 8
"""Modules that an exploration of the ways reads."""

READ_PRICE: Final = 0.1
WRITE_PRICE: Final = 1.25
"""Prices of a cached and of a written token, in tokens of uncached input."""

Message = dict[str, Any]


@dataclass
class Counts:
    """Figures of a session.

    Attributes:
        requests: model calls.
        input_tokens: tokens of all requests.
        cost: the same with cached prefixes, in tokens of uncached input.
        fetched: modules that were read again because their text was no longer in view.
        most: tokens of the largest request.
    """

    requests: int = 0
    input_tokens: int = 0
    cost: float = 0.0
    fetched: int = 0
    most: int = 0


class Script:
    """An agent whose model is a script.

    Args:
        budget: of its conversation, in tokens.
        tasks: whether it has tasks.
        world: what it reads.
    """

    def __init__(self, budget: int, world: World, *, tasks: bool) -> None:
        self.conversation = wane.Conversation(budget=budget, tasks=tasks, recall=True)
        self.tasks = tasks
        self.world = world
        self.counts = Counts()
        self._numbers = itertools.count()
        self._before: list[Message] = []

    def hear(self, words: str) -> None:
        """Take in a turn of the user."""
        self.conversation.append({"role": "user", "content": words})

    def say(self, words: str, *calls: tuple[str, Mapping[str, Any]], results: Mapping[str, str] | None = None) -> None:
        """Make a request and answer it with words and calls; `results` has a tool's result other than a file's text."""
        self._count(self.conversation.request().messages)
        entries = [
            {"id": f"c{next(self._numbers)}", "type": "function", "function": {"name": name, "arguments": dumped(data)}}
            for name, data in calls
        ]
        reply: Message = {"role": "assistant", "content": words}
        if entries:
            reply["tool_calls"] = entries
        for call in self.conversation.append(reply):
            text = (results or {}).get(call.name) or self.world.modules[json.loads(call.arguments)["path"]].text
            self.conversation.append(call.result(text))

    def read(self, paths: Sequence[str], words: str) -> None:
        """Read modules, five at a time."""
        for first in range(0, len(paths), 5):
            self.say(words, *(("read_file", {"path": path}) for path in paths[first : first + 5]))

    def fetch(self, paths: Sequence[str], words: str) -> None:
        """Read those modules again whose text is not in view; look at the view of the next request."""
        seen = dumped(self.conversation.view)
        missing = [path for path in paths if dumped(self.world.modules[path].text)[1:-1] not in seen]
        self.counts.fetched += len(missing)
        self.read(missing, words)

    def sees(self, text: str) -> bool:
        """Whether a text is in view."""
        return text in dumped(self.conversation.view)

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
    """Tokens of a message, as Wane counts them: of its text, and of its calls' names and arguments."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return chars(message["content"] or "") + sum(chars(call["name"] + call["arguments"]) for call in calls)


def dumped(value: object) -> str:
    """A value as JSON."""
    return json.dumps(value)


def mark(action: str, name: str, **others: object) -> tuple[str, Mapping[str, Any]]:
    """A call of `delimiter`."""
    return DELIMITER, {"action": action, "name": name, **others}


# Lines of tasks


def lines(budget: int, *, tasks: bool, count: int, seed: int) -> list[str]:
    """Play the tasks; return a row of the table."""
    world = make_world(seed, areas=16, modules=10, file_tokens=int(budget * FILE_SHARE))
    pick = random.Random(f"{seed}:tasks")
    script = Script(budget, world, tasks=tasks)
    tickets = [f"ticket {pick.randrange(10**8, 10**9)}" for _ in range(count)]
    for number, ticket in enumerate(tickets, 1):
        _do(script, number, ticket, pick.sample(list(world.modules), MODULES))
    described, task_lines, tokens = _standing(script.conversation)
    in_view = [script.sees(ticket) for ticket in tickets]
    recalled = [
        not seen and ticket in script.conversation.recall(f"t{number}-look")
        for number, (ticket, seen) in enumerate(zip(tickets, in_view, strict=True), 1)
    ]
    lost = count - sum(in_view) - sum(recalled)
    return [
        *(f"{budget:,}", "yes" if tasks else "no", str(described), str(task_lines), f"{tokens:,}"),
        *(str(sum(in_view)), str(sum(recalled)), str(lost)),
        *(f"{script.counts.most:,}", f"{script.counts.input_tokens:,}", f"{script.counts.cost:,.0f}"),
    ]


def _do(script: Script, number: int, ticket: str, paths: Sequence[str]) -> None:
    """Do one task."""
    look, write, target = f"t{number}-look", f"t{number}-write", paths[0]
    quotas = ", ".join(f"{path} has {script.world.modules[path].quota}" for path in paths)
    script.hear(f"Task {number}. Draw a ticket, read {', '.join(paths)}, and add to {target} the sum of their quotas.")
    whole = [mark("start", f"t{number}", type="task")] if script.tasks else []
    script.say("Look first.", *whole, mark("start", look, type="expl"), ("draw", {}), results={"draw": ticket})
    script.read(paths, "Read them.")
    description = f"Drew {ticket}. Of the modules {quotas}. The names are listed at the end of {target}."
    script.say("I know them.", mark("end", look, description=description))
    start = mark("start", write, type="act", dependencies=[look])
    script.say("Write it.", start, ("edit_file", {"path": target, "text": f"def f{number}(): ..."}), results=EDITED)
    script.say("Check it.", ("shell", {"command": "sh check"}), results={"shell": "12 tests, 0 failed\n" * 20})
    ends = [mark("end", write)]
    if script.tasks:
        ends.append(mark("end", f"t{number}", description=f"Added f{number} to {target}; drew {ticket}."))
    script.say("That is written.", *ends)
    script.say(f"Task {number} is done.")


EDITED: Final = {"edit_file": "Edited."}


def _standing(conversation: wane.Conversation) -> tuple[int, int, int]:
    """Count the descriptions of removed explorations and the lines of tasks in view, and their tokens."""
    messages = conversation.view
    calls = {
        call["id"]: json.loads(call["function"]["arguments"])
        for message in messages
        for call in message.get("tool_calls", ())
        if call["function"]["name"] == DELIMITER
    }
    started = {given["name"] for given in calls.values() if given["action"] == "start"}
    pairs = {
        call_id: given
        for call_id, given in calls.items()
        if given["action"] == "end" and "description" in given and given["name"] not in started
    }
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    tokens = sum(chars(DELIMITER + dumped(given)) + chars(results[call_id]) for call_id, given in pairs.items())
    of_tasks = sum("-" not in given["name"] for given in pairs.values())
    return len(pairs) - of_tasks, of_tasks, tokens


# Ways that are given up


def ways(budget: int, kind: str, *, declares: bool, subjects: int, seed: int) -> Counts:
    """Try three ways on each subject, of which two are dead ends.

    Args:
        budget: tokens of the view.
        kind: `none` for no tasks; `ended`, if dead ends are ended as other tasks are; `abandoned`.
        declares: whether the acts of dead ends declare the exploration that all ways build on.
        subjects: how many subjects.
        seed: tells one session from another.
    """
    world = make_world(seed, areas=16, modules=10, file_tokens=int(budget * FILE_SHARE))
    pick = random.Random(f"{seed}:ways")
    script = Script(budget, world, tasks=kind != "none")
    for number in range(1, subjects + 1):
        ground, *others = _parted(pick, world)
        _subject(script, number, kind, ground, others, declares=declares)
    return script.counts


def _parted(pick: random.Random, world: World) -> list[list[str]]:
    """The modules of the ground, and of each way."""
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
        _way(script, f"s{number}-w{way}", kind, paths, look if declares or not dead else None, dead=dead)
        # The next way, and the end, need what the ground holds.
        script.fetch(ground, "I need them again.")
    script.say(f"Subject {number} is done.")


def _way(script: Script, name: str, kind: str, paths: Sequence[str], ground: str | None, *, dead: bool) -> None:
    """Try one way: look at four modules, change them and run the tests, whose output is long."""
    task = [mark("start", name, type="task")] if script.tasks else []
    script.say("Try this.", *task, mark("start", f"{name}-look", type="expl"))
    script.read(paths, "Read them.")
    script.say("I know them.", mark("end", f"{name}-look", description=f"Read {', '.join(paths)}."))
    needs = [f"{name}-look", *([ground] if ground else [])]
    edit = ("edit_file", {"path": paths[0], "text": "..." * 200})
    script.say("Change it.", mark("start", f"{name}-write", type="act", dependencies=needs), edit, results=EDITED)
    output = f"{name}: tests\n" + "12 tests, 3 failed\n" * (script.conversation.settings.budget // 200)
    script.say("Run the tests.", ("shell", {"command": "make test"}), results={"shell": output})
    ends = [mark("end", f"{name}-write")]
    if script.tasks:
        given_up = {"abandoned": True} if dead and kind == "abandoned" else {}
        ends.append(mark("end", name, description="It does not work." if dead else "It works.", **given_up))
    script.say("That is that.", *ends)


def rows(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows of a table, its head first."""
    if arguments.what == "lines":
        head = "budget | tasks | descriptions | lines | tokens of both | in view | by recall | lost | largest request"
        yield [*head.split(" | "), "input tokens", "cost"]
        for budget, tasks in itertools.product((80_000, 50_000), (False, True)):
            yield lines(budget, tasks=tasks, count=arguments.tasks, seed=arguments.seed)
        return
    yield ["budget", "dead ends declare", "tasks", "requests", "read again", "input tokens", "cost", "to none"]
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
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["lines", "ways"])
    parser.add_argument("--tasks", type=int, default=89)
    parser.add_argument("--subjects", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    for number, row in enumerate(rows(parser.parse_args())):
        print("| " + " | ".join(row) + " |", flush=True)
        if number == 0:
            print("|---" * len(row) + "|", flush=True)


if __name__ == "__main__":
    main()
