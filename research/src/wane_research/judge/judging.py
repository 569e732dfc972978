"""Judges views by the likelihood of the recorded next call, given the view that a strategy would have sent."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from random import Random
from typing import Final, Protocol

from wane.core import Kind, Policy
from wane.core.errors import ConfigError
from wane.formats.message_format import Part
from wane.identifiers import identifiers, spoken
from wane.lab.counting import Material, count
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.strategies.compact import KEPT_SHARE
from wane.strategies.registry import get_strategy
from wane.strategies.strategy import Slot, Strategy, StrategySettings, SummaryNeeded

ALL: Final = "none"  # the arm with the whole history: one end of the scale
USERS: Final = "users"  # the arm with the user's words alone: the other end
CALLS: Final = 4  # the number of an excerpt's last calls that are judged
TRIES: Final = 20  # stretches of a session that are searched for a call that uses a name that has left a view
SCORED: Final = 64
"""The number of a call's first tokens that are judged. A call that writes a long file should not weigh more."""
SUMMARY_SHARE: Final = 1 / 40  # tokens of a summary, as a share of the budget: 2,000 of 80,000

_HEADS: Final = {
    Kind.SYSTEM: "[system]\n",
    Kind.USER: "[user]\n",
    Kind.NOTICE: "[notice]\n",
    Kind.TEXT: "[assistant]\n",
    Kind.REASONING: "[thought]\n",
    Kind.RESULT: "[result]\n",
}
CALL: Final = "[call]"  # how a call begins


class Judge(Protocol):
    """A language model that scores the likelihood of a text."""

    @property
    def opening(self) -> list[int]:
        """The tokens that open every text."""
        ...

    def tokens(self, text: str) -> list[int]: ...

    def pieces(self, tokens: Sequence[int]) -> list[str]: ...

    def surprise(self, before: Sequence[int], continuation: Sequence[int]) -> list[float]:
        """Return the negative log-likelihood of each token of a continuation, in nats."""
        ...


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to make the model's view."""

    name: str  # its name, as `arm` parses it
    strategy: str  # name of the strategy; `users` for the user's words alone
    policy: Policy  # the policy of `cwl`
    low_water: float | None = None  # share of the budget down to which another strategy goes; None for its default

    def start(self, budget: int) -> Strategy:
        settings = StrategySettings(budget, policy=self.policy, low_water=self.low_water, annotate="infer")
        return get_strategy(ALL if self.strategy == USERS else self.strategy, settings)


def arm(name: str) -> Arm:
    """Return an arm by its name: a strategy or `users`.

    A strategy may have its low water, as in `truncate@0.5`, and `cwl` the share of its index, as in `cwl+0.01`.
    """
    match = re.fullmatch(r"([a-z-]+?)(?:@(0?\.\d+|1))?(?:\+(0|0?\.\d+))?", name)
    if match is None:
        raise ConfigError(f"{name!r} is not an arm; write a strategy, as in truncate@0.5 with its low water after an @")
    low = float(match[2]) if match[2] else None
    policy = replace(Policy(), index_share=float(match[3])) if match[3] else Policy()
    chosen = Arm(name, match[1], policy, low)
    chosen.start(1_000)
    return chosen


@dataclass(frozen=True, slots=True)
class Judgement:
    """The likelihood of one recorded call, given one view."""

    session: str
    call: int  # number of the call in its excerpt
    arm: str
    view: int  # tokens of the view
    tokens: int  # tokens of the call that were judged
    loss: float  # the sum of their negative log-likelihoods, in nats
    names: int  # names in the judged part that the history before it holds
    missing: int  # those of the names that the view does not hold
    name_tokens: int  # tokens of the call in such names
    name_loss: float  # the sum of their negative log-likelihoods

    @property
    def mean(self) -> float:
        return self.loss / self.tokens


def excerpts(
    sessions: Iterable[RecordedSession], judge: Judge, size: int, budget: int, seed: int, gone: Arm | None = None
) -> Iterator[Excerpt]:
    """Yield excerpts of sessions. Sources take turns, so that the first few are of all agents.

    `judge`: counts tokens.
    `size`: tokens of an excerpt, at most.
    `budget`: tokens that a view may hold; a call is judged only if the history before it is longer.
    `seed`: decides the order within a source, and the places of excerpts.
    `gone`: judge only calls that use a name that has left this arm's view; None for any.
    """
    by_source: dict[str, list[RecordedSession]] = {}
    for session in sorted(sessions, key=lambda session: session.name):
        by_source.setdefault(session.source, []).append(session)
    for listed in by_source.values():
        Random(seed).shuffle(listed)  # noqa: S311 - a sample, no secret
    order: list[RecordedSession] = []
    for turn in zip_longest(*by_source.values()):
        order += [session for session in turn if session is not None]
    for session in order:
        random = Random(f"{seed} {session.name}")  # noqa: S311 - a sample, no secret
        for _ in range(1 if gone is None else TRIES):
            stretch = excerpt(session, size, lambda part: len(judge.tokens(render_part(part))), random)
            if stretch is None:
                break
            prepared = Excerpt(session.name, stretch, judge, budget, gone)
            if prepared.judged:
                yield prepared
                break


class Excerpt:
    """An excerpt as the model reads it.

    `gone`: judge only calls that use a name that has left this arm's view; None for any.
    """

    def __init__(self, name: str, session: RecordedSession, judge: Judge, budget: int, gone: Arm | None = None) -> None:
        self.name = name
        self._session = session
        self._judge = judge
        self._budget = budget
        self._texts = [render_part(part) for part in session.parts]
        self._tokens = [_tokens(judge, text) for text in self._texts]
        material = count(session, calibrate=False)
        pairs = zip(material.items, self._tokens, strict=True)
        items = [replace(item, tokens=len(tokens)) for item, tokens in pairs]
        self._material: Material = replace(material, items=items, overhead=0)
        before = [0, *accumulate(item.tokens for item in items)]
        long = [number for number, call in enumerate(session.calls) if before[call.first] > budget]
        numbers = [number for number in long if self._call(number)]
        if gone is not None:
            lacking = {number for number, view in self._views(gone) if self._names(number, view)[1]}
            numbers = [number for number in numbers if number in lacking]
        self.judged = numbers[-CALLS:]  # numbers of the calls that are judged

    def judge(self, arm: Arm) -> Iterator[Judgement]:
        """Yield the judgement of each judged call, given the arm's view."""
        for number, view in self._views(arm):
            if number in self.judged:
                yield self._judge_view(arm.name, number, view)

    def _views(self, arm: Arm) -> Iterator[tuple[int, Sequence[Slot]]]:
        """Yield the view of each call; it is valid until the next one."""
        strategy, added = arm.start(self._budget), 0
        for number, call in enumerate(self._session.calls):
            for index in range(added, call.first):
                strategy.add(self._material.items[index], self._session.parts[index])
            added = call.first
            outcome = strategy.fit()
            while isinstance(outcome, SummaryNeeded):
                text = self._summary(added)
                outcome = strategy.take_summary(text, len(self._judge.tokens(text)))
            view = outcome.view
            if arm.strategy == USERS:
                items = [slot for slot in view if isinstance(slot, int)]
                view = [item for item in items if self._session.parts[item].kind is Kind.USER]
            if self._call(number):
                yield number, view

    def _call(self, number: int) -> Part | None:
        call = self._session.calls[number]
        for part in self._session.parts[call.first : call.stop]:
            if part.kind is Kind.CALL:
                return part
        return None

    def _summary(self, before: int) -> str:
        """Return an extract in place of a model's summary: the user's first words, then the latest calls.

        `before`: number of parts so far; the latest of them stay in view and are not summarised.
        """
        room = 4 * round(self._budget * SUMMARY_SHARE)
        tail = self._budget * KEPT_SHARE
        parts = self._session.parts[:before]
        users = " ".join(part.text for part in parts if part.kind is Kind.USER)
        goal = f"Goal: {users[: room // 3]}"
        room -= len(goal)
        lines: list[str] = []
        for index in reversed(range(before)):
            tail -= self._material.items[index].tokens
            part = parts[index]
            if tail > 0 or part.kind is not Kind.CALL:
                continue
            line = f"- {part.tool} {(part.arguments or '')[:80]}"
            room -= len(line) + 1
            if room < 0:
                break
            lines.append(line)
        return "\n".join([goal, *reversed(lines)])

    def _continuation(self, number: int) -> list[int]:
        call = self._call(number)
        assert call is not None
        return self._judge.tokens(render_part(call)[len(CALL) :])[:SCORED]

    def _names(self, number: int, view: Sequence[Slot]) -> tuple[set[str], set[str]]:
        """Return the names in the judged part of a call that the history holds, and those missing in the view."""
        call = self._call(number)
        assert call is not None
        written = "".join(self._judge.pieces(self._continuation(number)))
        used = set().union(*map(identifiers, spoken(call))) & identifiers(written)
        names = used & identifiers("\n".join(self._texts[: self._session.calls[number].first]))
        return names, names - identifiers("\n".join(map(self._text, view)))

    def _judge_view(self, arm: str, number: int, view: Sequence[Slot]) -> Judgement:
        before = [*self._judge.opening]
        for slot in view:
            before += self._tokens[slot] if isinstance(slot, int) else self._judge.tokens(self._text(slot))
        continuation = self._continuation(number)
        losses = self._judge.surprise([*before, *self._judge.tokens(CALL)], continuation)
        names, missing = self._names(number, view)
        inside = _inside(self._judge.pieces(continuation), names)
        return Judgement(
            session=self.name,
            call=number,
            arm=arm,
            view=len(before),
            tokens=len(continuation),
            loss=sum(losses),
            names=len(names),
            missing=len(missing),
            name_tokens=sum(inside),
            name_loss=sum(loss for loss, named in zip(losses, inside, strict=True) if named),
        )

    def _text(self, slot: Slot) -> str:
        if isinstance(slot, int):
            return self._texts[slot]
        kind = Kind.USER if slot.index is None else self._session.parts[slot.index].kind
        return f"{_HEADS.get(kind, CALL)}{slot.text}\n\n"


def render_part(part: Part) -> str:
    """Return a part as the model reads it: as plain text, because the model has no template for tools."""
    if part.kind is Kind.CALL:
        return f"{CALL} {part.tool} {part.arguments or ''}\n\n"
    return f"{_HEADS[part.kind]}{part.text}\n\n"


def _tokens(judge: Judge, text: str) -> list[int]:
    """Return the tokens of a part's text; those of a call begin as in a prompt that ends with the call's head."""
    if text.startswith(CALL):
        return [*judge.tokens(CALL), *judge.tokens(text[len(CALL) :])]
    return judge.tokens(text)


def _inside(pieces: Sequence[str], names: Iterable[str]) -> list[bool]:
    """Return, by token, whether at least a part of it lies in one of the names."""
    text = "".join(pieces)
    in_name = [False] * len(text)
    for name in names:
        for match in re.finditer(re.escape(name), text):
            in_name[match.start() : match.end()] = [True] * len(name)
    inside: list[bool] = []
    end = 0
    for piece in pieces:
        start, end = end, end + len(piece)
        inside.append(any(in_name[start:end]))
    return inside


LONGEST: Final = 1_200
"""Most characters of a text; a longer one is cut. At this scale, a whole file would fill the window."""

_CUT: Final = "\n[…]\n"


def excerpt(
    session: RecordedSession, size: int, counter: Callable[[Part], int], random: Random
) -> RecordedSession | None:
    """Return a stretch of a session, with the user's latest turn before it; None if the session is too short.

    Long texts are cut in the middle first, so that an excerpt has as many steps as a real window.

    `size`: its tokens, at most.
    """
    parts = [shorten_part(part) for part in session.parts]
    grown = [0, *accumulate(counter(part) for part in parts)]
    starts = [call.first for call in session.own_calls if grown[-1] - grown[call.first] >= size]
    if not starts:
        return None
    start = random.choice([0, *starts])
    turns = [index for index in session.user_turns if index < start][-1:]
    room = size - sum(grown[index + 1] - grown[index] for index in turns)
    stops = [call.stop for call in session.own_calls if start < call.stop and grown[call.stop] - grown[start] <= room]
    if not stops:
        return None
    chosen = [*turns]
    called: set[str | None] = set()
    for index in range(start, stops[-1]):
        part = parts[index]
        if part.kind is Kind.CALL:
            called.add(part.call_id)
        # A result whose call is before the stretch is left out.
        if part.kind is not Kind.RESULT or part.call_id in called:
            chosen.append(index)
    stop = chosen[-1] + 1
    inside = [call for call in session.own_calls if start <= call.first and call.stop <= stop]
    calls = [ModelCall(bisect_left(chosen, call.first), bisect_left(chosen, call.stop)) for call in inside]
    return RecordedSession(
        f"{session.name}@{start}",
        session.source,
        parts=[parts[index] for index in chosen],
        messages=[session.messages[index] for index in chosen],
        calls=calls,
    )


def shorten_part(part: Part) -> Part:
    """Return a part with its long texts cut in the middle; the arguments of a call stay JSON."""
    if part.kind is not Kind.CALL:
        return replace(part, text=_cut(part.text), extra_tokens=0, needs=())
    try:
        arguments = json.dumps(_cut_in(json.loads(part.arguments or "")), ensure_ascii=False)
    except (ValueError, RecursionError):
        arguments = _cut(part.arguments or "")
    return replace(part, arguments=arguments, needs=())


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return text[:half] + _CUT + text[-half:]


def _cut_in(value: object) -> object:
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, dict):
        return {name: _cut_in(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut_in(inner) for inner in value]
    return value
