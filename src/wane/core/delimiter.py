"""The annotation protocol: one tool, `delimiter`, judged by state and never by its result (R3).

The paper's section 4.2 gives the schema. The protocol is a state machine of two states, idle and
inside an episode; every call is accepted or rejected by the state at its position in the history,
so the same history always gives the same episodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal

from wane.core.episodes import EpisodeType

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["start", "end"], "description": "Open or close an episode."},
        "name": {"type": "string", "description": "start: a short name not used before, such as find-login-bug."},
        "type": {
            "type": "string",
            "enum": ["expl", "act"],
            "description": "start: expl gathers information, act changes the environment.",
        },
        "dependencies": {
            "type": "array",
            "items": {"type": "string"},
            "description": "start of an act: names of the closed expl episodes that it builds on.",
        },
        "description": {
            "type": "string",
            "description": "end of an expl: what was learned. It stays when the rest of the episode is evicted.",
        },
    },
    "required": ["action"],
    "additionalProperties": False,
}
"""JSON schema of the tool's arguments (paper, section 4.2)."""

DESCRIPTION: Final = (
    "Mark the start or end of an episode of your work, so that old context can be evicted safely. "
    "One episode at a time. The four calls: "
    '{"action":"start","name":"...","type":"expl"} · {"action":"end","description":"what you learned"} · '
    '{"action":"start","name":"...","type":"act","dependencies":["expl name"]} · {"action":"end"}'
)
"""What the model reads about the tool."""

GUIDANCE: Final = """\
Your context window is managed by episodes, which you mark with the `delimiter` tool.
- Gather information inside an `expl` episode: search, list, read. End it with a description of what you \
learned that stands on its own: paths, names, line numbers, decisions. It outlives the episode's raw output.
- Change things inside an `act` episode: edits, commands, tests. Name in `dependencies` the expl episodes \
it builds on; those stay in view until the act has been evicted.
- One episode at a time: end one before you start the next. Keep episodes small, one question or one change each.
- When the window fills, finished act episodes go first, then old exploration, oldest first; user messages never go. \
The environment keeps what your acts did: look there again for what has left your view."""
"""What a system prompt says about the protocol."""

_NAMES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one `delimiter` call.

    Attributes:
        accepted: whether it opened or closed an episode.
        text: the tool result to give to the model; for a rejection what was wrong and the call that would be right.
        action: "start" or "end" when accepted.
        name: the episode's name when accepted.
        type: the episode's type when accepted.
        dependencies: for an accepted start of an act, the explorations it builds on, in the order given.
        description: for an accepted end of an expl, what it learned.
    """

    accepted: bool
    text: str
    action: Literal["start", "end"] | None = None
    name: str | None = None
    type: EpisodeType | None = None
    dependencies: tuple[str, ...] = ()
    description: str | None = None


@dataclass(slots=True)
class Protocol:
    """State of the protocol at one position of the history.

    Attributes:
        started: every name ever started; the value says whether it is a *closed exploration*, which is
            what an act may depend on.
        active: name and type of the active episode.
        explored: whether an exploration has been closed yet.
    """

    started: dict[str, bool] = field(default_factory=dict)
    active: tuple[str, EpisodeType] | None = None
    explored: bool = False

    def judge(self, arguments: str | None) -> Verdict:
        """Accept or reject one call and move to the state after it.

        Args:
            arguments: the call's raw JSON arguments, as the model wrote them.
        """
        try:
            fields = _parse(arguments)
            verdict = self._start(fields) if fields["action"] == "start" else self._end(fields)
        except _Rejection as rejection:
            return Verdict(accepted=False, text=f"Error: {rejection}")
        self._advance(verdict)
        return verdict

    def _advance(self, verdict: Verdict) -> None:
        assert verdict.name is not None
        assert verdict.type is not None
        if verdict.action == "start":
            self.started[verdict.name] = False
            self.active = (verdict.name, verdict.type)
        else:
            self.active = None
            if verdict.type is EpisodeType.EXPL:
                self.started[verdict.name] = True
                self.explored = True

    def _start(self, fields: dict[str, Any]) -> Verdict:
        name, type_ = fields["name"], fields["type"]
        if self.active is not None:
            raise _Rejection(f"episode {_quote(self.active[0])} is still active; one at a time. {self._end_hint()}")
        if not name:
            raise _Rejection(f'a start needs a "name". {_start_hint("my-episode", type_)}')
        if name in self.started:
            raise _Rejection(
                f"the name {_quote(name)} was used before in this session; names are used once. "
                f"{_start_hint(self._unused(name), type_)}"
            )
        if type_ not in ("expl", "act"):
            found = "no type was given" if not type_ else f"{_quote(type_)} is no type"
            raise _Rejection(f'a start needs a "type", "expl" or "act", and {found}. {_start_hint(name, None)}')
        if type_ == "expl":
            return self._start_expl(name, fields["dependencies"])
        return self._start_act(name, fields["dependencies"])

    def _start_expl(self, name: str, dependencies: list[str] | None) -> Verdict:
        if dependencies:
            raise _Rejection(
                f"an expl takes no dependencies; exploration has nothing behind it. {_start_hint(name, 'expl')}"
            )
        text = f"Started exploration {_quote(name)}. End it with a description of what you learned."
        return Verdict(True, text, "start", name, EpisodeType.EXPL)

    def _start_act(self, name: str, dependencies: list[str] | None) -> Verdict:
        if dependencies is None:
            raise _Rejection(f'an act needs the field "dependencies". {self._act_hint(name)}')
        for dependency in dependencies:
            if not self.started.get(dependency, False):
                why = "is not a closed expl" if dependency in self.started else "was never started"
                raise _Rejection(f"the dependency {_quote(dependency)} {why}. {self._act_hint(name)}")
        if not dependencies and self.explored:
            raise _Rejection(f'"dependencies" is empty, but explorations have been closed. {self._act_hint(name)}')
        behind = f", building on {', '.join(map(_quote, dependencies))}" if dependencies else ""
        text = f"Started action {_quote(name)}{behind}."
        return Verdict(True, text, "start", name, EpisodeType.ACT, tuple(dependencies))

    def _end(self, fields: dict[str, Any]) -> Verdict:
        if self.active is None:
            raise _Rejection(f"no episode is active, so there is nothing to end. {_start_hint('my-episode', 'expl')}")
        name, type_ = self.active
        if fields["name"] and fields["name"] != name:
            raise _Rejection(f"the active episode is {_quote(name)}, not {_quote(fields['name'])}. {self._end_hint()}")
        description = fields["description"] or None
        if type_ is EpisodeType.EXPL and description is None:
            raise _Rejection(f'ending an expl needs a "description" of what was learned. {self._end_hint()}')
        if type_ is EpisodeType.ACT and description is not None:
            raise _Rejection(f"ending an act takes no description. {self._end_hint()}")
        word = "exploration" if type_ is EpisodeType.EXPL else "action"
        return Verdict(True, f"Ended {word} {_quote(name)}.", "end", name, type_, description=description)

    def _end_hint(self) -> str:
        assert self.active is not None
        if self.active[1] is EpisodeType.EXPL:
            return _right(action="end", description="what you learned")
        return _right(action="end")

    def _act_hint(self, name: str) -> str:
        closed = list(islice((n for n in reversed(self.started) if self.started[n]), _NAMES_SHOWN))
        if not closed:
            hint = _right(action="start", name=name, type="act", dependencies=[])
            return f"No expl has been closed yet, so the list is empty. {hint}"
        hint = _right(action="start", name=name, type="act", dependencies=closed[:1])
        return f"Closed expl episodes, latest first: {', '.join(map(_quote, closed))}. {hint}"

    def _unused(self, name: str) -> str:
        return next(c for n in range(2, len(self.started) + 3) if (c := f"{name}-{n}") not in self.started)


class _Rejection(Exception):  # noqa: N818 - control flow, never leaves this file
    """A call that the protocol refuses."""


def _parse(arguments: str | None) -> dict[str, Any]:
    """Return the five fields, stripped, None where absent; raise `_Rejection` for a wrong JSON type."""
    try:
        raw = json.loads(arguments or "")
    except (ValueError, RecursionError):
        raise _Rejection(f"the arguments are not valid JSON. {_start_hint('my-episode', 'expl')}") from None
    if not isinstance(raw, dict):
        raise _Rejection(f"the arguments are not a JSON object. {_start_hint('my-episode', 'expl')}")
    fields: dict[str, Any] = {name: _string(name, raw.get(name)) for name in ("action", "name", "type", "description")}
    fields["dependencies"] = _names(raw.get("dependencies"))
    if fields["action"] not in ("start", "end"):
        raise _Rejection(f'"action" must be "start" or "end". {_start_hint("my-episode", "expl")}')
    return fields


def _string(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _Rejection(f'"{name}" must be a string. {_start_hint("my-episode", "expl")}')
    return value.strip()


def _names(value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise _Rejection(
            '"dependencies" must be a list of strings. '
            + _right(action="start", name="my-action", type="act", dependencies=["my-exploration"])
        )
    return list(dict.fromkeys(_non_blank(value)))


def _non_blank(entries: Iterable[str]) -> Iterable[str]:
    return filter(None, (entry.strip() for entry in entries))


def _start_hint(name: str, type_: str | None) -> str:
    if type_ == "act":
        return _right(action="start", name=name, type="act", dependencies=["my-exploration"])
    return _right(action="start", name=name, type="expl")


def _right(**arguments: Any) -> str:
    return f"A right call: {json.dumps(arguments, ensure_ascii=False)}"


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
