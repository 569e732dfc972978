"""How the scripted model decides: a pure function from a request to its next reply.

It is no language model. It follows a script as an agent would: it knows its place only from its own last
words, and the code only from the messages. Before a step it looks for the facts that the step needs. It uses
those that are in view. It reads, recalls or measures the others again, and then returns to the step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from wane.scripted.calls import edit, offered, put_right, read, shell
from wane.scripted.demo.moves import Check, Definition, Fact, Look, Need, Replace, ScriptStep, Task
from wane.scripted.demo.sight import Finding, Position, find, knows_episode, position_in
from wane.scripted.sight import Sight
from wane.testing import Call, Reply, Request

PATIENCE: Final = 4
"""How often the model looks something up for one step before it gives up."""

_REFERENCE: Final = re.compile(r"«(\w+)»")

Knowledge: TypeAlias = Mapping[Need, Finding]


@dataclass(frozen=True, slots=True)
class Decision:
    """The model's answer, and the reasons for it.

    Attributes:
        position: its position in its plan now.
        say: its words, without the position.
        calls: the calls that it makes; without any, this is its answer to the user.
        think: its thoughts before the words.
        knowledge: the needs that it found in view, and where.
        sought: the needs that it did not find, and looks up with this reply.
    """

    position: Position
    say: str
    calls: tuple[Call, ...] = ()
    think: str = ""
    knowledge: Knowledge = field(default_factory=dict)
    sought: tuple[Need, ...] = ()

    @property
    def reply(self) -> Reply:
        """The reply to the agent."""
        return Reply(f"{self.position} {self.say}", self.think or None, self.calls)


def decide(request: Request, tasks: Sequence[Task]) -> Decision:
    """Return the answer to a request, by a script of tasks."""
    sight = Sight(request)
    position = position_in(sight)
    if not 1 <= position.task <= len(tasks):
        return Decision(Position(0), "I do not see a task of my script.")
    if (decision := _react(sight, position, tasks[position.task - 1])) is not None:
        return decision
    if not position.detour.startswith("?"):
        position = Position(position.task, position.step + 1)
    return _go_on(sight, position, tasks[position.task - 1])


def _react(sight: Sight, position: Position, task: Task) -> Decision | None:
    """The decision that the results of the latest calls demand before the plan goes on, if any."""
    if (right := put_right(sight.latest)) is not None:
        return Decision(Position(position.task, position.step, "!"), "Put that right.", (right,))
    for call in sight.latest:
        if call.tool == "edit_file" and "not found in" in (call.result or ""):
            # The file is no longer as I saw it.
            say = f"{call.path} has changed since I saw it: read it again."
            return Decision(Position(position.task, position.step, "?"), say, (read(call.path),))
    if position.step and not position.detour:
        checks = {move.command for move in task.steps[position.step - 1].moves if isinstance(move, Check)}
        for call in sight.latest:
            if call.arguments.get("command") in checks and "[exit code:" in (call.result or ""):
                return Decision(
                    Position(position.task, len(task.steps)), "The tests fail, and my script knows no way on."
                )
    return None


def _go_on(sight: Sight, position: Position, task: Task) -> Decision:
    """The next step that has something to do, or the lookups that it needs first."""
    knowledge: dict[Need, Finding] = {}
    for number in range(position.step, len(task.steps) + 1):
        step = task.steps[number - 1]
        needs = _needs(sight, step)
        knowledge |= {need: match for need in needs if (match := find(sight, need)) is not None}
        missing = tuple(need for need in needs if need not in knowledge)
        # A step needs no facts that it looks up itself.
        looks = {need for move in step.moves if isinstance(move, Look) for need in move.needs}
        if not looks.issuperset(missing):
            next_position = position if number == position.step else Position(position.task, number)
            return _look_up(sight, next_position, missing, knowledge)
        calls = offered(_calls(sight, step, knowledge), sight.tools)
        if calls or number == len(task.steps):
            next_position = Position(position.task, number)
            return Decision(
                next_position, _filled(step.say, knowledge), calls, step.think if calls else "", knowledge, missing
            )
    return Decision(Position(position.task, len(task.steps)), "There is nothing left to do.")


def _look_up(sight: Sight, position: Position, missing: tuple[Need, ...], knowledge: Knowledge) -> Decision:
    if len(position.detour) == PATIENCE:
        return Decision(position, f"I looked for it {PATIENCE} times and do not find it: {_name(missing[0])}.")
    searches = {call.raw_arguments: call for call in (_search(sight, need) for need in missing)}
    names = ", ".join(dict.fromkeys(map(_name, missing)))
    detour = Position(position.task, position.step, f"{position.detour}?")
    say = f"I do not see {names} any more: look it up."
    return Decision(detour, say, tuple(searches.values()), "", knowledge, missing)


def _needs(sight: Sight, step: ScriptStep) -> list[Need]:
    """The needs of a step. An edit that is already made has none."""
    needs: list[Need] = list(step.needs)
    for move in step.moves:
        if isinstance(move, Look):
            needs += move.needs
        elif isinstance(move, Replace) and not _is_done(sight, move):
            needs.append(move.old)
    return list(dict.fromkeys(needs))


def _calls(sight: Sight, step: ScriptStep, knowledge: Knowledge) -> Iterable[Call]:
    edits: dict[str, list[dict[str, str]]] = {}
    for move in step.moves:
        match move:
            case Call(tool):
                arguments = json.loads(move.raw_arguments).items()
                yield Call(
                    tool,
                    {name: _filled(value, knowledge) if isinstance(value, str) else value for name, value in arguments},
                )
            case Check(command):
                yield shell(command)
            case Look(needs):
                yield from map(read, dict.fromkeys(need.path for need in needs if need not in knowledge))
            case Replace(old, new) if not _is_done(sight, move):
                texts = {"old_text": knowledge[old].text, "new_text": _filled(new, knowledge)}
                edits.setdefault(old.path, []).append(texts)
    yield from (edit(path, texts) for path, texts in edits.items())


def _search(sight: Sight, need: Need) -> Call:
    """The call that looks up a fact that is not in view."""
    if isinstance(need, Fact) and need.episode:
        if knows_episode(sight, need.episode):
            return Call("recall", {"name": need.episode})
        return shell(need.otherwise)
    return read(need.path)


def _is_done(sight: Sight, move: Replace) -> bool:
    """Whether the view shows that the change was already made."""
    return any(
        call.edited and call.path == move.old.path and json.dumps(move.new)[1:-1] in json.dumps(call.arguments)
        for call in sight.seen
    )


def _name(need: Need) -> str:
    match need:
        case Definition(path, anchor):
            return f"`{anchor.rstrip('(')}` in {path}"
        case Fact(name, _, path, episode):
            return f"the table of {episode}" if episode else f"{name} of {path}"
    return f"the line in {need.path}"


def _filled(text: str, knowledge: Knowledge) -> str:
    """Replace names of facts with their values."""
    facts = {need.name: answer.text for need, answer in knowledge.items() if isinstance(need, Fact)}
    return _REFERENCE.sub(lambda match: facts[match[1]], text)
