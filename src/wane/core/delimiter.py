"""The annotation protocol: one tool, `delimiter`, judged by state and never by its result (R3).

The paper's section 4.2 gives the schema. The protocol is a state machine with two states, idle and inside an episode,
and a stack of open tasks (R17). The state at a call's position in the history accepts or rejects the call, so the same
history always gives the same episodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NoReturn, TypeAlias

from wane.core.episodes import EpisodeType
from wane.core.items import INVALID_JSON

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["start", "end"], "description": "Open or close an episode."},
        "name": {
            "type": "string",
            "description": "start: task and object, not used before, such as login-500-find-cause. end: the episode's.",
        },
        "type": {
            "type": "string",
            "enum": ["expl", "act"],
            "description": "start: expl gathers information, act changes the environment.",
        },
        "dependencies": {
            "type": "array",
            "items": {"type": "string"},
            "description": "start of an act: names of the closed expl episodes that it will use; [] if none.",
        },
        "description": {
            "type": "string",
            "description": "end of an expl: what was learned, the answer first. It stays when the rest leaves.",
        },
    },
    "required": ["action"],
    "additionalProperties": False,
}
"""JSON schema of the tool's arguments (paper, section 4.2)."""

DESCRIPTION: Final = (
    "Mark the start or end of an episode of your work, so that finished work can leave your context window. "
    "One episode at a time. The four calls: "
    '{"action":"start","name":"<task-object>","type":"expl"} · '
    '{"action":"end","name":"<its name>","description":"<what you learned>"} · '
    '{"action":"start","name":"<task-object>","type":"act","dependencies":["<an expl it will use>"]} · '
    '{"action":"end","name":"<its name>"}'
)
"""What the model reads about the tool."""

TASKS_SCHEMA: Final[dict[str, Any]] = {
    **SCHEMA,
    "properties": {
        **SCHEMA["properties"],
        "type": {
            "type": "string",
            "enum": ["expl", "act", "task"],
            "description": "start: expl gathers information, act changes the environment, task groups episodes.",
        },
        "description": {
            "type": "string",
            "description": "end of an expl: what was learned; of a task: what came of it. "
            "The answer first. It stays when the rest leaves.",
        },
        "abandoned": {
            "type": "boolean",
            "description": "end of a task: true if this way was given up. Its work leaves first.",
        },
    },
}
"""The schema for a model that has tasks (R17)."""

TASKS_DESCRIPTION: Final = (
    f'{DESCRIPTION} · {{"action":"start","name":"<goal>","type":"task"}} · '
    '{"action":"end","name":"<the task>","description":"<what came of it>"}'
)
"""What a model that has tasks reads about the tool."""

MAX_OPEN_TASKS: Final = 8
"""Number of tasks that may be open at once: the start of each stays in view until it ends (R17)."""

Absence: TypeAlias = Literal["none", "some", "all"]
"""How much of an exploration has left the view, besides its description. Its reasoning alone does not count."""

AbsenceOf: TypeAlias = Callable[[str], Absence]

Refusal: TypeAlias = Literal[
    "malformed",
    "no action",
    "still active",
    "no name",
    "name used",
    "no type",
    "expl with dependencies",
    "no dependencies",
    "dependency unknown",
    "dependency not closed",
    "none active",
    "other name",
    "no description",
    "act with description",
    "placeholder",
    "too many tasks",
    "host marks",
]
"""What is wrong with a call that is rejected."""

_MOST_NAMES: Final = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one `delimiter` call.

    Attributes:
        accepted: whether it opened or closed an episode or a task.
        text: the tool result for the model; a rejection says what was wrong and shows the call that would be right.
        action: "start" or "end" when accepted.
        name: the name of the episode or task when accepted.
        type: its type when accepted.
        dependencies: for an accepted start of an act, the explorations that it builds on, in the order given.
        description: for an accepted end of an expl or a task, what it learned or what came of it.
        abandoned: for an accepted end of a task, whether it was given up.
        absent: the dependencies that are no longer whole in the view, and how much of each has left.
        refusal: what was wrong, when rejected.
    """

    accepted: bool
    text: str
    action: Literal["start", "end"] | None = None
    name: str | None = None
    type: EpisodeType | None = None
    dependencies: tuple[str, ...] = ()
    description: str | None = None
    abandoned: bool = False
    absent: Mapping[str, Absence] = field(default_factory=dict)
    refusal: Refusal | None = None

    def answer(self, *, recall: bool) -> str:
        """Return the tool result: `text` and, for an act, the dependencies that have left the view.

        Args:
            recall: whether the model has the tool `recall`.
        """
        if not self.absent:
            return self.text
        removed = [quote(name) for name, absence in self.absent.items() if absence == "all"]
        stripped = [quote(name) for name, absence in self.absent.items() if absence == "some"]
        if not stripped:
            steps = f"The steps of {', '.join(removed)}"
        elif not removed:
            steps = f"Some steps of {', '.join(stripped)}"
        else:
            steps = f"The steps of {', '.join(removed)} and some steps of {', '.join(stripped)}"
        advice = "Read again what you need of them."
        if recall:
            # By a search: the pages of a whole exploration cost as much as reading its files again.
            call = quote({"name": next(iter(self.absent)), "search": "<text in it>"})
            advice = f"`recall` finds what you need of them: {call}. Read again what has changed since."
        return f"{self.text} {steps} have left your view. {advice}"


@dataclass(slots=True)
class DelimiterProtocol:
    """State of the protocol at one position of the history.

    Attributes:
        started: every name ever started, and whether it is a *closed exploration*, which an act may depend on.
        active: name and type of the active episode.
        tasks: whether tasks may be started (R17).
        open_tasks: names of the open tasks, the outermost first.
        hosted: whether the program around the model has opened episodes (R18); every call is then rejected.
    """

    started: dict[str, bool] = field(default_factory=dict)
    active: tuple[str, EpisodeType] | None = None
    tasks: bool = False
    open_tasks: list[str] = field(default_factory=list)
    hosted: bool = False

    def copy(self) -> DelimiterProtocol:
        """Return an independent copy of the state."""
        return replace(self, started=dict(self.started), open_tasks=list(self.open_tasks))

    def judge(self, arguments: str | None, absence: AbsenceOf = lambda _: "none") -> Verdict:
        """Accept or reject one call and move to the state after it.

        Args:
            arguments: the call's raw JSON arguments, as the model wrote them.
            absence: returns how much of an exploration has left the view, by its name. Only the answer depends on it.
        """
        try:
            if self.hosted:
                raise _Rejection("host marks", "the program around you marks the episodes itself")
            fields = _parse(arguments, tasks=self.tasks or bool(self.open_tasks))
            verdict = self._start(fields, absence) if fields["action"] == "start" else self._end(fields)
        except _Rejection as rejection:
            text = f"Error: {rejection.reason}. {self._lesson(rejection)}"
            return Verdict(accepted=False, text=text, refusal=rejection.kind)
        self._advance(verdict)
        return verdict

    def _advance(self, verdict: Verdict) -> None:
        assert verdict.name is not None
        assert verdict.type is not None
        if verdict.type is EpisodeType.TASK:
            if verdict.action == "start":
                self.started[verdict.name] = False
                self.open_tasks.append(verdict.name)
            else:
                self.open_tasks.pop()
        elif verdict.action == "start":
            self.started[verdict.name] = False
            self.active = (verdict.name, verdict.type)
        else:
            self.active = None
            self.started[verdict.name] = verdict.type is EpisodeType.EXPL

    def _start(self, fields: dict[str, Any], absence: AbsenceOf) -> Verdict:
        name, type_ = fields["name"], fields["type"]
        if self.active is not None:
            raise _Rejection(
                "still active", f"episode {quote(self.active[0])} is still active, and there is one at a time"
            )
        if not name:
            raise _Rejection("no name", 'a start needs a "name"', type=type_)
        if name in self.started:
            reason = f"the name {quote(name)} was used before in this session, and names are used once"
            raise _Rejection("name used", reason, name, type_)
        if type_ == "expl":
            return self._start_expl(name, fields["dependencies"])
        if type_ == "act":
            return self._start_act(name, fields["dependencies"], absence)
        if type_ == "task" and self.tasks:
            return self._start_task(name)
        problem = f"{quote(type_)} is no type" if type_ else "no type was given"
        types = '"expl", "act" or "task"' if self.tasks else '"expl" or "act"'
        raise _Rejection("no type", f'a start needs a "type", {types}, and {problem}', name)

    def _start_expl(self, name: str, dependencies: list[str] | None) -> Verdict:
        if dependencies:
            reason = "an expl takes no dependencies, as exploration has nothing behind it"
            raise _Rejection("expl with dependencies", reason, name)
        text = f"Started exploration {quote(name)}. End it with a description of what you learned."
        return Verdict(True, text, "start", name, EpisodeType.EXPL)

    def _start_act(self, name: str, dependencies: list[str] | None, absence: AbsenceOf) -> Verdict:
        if dependencies is None:
            raise _Rejection("no dependencies", 'an act needs the field "dependencies"', name, "act")
        absent: dict[str, Absence] = {}
        for dependency in dependencies:
            if dependency not in self.started:
                reason = f"the dependency {quote(dependency)} was never started"
                raise _Rejection("dependency unknown", reason, name, "act")
            if not self.started[dependency]:
                reason = f"the dependency {quote(dependency)} is not a closed expl"
                raise _Rejection("dependency not closed", reason, name, "act")
            extent = absence(dependency)
            if extent != "none":
                absent[dependency] = extent
        text = f"Started action {quote(name)}."
        if dependencies:
            text = f"Started action {quote(name)}, building on {', '.join(map(quote, dependencies))}."
        elif any(self.started.values()):
            text = f"Started action {quote(name)}, building on nothing."
        return Verdict(True, text, "start", name, EpisodeType.ACT, tuple(dependencies), absent=absent)

    def _start_task(self, name: str) -> Verdict:
        if len(self.open_tasks) >= MAX_OPEN_TASKS:
            reason = f"{MAX_OPEN_TASKS} tasks are open, and there may be no more"
            raise _Rejection("too many tasks", reason, ends_task=True)
        text = f"Started task {quote(name)}. After its episodes, end it with a description of what came of it."
        return Verdict(True, text, "start", name, EpisodeType.TASK)

    def _end(self, fields: dict[str, Any]) -> Verdict:
        if self.active is None and self.open_tasks:
            return self._end_task(self.open_tasks[-1], fields)
        if self.active is None:
            raise _Rejection("none active", "no episode is active, so there is nothing to end")
        name, type_ = self.active
        if fields["name"] and fields["name"] != name:
            raise _Rejection("other name", f"the active episode is {quote(name)}, not {quote(fields['name'])}")
        if type_ is EpisodeType.ACT:
            if fields["description"]:
                raise _Rejection("act with description", "ending an act takes no description")
            return Verdict(True, f"Ended action {quote(name)}.", "end", name, type_)
        description = _read_description(fields, "an expl", "was learned")
        # This call and its result may be all that stays (R9), so the text says where the start went.
        text = f"Ended exploration {quote(name)}; its start and steps may leave your view."
        return Verdict(True, text, "end", name, type_, description=description)

    def _end_task(self, name: str, fields: dict[str, Any]) -> Verdict:
        if fields["name"] != name:
            problem = f"not {quote(fields['name'])}" if fields["name"] else 'and its end needs its "name"'
            reason = f"no episode is active, the innermost open task is {quote(name)}, {problem}"
            raise _Rejection("other name", reason, ends_task=True)
        description = _read_description(fields, "a task", "came of it", ends_task=True)
        abandoned = fields["abandoned"]
        text = f"Ended task {quote(name)}; the steps in it may leave your view."
        if abandoned:
            text = f"Abandoned task {quote(name)}; the steps in it leave your view first."
        return Verdict(True, text, "end", name, EpisodeType.TASK, description=description, abandoned=abandoned)

    def _lesson(self, rejection: _Rejection) -> str:
        """Return the call that is right in this state and closest to what the model meant."""
        if rejection.kind == "host marks":
            return "Go on without `delimiter`."
        if self.active is not None:
            name, type_ = self.active
            learned = {"description": "<what you learned>"} if type_ is EpisodeType.EXPL else {}
            return _right(action="end", name=name, **learned)
        if rejection.ends_task and self.open_tasks:
            return _right(action="end", name=self.open_tasks[-1], description="<what came of it>")
        name = self._number_name(rejection.name or "<task-and-object>")
        if rejection.type == "task" and self.tasks:
            return _right(action="start", name=name, type="task")
        if rejection.type != "act":
            return _right(action="start", name=name, type="expl")
        closed = [earlier for earlier in reversed(self.started) if self.started[earlier]]
        if not closed:
            return _right(action="start", name=name, type="act", dependencies=[])
        names = ", ".join(quote(exploration) for exploration in closed[:_MOST_NAMES])
        call = _right(action="start", name=name, type="act", dependencies=["<an expl it will use>"])
        return f"Closed explorations, latest first: {names}. {call}"

    def _number_name(self, name: str) -> str:
        """Return a name, with a number if the session has used it."""
        candidate = name
        number = 1
        while candidate in self.started:
            number += 1
            candidate = f"{name}-{number}"
        return candidate


class _Rejection(Exception):  # noqa: N818 - control flow, never leaves this file
    """A call that the protocol rejects: the reason, what it says about the episode, and whether a task should end."""

    def __init__(
        self,
        kind: Refusal,
        reason: str,
        name: str | None = None,
        type: str | None = None,  # noqa: A002
        *,
        ends_task: bool = False,
    ) -> None:
        super().__init__(reason)
        self.kind: Refusal = kind
        self.reason = reason
        self.name = name
        self.type = type
        self.ends_task = ends_task


def _read_description(fields: dict[str, Any], subject: str, result: str, *, ends_task: bool = False) -> str:
    """Return the description that an end needs; raise `_Rejection` if there is none."""
    description: str | None = fields["description"]
    if not description:
        reason = f'ending {subject} needs a "description" of what {result}'
        raise _Rejection("no description", reason, ends_task=ends_task)
    if description.startswith("<") and description.endswith(">"):
        reason = f"the description {quote(description)} is a placeholder, and would be all that stays"
        raise _Rejection("placeholder", reason, ends_task=ends_task)
    return description


def _parse(arguments: str | None, *, tasks: bool) -> dict[str, Any]:
    """Return the fields, stripped, None where absent; raise `_Rejection` for a wrong JSON type."""
    try:
        raw = json.loads(arguments or "", parse_constant=_refuse)
    except (ValueError, RecursionError):
        raw = {INVALID_JSON: arguments}
    if isinstance(raw, dict) and raw.keys() == {INVALID_JSON}:
        raise _Rejection("malformed", "the arguments are not valid JSON")
    if not isinstance(raw, dict):
        raise _Rejection("malformed", "the arguments are not a JSON object")
    fields: dict[str, Any] = {name: _string(name, raw.get(name)) for name in ("action", "name", "type", "description")}
    fields["dependencies"] = _names(raw.get("dependencies"))
    if tasks:
        fields["abandoned"] = _flag("abandoned", raw.get("abandoned"))
    if fields["action"] not in ("start", "end"):
        raise _Rejection("no action", '"action" must be "start" or "end"', fields["name"], fields["type"])
    return fields


def _refuse(constant: str) -> NoReturn:
    """Refuse NaN and Infinity: Python reads them, but JSON does not have them."""
    raise ValueError(constant)


def _string(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _Rejection("malformed", f'"{name}" must be a string')
    return value.strip()


def _flag(name: str, value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise _Rejection("malformed", f'"{name}" must be true or false', ends_task=True)
    return bool(value)


def _names(value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise _Rejection("malformed", '"dependencies" must be a list of strings', type="act")
    stripped = (entry.strip() for entry in value)
    return list(dict.fromkeys(entry for entry in stripped if entry))


def _right(**arguments: Any) -> str:
    return f"A right call: {quote(arguments)}"


def quote(value: object) -> str:
    """Return a name, or a call's arguments, as JSON for texts to the model."""
    text = json.dumps(value, ensure_ascii=False)
    # JSON can spell a lone surrogate; it must not reach an encoder unescaped.
    return text if text.isprintable() else json.dumps(value)
