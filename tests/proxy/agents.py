"""Models that work in episodes, at random but by a seed, for whole sessions over any protocol."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from wane import Kind
from wane.formats.notices import is_notice
from wane.testing import Call, Reply, Request

RESULT = "line of output, as long as lines are\n" * 12
NOTES = ("<reminder>", "[Automatic note")
"""How words begin that stand where the user's do, and are of a client or the proxy."""


@dataclass
class Worker:
    """Explores and acts, marking its work in every way in which a model may: alone, beside other calls, wrongly.

    Attributes:
        seed: of its choices.
        steps: calls of tools in one turn of the user, about.
        reasons: whether it reasons aloud.
        marks: whether it knows `delimiter` at all.
    """

    seed: int
    steps: int = 6
    reasons: bool = False
    marks: bool = True
    _number: int = 0
    _left: int = 0
    _rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def __call__(self, request: Request) -> Reply:
        self._number += 1
        said = [part for part in request.parts if part.kind is not Kind.SYSTEM]
        mine = [part.kind for part in said if not part.text.startswith(NOTES) and not is_notice(part.text)]
        heard = mine or [Kind.USER]
        if heard[-1] is Kind.USER:
            self._left = self._rng.randint(1, self.steps)
        reasoning = f"thought {self._number}" if self.reasons and self._rng.random() < 0.7 else None
        if heard[-1] is Kind.USER and (request.body.get("thinking") or {}).get("type") == "enabled":
            reasoning = f"thought {self._number}"  # as a model does that has a budget for it
        text = f"Saying {self._number}." if self._rng.random() < 0.4 else None
        marks = self._marks(request) if self.marks and "delimiter" in request.tools else []
        if self._left <= 0 and not (marks and self._rng.random() < 0.5):
            return Reply(text=f"Done {self._number}.", reasoning=reasoning)
        if marks and self._rng.random() < 0.4:
            return Reply(text=text, reasoning=reasoning, calls=tuple(marks))
        self._left -= 1
        work = [
            Call(self._rng.choice(("read", "bash", "edit")), {"n": self._number, "path": f"f{self._rng.randint(1, 9)}"})
            for _ in range(self._rng.randint(1, 2))
        ]
        calls = [*marks, *work]
        if self._rng.random() < 0.2:
            self._rng.shuffle(calls)
        return Reply(text=text, reasoning=reasoning, calls=tuple(calls))

    def _marks(self, request: Request) -> list[Call]:
        active, explored = state_of(request)
        roll = self._rng.random()
        if roll < 0.05:
            return [Call("delimiter", "{not json")]
        if active is not None:
            if roll < 0.55:
                return []
            end = {"action": "end"} if active == "act" else {"action": "end", "description": f"found {self._number}"}
            return [Call("delimiter", end)] if roll < 0.7 else [Call("delimiter", end), self._start(explored)]
        return [self._start(explored)] if roll < 0.8 else []

    def _start(self, explored: list[str]) -> Call:
        name = f"e{self._number}"
        if explored and self._rng.random() < 0.5:
            arguments = {"action": "start", "name": name, "type": "act", "dependencies": explored[-2:]}
            return Call("delimiter", arguments)
        return Call("delimiter", {"action": "start", "name": name, "type": "expl"})


def state_of(request: Request) -> tuple[str | None, list[str]]:
    """The type of the active episode and the closed explorations, as far as a model can tell from what it is shown."""
    results, active, name, explored = request.results, None, "", []
    for part in request.parts:
        if part.kind is Kind.CALL and part.tool == "delimiter":
            text = results.get(part.call_id or "", "")
            try:
                arguments = json.loads(part.text)
            except ValueError:
                continue
            if text.startswith("Started"):
                active, name = arguments["type"], arguments["name"]
            elif text.startswith("Ended"):
                explored += [name] if active == "expl" and name else []
                active = None
    return active, explored
