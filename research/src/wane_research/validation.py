"""Checks the simulated prefix cache against the cache reads of recorded sessions.

The requests are rebuilt as the recording agent made them, with their recorded sizes and times, so that only the cache
rules are tested. No simulator can know about changes that the recording does not hold, such as a changed system
prompt: calls that differ are classified by the provider's actual read. See `docs/lab/cache.md`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from wane.caches import CacheRules, drops_reasoning, rules_for
from wane.core import Kind, chars
from wane.core.errors import ConfigError
from wane.lab.cache.prefix import PrefixCache
from wane.lab.counting import Material, count
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.lab.replaying.recorded import RecordedViews
from wane.strategies.strategy import Slot, Substitute

CLOSE: Final = 0.05  # largest error of a read that counts as right, as a share of the request's input
_SHORTLY: Final = 8  # requests back among which a read is looked for


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """One model call, recorded and simulated."""

    call: int  # its number in the session, from 0
    at: float | None  # when, in seconds since 1970 UTC; None if unknown
    input: int  # all its input tokens, as recorded
    recorded: int  # tokens that it read from the cache
    simulated: int  # tokens that it read in the simulation
    # The provider's actual read; empty if the two are close. `nothing`; `head`: at most system prompt and tools;
    # `earlier`: what one of the requests shortly before the last had sent; `more` than expected; `other`.
    outlier: str = ""

    @property
    def error(self) -> int:
        return self.simulated - self.recorded


@dataclass(frozen=True, slots=True)
class Validation:
    """A session's calls, simulated and recorded."""

    name: str  # the session's name
    source: str  # its format
    model: str  # the model of most of its calls
    rules: CacheRules  # the simulated rules for that model
    rows: tuple[ValidationRow, ...]  # the calls with recorded usage, in order

    @property
    def input(self) -> int:
        return sum(row.input for row in self.rows)

    @property
    def recorded(self) -> int:
        return sum(row.recorded for row in self.rows)

    @property
    def simulated(self) -> int:
        return sum(row.simulated for row in self.rows)

    @property
    def mean_error(self) -> float:
        """Mean absolute error of a call's read, in tokens."""
        return sum(abs(row.error) for row in self.rows) / max(1, len(self.rows))

    @property
    def mean_share(self) -> float:
        """Mean absolute error of a call's read, as a share of its input."""
        return sum(abs(row.error) / row.input for row in self.rows) / max(1, len(self.rows))

    @property
    def close(self) -> float:
        """Share of calls whose read is right to within 5% of their input."""
        return sum(abs(row.error) <= CLOSE * row.input for row in self.rows) / max(1, len(self.rows))

    @property
    def outliers(self) -> dict[str, int]:
        """Number of the other calls, by the provider's actual read."""
        return dict(sorted(Counter(row.outlier for row in self.rows if row.outlier).items()))

    @property
    def mean_share_of_kept(self) -> float:
        """Like `mean_share`, without the outliers."""
        shares = [abs(row.error) / row.input for row in self.rows if not row.outlier]
        return sum(shares) / max(1, len(shares))

    def to_dict(self) -> dict[str, Any]:
        names = "name source model input recorded simulated mean_error mean_share mean_share_of_kept close outliers"
        data: dict[str, Any] = {name: getattr(self, name) for name in names.split()}
        data["rules"] = asdict(self.rules)
        data["calls"] = len(self.rows)
        data["rows"] = [asdict(row) for row in self.rows]
        return data


def validate(session: RecordedSession, rules: CacheRules | None = None) -> Validation:
    """Simulate the cache under a session's own requests, and compare its reads with the recorded ones.

    `rules`: rules for all models; None for each model's own.
    """
    material = count(session)
    models = Counter(call.model or "" for call in session.calls if call.usage and call.usage.total_input)
    if not models:
        raise ConfigError(f"{session.name}: no call recorded its usage, so there is nothing to compare with")
    main = models.most_common(1)[0][0]
    rows = tuple(_rows(session, material, rules))
    return Validation(session.name, session.source, main, rules or _rules(session, main), rows)


def _rules(session: RecordedSession, model: str) -> CacheRules:
    return rules_for("", model, hour=session.cached_for_hour)


def _rows(session: RecordedSession, material: Material, rules: CacheRules | None) -> Iterator[ValidationRow]:
    kinds, system = material.kinds, material.system
    head = material.overhead + sum(item.tokens for item in material.items[:system])
    sizes = _Sizes(material)
    views = RecordedViews(session, kinds)
    caches: dict[str, PrefixCache] = {}
    sent: list[int] = []
    for number, call in enumerate(session.calls):
        model = call.model or ""
        usage = call.usage
        total = usage.total_input if usage else 0
        view = views.of(call)
        if drops_reasoning(model):
            view = _without_earlier_reasoning(view, call, session.user_turns, kinds)
        view = sizes.fit(view, total)
        cache = caches.get(model)
        if cache is None:
            used = rules or _rules(session, model)
            cache = caches[model] = PrefixCache(used, material.overhead, kinds=kinds, system=system)
        # A call without usage was sent too, and may have been answered in part.
        use = cache.request(view, sizes.tokens, call.at)
        if usage and total:
            row = ValidationRow(number, call.at, total, usage.cache_read, min(use.read, total))
            yield replace(row, outlier=_outlier(row, head, sent[-_SHORTLY:-1], cache.rules))
            sent.append(total)


def _without_earlier_reasoning(
    view: Sequence[Slot], call: ModelCall, turns: Sequence[int], kinds: Sequence[Kind]
) -> list[Slot]:
    turn = bisect_right(turns, call.first - 1) - 1
    since = turns[turn] if turn >= 0 else 0
    return [slot for slot in view if not isinstance(slot, int) or slot >= since or kinds[slot] is not Kind.REASONING]


class _Sizes:
    """Sizes slots so that every request has its recorded size, as far as possible.

    A request that shrank without a recorded compaction keeps the sizes of what it shows.

    `material`: the session, counted.
    """

    def __init__(self, material: Material) -> None:
        self._overhead = material.overhead
        self._estimates = [item.tokens for item in material.items]
        # Tokens of the parts, by index; -1 for parts that no request has shown yet
        self.tokens = [-1] * len(material.items)
        self._summaries: dict[str, Substitute] = {}

    def fit(self, view: Sequence[Slot], total: int) -> list[Slot]:
        """Give new slots the tokens by which the request grew, and return the view with its summary sized.

        `view`: the view of the request.
        `total`: its recorded input tokens; 0 if they were not recorded, which leaves the estimates.
        """
        sizes = [self._size(slot) for slot in view]
        new = [slot for slot, size in zip(view, sizes, strict=True) if size < 0]
        sized = self._overhead + sum(size for size in sizes if size >= 0)
        weights = [self._estimate(slot) for slot in new]
        room = max(0, total - sized) if total else sum(weights)
        if not any(weights):
            weights = [1] * len(new)
        done, whole = 0, sum(weights)
        for slot, weight in zip(new, weights, strict=True):
            # Cumulative, so that the shares add up.
            share = room * (done + weight) // whole - room * done // whole
            done += weight
            if isinstance(slot, int):
                self.tokens[slot] = share
            else:
                self._summaries[slot.text] = Substitute(slot.text, share)
        return [self._size_slot(slot) for slot in view]

    def _estimate(self, slot: Slot) -> int:
        return self._estimates[slot] if isinstance(slot, int) else chars(slot.text)

    def _size_slot(self, slot: Slot) -> Slot:
        return slot if isinstance(slot, int) else self._summaries[slot.text]

    def _size(self, slot: Slot) -> int:
        """Return the tokens of a slot; -1 for one that no request has shown yet."""
        if isinstance(slot, int):
            return self.tokens[slot]
        return self._summaries[slot.text].tokens if slot.text in self._summaries else -1


def _outlier(row: ValidationRow, head: int, before: Sequence[int], rules: CacheRules) -> str:
    margin = CLOSE * row.input
    if abs(row.error) <= margin:
        return ""
    if not row.recorded:
        return "nothing"
    if row.recorded > row.simulated:
        return "more"
    if row.recorded <= head + margin:
        return "head"
    # A read ends at the last grid step of what was sent; at a breakpoint, some tokens may follow it.
    step = 64 if rules.breakpoints else rules.grid + rules.hidden
    for size in before:
        if 0 <= size - row.recorded <= step:
            return "earlier"
    return "other"
