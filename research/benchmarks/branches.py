"""The effect of sub-agents that share one history with their parent on its view (R18, docs/decisions/branches.md).

    python research/benchmarks/branches.py FOLDER

FOLDER has recordings of Claude Code, at any depth. Of a session that was saved several times, the longest file up to 4
MiB counts. The sub-agents of a recording are interleaved with their parent by the recorded times. Deterministic: the
same files give the same figures.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from frame import parser, recorded_sessions, table_head, table_row
from wane.core import EpisodeType, Item, Kind, Policy
from wane.formats.message_format import Part
from wane.lab.counting import Material, count
from wane.lab.recorded_session import RecordedSession
from wane.lab.rereads import Rereads, rereads
from wane.strategies.host import HostScope
from wane.strategies.strategy import StrategySettings
from wane.strategies.window_strategy import WindowStrategy
from wane.tools.calls import judge_call

BUDGETS = (80_000, 120_000)
ROOM = (120_000, 160_000, 240_000, 480_000, 1_000_000)
"""Shared budgets, compared with a parent alone at the first of `BUDGETS`."""
LARGEST = 2**22  # bytes; larger files do not count

COLUMNS = (
    *("budget", "calls, of branches", "pairs broken", "over", "over alone", "parent's view", "the same", "results"),
    *("repeat", "in view", "named", "gone", "tokens in view or named"),
)

_SESSION = re.compile(rb'"sessionId": ?"([^"]+)"')
_WORK = (b'"agent_progress"', b'"isSidechain":true', b'"isSidechain": true')
"""Marks of a file that holds work of sub-agents. The reader finds those in files of their own."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer of one session with everything that follows it up to the next answer."""

    branch: int  # number of the session, 0 for the parent
    at: float  # when the answer was requested, in seconds
    until: float  # when its results were complete: the time of the next answer
    entries: Sequence[tuple[Item, Part]]  # its items with their content


def exchanges(material: Material, branch: int) -> Iterator[Exchange]:
    """Yield the exchanges of a session. The first one also has the prompt before it."""
    calls = [call for call in material.session.own_calls if call.stop > call.first]
    parts = material.session.parts
    at = 0.0
    first = 0
    for number, call in enumerate(calls):
        at = max(at, call.at or at)
        until, stop = at, len(parts)
        if number + 1 < len(calls):
            following = calls[number + 1]
            until, stop = max(at, following.at or at), following.first
        entries = list(zip(material.items[first:stop], parts[first:stop], strict=True))
        if branch and first == 0:
            # A branch shares the parent's system prompt and notices.
            entries = [entry for entry in entries if entry[0].kind not in (Kind.SYSTEM, Kind.NOTICE)]
        yield Exchange(branch, at, until, entries)
        first = stop


def topics(part: Part) -> set[tuple[str, str]]:
    """Return the files that a call reads, or the command that it runs."""
    judgement = judge_call(part.tool or "", part.arguments)
    if judgement.reads:
        return {("file", path) for path in judgement.reads}
    if judgement.writes or not judgement.hint:
        return set()
    return {("command", f"{part.tool} {part.arguments}")}


class Shared:
    """One history of several branches, kept within a budget, with figures of its views.

    Attributes:
        broken: calls in view without their result, and results without their call, over all requests.
        over: requests over the budget.
        requests: all requests.
        views: for each request of the parent, whether branches have begun and all of them have ended, and its items in
            view, by their number in its session.
        repeats: results that another branch has read before, by where the earlier result was at the time.
        tokens: tokens of these results, by the same.
        read: all results of files and commands.
    """

    def __init__(self, budget: int, overhead: int) -> None:
        settings = StrategySettings(budget, overhead=overhead, policy=Policy(), annotate="host")
        self._strategy = WindowStrategy("cwl", settings, settings.policy)
        self._budget = budget
        self.broken = 0
        self.over = 0
        self.requests = 0
        self.read = 0
        self.views: list[tuple[bool, set[int]]] = []
        self.repeats: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self._numbers: list[int | None] = []  # by item, its number in the parent's session
        self._own = 0
        self._pairs: dict[str, tuple[int, set[tuple[str, str]]]] = {}  # open calls
        self._answered: list[tuple[int, int]] = []
        self._readers: dict[tuple[str, str], tuple[int, int]] = {}  # by topic: who read it last, and the result

    def run(self, history: Sequence[Exchange]) -> Shared:
        """Make each request at its time, after a pass, and take in each exchange when its results are complete."""
        # At the same moment, results come before requests (1), except those of a request made just then.
        steps: list[tuple[float, int, int]] = []
        for number, exchange in enumerate(history):
            steps.append((exchange.at, 1, number))
            steps.append((exchange.until, 0 if exchange.until > exchange.at else 2, number))
        steps.sort()
        last = {history[number].branch: step for step, (_, _, number) in enumerate(steps)}
        scopes = {branch: HostScope(f"b{branch}", f"branch-{branch}", EpisodeType.EXPL) for branch in last if branch}
        host = self._strategy.host
        assert host is not None
        begun: set[int] = set()
        for step, (_, order, number) in enumerate(steps):
            branch = history[number].branch
            open_branches = {other for other in begun if last[other] >= step}
            host.path = (scopes[branch],) if branch else ()
            host.live = {scopes[other].id for other in open_branches}
            if order == 1:
                if branch:
                    begun.add(branch)
                self._request(branch, joined=bool(begun) and not open_branches)
            else:
                self._take(history[number], number)
        return self

    def _take(self, exchange: Exchange, number: int) -> None:
        for item, part in exchange.entries:
            call_id = None if item.call_id is None else f"{exchange.branch}:{item.call_id}"
            message = None if item.message is None else number * 10_000 + item.message % 10_000
            added = self._strategy.add(replace(item, call_id=call_id, message=message), part)
            if exchange.branch:
                self._numbers.append(None)
            else:
                self._numbers.append(self._own)
                self._own += 1
            if item.kind is Kind.CALL and call_id is not None:
                self._pairs[call_id] = (added.index, topics(part))
            elif item.kind is Kind.RESULT and call_id is not None:
                call, read = self._pairs.pop(call_id)
                self._answered.append((call, added.index))
                self._note(read, exchange.branch, added.index, item.tokens)

    def _request(self, branch: int, *, joined: bool) -> None:
        self._strategy.fit()
        window = self._strategy.window
        self.requests += 1
        self.over += window.tokens > self._budget
        self.broken += sum(window.shows(call) != window.shows(result) for call, result in self._answered)
        if not branch:
            numbers = {self._numbers[index] for index in window.visible}
            self.views.append((joined, {number for number in numbers if number is not None}))

    def _note(self, read: set[tuple[str, str]], branch: int, result: int, tokens: int) -> None:
        if not read:
            return
        self.read += 1
        earlier = [self._readers[topic] for topic in read if topic in self._readers]
        self._readers.update(dict.fromkeys(read, (branch, result)))
        if len(earlier) < len(read) or all(reader == branch for reader, _ in earlier):
            return
        window = self._strategy.window
        index = window.index.text if window.index else ""
        if all(window.shows(earlier_result) for _, earlier_result in earlier):
            where = "in view"
        elif all(_is_named(topic, index) for topic in read):
            where = "named by the index"
        else:
            where = "gone"
        self.repeats[where] += 1
        self.tokens[where] += tokens


def _is_named(topic: tuple[str, str], index: str) -> bool:
    kind, name = topic
    if kind == "command":
        name = str(json.loads(name.partition(" ")[2] or "{}").get("command"))
    return name in index


@dataclass(frozen=True, slots=True)
class Family:
    """A parent with its sub-agents."""

    parent: Material
    sides: Sequence[Material]
    parallel: bool  # whether two of the sub-agents worked at the same time

    @classmethod
    def of(cls, session: RecordedSession) -> Family | None:
        """Return a session with its sub-agents that made dated calls; None if there are none."""
        sides: list[Material] = []
        spans: list[tuple[float, float]] = []
        for side in session.sidechains:
            times = [call.at for call in side.own_calls if call.at]
            if times:
                sides.append(count(side))
                spans.append((min(times), max(times)))
        if not sides:
            return None
        spans.sort()
        parallel = any(later < end for (_, end), (later, _) in pairwise(spans))
        return cls(count(session), sides, parallel)

    def history(self) -> list[Exchange]:
        shared = list(exchanges(self.parent, 0))
        for branch, side in enumerate(self.sides, 1):
            shared += exchanges(side, branch)
        return shared


def alike(alone: Shared, shared: Shared) -> list[float]:
    """Return how much of the parent's view alone is in the shared one, at each request after branches have ended."""
    shares: list[float] = []
    for (_, own), (joined, view) in zip(alone.views, shared.views, strict=True):
        if joined and own:
            shares.append(len(own & view) / len(own))
    return shares


def longest_files(folder: Path) -> Iterator[Path]:
    """Yield the files with sub-agents; of several files of one session the longest."""
    longest: dict[bytes, Path] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        if "subagents" in path.parts or path.stat().st_size > LARGEST:
            continue
        data = path.read_bytes()
        session = _SESSION.search(data)
        works = any(mark in data for mark in _WORK) or (path.with_suffix("") / "subagents").is_dir()
        if session is None or not works:
            continue
        known = longest.get(session[1])
        if known is None or known.stat().st_size < len(data):
            longest[session[1]] = path
    yield from longest.values()


def tables(families: Sequence[Family]) -> None:
    """Print the effect of sharing one history on the parents' views."""
    runs = {budget: _runs(families, budget) for budget in sorted({*BUDGETS, *ROOM})}
    alone = {budget: _runs(families, budget, alone=True) for budget in BUDGETS}
    print("", table_head(COLUMNS, words=0), sep="\n")
    for budget in BUDGETS:
        shares = _shares(alone[budget], runs[budget])
        print(row(budget, alone[budget], runs[budget], shares), flush=True)
    mean_column = f"parent's view at {BUDGETS[0]:,} alone that is in it, mean"
    print("", table_head(["shared budget", mean_column, "least", "whole, of requests"], words=0), sep="\n")
    for budget in ROOM:
        shares = _shares(alone[BUDGETS[0]], runs[budget])
        whole = sum(share == 1 for share in shares)
        cells = [f"{budget:,}", f"{fmean(shares):.3f}", f"{min(shares):.3f}", f"{whole:,} of {len(shares):,}"]
        print(table_row(cells), flush=True)


def _runs(families: Sequence[Family], budget: int, *, alone: bool = False) -> list[Shared]:
    """Run the families at a budget: parents with their sub-agents, or the parents alone."""
    runs: list[Shared] = []
    for family in families:
        history = family.history()
        if alone:
            history = [exchange for exchange in history if not exchange.branch]
        runs.append(Shared(budget, family.parent.overhead).run(history))
    return runs


def _shares(alone: Sequence[Shared], shared: Sequence[Shared]) -> list[float]:
    shares: list[float] = []
    for own, other in zip(alone, shared, strict=True):
        shares += alike(own, other)
    return shares


def row(budget: int, alone: Collection[Shared], shared: Collection[Shared], shares: Sequence[float]) -> str:
    repeats: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for run in shared:
        repeats += run.repeats
        tokens += run.tokens
    requests = sum(run.requests for run in shared)
    of_parents = sum(run.requests for run in alone)
    broken, over = sum(run.broken for run in shared), sum(run.over for run in shared)
    whole = sum(share == 1 for share in shares)
    cells = [f"{budget:,}", f"{requests:,}, {requests - of_parents:,}", f"{broken:,}", f"{over:,}"]
    cells += [f"{sum(run.over for run in alone):,}", f"{fmean(shares):.3f} ({min(shares):.3f})"]
    cells += [f"{whole:,} of {len(shares):,}", f"{sum(run.read for run in shared):,}", f"{repeats.total():,}"]
    cells += [f"{repeats[where]:,}" for where in ("in view", "named by the index", "gone")]
    return table_row([*cells, f"{tokens.total() - tokens['gone']:,}"])


def main() -> None:
    command = parser(__doc__)
    command.add_argument("folder", type=Path, help="a folder with recordings of Claude Code")
    sessions = recorded_sessions(longest_files(command.parse_args().folder))
    read_again = sum((rereads(session) for session in sessions), Rereads())
    families = [family for family in map(Family.of, sessions) if family is not None]
    parallel = [family for family in families if family.parallel]
    for name, chosen in (("all", families), ("with parallel sub-agents", parallel)):
        agents = sum(len(family.sides) for family in chosen)
        print(f"\n## {name}: {len(chosen)} sessions, {agents} sub-agents")
        if chosen:
            tables(chosen)
    print(f"\n{read_again.describe()}")


if __name__ == "__main__":
    main()
