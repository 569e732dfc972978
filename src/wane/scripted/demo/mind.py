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

from wane.core import DELIMITER
from wane.scripted.demo.moves import Check, Definition, Fact, Look, Need, Replace, ScriptStep, SourceLine, Task
from wane.scripted.model_calls import edit, keep_offered, put_right, read, shell
from wane.scripted.sight import Seen, Sight
from wane.testing import Call, Reply, Request

PATIENCE: Final = 4
"""How often the model looks something up for one step before it gives up."""

_REFERENCE: Final = re.compile(r"«(\w+)»")


@dataclass(frozen=True, slots=True)
class Position:
    """The model's position in its plan, as it states it at the beginning of each reply.

    Attributes:
        task: number of the task, from 1; 0 if it sees none.
        step: number of the step, from 1; 0 before the first.
        detour: "" for the step itself, "!" after a corrected call, and a "?" for each lookup that the step needed.
    """

    task: int
    step: int = 0
    detour: str = ""

    def __str__(self) -> str:
        return f"{self.task}.{self.step}{self.detour}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The text that satisfies a need.

    Attributes:
        text: the text of a block or line, or the match of a fact's pattern.
        call_id: the call that showed it.
        described: whether the text is in the description of an exploration.
    """

    text: str
    call_id: str
    described: bool = False


Knowledge: TypeAlias = Mapping[Need, Finding]


@dataclass(frozen=True, slots=True)
class Decision:
    """The model's answer, and the reasons for it.

    Attributes:
        position: its position in its plan now.
        say: its words, without the position.
        calls: the calls that it makes; without any, this is its answer to the user.
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


def position_in(sight: Sight) -> Position:
    """Return the model's position by its own words."""
    match = re.fullmatch(r"(\d*)([?!]*)", sight.at)
    return Position(sight.number, int(match[1] or 0), match[2]) if match else Position(0)


def decide(request: Request, tasks: Sequence[Task]) -> Decision:
    """Return the answer to a request, by a script of tasks."""
    sight = Sight(request)
    position = position_in(sight)
    if not 1 <= position.task <= len(tasks):
        return Decision(Position(0), "I do not see a task of my script.")
    task = tasks[position.task - 1]
    if (decision := _react(sight, position, task)) is not None:
        return decision
    if not position.detour.startswith("?"):
        position = Position(position.task, position.step + 1)
    return _go_on(sight, position, task)


def _react(sight: Sight, position: Position, task: Task) -> Decision | None:
    """The decision that the results of the latest calls demand before the plan goes on, if any."""
    if (right := put_right(sight.latest)) is not None:
        return Decision(Position(position.task, position.step, "!"), "Put that right.", (right,))
    for call in sight.latest:
        if call.tool == "edit_file" and "not found in" in (call.result or ""):
            say = f"{call.path} has changed since I saw it: read it again."
            return Decision(Position(position.task, position.step, "?"), say, (read(call.path),))
    if position.step and not position.detour:
        checks = {move.command for move in task.steps[position.step - 1].moves if isinstance(move, Check)}
        for call in sight.latest:
            if call.arguments.get("command") in checks and "[exit code:" in (call.result or ""):
                say = "The tests fail, and my script knows no way on."
                return Decision(Position(position.task, len(task.steps)), say)
    return None


def _go_on(sight: Sight, position: Position, task: Task) -> Decision:
    """The next step that has something to do, or the lookups that it needs first."""
    knowledge: dict[Need, Finding] = {}
    for number in range(position.step, len(task.steps) + 1):
        step = task.steps[number - 1]
        looks = [need for move in step.moves if isinstance(move, Look) for need in move.needs]
        edits = [move for move in step.moves if isinstance(move, Replace) and not _is_done(sight, move)]
        needs = dict.fromkeys([*step.needs, *looks, *(change.old for change in edits)])
        knowledge |= {need: match for need in needs if (match := find(sight, need)) is not None}
        missing = tuple(need for need in needs if need not in knowledge)
        own = position if number == position.step else Position(position.task, number)
        # A step needs no facts that it looks up itself.
        if not set(missing) <= set(looks):
            return _look_up(sight, own, missing, knowledge)
        calls = keep_offered(_calls(step, edits, knowledge), sight.tools)
        if calls or number == len(task.steps):
            say, think = _fill_facts(step.say, knowledge), step.think if calls else ""
            return Decision(Position(position.task, number), say, calls, think, knowledge, missing)
    return Decision(Position(position.task, len(task.steps)), "There is nothing left to do.")


def _look_up(sight: Sight, position: Position, missing: tuple[Need, ...], knowledge: Knowledge) -> Decision:
    names = list(dict.fromkeys(map(_name, missing)))
    if len(position.detour) == PATIENCE:
        return Decision(position, f"I looked for it {PATIENCE} times and do not find it: {names[0]}.")
    searches: dict[str, Call] = {}
    for need in missing:
        call = read(need.path)
        if isinstance(need, Fact) and need.episode:
            recalls = "recall" in sight.tools and any(
                f'"{need.episode}"' in f"{mark.raw} {mark.result}" for mark in sight.seen if mark.tool == DELIMITER
            )
            call = Call("recall", {"name": need.episode}) if recalls else shell(need.otherwise)
        searches[call.raw_arguments] = call
    detour = Position(position.task, position.step, f"{position.detour}?")
    say = f"I do not see {', '.join(names)} any more: look it up."
    return Decision(detour, say, tuple(searches.values()), "", knowledge, missing)


def _calls(step: ScriptStep, edits: Sequence[Replace], knowledge: Knowledge) -> Iterable[Call]:
    """The calls of a step: its own, then the edits that are not made yet, one for each file."""
    for move in step.moves:
        match move:
            case Call(tool):
                arguments = json.loads(move.raw_arguments)
                texts = {
                    name: _fill_facts(value, knowledge) for name, value in arguments.items() if isinstance(value, str)
                }
                yield Call(tool, arguments | texts)
            case Check(command):
                yield shell(command)
            case Look(needs):
                yield from map(read, dict.fromkeys(need.path for need in needs if need not in knowledge))
    by_file: dict[str, list[dict[str, str]]] = {}
    for change in edits:
        texts = {"old_text": knowledge[change.old].text, "new_text": _fill_facts(change.new, knowledge)}
        by_file.setdefault(change.old.path, []).append(texts)
    for path, replacements in by_file.items():
        yield edit(path, replacements)


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


def _fill_facts(text: str, knowledge: Knowledge) -> str:
    """Replace names of facts with their values."""
    facts = {need.name: answer.text for need, answer in knowledge.items() if isinstance(need, Fact)}
    return _REFERENCE.sub(lambda match: facts[match[1]], text)


def find(sight: Sight, need: Need) -> Finding | None:
    """Return the newest text in view that satisfies a need."""
    for call in reversed(sight.seen):
        text = _fact(need, call) if isinstance(need, Fact) else _text(need, call)
        if text is not None:
            return Finding(text, call.call_id, described=call.tool == DELIMITER)
    return None


def _fact(need: Fact, call: Seen) -> str | None:
    # A call that names an episode is about that episode, whatever the reply says besides.
    named = call.arguments.get("name")
    if need.episode and named != need.episode and (named is not None or need.episode not in call.words):
        return None
    for text in (_plain(call), *_written_texts(call), str(call.arguments.get("description", ""))):
        if match := re.search(need.pattern, text, re.MULTILINE):
            return match[1]
    return None


def _text(need: Definition | SourceLine, call: Seen) -> str | None:
    """The definition or line, if a call shows it."""
    texts: list[str] = []
    if call.path == need.path and call.result is not None:
        if call.tool == "read_file":
            texts = [_plain(call)]
        elif call.edited:
            texts = _written_texts(call)[::-1]
    if isinstance(need, Definition):
        return next((text for written in texts if (text := _block(written, need.anchor)) is not None), None)
    if call.tool in ("grep", "search_files") and call.result is not None:
        texts += re.findall(rf"^{re.escape(need.path)}:\d+:(.*)", call.result, re.MULTILINE)
    is_shown = any(f"\n{need.text}\n" in f"\n{text}\n" for text in texts)
    return need.text if is_shown else None


def _plain(call: Seen) -> str:
    """The result of a call; for a file, without its header and line numbers."""
    if call.tool != "read_file" or call.result is None:
        return call.result or ""
    return "\n".join(re.sub(r"^ *\d+\t", "", line) for line in call.result.splitlines()[1:])


def _written_texts(call: Seen) -> list[str]:
    """The texts that a call wrote into a file."""
    arguments = call.arguments
    replaced = [str(entry["new_text"]) for entry in arguments.get("replacements") or []]
    return [*replaced, *(str(arguments[name]) for name in ("new_text", "content") if name in arguments)]


def _block(text: str, anchor: str) -> str | None:
    """The definition that begins with the anchor: as far as it is indented, with the brackets that close it."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if line.lstrip().startswith(anchor):
            indent = len(line) - len(line.lstrip())
            stop = start + 1
            while stop < len(lines):
                code = lines[stop].lstrip()
                if code and not code.startswith((")", "]", "}")) and len(lines[stop]) - len(code) <= indent:
                    break
                stop += 1
            return "\n".join(lines[start:stop]).rstrip()
    return None
