"""Counts the tokens of a recorded session, fitted to the usage that its provider reported.

A counter's estimate of a part is off by a factor that depends on its content: code, prose and JSON differ in length.
Where a session recorded the size of its requests, the growth from one request to the next is the cost of the parts
between them, so their estimates are scaled to it. `research/docs/counting.md` gives the error that remains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile
from typing import Final

from wane.core import DELIMITER, Counter, Item, Kind, chars
from wane.core.light import light_dataclass
from wane.lab.recorded_session import ModelCall, RecordedSession

LEAST_RATIO: Final = 0.3
"""Smallest ratio of recorded growth to estimate at which the growth counts as the cost of the parts."""
MOST_RATIO: Final = 4.0
"""Largest such ratio."""
WRAPPING: Final = 50
"""Further tokens allowed for each part, because providers put text of their own around calls and results."""

_OUTPUT: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL})


@dataclass(frozen=True, slots=True)
class Material:
    """A recorded session with its tokens counted, for replays.

    Attributes:
        session: the session.
        items: its parts as items, in order, with their tokens. Only calls of `delimiter` have arguments.
        overhead: tokens of every request besides its items: tool definitions, and a system prompt that was not
            recorded.
        output_tokens: by model call, the tokens of its output.
        calibrated: whether the tokens were fitted to recorded usage.
    """

    session: RecordedSession
    items: list[Item]
    overhead: int
    output_tokens: tuple[int, ...]
    calibrated: bool

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of the items."""
        return [item.kind for item in self.items]

    @property
    def own_items(self) -> list[Item]:
        """The items that count for this session, not for one that it branches off from."""
        inherited = [call.stop for call in self.session.calls if call.inherited]
        return self.items[max(inherited, default=0) :]

    @property
    def system(self) -> int:
        """Number of system items at the head."""
        return sum(1 for _ in takewhile(lambda item: item.kind is Kind.SYSTEM, self.items))


@light_dataclass(frozen=True, slots=True)
class _Span:
    """The parts between two requests; the output that answered the earlier one is among them.

    `cost` is how much larger the later request was, as reported; None if that cannot be what the parts cost.
    """

    first: int
    stop: int
    estimate: int
    cost: int | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """The tokens of a recorded session.

    Attributes:
        parts: those of each part.
        overhead: those of every request besides its parts; see `Material`.
        outputs: by model call, those of its output.
        calibrated: whether they were fitted to recorded usage.
    """

    parts: tuple[int, ...]
    overhead: int
    outputs: tuple[int, ...]
    calibrated: bool


def measure(session: RecordedSession, counter: Counter = chars, *, calibrate: bool = True) -> Sizes:
    """Count the tokens of a session's parts, its overhead and its calls' outputs; see `count`."""
    estimates: list[int] = []
    for part in session.parts:
        # Of most parts the size alone was read (`figures_alone`).
        known = not (part.text or part.tool or part.arguments)
        estimates.append(part.extra_tokens if known else part.tokens(counter))
    return _measure(session, estimates, counter, calibrate)


def _measure(session: RecordedSession, estimates: Sequence[int], counter: Counter, calibrate: bool) -> Sizes:
    spans = _spans(session, estimates) if calibrate else [_Span(0, len(estimates), sum(estimates), None)]
    ratio = _typical_ratio(spans)
    tokens: list[int] = []
    for span in spans:
        goal = round(span.estimate * ratio) if span.cost is None else span.cost
        tokens += _shared_out(estimates[span.first : span.stop], goal)
    outputs = tuple(_output(call, session, tokens) for call in session.calls)
    overhead = _overhead(session, tokens, counter, ratio)
    return Sizes(tuple(tokens), overhead, outputs, any(span.cost is not None for span in spans))


def count(session: RecordedSession, counter: Counter = chars, *, calibrate: bool = True) -> Material:
    """Count the tokens of a session's parts, its overhead and its calls' outputs.

    If `calibrate` is true, the counter's estimates are fitted to recorded usage. The time is linear in the session.
    """
    raw = [part.item(counter, message) for part, message in zip(session.parts, session.messages, strict=True)]
    sizes = _measure(session, [item.tokens for item in raw], counter, calibrate)
    items: list[Item] = []
    for item, cost in zip(raw, sizes.parts, strict=True):
        # Arguments stay in the parts; a window reads only those of `delimiter` from the item.
        arguments = item.arguments if item.tool == DELIMITER else None
        items.append(replace(item, tokens=cost, arguments=arguments))
    return Material(session, items, sizes.overhead, sizes.outputs, sizes.calibrated)


def find_reported(session: RecordedSession) -> Iterator[tuple[int, int]]:
    """Yield, for each call with reported input, the number of parts before it, and its input tokens."""
    for call in session.calls:
        if call.usage and call.usage.total_input > 0:
            yield call.first, call.usage.total_input


def breaks(session: RecordedSession) -> list[int]:
    """Return the positions, ascending, at which a request does not continue the previous one.

    There the agent compacted or evicted, its provider dropped reasoning, or another of several joined sessions begins.
    """
    return sorted(_removals(session).union(session.reasoning_cleared, session.starts))


def _removals(session: RecordedSession) -> set[int]:
    """Return the positions at which the agent compacted or evicted."""
    positions = {compaction.position for compaction in session.compactions}
    return positions.union(eviction.position for eviction in session.evictions)


def relative_errors(material: Material) -> list[float]:
    """Return, for each call whose input was reported, the relative error of the counted input.

    The counted input is the overhead and all items before the call, without reasoning that the provider dropped.
    After a compaction or eviction the items are no longer the agent's view. From there on the growth since the first
    request that followed is compared; that request has no error of its own and is left out.
    """
    session = material.session
    cuts = sorted(_removals(session).union(start for start in session.starts if start))
    request_tokens = _request_tokens(material)
    errors: list[float] = []
    base = material.overhead
    passed = 0  # cuts
    for position, total in find_reported(session):
        before = bisect_right(cuts, position)
        if before == passed:
            errors.append(abs(base + request_tokens[position] - total) / total)
        else:
            base = total - request_tokens[position]
        passed = before
    return errors


def _spans(session: RecordedSession, estimates: Sequence[int]) -> list[_Span]:
    """Cut the parts at the calls whose input was reported; the last span follows the last of them."""
    grown = [0, *accumulate(estimates)]
    broken = breaks(session)
    spans: list[_Span] = []
    first = 0
    before: int | None = None
    ends: list[tuple[int, int | None]] = [*find_reported(session), (len(estimates), None)]
    for stop, total in ends:
        estimate = grown[stop] - grown[first]
        cost: int | None = None
        unbroken = bisect_right(broken, first) == bisect_right(broken, stop)
        if before is not None and total is not None and unbroken and estimate > 0:
            most = MOST_RATIO * estimate + WRAPPING * (stop - first)
            cost = total - before if LEAST_RATIO * estimate <= total - before <= most else None
        spans.append(_Span(first, stop, estimate, cost))
        first, before = stop, total
    return spans


def _typical_ratio(spans: Sequence[_Span]) -> float:
    """Return the median ratio of cost to estimate, weighted by tokens; 1 if nothing was reported."""
    ratios = sorted((span.cost / span.estimate, span.estimate) for span in spans if span.cost is not None)
    if not ratios:
        return 1.0
    weights = list(accumulate(weight for _, weight in ratios))
    return ratios[bisect_left(weights, weights[-1] / 2)][0]


def _shared_out(estimates: Sequence[int], goal: int) -> list[int]:
    """Return whole numbers in proportion to the estimates that add up to `goal`."""
    if len(estimates) == 1:
        return [goal if estimates[0] else 0]
    grown = [0, *accumulate(estimates)]
    if not grown[-1]:
        return [0] * len(estimates)
    bounds = [round(goal * part / grown[-1]) for part in grown]
    return [after - before for before, after in pairwise(bounds)]


def _overhead(session: RecordedSession, tokens: Sequence[int], counter: Counter, ratio: float) -> int:
    """Return the tokens of the first reported request besides the parts and the summary in it."""
    first = next(find_reported(session), None)
    if first is None:
        return session.system_tokens or 0
    stop, total = first
    in_view = sum(tokens[:stop])
    for compaction in session.compactions:
        if compaction.position <= stop:
            in_view = sum(tokens[compaction.first_kept : stop]) + round(counter(compaction.summary) * ratio)
    removed: set[int] = set()
    for eviction in session.evictions:
        if eviction.position <= stop:
            removed.update(eviction.removed)
    return max(0, total - in_view + sum(tokens[index] for index in removed))


def _output(call: ModelCall, session: RecordedSession, tokens: Sequence[int]) -> int:
    if call.usage is not None and call.usage.output is not None:
        return call.usage.output
    return sum(tokens[index] for index in range(call.first, call.stop) if session.parts[index].kind in _OUTPUT)


def _request_tokens(material: Material) -> list[int]:
    """Return, by number of items, the tokens that a request holds if only cleared reasoning leaves it."""
    cleared = set(material.session.reasoning_cleared)
    sizes = [0]
    tokens = 0
    reasoning = 0
    for count_so_far, item in enumerate(material.items, start=1):
        tokens += item.tokens
        if item.kind is Kind.REASONING:
            reasoning += item.tokens
        if count_so_far in cleared:
            tokens -= reasoning
            reasoning = 0
        sizes.append(tokens)
    return sizes
