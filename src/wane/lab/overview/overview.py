"""Adds up the figures of sessions for `wane report`: by day, agent, model and cause, each with what is known of it."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final

from wane.lab.names import JOURNAL
from wane.lab.overview.recording_figures import CallRow, Calls, CompactionRow, SessionFigures, Simulation
from wane.lab.readers.gathering import Unread
from wane.lab.replaying.verdict import savings
from wane.money import bounded_dollars, dollars
from wane.rewrites import Cause, Certainty


@dataclass(slots=True)
class Sums:
    """Calls and dollars of some sessions, or some part of them.

    Attributes:
        calls: number of calls.
        priced: those whose cost is known in full.
        dollars: their cost, and what is known of the others'.
        cache_known: calls of which it is known what the cache did.
        input: input tokens.
        read: those of them that the cache had.
        written: those of them that were written to it.
        output: output tokens.
        summaries: calls that wrote summaries and were not recorded: they are in none of these figures.
        assumed: calls whose recorded cost takes the prices of another model.
        estimated: calls that recorded no output, which the dollars do not cover.
        guessed: what that output costs by a count of its text, in dollars.
    """

    calls: int = 0
    priced: int = 0
    dollars: float = 0.0
    cache_known: int = 0
    input: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    summaries: int = 0
    assumed: int = 0
    estimated: int = 0
    guessed: float = 0.0

    @property
    def known(self) -> bool:
        """Whether the cost of any call is known, at least in part."""
        return bool(self.priced or self.dollars)

    @property
    def complete(self) -> bool:
        """Whether the dollars cover every call with its output; else they are a lower bound."""
        return self.priced == self.calls and not self.summaries

    def say_cost(self, unknown: str) -> str:
        """Return the dollars in a word, as a bound where they do not cover every call; `unknown` if none are known."""
        if not self.known:
            return unknown
        return f"{'' if self.complete else '≥'}{dollars(self.dollars)}"

    def add(self, row: CallRow) -> None:
        """Add a call."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(row, name))

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON-able data; the dollars are null if none are known."""
        figures = {name: getattr(self, name) for name in self.__slots__}
        return {**figures, "dollars": self.dollars if self.known else None, "complete": self.complete}


@dataclass(slots=True)
class Broken:
    """What was paid again for one cause.

    Attributes:
        times: how often.
        dollars: what that cost.
        priced: how many of these times have a price.
        inferred: how many of these times nobody recorded the cause, but the end of the read implies it.
        at_most: how many of the priced ones followed a compaction, whose summary is new: the dollars may be fewer.
    """

    times: int = 0
    dollars: float = 0.0
    priced: int = 0
    inferred: int = 0
    at_most: int = 0

    def say_cost(self, unknown: str) -> str:
        """Return the dollars in a word, with a sign for a bound; `unknown` if none are known."""
        if not self.priced:
            return unknown
        return bounded_dollars(self.dollars, at_least=self.priced < self.times, at_most=bool(self.at_most))


@dataclass(slots=True)
class SessionSummary:
    """A session in the summary, with its sub-agents: its sums, and what it lost."""

    figures: SessionFigures
    sums: Sums = field(default_factory=Sums)
    last: float = 0.0
    compactions: list[CompactionRow] = field(default_factory=list)

    @property
    def messages_lost(self) -> int:
        """Messages of the user that compactions took."""
        return sum(len(compaction.lost) for compaction in self.compactions)

    @property
    def compactions_taking_words(self) -> int:
        """Compactions that took a message of the user."""
        return sum(bool(compaction.lost) for compaction in self.compactions)

    @property
    def words_lost(self) -> int:
        """Words in these messages."""
        return sum(lost.words for compaction in self.compactions for lost in compaction.lost)


@dataclass(slots=True)
class Overview:
    """The figures of all agents over some days.

    Attributes:
        since: the first day that counts; None for all up to the last.
        until: the last day that counts.
        total: the sums over all calls.
        by_day: the sums of each day with a call, by agent.
        by_agent: the sums of each agent.
        by_model: the sums of each model, by its name as recorded; empty for unknown.
        causes: what was paid again, by cause.
        sessions: the sessions with a call in these days, the dearest first.
        simulations: by agent, what Wane would have made of its sessions.
        effects: by agent, what Wane made of those that it managed.
        worked: sessions that Wane managed, by agent.
        unread: the files without a readable session.
        pending: sessions that Wane would have changed, but that were not replayed, so that no saving of theirs counts.
        parted: sessions of which a part counts; of what Wane would have made of them, their share of the cost does.
        undated: calls without a time, which count on the day when their file was last written.
        scripted: sessions in which a script answered in the model's place: nothing was paid, so they count nowhere.
    """

    since: date | None
    until: date
    total: Sums = field(default_factory=Sums)
    by_day: dict[date, dict[str, Sums]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Sums)))
    by_agent: dict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    by_model: dict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    causes: dict[Cause, Broken] = field(default_factory=lambda: defaultdict(Broken))
    sessions: list[SessionSummary] = field(default_factory=list)
    simulations: dict[str, Simulation] = field(default_factory=lambda: defaultdict(Simulation))
    effects: dict[str, Simulation] = field(default_factory=lambda: defaultdict(Simulation))
    worked: Counter[str] = field(default_factory=Counter)
    unread: tuple[Unread, ...] = ()
    undated: int = 0
    pending: int = 0
    parted: int = 0
    scripted: int = 0

    @property
    def span(self) -> tuple[date, date]:
        """The first and the last day with a call; only for an overview that has one."""
        days = [day for day, parts in self.by_day.items() if parts]
        return min(days), max(days)

    @property
    def agents(self) -> list[str]:
        """The agents, the dearest first."""
        return sorted(self.by_agent, key=lambda agent: (-self.by_agent[agent].dollars, agent))

    @property
    def lost(self) -> Broken:
        """What was paid again, for all causes."""
        total = Broken()
        for broken in self.causes.values():
            total.times += broken.times
            total.dollars += broken.dollars
            total.priced += broken.priced
            total.inferred += broken.inferred
            total.at_most += broken.at_most
        return total

    @property
    def compactions(self) -> int:
        """All compactions, whether they took words of the user or not."""
        return sum(len(summary.compactions) for summary in self.sessions)

    @property
    def compactions_taking_words(self) -> int:
        """Compactions that took a message of the user."""
        return sum(summary.compactions_taking_words for summary in self.sessions)

    @property
    def simulation(self) -> Simulation:
        """What Wane would have made of all sessions that it did not manage."""
        return sum(self.simulations.values(), Simulation())

    @property
    def effect(self) -> Simulation:
        """What Wane made of all sessions that it managed."""
        return sum(self.effects.values(), Simulation())

    def say_saving(self, simulation: Simulation) -> str:
        """Return in words what share Wane saves of the cost of some calls; empty if it saves nothing to speak of.

        The cost without Wane may lack the calls that wrote summaries: then the saving is a lower bound, unless output
        was counted by its text.
        """
        if not simulation.before or simulation.low > 0.995 * simulation.before:
            return ""
        worst, best = 1 - simulation.high / simulation.before, 1 - simulation.low / simulation.before
        return savings(worst, best, bound=bool(self.total.summaries) and not self.total.estimated)

    def comparable_calls(self, agent: str | None = None) -> Simulation:
        """Return the calls of an agent, or of all, of which it is known what they cost without Wane and with it."""
        if agent is None:
            return self.simulation + self.effect
        return self.simulations[agent] + self.effects[agent]

    def counts(self, day: date) -> bool:
        """Return whether a day is one of these."""
        return (self.since is None or self.since <= day) and day <= self.until


def summarise(
    sessions: Iterable[SessionFigures],
    since: date | None,
    until: date,
    unread: Sequence[Unread] = (),
    *,
    journals: Iterable[SessionFigures] = (),
) -> Overview:
    """Add up sessions over some days, or all of them if `since` is None, in the time zone of this machine.

    A call that several files hold counts once, in the session that made it first. A sub-agent's session in a file of
    its own counts with the session that started it.

    Args:
        sessions: the sessions.
        since: the first day.
        until: the last day.
        unread: the files that could not be read.
        journals: what Wane's proxy recorded on this machine: what it has of these sessions takes their place, and the
            rest of it counts nowhere.
    """
    overview = Overview(since, until, unread=tuple(unread))
    paid = list[SessionFigures]()
    for figures in sessions:
        if figures.scripted:
            overview.scripted += 1
        else:
            paid.append(figures)
    ordered = sorted(_distinct(paid, journals), key=_first_moment)
    parents = {(figures.source, figures.id): figures for figures in ordered if figures.id}
    groups: dict[int, SessionSummary] = {}
    repeated = _find_repeated(ordered)
    seen: dict[str, set[int]] = defaultdict(set)
    for figures in ordered:
        outer = _outermost(figures, parents)
        summary = groups.setdefault(id(outer), SessionSummary(outer))
        _add(overview, summary, figures, _paid_calls(figures.calls, repeated, seen[figures.source]))
    overview.sessions = [summary for summary in groups.values() if summary.sums.calls]
    overview.sessions.sort(key=lambda summary: (-summary.sums.dollars, -summary.sums.calls, summary.figures.name))
    return overview


def _paid_calls(calls: Calls, repeated: set[int], seen: set[int]) -> Iterable[CallRow]:
    """Return the calls of a session that count in it, grouped if none of them stands in another one too.

    Args:
        calls: all of its calls.
        repeated: the numbers of ids that occur more than once.
        seen: those of them that an earlier session of this agent has; the session's own are added.
    """
    if repeated.isdisjoint(calls.ids):
        return calls.groups
    if seen.issuperset(calls.ids) and len(calls.ids) == sum(row.calls for row in calls.groups):
        return ()  # Every call has an id, and none is new: a copy, which need not be unpacked.
    own = []
    for number, row in calls.rows():
        if number in repeated:
            if number in seen:
                continue
            seen.add(number)
        own.append(row)
    return own


def _find_repeated(sessions: Iterable[SessionFigures]) -> set[int]:
    """Return the numbers of ids that occur more than once; in shares, so that few are sets at a time."""
    shares = [array("Q") for _ in range(_SHARES)]
    for figures in sessions:
        for number in figures.calls.ids:
            shares[number % _SHARES].append(number)
    repeated: set[int] = set()
    for numbers in shares:
        once: set[int] = set()
        for number in numbers:
            (repeated if number in once else once).add(number)
    return repeated


_SHARES: Final = 64


def _add(overview: Overview, summary: SessionSummary, figures: SessionFigures, rows: Iterable[CallRow]) -> None:
    counted = Sums()
    every = Sums()
    for row in rows:
        every.add(row)
        at = figures.modified if row.at is None else row.at
        day = datetime.fromtimestamp(at).astimezone().date()
        if not overview.counts(day):
            continue
        overview.undated += row.calls if row.at is None else 0
        for sums in (
            counted,
            summary.sums,
            overview.total,
            overview.by_day[day][figures.source],
            overview.by_agent[figures.source],
            overview.by_model[row.model],
        ):
            sums.add(row)
        summary.last = max(summary.last, at)
        if row.cause:
            broken = overview.causes[Cause(row.cause)]
            broken.times += row.calls
            broken.dollars += row.again or 0.0
            broken.priced += 0 if row.again is None else row.calls
            broken.inferred += row.calls if row.certainty == Certainty.INFERRED else 0
            broken.at_most += row.calls if row.cause == Cause.COMPACTION and row.again is not None else 0
    if not counted.calls:
        return
    for compaction in figures.compactions:
        at = figures.modified if compaction.at is None else compaction.at
        if overview.counts(datetime.fromtimestamp(at).astimezone().date()):
            summary.compactions.append(compaction)
    overview.pending += figures.pending
    part = _part(figures.simulation, counted, every)
    overview.parted += bool(part.calls and part is not figures.simulation)
    if figures.managed:
        overview.effects[figures.source] += part
        overview.worked[figures.source] += 1
    else:
        overview.simulations[figures.source] += part


def _part(simulation: Simulation, counted: Sums, every: Sums) -> Simulation:
    """Return the part of a session's simulation that falls on the calls that count, by their share of its cost."""
    if counted.calls == every.calls:
        return simulation
    share = counted.dollars / every.dollars if every.dollars else counted.calls / every.calls
    return replace(
        simulation,
        calls=round(simulation.calls * counted.calls / every.calls),
        before=share * simulation.before,
        low=share * simulation.low,
        high=share * simulation.high,
    )


def _distinct(sessions: Iterable[SessionFigures], journals: Iterable[SessionFigures]) -> list[SessionFigures]:
    """Return sessions without those of agents whose requests all went through Wane's proxy, which recorded them too.

    The proxy's recording then counts for the agent that sent the requests. Of `journals`, those that take no session's
    place are left out.
    """
    every = list(sessions)
    counting = {figures.id for figures in every if figures.source == JOURNAL}
    recorded = [figures for figures in journals if figures.id not in counting]
    by_id = {(figures.source, figures.id): figures for figures in recorded}
    # Where Wane only looked on, the agent's own file has all calls.
    managed = {id(_outermost(figures, by_id)) for figures in recorded if figures.managed}
    every += [figures for figures in recorded if id(_outermost(figures, by_id)) in managed]
    proxied: Counter[tuple[int, ...]] = Counter()
    for figures in every:
        if figures.source == JOURNAL:
            proxied += _usages(figures)
    if not proxied:
        return every
    distinct = []
    senders: dict[tuple[int, ...], str] = {}
    for figures in every:
        usages = _usages(figures)
        if figures.source == JOURNAL or not usages or not usages <= proxied:
            distinct.append(figures)
        else:
            senders |= dict.fromkeys(usages, figures.source)
    sources: dict[str, str] = {}
    for figures in distinct:
        agents = Counter(senders[usage] for usage in _usages(figures) if usage in senders)
        if figures.source == JOURNAL and agents:
            sources[figures.id] = agents.most_common(1)[0][0]
            counting.add(figures.id)
    named = []
    for figures in distinct:
        if figures.source != JOURNAL or counting & {figures.id, figures.parent}:
            own = sources.get(figures.id, figures.agent or figures.source)
            # A sub-agent is of the agent that started it.
            named.append(replace(figures, source=sources.get(figures.parent, own)))
    return named


def _usages(figures: SessionFigures) -> Counter[tuple[int, ...]]:
    """Return how often each usage was reported in a session."""
    rows = [row for _, row in figures.calls.rows()]
    return Counter((row.input, row.read, row.written, row.output) for row in rows if row.input)


def _first_moment(figures: SessionFigures) -> tuple[float, float]:
    """Return when a session began; a copy of its beginning has the same times, and was mostly written later."""
    began = figures.calls.began
    return figures.modified if began is None else began, figures.modified


def _outermost(figures: SessionFigures, parents: Mapping[tuple[str, str], SessionFigures]) -> SessionFigures:
    """Return the session that started a sub-agent's, or the one that started that; the session itself for others."""
    visited = {figures.id}
    while (outer := parents.get((figures.source, figures.parent))) is not None and outer.id not in visited:
        visited.add(outer.id)
        figures = outer
    return figures


def days_until(until: date, days: int) -> date:
    """Return the first of some days, of which `until` is the last."""
    return until - timedelta(days=days - 1)
