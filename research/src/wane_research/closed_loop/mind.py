"""How the scripted model decides: a pure function from one request to a reply. It is no language model.

It knows a way of working, but no task: look, write, check, answer. It reads the task in the user's turn and looks in
the view for the facts that it needs. A fact that is not there it reads again, recalls, or produces again. If all of
these fail, it does not guess: it says so, and the task fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from wane.core import DELIMITER
from wane.scripted.model_calls import (
    act,
    edit,
    end,
    explore,
    keep_offered,
    listing,
    put_right,
    read,
    search,
    shell,
    start_task,
)
from wane.scripted.sight import Seen
from wane.testing import Call, Reply, Request
from wane_research.closed_loop.sight import Need, Sight, Turn
from wane_research.closed_loop.world import PACKAGE

PATIENCE: Final = 3  # attempts at looking one fact up in a task before the model gives up
_MORE: Final = re.compile(r"Go on with: (\{.*\})\]")
_TICKET_GONE: Final = "has been drawn already"


def decide(request: Request) -> Reply:
    sight = Sight(request)
    if sight.task is None:
        return Reply("I do not see what I am to do.")
    return _Thought(sight, sight.task).reply()


class _GiveUpError(Exception):
    """Something that the task needs cannot be found."""


class _Thought:
    """One decision about the task in hand, from what is in view."""

    def __init__(self, sight: Sight, task: Turn) -> None:
        self.sight = sight
        self.task = task
        self.name = f"t{task.number}"
        self.look_name = f"{self.name}-look"
        self.act_name = f"{self.name}-write"

    def reply(self) -> Reply:
        if (right := put_right(self.sight.latest)) is not None:
            return self._say(self.sight.at, "Put that right.", right)
        phases = {"": self._begin, "look": self._look, "write": self._check, "check": self._end}
        try:
            return phases.get(self.sight.at, self._answer)()
        except _GiveUpError as reason:
            return self._say("gaveup", str(reason), *self._ends(f"Given up: {reason}", str(reason)))

    # The phases; each continues from the results of the one before

    def _begin(self) -> Reply:
        """Look around first, as agents do, unless the task cannot be done anyway."""
        area = self.task.target.split("/")[1]
        starts = [explore(self.look_name)]
        if self.sight.marks_tasks:
            starts.insert(0, start_task(self.name))
        look = search("^def ", f"{PACKAGE}/{area}/*.py")
        thought = f"I need to see {len(self.task.quotas)} modules and what was said before."
        return self._say("look", f"Look at what task {self.task.number} is about.", *starts, look, think=thought)

    def _look(self) -> Reply:
        needs = list(self._needs())
        self._known_to_the_user()
        missing = [need for need in needs if need not in self.sight.facts]
        if missing:
            phase = self.sight.at
            about, of = missing[0]
            return self._say(phase, f"I do not see the {about} of {of}.", self._seek(missing[0]))
        return self._write()

    def _write(self) -> Reply:
        name = self._name_of(self.task)
        if f'"{name}"' in self.sight.facts["exports", self.task.target]:
            return self._run_check()
        calls = [self._edit(name)]
        if self.sight.at == "look":
            calls = [end(self.look_name, self._describe_exploration()), act(self.act_name, [self.look_name]), *calls]
        return self._say("write", f"Write `{name}`.", *calls)

    def _check(self) -> Reply:
        """Run the tests; if an edit failed because the file had changed, or had no result, look and write again."""
        edits = [call for call in self.sight.latest if call.tool == "edit_file"]
        if not edits:
            return self._look()
        if all((call.result or "").startswith("Edited") for call in edits):
            return self._run_check()
        self._patiently([call for call in self.sight.tried if call.tool == "edit_file"])
        return self._say("write", "The file is not as I saw it: read it again.", read(self.task.target))

    def _run_check(self) -> Reply:
        area = self.task.target.split("/")[1]
        return self._say("check", f"Check the {area}.", shell(f"sh check {area}"))

    def _end(self) -> Reply:
        results = [call.result or "" for call in self.sight.latest if call.tool == "shell"]
        if not any(" tests, " in result for result in results):
            self._patiently([call for call in self.sight.tried if call.tool == "shell"])
            return self._run_check()
        if " 0 failed" not in results[-1]:
            return self._say("gaveup", f"The tests fail: {results[-1][:200]}")
        if DELIMITER not in self.sight.tools:
            return self._say("done", "It is written, and the tests of the area pass.")
        return self._say("end", "That is written.", *self._ends("", self._came_of()))

    def _answer(self) -> Reply:
        gave_up = self.sight.at == "gaveup"
        outcome = f"not done. {self.sight.words}" if gave_up else "done, and the tests of the area pass."
        return self._say("done", f"Task {self.task.number} is {outcome}")

    # The facts that a task needs

    def _needs(self) -> Iterator[Need]:
        """Yield the facts that the model can look up, in the order in which it does."""
        task = self.task
        if task.draw:
            yield "ticket", task.draw[0]
        areas = [area for area, _ in task.highest if area == task.survey or ("finding", area) not in self.sight.facts]
        if task.survey:
            areas.insert(0, task.survey)
        for area in areas:
            yield "listing", area
            for path in self.sight.facts.get(("listing", area), "").split():
                yield "quota", path
        for area, _ in task.drawn:
            yield "ticket", area
        for path in task.quotas:
            yield "quota", path
        yield "exports", task.target
        if task.change is not None:
            yield "quota", task.target

    def _known_to_the_user(self) -> None:
        """Give up if a fact stated only in the user's turns is not in view."""
        self._name_of(self.task)
        for topic in self.task.surcharges:
            if ("surcharge", topic) not in self.sight.facts:
                raise _GiveUpError(f"I do not see what we decided about {topic}.")
        for number in self.task.called:
            self._function_of(number)

    def _name_of(self, turn: Turn) -> str:
        if turn.function:
            return turn.function
        agreed = self.sight.turns.get(turn.named_in)
        if agreed is None or agreed.agreed is None:
            raise _GiveUpError(f"I do not see which name we agreed on in task {turn.named_in}.")
        return agreed.agreed

    def _function_of(self, number: int) -> tuple[str, str]:
        turn = self.sight.turns.get(number)
        if turn is None:
            raise _GiveUpError(f"I do not see what task {number} was.")
        return turn.target, self._name_of(turn)

    # Looking facts up

    def _seek(self, need: Need) -> Call:
        about, of = need
        if about == "listing":
            call = listing(f"{PACKAGE}/{of}/*.py")
        elif about == "ticket":
            call = self._ticket(of)
        else:
            call = read(of)
        same = (call.tool, call.arguments)
        self._patiently([attempt for attempt in self.sight.tried if (attempt.tool, attempt.arguments) == same])
        return call

    def _ticket(self, area: str) -> Call:
        """Return a call that draws the ticket, or recalls the exploration in which it was drawn."""
        task = dict(self.task.drawn).get(area)
        if task is not None and "recall" in self.sight.tools:
            pages = [call for call in self.sight.tried if call.tool == "recall"]
            if pages and (remainder := _MORE.search(pages[-1].result or "")):
                return Call("recall", json.loads(remainder[1]))
            # I name my explorations after the tasks, so I know the name of any.
            return Call("recall", {"name": f"t{task}-look"})
        if any(_TICKET_GONE in (call.result or "") for call in self.sight.tried):
            raise _GiveUpError(f"I do not see the ticket for the {area}, and it can be drawn only once.")
        return shell(f"sh draw {area}")

    def _patiently(self, before: list[Seen]) -> None:
        if len(before) >= PATIENCE:
            raise _GiveUpError(f"{before[-1].tool} {json.dumps(before[-1].arguments)} does not help.")

    # Writing the code

    def _edit(self, name: str) -> Call:
        target, facts = self.task.target, self.sight.facts
        exports = facts["exports", target]
        names = [*json.loads(exports.removeprefix("__all__ = ")), name]
        code = "\n".join(self._code(name)) + f"\n\n\n__all__ = {json.dumps(names)}"
        texts = [{"old_text": exports, "new_text": code}]
        if self.task.change is not None and facts["quota", target] != str(self.task.change):
            old, new = (f"QUOTA: Final = {value}" for value in (facts["quota", target], self.task.change))
            texts.append({"old_text": old, "new_text": new})
        return edit(target, texts)

    def _code(self, name: str) -> Iterator[str]:
        facts, task = self.sight.facts, self.task
        terms = [facts["quota", path] for path in task.quotas]
        terms += [facts["surcharge", topic] for topic in task.surcharges]
        terms += [facts["ticket", area] for area, _ in task.drawn]
        terms += [self._highest(area) for area, _ in task.highest]
        called = [self._function_of(number) for number in task.called]
        terms += [f"{function}()" for _, function in called]
        yield f"def {name}() -> int:"
        yield f'    """Return the figure of task {task.number}."""'
        for path, function in called:
            if path != task.target:
                yield f"    from {path.removesuffix('.py').replace('/', '.')} import {function}"
        yield f"    return {' + '.join(terms)}"

    def _highest(self, area: str) -> str:
        if (highest := self.sight.facts.get(("finding", area))) is not None:
            return highest
        paths = self.sight.facts["listing", area].split()
        return max((self.sight.facts["quota", path] for path in paths), key=int)

    def _describe_exploration(self) -> str:
        """The description of the exploration: the facts that later work may need, not everything it read."""
        task = self.task
        sentences = [f"Read {len(task.quotas)} modules for `{self._name_of(self.task)}` in {task.target}."]
        if task.survey:
            sentences.append(f"The highest QUOTA of the {task.survey} is {self._highest(task.survey)}.")
        if task.draw:
            area, note = task.draw
            ticket = self.sight.facts["ticket", area]
            sentences.append(f"The ticket for the {area} is {ticket}." if note else "Drew a ticket.")
        return " ".join(sentences)

    def _came_of(self) -> str:
        """The line of the task: the added function, and the facts from the description of its exploration."""
        description = ""
        for call in self.sight.seen:
            if call.tool == DELIMITER and call.arguments.get("name") == self.look_name:
                description = call.arguments.get("description", description)
        facts = description.partition(". ")[2]
        return f"Added `{self._name_of(self.task)}` to {self.task.target}. {facts}".rstrip()

    # Words and calls

    def _say(self, phase: str, text: str, *calls: Call, think: str | None = None) -> Reply:
        return Reply(f"{self.task.number}.{phase} {text}", think, keep_offered(calls, self.sight.tools))

    def _ends(self, learned: str, came_of: str) -> Iterator[Call]:
        """End the open episode, an exploration with what was learned; then end the task, if there is one."""
        if self.sight.at == "look":
            yield end(self.look_name, learned)
        else:
            yield end(self.act_name)
        if self.sight.marks_tasks:
            yield end(self.name, came_of)
