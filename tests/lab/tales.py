"""Tiny sessions of known sizes, prices that can be reckoned with by hand, and strategies that do as they are told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from wane.caches import CacheRules
from wane.core import Added, Item, Kind
from wane.formats.message_format import Part
from wane.lab.counting import Material
from wane.lab.readers import Recording
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.lab.replaying.studying import Studied, annotator_of
from wane.prices import Period, Prices, Rates
from wane.strategies.strategy import Fitted, Slot, Strategy, SummaryNeeded

PRICES = Prices("test:model", "test", "model", (Period((Rates(0, 1.0, 0.1, 1.25, 2.0, 5.0),)),))
"""Dollars a token: input 1, cache read 0.1, cache write 1.25 or 2 for an hour, output 5."""

AUTOMATIC = Pricing(PRICES, CacheRules("automatic", minimum=1, lifetime=300.0))
"""A cache that keeps whatever was sent."""

WRITTEN = Pricing(PRICES, CacheRules("written", minimum=1, lifetime=300.0, breakpoints=4, charges_writes=True))
"""A cache that is written to for a price."""


class Tale:
    """Tells a session part by part, each with its tokens; assistant parts that follow each other are one call."""

    def __init__(self, name: str = "tale") -> None:
        self.session = RecordedSession(name, "openai")
        self.tokens: list[int] = []
        self.output: list[int] = []

    def _add(self, part: Part, tokens: int) -> Tale:
        self.session.parts.append(part)
        self.session.messages.append(len(self.session.parts))
        self.tokens.append(tokens)
        return self

    def system(self, tokens: int) -> Tale:
        return self._add(Part(Kind.SYSTEM, "be good"), tokens)

    def user(self, tokens: int, text: str = "please") -> Tale:
        return self._add(Part(Kind.USER, text), tokens)

    def notice(self, tokens: int, text: str = "remember") -> Tale:
        return self._add(Part(Kind.NOTICE, text), tokens)

    def result(self, call_id: str, tokens: int, text: str = "done") -> Tale:
        return self._add(Part(Kind.RESULT, text, call_id), tokens)

    def says(self, tokens: int, text: str = "well", *, at: float | None = None) -> Tale:
        return self._call(Part(Kind.TEXT, text), tokens, at)

    def calls(self, call_id: str, tokens: int, tool: str = "read", at: float | None = None, **arguments: Any) -> Tale:
        part = Part(Kind.CALL, call_id=call_id, tool=tool, arguments=json.dumps(arguments))
        return self._call(part, tokens, at)

    def _call(self, part: Part, tokens: int, at: float | None) -> Tale:
        first = len(self.session.parts)
        self._add(part, tokens)
        self.session.calls.append(ModelCall(first, first + 1, at=at))
        self.output.append(tokens)
        return self

    def material(self, overhead: int = 0) -> Material:
        parts = zip(self.session.parts, self.session.messages, self.tokens, strict=True)
        items = [replace(part.item(len, message), tokens=tokens) for part, message, tokens in parts]
        return Material(self.session, items, overhead, tuple(self.output), False)

    def subject(self, overhead: int = 0, summary_tokens: int | None = None) -> Subject:
        return Subject.of(self.material(overhead), summary_tokens)

    def study_session(self, overhead: int = 0, path: str = "tale.json", pricing: Pricing = AUTOMATIC) -> Studied:
        return Studied(Recording(self.session, path), self.subject(overhead), annotator_of(self.session), pricing)


def working(rounds: int = 40, size: int = 100, name: str = "tale") -> Tale:
    """A session that reads file after file and edits each, with a turn of the user now and then."""
    tale = Tale(name).system(20)
    for number in range(rounds):
        path = f"src/module_{number % 7}.py"
        if number % 8 == 0:
            tale.user(30, f"now change {path}")
        tale.calls(f"r{number}", 10, "read", path=path).result(f"r{number}", size, f"def function_{number}(): ...")
        tale.calls(f"e{number}", 15, "edit", path=path, old=f"function_{number}").result(f"e{number}", 5)
    return tale.says(10, "all done")


class Scripted(Strategy):
    """Shows what it was told to show at each call; None for all there is."""

    name = "scripted"

    def __init__(self, views: Mapping[int, Sequence[Slot]] | None = None) -> None:
        self._views = views or {}
        self._items = 0
        self._calls = 0

    def add(self, item: Item, part: Part) -> Added | None:
        self._items += 1
        return None

    def fit(self, *, cold: bool = False) -> Fitted | SummaryNeeded:
        view = self._views.get(self._calls)
        self._calls += 1
        return Fitted(list(range(self._items)) if view is None else list(view), ran=view is not None)


@st.composite
def tales(draw: st.DrawFn) -> Tale:
    """Sessions of any shape, with the words that later calls use."""
    tale = Tale().system(draw(st.integers(0, 40))).user(draw(st.integers(1, 60)))
    sizes = st.integers(0, 300)
    at = 0.0
    for number in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([1.0, 20.0, 400.0]))
        path = f"src/file_{draw(st.integers(0, 3))}.py"
        tool = draw(st.sampled_from(["read", "grep", "edit", "bash"]))
        tale.calls(f"c{number}", draw(sizes), tool, at=at, path=path).result(f"c{number}", draw(sizes), f"see {path}")
        if draw(st.booleans()):
            tale.user(draw(st.integers(1, 60)), f"go on with {path}")
    return tale.says(draw(sizes), "done", at=at)
