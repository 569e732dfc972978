"""The figures of one recorded session for `wane report`: its calls, what broke its cache, and what compactions took.

They are JSON-able, so that they can be kept until the file changes. Nothing else of a session is kept.
"""

from __future__ import annotations

import zlib
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final

from wane.account import NOTHING, Account
from wane.core.light import light_dataclass
from wane.lab.cache.paid_again import Rewrite, examine
from wane.lab.counting import Sizes, count, measure
from wane.lab.readers import Recording
from wane.lab.readers.building.json_lines import dump_json, fast_loads
from wane.lab.readers.claude_code import NAME as CLAUDE_CODE
from wane.lab.readers.claude_code.transcript import command_in
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.lab.replaying.compare import BASELINE
from wane.lab.replaying.jobs import Job
from wane.lab.replaying.managed import money_of
from wane.lab.replaying.spent import account_of, with_call
from wane.lab.replaying.strategy_replay import Pricing, moment
from wane.lab.replaying.studying import study
from wane.lab.replaying.verdict import OURS, Baselines
from wane.strategies.strategy import StrategySettings

SHOWN_CHARACTERS: Final = 400
"""Characters of a lost message that are kept."""


@light_dataclass(frozen=True, slots=True)
class CallRow:
    """A call that was paid, or several of which only the sums are known.

    Attributes:
        id: its id, which its copies in other files share; empty if it has none.
        at: when, in seconds since 1970 UTC; None if unknown.
        model: the model; empty if unknown.
        calls: how many calls it stands for.
        priced: how many of them have a cost that is known in full.
        dollars: that cost, and what is known of the others.
        cache_known: how many of them can be compared with the one before, or are the first of their session.
        input: input tokens, cached ones included.
        read: those read from the cache.
        written: those written to it.
        output: output tokens; a count of its text where they were not recorded.
        cause: why it paid again for what had been cached; empty if it did not.
        certainty: how that is known; empty if it did not.
        again: what it paid for that in dollars, on top of reading it; None if the price is unknown.
        summaries: how many calls that wrote a summary ahead of it were not recorded, so that no cost covers them.
        assumed: how many calls were recorded with a cost at the prices of another model.
        estimated: how many of them recorded no output, which `dollars` do not cover.
        guessed: what that output costs by a count of its text.
    """

    id: str
    at: float | None
    model: str
    calls: int
    priced: int
    dollars: float
    cache_known: int
    input: int
    read: int
    written: int
    output: int
    cause: str = ""
    certainty: str = ""
    again: float | None = None
    summaries: int = 0
    assumed: int = 0
    estimated: int = 0
    guessed: float = 0.0

    def values(self) -> list[Any]:
        """Return its values, in the order of its attributes."""
        return list(_values_of(self))

    @classmethod
    def together(cls, rows: Sequence[CallRow]) -> CallRow:
        """Return rows of one model and cause as one, without an id, and with the latest of their times."""
        first = rows[0]
        if len(rows) == 1:
            return replace(first, id="")
        columns = zip(*map(_summands_of, rows), strict=True)
        sums: dict[str, Any] = dict(zip(_SUMS, map(sum, columns), strict=True))
        times = [row.at for row in rows if row.at is not None]
        again = [row.again for row in rows if row.again is not None]
        at, paid = max(times, default=None), sum(again) if len(again) == len(rows) else None
        return replace(first, id="", at=at, again=paid, **sums)


_SUMS: Final = (
    "calls",
    "priced",
    "dollars",
    "cache_known",
    "input",
    "read",
    "written",
    "output",
    "summaries",
    "assumed",
    "estimated",
    "guessed",
)
_values_of: Final = attrgetter(*CallRow.__slots__)
_summands_of: Final = attrgetter(*_SUMS)


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a session, in some forty bytes for each.

    Attributes:
        groups: those of a day, a model and a cause as one row, which has the time of the last of them and no id.
        began: when the first was made, in seconds since 1970 UTC; None if no call has a time.
        ids: a number for each id, in no order; other ids have other numbers.
        packed: the rows, compressed.
    """

    groups: tuple[CallRow, ...]
    began: float | None
    ids: tuple[int, ...] | array[int]
    packed: str

    @classmethod
    def of(cls, rows: Sequence[CallRow]) -> Calls:
        """Return some calls; days are those of this machine's time zone."""
        groups: dict[tuple[object, ...], list[CallRow]] = {}
        data: list[list[Any]] = []
        ids = array("Q")
        for row in rows:
            day = None if row.at is None else _day(int(row.at // _QUARTER))
            key = day, row.model, row.cause, row.certainty, row.again is None
            groups.setdefault(key, []).append(row)
            name, *values = _values_of(row)
            number = 0
            if name:
                number = int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest()) or 1
                ids.append(number)
            data.append([number, *values])
        packed = b64encode(zlib.compress(dump_json(data), 1)).decode()
        times = [row.at for row in rows if row.at is not None]
        return cls(tuple(map(CallRow.together, groups.values())), min(times, default=None), ids, packed)

    def rows(self) -> Iterator[tuple[int, CallRow]]:
        """Yield each call without its id, behind the number of the id; 0 if it has none."""
        for number, *values in fast_loads(zlib.decompress(b64decode(self.packed))):
            yield number, CallRow("", *values)

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON-able data."""
        groups = [row.values() for row in self.groups]
        return {"groups": groups, "began": self.began, "ids": list(self.ids), "packed": self.packed}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Calls:
        """Return the calls that `to_dict` wrote."""
        groups = tuple(CallRow(*row) for row in data["groups"])
        return cls(groups, data["began"], array("Q", data["ids"]), data["packed"])


_QUARTER: Final = 900
"""Seconds: in every time zone, a day begins with a quarter of an hour."""


@lru_cache(maxsize=4096)
def _day(quarter: int) -> date:
    """Return the day of a quarter of an hour since 1970 UTC, in this machine's time zone."""
    return datetime.fromtimestamp(quarter * _QUARTER).astimezone().date()


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message that a person typed, and that no call after a compaction held: its beginning, and its words."""

    text: str
    words: int


@dataclass(frozen=True, slots=True)
class CompactionRow:
    """A compaction: when it was, and the person's messages that it took."""

    at: float | None
    lost: tuple[LostMessage, ...]

    @classmethod
    def read(cls, data: dict[str, Any]) -> CompactionRow:
        """Return the compaction that `asdict` wrote."""
        return cls(data["at"], tuple(LostMessage(**lost) for lost in data["lost"]))


@dataclass(frozen=True, slots=True)
class Simulation:
    """What some calls cost without Wane and with it, compared as `wane.lab.replaying.verdict` does.

    Attributes:
        calls: the calls; the prices of each are known.
        before: dollars for them without Wane.
        low: dollars with Wane, without cache misses that no strategy causes; the same where nothing would be evicted.
        high: the same with all that were recorded.
        uses: how often calls used an earlier name.
        in_view: how often that was still in view.
        raised_to: the largest budget that Wane worked with, where what was set left too little room (R22); else 0.
    """

    calls: int = 0
    before: float = 0.0
    low: float = 0.0
    high: float = 0.0
    uses: int = 0
    in_view: int = 0
    raised_to: int = 0

    def __add__(self, other: Simulation) -> Simulation:
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return Simulation(**{**sums, "raised_to": max(self.raised_to, other.raised_to)})


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """The figures of a session, those of its sub-agents included.

    Attributes:
        source: the agent, by the format of its sessions.
        name: its name.
        id: its id, by which sub-agents' files name it; empty if it has none.
        parent: for a sub-agent's session in a file of its own, the id of the session that started it; else empty.
        title: first words of the user's first turn.
        managed: whether Wane was at work.
        calls: its calls.
        compactions: its compactions.
        simulation: what Wane would have made of it; of a session that it managed, what it made of it.
        modified: when its file was last written, for calls without a time.
        pending: whether part of it must be replayed for a simulation, which was not done yet.
        agent: of a session that Wane's proxy recorded, the agent that sent the requests; empty if it is unknown.
        scripted: whether a script answered in the model's place.
    """

    source: str
    name: str
    id: str
    parent: str
    title: str
    managed: bool
    calls: Calls
    compactions: tuple[CompactionRow, ...]
    simulation: Simulation
    modified: float
    pending: bool = False
    agent: str = ""
    scripted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON-able data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        data["calls"] = self.calls.to_dict()
        data["compactions"] = [asdict(compaction) for compaction in self.compactions]
        data["simulation"] = asdict(self.simulation)
        return data

    @classmethod
    def read(cls, data: dict[str, Any]) -> SessionFigures:
        """Return the figures that `to_dict` wrote."""
        return cls(
            **{
                **data,
                "calls": Calls.read(data["calls"]),
                "compactions": tuple(CompactionRow.read(row) for row in data["compactions"]),
                "simulation": Simulation(**data["simulation"]),
            }
        )


def figures_of(
    session: RecordedSession, modified: float, budget: int, price: str, *, replayed: bool = False
) -> SessionFigures:
    """Return the figures of a session.

    Args:
        session: the session; it needs no text of results (`wane.lab.readers.figures_alone`) unless it is replayed.
        modified: when its file was last written, in seconds since 1970 UTC.
        budget: tokens that a view may hold with Wane.
        price: the model whose prices a simulation takes where none are known.
        replayed: whether to replay what would not have fitted into the budget, which takes most of the time.
    """
    calls: list[CallRow] = []
    simulation, pending = Simulation(), False
    otherwise = Pricing.of(price)
    for part in _with_sub_agents(session):
        sizes, pricing = measure(part), Pricing.of_recording(part, otherwise)
        rows = list(_rows(part, sizes, pricing))
        calls += rows
        if part.totals or not part.answered:
            continue  # nothing can be compared
        if part.managed:
            money = money_of(count(part), pricing)  # as `wane view` tells it
            spent = money.account.at_least
            simulation += Simulation(money.account.priced, money.unmanaged, spent, spent)
        elif _largest(part, sizes) <= budget:
            priced = [row for row in rows[: len(part.own_calls)] if row.priced or row.estimated]
            cost = sum(row.dollars + row.guessed for row in priced)
            simulation += Simulation(len(priced), cost, cost, cost)  # nothing would have been evicted
        elif replayed:
            simulation += _simulate(part, budget, price)
        else:
            pending = True
    return SessionFigures(
        session.source,
        session.name,
        session.id,
        session.parent,
        session.title,
        session.managed,
        Calls.of(calls),
        tuple(_compactions(session)),
        simulation,
        modified,
        pending,
        session.agent,
        session.scripted,
    )


def _with_sub_agents(session: RecordedSession) -> Iterator[RecordedSession]:
    yield session
    for side in session.sidechains:
        yield from _with_sub_agents(side)


def _rows(session: RecordedSession, sizes: Sizes, pricing: Pricing) -> Iterator[CallRow]:
    if session.totals:
        yield _row_of_totals(session, account_of(session, sizes.outputs, pricing))
        return
    examined = examine(session)
    rewrites = {rewrite.call: rewrite for rewrite in examined.rewrites}
    # Calls that wrote summaries and were not recorded, by the number of the call that came next.
    summaries: Counter[int] = Counter()
    for compaction in session.compactions[: max(0, len(session.compactions) - len(session.asides))]:
        later = [number for number, call in enumerate(session.calls) if call.first >= compaction.position]
        summaries[later[0] if later else len(session.calls) - 1] += 1
    for number, (call, counted) in enumerate(zip(session.calls, sizes.outputs, strict=True)):
        if not call.inherited:
            # Before a single request, nothing was cached that it could have paid again.
            about = bool(examined.compared) or examined.requests == 1, rewrites.get(number), summaries.get(number, 0)
            yield _row(call, counted, pricing, *about)
    for call in (*session.own_asides, *session.abandoned):
        yield _row(call, 0, pricing)


def _row(
    call: ModelCall,
    counted: int,
    pricing: Pricing,
    shows_cache: bool = False,
    rewrite: Rewrite | None = None,
    summaries: int = 0,
) -> CallRow:
    account = with_call(NOTHING, call, counted, pricing)
    again = None
    if rewrite is not None and call.usage is not None and (prices := pricing.prices_for(call)) is not None:
        again = prices.repeated_cost(rewrite.tokens, call.usage.use, moment(call))
    return CallRow(
        call.id,
        call.at,
        call.model or "",
        1,
        account.priced if account.complete else 0,
        account.at_least,
        int(shows_cache and call.usage is not None),
        account.input_tokens,
        account.cache_read_tokens,
        account.cache_write_tokens,
        account.output_tokens,
        "" if rewrite is None else rewrite.explanation.cause,
        "" if rewrite is None else rewrite.explanation.certainty,
        again,
        summaries,
        account.assumed.total(),
        account.estimated,
        account.guessed,
    )


def _row_of_totals(session: RecordedSession, account: Account) -> CallRow:
    """Return the calls of a session of which only the sums are known, as one row."""
    models = {total.model for total, _ in session.totals}
    return CallRow(
        session.id,
        max((call.at for call in session.calls if call.at is not None), default=None),
        (models.pop() or "") if len(models) == 1 else "",
        account.calls,
        account.priced,
        account.at_least,
        0,
        account.input_tokens,
        account.cache_read_tokens,
        account.cache_write_tokens,
        account.output_tokens,
    )


def _compactions(session: RecordedSession) -> Iterator[CompactionRow]:
    """Yield the compactions with the person's messages that no later call held word for word."""
    turns = session.user_turns
    taken: set[int] = set()
    for compaction in session.compactions:
        lost = []
        for turn in turns:
            text = session.parts[turn].text.strip()
            if turn >= compaction.first_kept or turn in taken or not text or compaction.holds(text):
                continue
            taken.add(turn)
            # A command counts as it was typed, without the marks that the client puts around it.
            if session.source == CLAUDE_CODE:
                text = command_in(text) or text
            shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
            lost.append(LostMessage(shown, len(text.split())))
        # The last one may have come after the last call: then no call missed anything.
        if any(call.first >= compaction.position for call in session.calls):
            yield CompactionRow(compaction.at, tuple(lost))


def _largest(session: RecordedSession, sizes: Sizes) -> int:
    """Return the tokens of the largest request, had nothing been evicted or compacted."""
    reported = [call.usage.total_input for call in session.own_calls if call.usage]
    return max([sizes.overhead + sum(sizes.parts), *reported])


def _simulate(session: RecordedSession, budget: int, price: str) -> Simulation:
    """Return what Wane would have made of a session; of no call if there is nothing to compare with."""
    [prepared] = study([Recording(session, "")], Pricing.of(price), own_prices=True)
    settings = prepared.under(StrategySettings(budget=budget))
    unevicted = Job(0, BASELINE, settings, prepared.pricing).run(prepared.subject)
    after = Job(0, OURS, settings, prepared.pricing).run(prepared.subject)
    baseline = Baselines.of(prepared.subject.material, prepared.pricing, unevicted).lowest()
    if baseline is None:
        return Simulation()
    loss, raised_to = after.totals.loss, after.totals.raised_to
    if baseline.recorded:
        low, high = baseline.with_wane(after.totals)
        return Simulation(after.totals.beside_calls, baseline.cost, low, high, loss.uses, loss.in_view, raised_to)
    # Both sides are simulated: only calls whose prices are known count, at no other model's.
    priced, before, low = 0, 0.0, 0.0
    for call, without, with_wane in zip(session.calls, unevicted.calls, after.calls, strict=True):
        if not call.inherited and prepared.pricing.prices_for(call) is not None:
            priced += 1
            before += without.cost
            low += with_wane.cost + with_wane.again
    return Simulation(priced, before, low, low, loss.uses, loss.in_view, raised_to) if priced else Simulation()
